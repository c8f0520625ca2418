"""Condition states as plain JSON data and back, for the agent's state file.

Pure. Data of another shape is refused as a whole: the caller then adopts what the node says.
"""

from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from chassis.errors import PermanentError
from exporters.verdict.findings import ConditionState

_ADAPTER = TypeAdapter(ConditionState)


def dump_state(state: ConditionState) -> dict[str, Any]:
    """The state as JSON data."""
    dumped: dict[str, Any] = _ADAPTER.dump_python(state, mode="json")
    return dumped


def load_state(data: object) -> ConditionState:
    """The state that `dump_state` wrote.

    Raises:
        PermanentError: It is nothing of the kind, or its times have no zone.
    """
    try:
        state = _ADAPTER.validate_python(data)
    except ValidationError as error:
        raise PermanentError(
            f"not the state of a condition: {error.error_count()} mistakes"
        ) from error
    if any(moment.tzinfo is None for moment in _times(state)):
        raise PermanentError("not the state of a condition: a time has no zone")
    return state


def _times(state: ConditionState) -> list[datetime]:
    return [state.last_transition, *(each.judged for each in state.tracks if each.judged)]
