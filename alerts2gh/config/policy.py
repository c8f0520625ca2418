"""How issues live: when they close, reopen, flap, are commented; and what a route changes of it."""

from datetime import timedelta
from enum import StrEnum

from pydantic import Field, field_validator

from alerts2gh.config.names import LabelName
from chassis.config import Duration, Settings


class ClosedWhileFiring(StrEnum):
    """What to do when a person closes an issue as completed while its alerts still fire."""

    REOPEN_ON_NEW_EPISODE = "reopen_on_new_episode"
    REOPEN = "reopen"
    LEAVE = "leave"


class CommentOn(StrEnum):
    """Which changes of an incident make a comment."""

    TRANSITIONS = "transitions"
    NOTHING = "nothing"


class FlappingPolicy(Settings):
    """When an incident counts as flapping, which is labelled and held open for `hold`.

    It is flapping after `changes` changes between firing and resolved within `window`.
    """

    changes: int = Field(default=6, ge=2, le=50)
    window: Duration = timedelta(hours=1)
    hold: Duration = timedelta(hours=1)
    label: LabelName = "flapping"

    @field_validator("window")
    @classmethod
    def _some_time(cls, value: timedelta) -> timedelta:
        if not value:
            raise ValueError("must be longer than 0s")
        return value


class IssuePolicy(Settings):
    """How the issues of a route live."""

    auto_close: bool = True
    close_after: Duration = timedelta(minutes=15)
    reopen_window: Duration = timedelta(days=7)
    suppress_for: Duration = timedelta(days=7)
    reorder_window: Duration = timedelta(minutes=2)
    closed_while_firing: ClosedWhileFiring = ClosedWhileFiring.REOPEN_ON_NEW_EPISODE
    comment_on: CommentOn = CommentOn.TRANSITIONS
    keep_open_label: LabelName = "keep-open"
    keep_open_annotation: str = Field(default="nodemend.dev/keep-open", min_length=1)
    flapping: FlappingPolicy = FlappingPolicy()

    def overridden(self, changes: "PolicyOverride") -> "IssuePolicy":
        """This policy with what a route sets in place of its own."""
        given = {name: getattr(changes, name) for name in changes.model_fields_set}
        update = {name: value for name, value in given.items() if value is not None}
        return self.model_copy(update=update) if update else self


class PolicyOverride(Settings):
    """The keys of a policy that a route sets; what it leaves out comes from its parent."""

    auto_close: bool | None = None
    close_after: Duration | None = None
    reopen_window: Duration | None = None
    suppress_for: Duration | None = None
    reorder_window: Duration | None = None
    closed_while_firing: ClosedWhileFiring | None = None
    comment_on: CommentOn | None = None
    keep_open_label: LabelName | None = None
    keep_open_annotation: str | None = Field(default=None, min_length=1)
    flapping: FlappingPolicy | None = None
