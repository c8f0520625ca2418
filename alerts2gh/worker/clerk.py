"""Carries out the plan for one incident: at most one write a call, its intent committed before it is made.

Where the process dies, the next look finds the intent and clears it up; so the order here matters:
budget, then intent, then GitHub, then the record.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from alerts2gh.incident import Incident, Intent, IntentAction, Issue
from alerts2gh.issue_plan import (
    PRIORITY,
    WRITES_TO_EXISTING,
    Action,
    Reason,
    Step,
    next_step,
    observed,
    start_anew,
    without_intent,
)
from alerts2gh.ports import Answer, Outcome, Tracker
from alerts2gh.worker import effects
from alerts2gh.worker.case import Case, fold_all, issue_from, issue_of, take_entries
from alerts2gh.worker.desk import Desk, Worked
from alerts2gh.worker.leaving import left_behind, without_left
from alerts2gh.worker.mishaps import Mishaps
from alerts2gh.worker.storms import Storms

_WRITES = {
    Action.CREATE: IntentAction.CREATE,
    Action.START_ANEW: IntentAction.CREATE,
    Action.REOPEN: IntentAction.REOPEN,
    Action.CLOSE: IntentAction.CLOSE,
    Action.COMMENT: IntentAction.COMMENT,
    Action.EDIT: IntentAction.EDIT,
    Action.LABEL: IntentAction.EDIT,
    Action.UNLABEL: IntentAction.EDIT,
    Action.ASSIGN: IntentAction.ASSIGN,
    Action.LEAVE: IntentAction.CLOSE,
}
_ASK_NOBODY = (Action.NOTHING, Action.SLEEP)
_MOVES_ISSUE = (IntentAction.CLOSE, IntentAction.REOPEN)
_MOST_STEPS = 12
_LAST = 99
_ASSIGN_UNSEEN = timedelta(minutes=1)
"""How old our knowledge of the assignees may be when we assign: a person may have chosen meanwhile."""


class Clerk:
    """Works on one incident at a time; several threads may use one clerk for different targets."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._mishaps = Mishaps(desk)
        self._storms = Storms(desk)
        self._reads: Mapping[Action, Callable[[Case, Step, datetime], Worked | None]] = {
            Action.LOOK: self._look,
            Action.OBSERVE: self._observe,
            Action.START_ANEW: self._start_anew,
            Action.ROLL_UP: self._roll_up,
        }

    def priority(self, incident_id: str) -> int:
        """How urgent the incident's next step is; 0 is first. Reads only."""
        now = self._desk.clock()
        case = self._open(incident_id, now)
        return _LAST if case is None else PRIORITY.get(self._plan(case, now).action, _LAST)

    def settle(self, incident_id: str) -> int | None:
        """Fold what has come and save it. None if GitHub need not be told; else how urgent that is, 0 is first."""
        now = self._desk.clock()
        case = self._open(incident_id, now)
        if case is None:
            return None
        step = self._plan(case, now)
        if step.action in _ASK_NOBODY and case.target.credential in self._desk.trackers:
            self._desk.saved(case, step, step.at)
            return None
        if case.folded:
            self._desk.save(case, now)  # until its turn comes, what repeats this is known
        return PRIORITY.get(step.action, _LAST)

    def foresee(self, incident: Incident) -> Step:
        """What comes next for an incident as it is stored, for pages. Asks and changes nothing."""
        now = self._desk.clock()
        return self._plan(Case(incident), now)

    def work(self, incident_id: str) -> Worked | None:
        """Fold, plan and step until one write is made or nothing can be done now. None: no such incident."""
        now = self._desk.clock()
        case = self._open(incident_id, now)
        if case is None:
            return None
        step = self._plan(case, now)
        if case.target.credential not in self._desk.trackers:
            return self._without_credential(case, step, now)
        for _ in range(_MOST_STEPS):
            worked = self._take(case, step, now)
            if worked is not None:
                return worked
            step = self._plan(case, now)
        return self._desk.saved(case, step, now + self._desk.recovery.retry_after)

    def _open(self, incident_id: str, now: datetime) -> Case | None:
        """The incident with everything that waits for it folded in."""
        self._desk.give_way()
        case = fold_all(*self._desk.store.load(incident_id), now)
        if case is not None:
            take_entries(case, self._desk.store.timeline_of(incident_id), now)
        return case

    def _plan(self, case: Case, now: datetime) -> Step:
        self._desk.give_way()
        block_hash = self._desk.renderer.block_hash(case.incident)
        step = next_step(case.incident, self._desk.recovery, block_hash, now)
        return self._storms.instead_of(step, case)

    def _without_credential(self, case: Case, step: Step, now: datetime) -> Worked:
        """Its credential is no longer configured: wait for it, or for a delivery that names another."""
        self._desk.log.warning(
            "credential_unknown", incident=case.incident.id, credential=case.target.credential
        )
        return self._desk.saved(case, step, now + self._desk.recovery.retry_at_most)

    def _take(self, case: Case, step: Step, now: datetime) -> Worked | None:
        if step.action in _ASK_NOBODY:
            return self._desk.saved(case, step, step.at)
        if step.action is Action.FORGET_INTENT:
            return self._forget_intent(case, step, now)
        if step.action is Action.TELL_ROLLUP:
            return self._storms.tell(case, step, now)
        return self._ask_github(case, step, now)

    def _ask_github(self, case: Case, step: Step, now: datetime) -> Worked | None:
        # Asked before anything is read for a write: what is read now is stale when the write may go.
        permission = self._desk.budgets.ask(case.target.credential, _WRITES.get(step.action), now)
        if not permission.allowed:
            return self._desk.blocked(case, step, permission.at)
        if self._must_see_first(case, step, now):
            return self._observe(case, step, now)
        if step.action in self._reads:
            return self._reads[step.action](case, step, now)
        effect = self._effect(case, step, now)
        if isinstance(effect, effects.Effect):
            return self._perform(case, step, effect, now)
        return effect

    @staticmethod
    def _must_see_first(case: Case, step: Step, now: datetime) -> bool:
        """Whether a person may have changed what the step depends on since we saw the issue."""
        if case.fresh is not None:
            return False
        if step.action is Action.ASSIGN:
            issue = issue_of(case, step)
            return now - (issue.seen_at or issue.created_at) > _ASSIGN_UNSEEN
        return step.action in WRITES_TO_EXISTING

    # Reads, and steps that only remember.
    def _look(self, case: Case, step: Step, now: datetime) -> Worked | None:
        answer = self._desk.looker.look(case, self._desk.tracker(case), now)
        if answer.outcome is not Outcome.DONE:
            return self._mishaps.failed(case, step, answer, now)
        if case.duplicate is not None:
            effect = effects.retire(case, self._desk.tracker(case), case.duplicate)
            return self._perform(case, step, effect, now)
        self._desk.save(case, now)
        return None

    def _forget_intent(self, case: Case, step: Step, now: datetime) -> Worked | None:
        intent = case.incident.intent
        if intent is not None and intent.action in _MOVES_ISSUE and case.incident.issue is not None:
            # Whether it took effect nobody knows, and by now the opposite may be wanted, which the
            # state that we remember might already seem to be.
            permission = self._desk.budgets.ask(case.target.credential, None, now)
            if not permission.allowed:
                return self._desk.blocked(case, step, permission.at)
            worked = self._observe(case, step, now)
            if worked is not None:
                return worked
        case.incident = without_intent(case.incident, self._desk.recovery, now)
        self._desk.log.info("intent_cleared", incident=case.incident.id, reason=step.reason.value)
        return None

    def _observe(self, case: Case, step: Step, now: datetime) -> Worked | None:
        issue = issue_of(case, step)
        tracker = self._desk.tracker(case)
        login = self._desk.looker.login(tracker)
        if login.value is None:
            return self._mishaps.failed(case, step, login, now)
        answer = tracker.get_issue(case.target, issue.number)
        if answer.outcome is not Outcome.DONE or answer.value is None:
            return self._mishaps.failed(case, step, answer, now)
        self._desk.budgets.learn(case.target.credential, answer, now)
        case.fresh = answer.value
        case.incident = observed(case.incident, issue_from(answer.value, issue, login.value, now))
        return None

    def _start_anew(self, case: Case, _step: Step, now: datetime) -> Worked | None:
        issue = case.incident.issue
        ended = (issue.state_reason if issue else None) or "closed"
        case.incident, case.fresh = start_anew(case.incident, ended), None
        self._desk.save(case, now)
        return None

    def _roll_up(self, case: Case, step: Step, now: datetime) -> Worked | None:
        """Only what GitHub has no issue of: after the database was lost, all that fires looks new."""
        answer = self._desk.looker.adopt(case, self._desk.tracker(case), now)
        if answer.outcome is not Outcome.DONE:
            return self._mishaps.failed(case, step, answer, now, kind=IntentAction.CREATE)
        if case.incident.issue is None:
            self._storms.roll_up(case, now)
        self._desk.save(case, now)
        return None

    # Writes.

    def _effect(self, case: Case, step: Step, now: datetime) -> effects.Effect | Worked | None:
        """Make the write ready; None when it turned out to be needless, Worked when it cannot be made now."""
        desk, tracker = self._desk, self._desk.tracker(case)
        if step.action in (Action.CREATE, Action.LEAVE):
            make = self._creation if step.action is Action.CREATE else self._leaving
            return make(case, step, now)
        issue = issue_of(case, step)
        if step.action is Action.ASSIGN:
            assigning = desk.assigner.effect(case, tracker, now)
            if isinstance(assigning, Answer):
                return self._mishaps.failed(case, step, assigning, now)
            return assigning
        hands = self._hands(tracker)
        if step.action is Action.COMMENT:
            tells_story = step.reason is Reason.OPERATION_UNTOLD
            return (effects.story if tells_story else effects.comment)(case, hands, issue)
        if step.action in (Action.LABEL, Action.UNLABEL):
            return effects.label(case, hands, issue, step.action)
        return self._patch(case, step, hands, issue)

    def _leaving(self, case: Case, step: Step, now: datetime) -> effects.Effect | Worked | None:
        left = case.incident.left
        tracker = self._desk.trackers.get(left.target.credential) if left else None
        found = left_behind(case.incident, tracker) if tracker else None
        if isinstance(found, Answer):
            return self._mishaps.failed(case, step, found, now)
        if found is None:  # closed already, or nobody can close it any more
            case.incident = without_left(case.incident)
        return found

    def _hands(self, tracker: Tracker) -> effects.Hands:
        self._desk.give_way()  # what hands make is rendered
        login = self._desk.looker.login(tracker).value or ""
        return effects.Hands(tracker, self._desk.renderer, login)

    def _patch(
        self, case: Case, step: Step, hands: effects.Hands, issue: Issue
    ) -> effects.Effect | None:
        if case.fresh is None:
            raise ValueError(f"{step.action} must see the issue first")
        effect = effects.patch(case, hands, step.action, issue, case.fresh)
        if effect is None:
            block_hash = hands.renderer.block_hash(case.incident)
            case.incident = replace(case.incident, issue=replace(issue, block_hash=block_hash))
        return effect

    def _creation(self, case: Case, step: Step, now: datetime) -> effects.Effect | Worked | None:
        tracker = self._desk.tracker(case)
        answer = self._desk.looker.adopt(case, tracker, now)
        if answer.outcome is not Outcome.DONE:
            # A repository that cannot be listed is one where no issue can be made.
            return self._mishaps.failed(case, step, answer, now, kind=IntentAction.CREATE)
        if case.incident.issue is not None:
            self._desk.save(case, now)
            return None
        return effects.create(case, self._hands(tracker))

    def _perform(self, case: Case, step: Step, effect: effects.Effect, now: datetime) -> Worked:
        desk = self._desk
        credential = case.target.credential
        permission = desk.budgets.spend(credential, effect.kind, now)
        if not permission.allowed:
            return desk.blocked(case, step, permission.at)
        self._note_intent(case, effect, now)
        answer = effect.call()
        after = desk.clock()
        desk.metrics.wrote(step, answer)
        if answer.outcome is not Outcome.DONE:
            return self._mishaps.failed(
                case, step, answer, after, kind=effect.kind, give_up=effect.give_up
            )
        desk.budgets.learn(credential, answer, after)
        case.incident = replace(
            effect.record(case.incident, answer.value, after),
            intent=None,
            attempts=0,
            retry_at=None,
        )
        desk.log.info(
            "issue_written",
            incident=case.incident.id,
            action=step.action.value,
            reason=step.reason.value,
            repository=case.target.full_name,
            issue=case.incident.issue.number if case.incident.issue else None,
        )
        return desk.saved(case, step, after, again=True)

    def _note_intent(self, case: Case, effect: effects.Effect, now: datetime) -> None:
        """Commit what is about to be done. Without it a crash makes a second issue; a test shows it."""
        intent = Intent(effect.kind, effect.token, now, covers=effect.covers, tells=effect.tells)
        case.incident = replace(case.incident, intent=intent)
        self._desk.save(case, now)
