"""After an error: go on from where the watch was, or list everything anew. Pure.

A list costs the API server much more than a watch that resumes, and an outage makes all clients
come back at once; so a broken connection alone is never a reason to list.
"""

from chassis.errors import NodemendError
from chassis.kube_client import Expired, Invalid, Unavailable, has_cause

_TRUST = 3  # refusals in a row after which our resourceVersion is no longer trusted
_FUTURE = "ResourceVersionTooLarge"  # the cause that the API names after it has lost writes


def must_relist(error: NodemendError, failures: int) -> bool:
    """Whether only a new list helps.

    Args:
        error: How the watch, or the list before it, ended.
        failures: How many there were in a row, this one included.
    """
    if isinstance(error, Expired | Invalid):
        return True
    if not isinstance(error, Unavailable):
        return False  # throttled, not allowed, not known: the position in history stays good
    if has_cause(error.details, _FUTURE):
        return True
    return error.status != 0 and failures >= _TRUST
