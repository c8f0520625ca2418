"""What the agent believes: from reports, from the state file, from the node, and which of them counts."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chassis.contracts import ConditionType
from exporters.checks import policy_of
from exporters.condition_writer import NodeView
from exporters.node_agent.board import Board, Boot
from exporters.node_agent.state_file import Saved
from exporters.verdict import (
    NODE,
    CheckReport,
    ConditionPolicy,
    ConditionState,
    Finding,
    Result,
    Status,
)
from tests.exporters.check_builders import BOOT, MINUTE, NEXT_BOOT, NOW, A

LOST, XID, PAGES = ConditionType.GPU_IS_LOST, ConditionType.GPU_XID_ERROR, ConditionType.GPU_PENDING_PAGE  # fmt: skip
BOOT_TIME = NOW - timedelta(hours=2)
POLICIES: dict[str, ConditionPolicy] = {
    LOST: policy_of(LOST, ("gpu_lost",)),
    XID: policy_of(XID, ("xid",)),
    PAGES: policy_of(PAGES, ("gpu_pages",)),
}


def a_board(saved: Saved | None = None, boot: str = BOOT) -> Board:
    return Board(POLICIES, Boot(boot, BOOT_TIME), saved, lambda: NOW)


def a_view(*states: ConditionState, uid: str = "uid-1", beat: timedelta = MINUTE) -> NodeView:
    found = {state.type: state for state in states}
    return NodeView("n1", uid, "1", {}, found, dict.fromkeys(found, NOW - beat))


def a_true(kind: str, reason: str, ago: timedelta = timedelta(hours=1)) -> ConditionState:
    return ConditionState(kind, Status.TRUE, reason, "from before", NOW - ago)


def report(check: str, *findings: Finding, minutes: int = 0) -> CheckReport:
    kinds = {"gpu_lost": LOST, "xid": XID, "gpu_pages": PAGES}
    return CheckReport(check, kinds[check], findings, NOW + minutes * MINUTE)


OK = Finding(NODE, Result.OK, "Healthy")
BAD = Finding(A, Result.PROBLEM, "RowRemapPending", definite=True)


def told(board: Board, kind: str) -> tuple[str, str]:
    state = board.conditions()[kind]
    return str(state.status), state.reason


def test_before_the_first_report_nothing_is_healthy() -> None:
    board = a_board()
    board.meet(a_view())

    assert {told(board, kind) for kind in POLICIES} == {("Unknown", "NotYetChecked")}


def test_a_true_on_the_node_stays_until_a_check_speaks_against_it() -> None:
    board = a_board()
    board.meet(a_view(a_true(PAGES, "RowRemapPending")))
    board.submit(report("gpu_pages", Finding(NODE, Result.INCONCLUSIVE, "Timeout")))
    assert told(board, PAGES) == ("True", "RowRemapPending")

    for minute in range(2):
        board.submit(report("gpu_pages", Finding(A, Result.OK, "Healthy"), minutes=minute))
    assert told(board, PAGES) == ("False", "Healthy")


def test_reports_from_before_the_node_was_seen_count_on_top_of_what_it_says() -> None:
    board = a_board()
    for minute in range(2):
        board.submit(report("gpu_pages", Finding(A, Result.OK, "Healthy"), minutes=minute))
    board.submit(report("xid", Finding(A, Result.PROBLEM, "Xid95", definite=True)))

    board.meet(a_view(a_true(PAGES, "RowRemapPending"), a_true(LOST, "GPUIsLost")))

    assert told(board, PAGES) == ("False", "Healthy")
    assert told(board, XID) == ("True", "Xid95")
    assert told(board, LOST) == ("True", "GPUIsLost")


def test_the_state_of_this_boot_counts_more_than_what_others_wrote_on_the_node() -> None:
    first = a_board()
    first.meet(a_view())
    first.submit(report("gpu_pages", BAD))
    second = a_board(first.saved({}))

    second.meet(a_view(ConditionState(PAGES, Status.FALSE, "Fake", "", NOW)))

    assert second.conditions()[PAGES] == first.conditions()[PAGES]


def test_the_state_of_an_earlier_boot_does_not_count_and_its_memories_do() -> None:
    first = a_board()
    first.meet(a_view())
    first.submit(report("gpu_lost", OK), {"boot_id": BOOT, "inventory": {A: "bus"}}, 17)

    second = a_board(first.saved({}), boot=NEXT_BOOT)
    second.meet(a_view())

    assert told(second, LOST) == ("Unknown", "NotYetChecked")
    assert second.memory("gpu_lost") == {"boot_id": BOOT, "inventory": {A: "bus"}}
    assert second.positions == {}
    assert a_board(first.saved({})).positions == {"gpu_lost": 17}


def test_the_state_is_not_that_of_another_node() -> None:
    first = a_board()
    first.meet(a_view())
    first.submit(report("gpu_pages", BAD))
    second = a_board(first.saved({}))

    second.meet(a_view(uid="uid-2"))

    assert told(second, PAGES) == ("Unknown", "NotYetChecked")


def test_a_node_made_anew_has_the_last_verdicts_of_this_boot_again() -> None:
    board = a_board()
    board.meet(a_view())
    board.submit(report("gpu_pages", BAD))
    board.submit(report("xid", OK))

    board.meet(a_view(uid="uid-2"))

    assert told(board, PAGES) == ("True", "RowRemapPending")
    assert told(board, XID) == ("False", "Healthy")
    assert told(board, LOST) == ("Unknown", "NotYetChecked")


@pytest.mark.parametrize(
    ("kind", "reason", "check", "ago", "held"),
    [
        pytest.param(LOST, "GPUCountMismatch", "gpu_lost", 1, True, id="a loss of this boot"),
        pytest.param(XID, "Xid95", "xid", 1, True, id="an XID of this boot"),
        pytest.param(LOST, "GPUIsLost", "gpu_lost", 3, False, id="not one of an earlier boot"),
        pytest.param(LOST, "ResetRequired", "gpu_lost", 1, False, id="not what NVML will repeat"),
    ],
)
def test_without_memory_a_true_that_cannot_be_seen_again_is_put_into_it(
    kind: str, reason: str, check: str, ago: int, held: bool
) -> None:
    board = a_board()
    board.meet(a_view(a_true(kind, reason, timedelta(hours=ago))))

    memory = board.memory(check) or {}

    assert bool(memory.get("lost") or memory.get("faults")) is held


def test_what_the_memory_holds_already_is_not_held_twice() -> None:
    memory = {"boot_id": BOOT, "inventory": {}, "lost": {}}
    board = a_board(Saved(BOOT, "uid-0", {"gpu_lost": memory}))

    board.meet(a_view(a_true(LOST, "GPUIsLost")))

    assert board.memory("gpu_lost") == memory


def test_a_round_that_began_before_the_node_was_seen_cannot_undo_what_was_put_into_memory() -> None:
    board = a_board()
    before = board.memory("gpu_lost")
    board.meet(a_view(a_true(LOST, "GPUCountMismatch")))
    assert before is None

    board.submit(report("gpu_lost", OK), {"boot_id": BOOT, "inventory": {A: "bus"}})

    memory: Any = board.memory("gpu_lost")
    assert memory["lost"]
    assert memory["inventory"] == {A: "bus"}
    assert told(board, LOST) == ("True", "GPUCountMismatch")


def test_rounds_from_before_a_fault_was_put_into_memory_do_not_clear_it() -> None:
    board = a_board()
    for minute in range(5):
        board.submit(report("xid", OK, minutes=minute), {"boot_id": BOOT})

    board.meet(a_view(a_true(XID, "Xid95")))

    assert told(board, XID) == ("True", "Xid95")
    assert (board.memory("xid") or {})["faults"]


def test_forgetting_makes_a_verdict_anew_also_under_the_hands_of_a_round() -> None:
    faults = {"boot_id": BOOT, "faults": {"bus": {"48": [1, 8]}}}
    board = a_board()
    board.meet(a_view())
    board.memory("xid")
    board.submit(report("xid", Finding(A, Result.PROBLEM, "Xid48", definite=True)), faults)
    board.memory("xid")

    board.forget({XID})
    board.submit(report("xid", Finding(A, Result.PROBLEM, "Xid48", definite=True)), faults)

    assert board.memory("xid") == {"boot_id": BOOT, "faults": {}}
    assert told(board, XID) == ("Unknown", "NotYetChecked")


def test_listeners_hear_of_what_shows_and_of_nothing_else() -> None:
    board = a_board()
    heard: list[int] = []
    board.tell(lambda: heard.append(1))
    board.meet(a_view())
    heard.clear()

    for minute in range(5):
        board.submit(report("gpu_pages", Finding(A, Result.OK, "Healthy"), minutes=minute))

    assert len(heard) == 1


def test_a_report_of_a_check_that_nobody_asked_for_changes_nothing() -> None:
    board = a_board()
    board.meet(a_view())
    before = board.conditions()

    board.submit(replace(report("xid", BAD), check="other", condition="Other"))

    assert board.conditions() == before
