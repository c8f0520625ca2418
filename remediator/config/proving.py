"""What must be seen after a repair before the node returns. Judging it is proof's work."""

from datetime import timedelta
from typing import Annotated, Self

from pydantic import AfterValidator, model_validator

from chassis.config import Duration, Settings
from remediator.config.common import SomeTime, Word


def _promql(value: str) -> str:
    if not value.strip():
        raise ValueError("write a PromQL expression")
    return value.strip()


class Query(Settings):
    """A PromQL expression; `{{ node }}` in it becomes the node's name.

    It passes when it returns at least one sample and none of them is 0 or NaN. No sample and errors
    are no pass.
    """

    name: Word
    expr: Annotated[str, AfterValidator(_promql)]


class ProofSettings(Settings):
    """What must hold at once, `soak` long.

    `conditions`: these Node Conditions are False and were judged after the repair, beside those of
    the causes. `alerts`: no alert of a cause fires in any Alertmanager. `probe`: the active probe
    has passed on all GPUs. `deadline` counts from the end of the repair.
    """

    soak: Duration = timedelta(minutes=2)
    deadline: SomeTime = timedelta(minutes=30)
    conditions: tuple[Word, ...] = ()
    alerts: bool = True
    queries: tuple[Query, ...] = ()
    probe: bool = False

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.soak >= self.deadline:
            raise ValueError("deadline must be longer than soak, or no node is ever proven")
        names = [each.name for each in self.queries]
        if len(set(names)) != len(names):
            raise ValueError("queries: give each its own name")
        return self
