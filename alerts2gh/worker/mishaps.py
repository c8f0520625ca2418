"""Does what `aftermath` decides about a request that failed: wait, leave it out, file elsewhere, bury."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from alerts2gh.incident import Incident, IntentAction, LeftIssue
from alerts2gh.issue_plan import Step, start_anew
from alerts2gh.ports import Answer, Outcome
from alerts2gh.worker.aftermath import MAY_PASS, Aftermath, Course, after_failure
from alerts2gh.worker.case import Case
from alerts2gh.worker.desk import Desk, Worked


class Mishaps:
    """One for each clerk; keeps nothing itself."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._courses: Mapping[Course, Callable[[Case, Step, Answer[object], datetime], Worked]] = {
            Course.VANISHED: self._vanished,
            Course.FALL_BACK: self._fall_back,
            Course.GIVE_UP: self._bury,
        }

    def failed(
        self,
        case: Case,
        step: Step,
        answer: Answer[object],
        now: datetime,
        *,
        kind: IntentAction | None = None,
        give_up: Callable[[Incident], Incident] | None = None,
    ) -> Worked:
        """Take a request that did not succeed. `kind` is None for reads.

        `give_up` is given for a write that nothing depends on: what to record when GitHub never takes it.
        """
        self._learn(case, answer, now)
        aftermath = after_failure(
            case.incident, kind, answer, self._desk.recovery, now, can_move=self._elsewhere(case)
        )
        if give_up is not None and answer.outcome not in MAY_PASS:
            left_out = replace(give_up(case.incident), intent=None, attempts=0, retry_at=None)
            aftermath = Aftermath(Course.SKIP, left_out, now)
        case.incident = aftermath.incident
        self._tell(case, step, answer, aftermath.course)
        special = self._courses.get(aftermath.course)
        if special is not None:
            return special(case, step, answer, now)
        if aftermath.course is Course.WAIT_FOR_LIMIT and aftermath.wake_at:
            return self._desk.blocked(case, step, aftermath.wake_at)
        again = aftermath.course is Course.SKIP
        return self._desk.saved(case, step, aftermath.wake_at, again=again)

    def _elsewhere(self, case: Case) -> bool:
        fallback = self._desk.fallback
        here = case.incident.disposition.target.full_name
        return fallback is not None and fallback.full_name.lower() != here.lower()

    def _learn(self, case: Case, answer: Answer[object], now: datetime) -> None:
        credential = case.target.credential
        self._desk.budgets.learn(credential, answer, now)
        if answer.outcome is Outcome.UNAUTHORISED:
            self._desk.looker.forget_login(self._desk.tracker(case))

    def _tell(self, case: Case, step: Step, answer: Answer[object], course: Course) -> None:
        self._desk.log.warning(
            "github_refused" if answer.status else "github_unanswered",
            incident=case.incident.id,
            action=step.action.value,
            outcome=answer.outcome.value,
            course=course.value,
            status=answer.status,
            text=answer.text,
        )

    def _vanished(self, case: Case, step: Step, answer: Answer[object], now: datetime) -> Worked:
        """A deleted issue is made again once; if that one is deleted too, a person means it."""
        times = case.incident.recreated + 1
        case.incident = replace(start_anew(case.incident, "deleted"), recreated=times)
        case.fresh = None
        if times > 1:
            return self._bury(case, step, answer, now)
        return self._desk.saved(case, step, now, again=True)

    def _fall_back(self, case: Case, step: Step, answer: Answer[object], now: datetime) -> Worked:
        """File it where the admin will see it, and keep a dead letter that says why."""
        fallback = self._desk.fallback
        target, issue = case.incident.disposition.target, case.incident.issue
        if fallback is None or not self._elsewhere(case):
            return self._bury(case, step, answer, now)
        self._record_dead(case, answer, now)
        moved = start_anew(case.incident, f"{target.full_name}: {answer.outcome.value}")
        if answer.outcome is Outcome.LOCKED and issue is not None:
            moved = replace(moved, left=LeftIssue(case.target, issue.number))
        disposition = replace(moved.disposition, target=fallback)
        case.incident = replace(moved, disposition=disposition, displaced=True)
        case.fresh = None
        return self._desk.saved(case, step, now, again=True)

    def _bury(self, case: Case, step: Step, answer: Answer[object], now: datetime) -> Worked:
        self._record_dead(case, answer, now)
        case.incident = replace(case.incident, dead_reason=answer.outcome.value)
        return self._desk.saved(case, step, None)

    def _record_dead(self, case: Case, answer: Answer[object], now: datetime) -> None:
        self._desk.store.bury(
            case.incident.id,
            case.incident.disposition.target.full_name,
            answer.outcome.value,
            answer.text,
            now,
        )
        self._desk.metrics.dead_letter(answer.outcome)
