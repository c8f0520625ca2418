"""A fault that a playbook takes becomes an operation, or a cause of the one that runs.

Any replica may do it, at the same time as others: names are deterministic, so the second to come meets
the first one's operation. Decides nothing by itself; `triggers` does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from structlog.typing import FilteringBoundLogger

from chassis.alertmanager import Alert
from chassis.errors import PermanentError, TemporaryError
from remediator.config import Config
from remediator.intake.ports import Door
from remediator.metrics import IntakeMetrics
from remediator.operation import Cause, CauseKind, NodeOperation, OperationSpec, Trigger
from remediator.operation import operation_name as name_of
from remediator.triggers import (
    Ignore,
    Match,
    NewEpisode,
    NoMatch,
    NoMatchReason,
    episode,
    not_selected,
    taken_by,
)

_TRIES = 8
_TRIGGERS = {
    CauseKind.ALERT: Trigger.ALERT,
    CauseKind.CONDITION: Trigger.CONDITION,
    CauseKind.PERSON: Trigger.MANUAL,
}


class Result(StrEnum):
    """What became of a fault that a playbook takes."""

    CREATED = "created"
    JOINED = "joined"
    KNOWN = "known"


@dataclass(frozen=True, slots=True)
class Taken:
    """A fault's place: the operation it made, joined, or is known to."""

    result: Result
    node: str
    playbook: str
    operation: str
    text: str = ""


class Intake:
    """From faults to operations in the cluster."""

    def __init__(
        self,
        door: Door,
        config: Callable[[], Config],
        *,
        clock: Callable[[], datetime],
        metrics: IntakeMetrics,
        log: FilteringBoundLogger,
    ) -> None:
        self._door = door
        self._config = config
        self._clock = clock
        self._metrics = metrics
        self._log = log

    def alerts(self, alerts: Sequence[Alert]) -> list[Taken | NoMatch]:
        """Take each alert of a webhook; all are tried before a failure is raised.

        Raises:
            TemporaryError: Some could not be taken now; sending them again does no harm.
            PermanentError: The API refuses some for good; none of them is only late.
        """
        found: list[Taken | NoMatch] = []
        late: TemporaryError | None = None
        refused: PermanentError | None = None
        for alert in alerts:
            try:
                found.append(self._alert(alert))
            except TemporaryError as error:
                late = error
            except PermanentError as error:
                self._log.error("alert_refused", fingerprint=alert.fingerprint, error=str(error))
                refused = error
        failure = late or refused
        if failure is not None:
            raise failure
        return found

    def _alert(self, alert: Alert) -> Taken | NoMatch:
        match = taken_by(alert, self._config(), self._door.find_node)
        answer = match if isinstance(match, NoMatch) else self.fault(match)
        result = answer.reason if isinstance(answer, NoMatch) else answer.result
        self._metrics.fault("alert", result.value)
        self._log.info(
            "alert_taken" if isinstance(answer, Taken) else "alert_not_taken",
            fingerprint=alert.fingerprint,
            alertname=alert.labels.get("alertname", ""),
            result=result.value,
            operation=answer.operation if isinstance(answer, Taken) else "",
        )
        return answer

    def condition(self, match: Match) -> Taken | NoMatch:
        """Take a condition that has lasted; told only when it made or joined something."""
        answer = self.fault(match)
        if isinstance(answer, Taken) and answer.result is not Result.KNOWN:
            self._metrics.fault("condition", answer.result.value)
            self._log.info(
                "condition_taken",
                node=match.node,
                condition=match.cause.name,
                result=answer.result.value,
                operation=answer.operation,
            )
        return answer

    def fault(self, match: Match, requested_by: str = "") -> Taken | NoMatch:
        """Make or join the operation of a fault.

        Raises:
            TemporaryError: The API is away or everything changes all the time.
            PermanentError: The API refuses the operation.
        """
        node = self._door.find_node(match.node)
        if node is None:
            text = f"no node is called {match.node[:100]!r}; correct the label or template"
            return NoMatch(NoMatchReason.UNKNOWN_NODE, text)
        if not node.counts:
            text = f"node {node.name} is virtual or being scaled in"
            return NoMatch(NoMatchReason.EXCLUDED_NODE, text)
        if (refusal := not_selected(match.playbook, node, self._config())) is not None:
            return refusal
        known = {each.name: each for each in self._door.of_node(node.name)}
        for _ in range(_TRIES):
            answer = self._once(node.uid, match, known, requested_by)
            if answer is not None:
                return answer
        raise TemporaryError(f"the operations of node {node.name} change all the time")

    def _once(
        self, uid: str, match: Match, known: dict[str, NodeOperation], requested_by: str
    ) -> Taken | NoMatch | None:
        """One try; None when somebody was faster, whose work is in `known` now."""
        meaning = episode(uid, match.cause, known.values())
        if isinstance(meaning, NewEpisode):
            return self._create(uid, meaning.number, match, known, requested_by)
        if isinstance(meaning, Ignore):
            return Taken(Result.KNOWN, match.node, match.playbook, meaning.operation, meaning.text)
        # What joins an operation that has just ended would be lost: joined is what stands now.
        found = self._refreshed(meaning.operation, known)
        if found is None or not found.active or _knows(found, match.cause):
            return None
        causes = (*found.spec.causes, match.cause)
        if not self._door.join(found, replace(found.spec, causes=causes)):
            self._refreshed(meaning.operation, known)
            return None
        return Taken(Result.JOINED, match.node, match.playbook, found.name)

    def _refreshed(self, name: str, known: dict[str, NodeOperation]) -> NodeOperation | None:
        found = self._door.refresh(name)
        known.pop(name, None)
        if found is not None:
            known[name] = found
        return found

    def _create(
        self,
        uid: str,
        number: int,
        match: Match,
        known: dict[str, NodeOperation],
        requested_by: str,
    ) -> Taken | NoMatch | None:
        config, name = self._config(), name_of(uid, number)
        if self._door.active_count() >= config.max_active:
            raise TemporaryError(
                f"{config.max_active} operations are active (max_active); end some of them"
            )
        playbook = config.playbook(match.playbook)
        spec = OperationSpec(
            node=match.node,
            playbook=match.playbook,
            trigger=_TRIGGERS[match.cause.kind],
            episode=number,
            dry_run=config.dry_run or (playbook is not None and playbook.dry_run),
            requested_by=requested_by,
            causes=(match.cause,),
        )
        if self._door.create(name, spec) is not None:
            return Taken(Result.CREATED, match.node, match.playbook, name)
        if self._refreshed(name, known) is None and self._door.is_unreadable(name):
            text = f"operation {name} of the node cannot be read; `kubectl delete` it, or mend it"
            return NoMatch(NoMatchReason.UNREADABLE_OPERATION, text)
        return None


def _knows(operation: NodeOperation, cause: Cause) -> bool:
    return any(each.key == cause.key for each in operation.spec.causes)
