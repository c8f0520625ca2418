"""Decides for each alert of a webhook which incident in which repository it belongs to.

Pure: the configuration, the webhook and the time go in, parts or the reason why not come out. It
must not know how parts are stored or issues written.
"""

from alerts2gh.routing.explain import Explained, explain
from alerts2gh.routing.filing import Unrouted, UnroutedReason
from alerts2gh.routing.rerouting import keep_filed_targets
from alerts2gh.routing.router import Origin, Routed, Router

__all__ = [
    "Explained",
    "Origin",
    "Routed",
    "Router",
    "Unrouted",
    "UnroutedReason",
    "explain",
    "keep_filed_targets",
]
