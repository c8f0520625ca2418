"""Faults become operations: one an episode, whoever tells of it and however often."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from threading import Lock

import pytest
import structlog
from prometheus_client import CollectorRegistry

from chassis.alertmanager import Alert, AlertStatus
from chassis.errors import PermanentError, TemporaryError
from remediator.cluster import NodeView
from remediator.intake import Intake, Result, Taken
from remediator.metrics import IntakeMetrics
from remediator.operation import (
    Cause,
    CauseKind,
    NodeOperation,
    OperationSpec,
    Phase,
    Trigger,
    operation_name,
)
from remediator.triggers import Match, NoMatch, NoMatchReason
from tests.remediator.building import (
    MINUTE,
    NOW,
    START,
    cause_of,
    config_of,
    node_of,
    playbook_of,
)


@dataclass
class MemoryDoor:
    """A cluster's operations in memory. `stale`: the watch has told nothing yet."""

    nodes: dict[str, NodeView] = field(default_factory=lambda: {"n1": node_of()})
    kept: dict[str, NodeOperation] = field(default_factory=dict)
    stale: bool = False
    unreadable: set[str] = field(default_factory=set)
    conflicts: int = 0
    version: int = 0
    lock: Lock = field(default_factory=Lock)

    def find_node(self, name: str) -> NodeView | None:
        return self.nodes.get(name)

    def of_node(self, name: str) -> tuple[NodeOperation, ...]:
        found = [] if self.stale else list(self.kept.values())
        return tuple(each for each in found if each.spec.node == name)

    def refresh(self, name: str) -> NodeOperation | None:
        return self.kept.get(name)

    def is_unreadable(self, name: str) -> bool:
        return name in self.unreadable

    def active_count(self) -> int:
        return sum(each.active for each in self.kept.values())

    def create(self, name: str, spec: OperationSpec) -> NodeOperation | None:
        with self.lock:
            if name in self.kept or name in self.unreadable:
                return None
            self.version += 1
            self.kept[name] = NodeOperation(name, f"uid-{name}", str(self.version), NOW, spec)
            return self.kept[name]

    def join(self, operation: NodeOperation, spec: OperationSpec) -> bool:
        with self.lock:
            known = self.kept[operation.name]
            self.conflicts -= 1
            if self.conflicts >= 0 or known.resource_version != operation.resource_version:
                return False
            self.version += 1
            self.kept[operation.name] = replace(
                known, spec=spec, resource_version=str(self.version)
            )
            return True

    def end(self, phase: Phase = Phase.SUCCEEDED, *, seen_clear: bool) -> None:
        """End all operations."""
        for name, each in self.kept.items():
            status = replace(
                each.status,
                phase=phase,
                node_uid="uid-n1",
                ended_at=NOW,
                clear_since=NOW - MINUTE if seen_clear else None,
            )
            self.kept[name] = replace(each, status=status)


def intake_of(door: MemoryDoor, *books: dict[str, object], **changes: object) -> Intake:
    config = config_of(*(books or (playbook_of(),)), **changes)
    return Intake(
        door,
        lambda: config,
        clock=lambda: NOW,
        metrics=IntakeMetrics(CollectorRegistry()),
        log=structlog.get_logger(),
    )


def match_of(node: str = "n1", cause: Cause | None = None) -> Match:
    return Match("gpu", node, cause or cause_of())


def taken(answer: Taken | NoMatch) -> Taken:
    assert isinstance(answer, Taken)
    return answer


def test_a_fault_makes_an_operation_that_names_its_cause() -> None:
    door = MemoryDoor()
    answer = taken(intake_of(door).fault(match_of()))

    (made,) = door.kept.values()
    assert (answer.result, answer.operation) == (Result.CREATED, made.name)
    assert (made.spec.node, made.spec.playbook, made.spec.trigger) == (
        "n1",
        "gpu",
        Trigger.CONDITION,
    )
    assert made.spec.causes == (cause_of(),)


@pytest.mark.parametrize("stale", [False, True], ids=["with its watch", "before its watch tells"])
def test_many_at_once_make_one_operation(stale: bool) -> None:
    door = MemoryDoor(stale=stale)
    intake = intake_of(door)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: taken(intake.fault(match_of())), range(32)))

    assert len(door.kept) == 1
    assert [each.result for each in answers].count(Result.CREATED) == 1
    assert {each.result for each in answers} <= {Result.CREATED, Result.KNOWN}


def test_another_fault_joins_even_when_others_write_at_the_same_time() -> None:
    door = MemoryDoor()
    intake = intake_of(door)
    intake.fault(match_of())
    door.conflicts = 3

    answer = taken(intake.fault(match_of(cause=cause_of(CauseKind.ALERT))))

    assert answer.result is Result.JOINED
    (operation,) = door.kept.values()
    assert [each.kind for each in operation.spec.causes] == [CauseKind.CONDITION, CauseKind.ALERT]


def test_changes_without_an_end_are_told_to_come_again() -> None:
    door = MemoryDoor()
    intake = intake_of(door)
    intake.fault(match_of())
    door.conflicts = 1000

    with pytest.raises(TemporaryError):
        intake.fault(match_of(cause=cause_of(CauseKind.ALERT)))


def test_a_fault_that_was_never_seen_clear_begins_no_second_episode() -> None:
    door = MemoryDoor()
    intake = intake_of(door)
    intake.fault(match_of())
    door.end(Phase.CANCELLED, seen_clear=False)

    later = cause_of(since=NOW + MINUTE)

    assert taken(intake.fault(match_of(cause=later))).result is Result.KNOWN
    assert len(door.kept) == 1


def test_a_fault_after_a_seen_clear_begins_the_next_episode() -> None:
    door = MemoryDoor()
    intake = intake_of(door)
    intake.fault(match_of())
    door.end(seen_clear=True)

    assert taken(intake.fault(match_of(cause=cause_of(since=START)))).result is Result.KNOWN
    again = taken(intake.fault(match_of(cause=cause_of(since=NOW + MINUTE))))

    assert again.result is Result.CREATED
    assert sorted(each.spec.episode for each in door.kept.values()) == [1, 2]


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ("10.0.0.7:9100", NoMatchReason.UNKNOWN_NODE),
        ("virtual", NoMatchReason.EXCLUDED_NODE),
        ("leaving", NoMatchReason.EXCLUDED_NODE),
    ],
    ids=["a label that is no node", "a virtual node", "a node being scaled in"],
)
def test_what_is_no_node_of_ours_begins_nothing(node: str, reason: NoMatchReason) -> None:
    nodes = {
        "virtual": node_of("virtual", is_virtual=True),
        "leaving": node_of("leaving", scaling_in=True),
    }
    answer = intake_of(MemoryDoor(nodes=nodes)).fault(match_of(node))

    assert isinstance(answer, NoMatch)
    assert answer.reason is reason


def test_more_than_max_active_wait_outside() -> None:
    door = MemoryDoor(nodes={name: node_of(name) for name in ("n1", "n2")})
    intake = intake_of(door, max_active=1)
    intake.fault(match_of("n1"))

    with pytest.raises(TemporaryError, match="max_active"):
        intake.fault(match_of("n2"))


def test_a_playbook_in_dry_run_makes_a_dry_operation() -> None:
    door = MemoryDoor()
    intake_of(door, dry_run=True).fault(match_of())

    assert [each.spec.dry_run for each in door.kept.values()] == [True]


def test_a_condition_that_is_back_within_the_second_of_its_clear_is_a_new_episode() -> None:
    door = MemoryDoor()
    intake = intake_of(door)
    intake.fault(match_of())
    door.end(seen_clear=True)
    for name, each in door.kept.items():
        clear = NOW + timedelta(microseconds=840_000)
        door.kept[name] = replace(each, status=replace(each.status, clear_since=clear))

    # Kubernetes writes lastTransitionTime without fractions.
    assert taken(intake.fault(match_of(cause=cause_of(since=NOW)))).result is Result.CREATED


PEERS = {"alertmanagers": [{"url": "http://a.example:9093"}]}


def alert_of(node: str, fingerprint: str) -> Alert:
    labels = {"alertname": "GPUDown", "node": node}
    return Alert(AlertStatus.FIRING, labels, {}, START, None, "", fingerprint)


def test_a_fault_goes_to_the_playbook_of_its_node_or_is_told_why_to_none() -> None:
    pool = {"pool": "a"}
    nodes = {"n1": node_of(labels=pool), "n2": node_of("n2")}
    door = MemoryDoor(nodes=nodes)
    only = playbook_of(match=['alertname="GPUDown"'], nodes='pool="a"')
    intake = intake_of(door, only, **PEERS)

    first, second = intake.alerts([alert_of("n1", "a" * 16), alert_of("n2", "b" * 16)])

    assert taken(first).playbook == "gpu"
    assert isinstance(second, NoMatch)
    assert second.reason is NoMatchReason.NODE_NOT_SELECTED
    by_hand = intake.fault(match_of("n2", cause_of(CauseKind.PERSON)))
    assert isinstance(by_hand, NoMatch)
    assert by_hand.reason is NoMatchReason.NODE_NOT_SELECTED


def test_an_operation_that_cannot_be_read_keeps_its_node_and_no_other_alert() -> None:
    door = MemoryDoor(
        nodes={name: node_of(name) for name in ("n1", "n2")},
        unreadable={operation_name("uid-n1", 1)},
    )
    book = playbook_of(match=['alertname="GPUDown"'])

    first, second = intake_of(door, book, **PEERS).alerts(
        [alert_of("n1", "a" * 16), alert_of("n2", "b" * 16)]
    )

    assert isinstance(first, NoMatch)
    assert first.reason is NoMatchReason.UNREADABLE_OPERATION
    assert operation_name("uid-n1", 1) in first.text
    assert taken(second).result is Result.CREATED


class Refusing(MemoryDoor):
    """Its API refuses operations on n1 for good."""

    def create(self, name: str, spec: OperationSpec) -> NodeOperation | None:
        if spec.node == "n1":
            raise PermanentError("forbidden")
        return super().create(name, spec)


def test_what_the_api_refuses_for_good_keeps_no_other_alert_from_being_taken() -> None:
    door = Refusing(nodes={name: node_of(name) for name in ("n1", "n2")})
    intake = intake_of(door, playbook_of(match=['alertname="GPUDown"']), **PEERS)

    with pytest.raises(PermanentError, match="forbidden"):
        intake.alerts([alert_of("n1", "a" * 16), alert_of("n2", "b" * 16)])

    assert [each.spec.node for each in door.kept.values()] == ["n2"]
