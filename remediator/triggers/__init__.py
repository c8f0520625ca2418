"""From a fault to an operation: which playbook, which node, and whether it is a new episode.

Pure. Whether the node exists is intake's to look up.
"""

from remediator.triggers.alerts import from_alert, not_selected, taken_by
from remediator.triggers.conditions import from_conditions
from remediator.triggers.episodes import Episode, Ignore, Join, NewEpisode, episode
from remediator.triggers.matching import Later, Match, NoMatch, NoMatchReason

__all__ = [
    "Episode",
    "Ignore",
    "Join",
    "Later",
    "Match",
    "NewEpisode",
    "NoMatch",
    "NoMatchReason",
    "episode",
    "from_alert",
    "from_conditions",
    "not_selected",
    "taken_by",
]
