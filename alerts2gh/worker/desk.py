"""What a clerk works with, and what comes of one look at an incident."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from structlog.typing import FilteringBoundLogger

from alerts2gh.config import Recovery, StormPolicy
from alerts2gh.incident import Target
from alerts2gh.issue_plan import Step
from alerts2gh.metrics import WorkerMetrics
from alerts2gh.ports import Store, Tracker
from alerts2gh.rendering import Renderer
from alerts2gh.worker.assigning import Assigner
from alerts2gh.worker.budgets import Budgets
from alerts2gh.worker.case import Case
from alerts2gh.worker.looking import Looker


@dataclass(frozen=True, slots=True)
class Worked:
    """What came of one look at an incident: the step taken last, whether more can be done now, else when."""

    step: Step
    again: bool
    wake_at: datetime | None = None
    blocked: bool = False


def _go_on() -> None:
    """For where nobody else is in a hurry."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What a clerk works with. `trackers` is keyed by the credential's name; `fallback` takes what others refuse.

    `give_way` is called between steps that compute, while nothing is held.
    """

    store: Store
    trackers: Mapping[str, Tracker]
    budgets: Budgets
    renderer: Renderer
    assigner: Assigner
    looker: Looker
    recovery: Recovery
    storm: StormPolicy
    fallback: Target | None
    metrics: WorkerMetrics
    log: FilteringBoundLogger
    clock: Callable[[], datetime]
    owner: str
    give_way: Callable[[], None] = _go_on

    def tracker(self, case: Case) -> Tracker:
        return self.trackers[case.target.credential]

    def save(self, case: Case, wake_at: datetime | None) -> None:
        """Commit the incident and the parts folded into it."""
        self.give_way()
        case.incident = self.store.save(
            case.incident,
            folded=case.folded,
            wake_at=wake_at,
            owner=self.owner,
            timeline_seen=case.entries_seen,
        )
        case.folded = case.entries_seen = ()

    def saved(
        self, case: Case, step: Step, wake_at: datetime | None, *, again: bool = False
    ) -> Worked:
        self.save(case, wake_at)
        return Worked(step, again=again, wake_at=wake_at)

    def blocked(self, case: Case, step: Step, until: datetime) -> Worked:
        """Put the incident off because of a limit that holds for its credential."""
        self.save(case, until)
        return Worked(step, again=False, wake_at=until, blocked=True)
