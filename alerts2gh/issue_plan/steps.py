"""The steps there are, why they are taken, and which goes first."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Action(StrEnum):
    """The next step. LOOK reads GitHub to clear up an unknown outcome; the writes are named as their intents.

    ROLL_UP is never planned here: the worker takes it in place of a CREATE while a storm is on.
    """

    NOTHING = "nothing"
    SLEEP = "sleep"
    LOOK = "look"
    FORGET_INTENT = "forget_intent"
    OBSERVE = "observe"
    START_ANEW = "start_anew"
    CREATE = "create"
    REOPEN = "reopen"
    CLOSE = "close"
    COMMENT = "comment"
    EDIT = "edit"
    ASSIGN = "assign"
    LABEL = "label"
    UNLABEL = "unlabel"
    ROLL_UP = "roll_up"
    TELL_ROLLUP = "tell_rollup"
    LEAVE = "leave"


class Reason(StrEnum):
    """Why that step."""

    DEAD = "dead"
    BACKING_OFF = "backing_off"
    STORM = "storm"
    ROLLED_UP = "rolled_up"
    STORM_OVER = "storm_over"
    STORM_OUTLASTED = "storm_outlasted"
    SPLIT_FROM_ROLLUP = "split_from_rollup"
    OUTCOME_UNKNOWN = "outcome_unknown"
    LISTED_AND_NOT_FOUND = "listed_and_not_found"
    SAFE_TO_REPEAT = "safe_to_repeat"
    DUPLICATE_AUDIT = "duplicate_audit"
    NEVER_FIRED = "never_fired"
    FIRST_FIRING = "first_firing"
    FIRING_AGAIN = "firing_again"
    FIRING_AFTER_WINDOW = "firing_after_window"
    HUMAN_CLOSED_WHILE_FIRING = "human_closed_while_firing"
    HUMAN_CLOSE_RESPECTED = "human_close_respected"
    NOT_PLANNED_NEW_MEMBER = "not_planned_new_member"
    NOT_PLANNED_QUIET = "not_planned_quiet"
    NOT_PLANNED_OVER = "not_planned_over"
    UNASSIGNED = "unassigned"
    OPERATION_UNTOLD = "operation_untold"
    TRANSITIONS_UNTOLD = "transitions_untold"
    BODY_OUTDATED = "body_outdated"
    QUIET_PERIOD_OVER = "quiet_period_over"
    QUIET_PERIOD = "quiet_period"
    TRUNCATED = "truncated"
    KEEP_OPEN = "keep_open"
    OPERATION_RUNNING = "operation_running"
    AUTO_CLOSE_OFF = "auto_close_off"
    FLAPPING = "flapping"
    FLAPPING_OVER = "flapping_over"
    UP_TO_DATE = "up_to_date"
    CLOSED_AND_RESOLVED = "closed_and_resolved"
    MOVED_AWAY = "moved_away"


@dataclass(frozen=True, slots=True)
class Step:
    """What to do, why, and (for SLEEP and for what may change by time alone) when to ask again."""

    action: Action
    reason: Reason
    at: datetime | None = None


WRITES_TO_EXISTING = frozenset(
    {
        Action.REOPEN,
        Action.CLOSE,
        Action.COMMENT,
        Action.EDIT,
        Action.START_ANEW,
        Action.LABEL,
        Action.UNLABEL,
    }
)
"""Steps that must see the issue as it is now before they are taken: a person may have changed it."""

PRIORITY = {
    Action.ROLL_UP: -1,  # the rollup's one write should tell as many as possible
    Action.TELL_ROLLUP: -1,
    Action.CREATE: 0,
    Action.START_ANEW: 0,
    Action.LOOK: 0,
    Action.REOPEN: 1,
    Action.CLOSE: 2,
    Action.LEAVE: 2,
    Action.ASSIGN: 3,
    Action.COMMENT: 4,
    Action.LABEL: 5,
    Action.UNLABEL: 5,
    Action.EDIT: 6,
}

REFUSING_REASONS = frozenset({"not_planned", "duplicate"})
"""GitHub's state reasons by which a person says that the matter is no matter."""
