"""Which phase may follow which. Pure; the lifecycle's tests hold every step against it."""

from collections.abc import Mapping
from types import MappingProxyType

from remediator.operation.reasons import Phase

_GONE = frozenset({Phase.NODE_GONE, Phase.SUPERSEDED})
_ENDS_UNTOUCHED = _GONE | {Phase.CANCELLED, Phase.ESCALATED}
_AFTER_A_REPAIR = frozenset({Phase.RETRYING, Phase.NEXT_RUNG, Phase.ESCALATED, Phase.CANCELLED})
_BY_HAND = frozenset({Phase.ESCALATED})
"""After an end that somebody wrote by hand while the node was isolated."""

FOLLOWERS: Mapping[Phase, frozenset[Phase]] = MappingProxyType(
    {
        Phase.RECEIVED: _ENDS_UNTOUCHED | {Phase.GATED},
        Phase.GATED: _ENDS_UNTOUCHED | {Phase.RESERVED},
        Phase.RESERVED: _ENDS_UNTOUCHED | {Phase.GATED, Phase.ISOLATED, Phase.RELEASING},
        Phase.ISOLATED: _ENDS_UNTOUCHED | {Phase.DRAINING, Phase.RELEASING, Phase.VERIFYING},
        Phase.DRAINING: _ENDS_UNTOUCHED | {Phase.EXECUTING, Phase.RELEASING, Phase.VERIFYING},
        Phase.EXECUTING: _GONE | _AFTER_A_REPAIR | {Phase.AWAITING_RETURN, Phase.VERIFYING},
        Phase.AWAITING_RETURN: _GONE | _AFTER_A_REPAIR | {Phase.VERIFYING},
        Phase.VERIFYING: _GONE | _AFTER_A_REPAIR | {Phase.RELEASING},
        Phase.RETRYING: _ENDS_UNTOUCHED | {Phase.DRAINING, Phase.VERIFYING, Phase.RELEASING},
        Phase.NEXT_RUNG: _ENDS_UNTOUCHED | {Phase.DRAINING, Phase.VERIFYING},
        Phase.RELEASING: _ENDS_UNTOUCHED | {Phase.SUCCEEDED, Phase.VERIFYING},
        Phase.ESCALATED: _GONE | {Phase.VERIFYING, Phase.RELEASING, Phase.CANCELLED},
        Phase.SUCCEEDED: _BY_HAND,
        Phase.CANCELLED: _BY_HAND,
        Phase.SUPERSEDED: frozenset(),
        Phase.NODE_GONE: frozenset(),
    }
)
"""Staying in a phase is always allowed; everything else is here."""


def may_follow(before: Phase, after: Phase) -> bool:
    """Whether an operation may go from one phase to the other."""
    return before is after or after in FOLLOWERS[before]
