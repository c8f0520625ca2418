"""Takes new incidents of a storm into the rollup, tells the rollup how they go on; `alerts2gh.storm` decides.

The incident is saved as rolled up before the rollup is told, and the rollup is told before the incident is saved as told:
where the process dies between the two, the telling is done again and changes nothing.
"""

from collections.abc import Mapping
from datetime import datetime

from alerts2gh.incident import Target
from alerts2gh.issue_plan import Action, Reason, Step
from alerts2gh.storm import (
    Neighbours,
    News,
    StormReason,
    began_at,
    judge,
    may_be_rolled,
    rolled,
    rollup_id,
    rollup_part,
    told,
)
from alerts2gh.worker.case import Case
from alerts2gh.worker.desk import Desk, Worked

_NEWS: Mapping[Reason, News] = {
    Reason.ROLLED_UP: News.ROLLED_UP,
    Reason.STORM_OVER: News.OVER,
    Reason.SPLIT_FROM_ROLLUP: News.SPLIT,
}


class Storms:
    """One for each clerk; keeps nothing itself."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def instead_of(self, step: Step, case: Case) -> Step:
        """The step, or ROLL_UP in place of a first CREATE while a storm is on."""
        if step.action is not Action.CREATE or may_be_rolled(case.incident, self._desk.storm):
            return step
        verdict = judge(case.incident, self._desk.storm, self._neighbours(case))
        return Step(Action.ROLL_UP, Reason.STORM) if verdict is StormReason.STORM else step

    def _neighbours(self, case: Case) -> Neighbours:
        incident, policy = case.incident, self._desk.storm
        began, key = began_at(incident), incident.disposition.target.key
        others = (incident.id, rollup_id(incident.disposition.target))

        def count(since: datetime, until: datetime) -> int:
            return self._desk.store.count_new(key, since, until, but=others, most=policy.incidents)

        return Neighbours(count(began - policy.window, began), count(began, began + policy.window))

    def roll_up(self, case: Case, now: datetime) -> None:
        """Note that the rollup stands in for the incident's issue; not saved yet."""
        case.incident = rolled(case.incident, self._desk.storm, now)
        self._desk.log.info(
            "incident_rolled_up", incident=case.incident.id, rollup=case.incident.rolled_into
        )

    def tell(self, case: Case, step: Step, now: datetime) -> Worked | None:
        """Deliver the incident's state to the rollup."""
        if case.folded:
            self._desk.save(case, now)  # makes room first, should the backlog be full
        part = rollup_part(
            case.incident, _NEWS[step.reason], self._desk.storm, self._target(case), now
        )
        self._desk.store.accept([part])
        case.incident = told(case.incident, _NEWS[step.reason])
        self._desk.save(case, now)
        self._desk.metrics.storm(step)
        return None

    def _target(self, case: Case) -> Target:
        """Where the rollup is; an incident that went to the fallback repository is elsewhere by now."""
        incident = case.incident
        if incident.displaced and incident.rolled_into:
            rollup, _ = self._desk.store.load(incident.rolled_into)
            if rollup is not None:
                return rollup.disposition.target
        return incident.disposition.target
