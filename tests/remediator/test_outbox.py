"""What alerts2gh is told: every coming to a phase, once, as late as need be, and nobody waits for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from chassis.contracts import TimelineEntry
from chassis.errors import PermanentError, TemporaryError
from remediator.config import TimelinePeer
from remediator.metrics import TimelineMetrics
from remediator.operation import CauseKind, HistoryEntry, NodeOperation, Phase, Reason
from remediator.timeline_outbox import Outbox, entries_of
from tests.remediator.building import NOW, cause_of, pinned

ALERT = cause_of(CauseKind.ALERT)
PEER = TimelinePeer(url="http://alerts2gh:8080", cluster="lab")


def history(*phases: Phase, first: int = 1) -> tuple[HistoryEntry, ...]:
    return tuple(
        HistoryEntry(number, NOW + timedelta(seconds=number), phase, Reason.ACCEPTED, 0, 0, "so")
        for number, phase in enumerate(phases, first)
    )


def operation(*phases: Phase, **changes: Any) -> NodeOperation:
    whole: dict[str, Any] = {"history": history(*phases), "causes": (ALERT,), **changes}
    return pinned("no-1", phases[-1], **whole)


@dataclass
class Peer:
    """alerts2gh: keeps what it was told, or fails as it is set to."""

    entries: list[TimelineEntry] = field(default_factory=list)
    failure: Exception | None = None
    operations: list[NodeOperation] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def post(self, entries: Sequence[TimelineEntry]) -> None:
        if self.failure is not None:
            raise self.failure
        self.entries += entries

    def close(self) -> None:
        """There is no connection."""

    def outbox(self, site: Callable[[], str] = lambda: "") -> Outbox:
        return Outbox(
            lambda: self.operations,
            lambda: PEER,
            site=site,
            told=self.told.append,
            clock=lambda: NOW,
            metrics=TimelineMetrics(CollectorRegistry()),
            log=structlog.get_logger(),
            poster=lambda _: self,  # type: ignore[arg-type, return-value]  # all that is used of it
        )


def test_each_coming_to_a_phase_is_one_entry_with_its_count() -> None:
    told = operation(
        Phase.GATED, Phase.GATED, Phase.DRAINING, Phase.RETRYING, Phase.DRAINING, Phase.ESCALATED
    )

    found = [(each.phase, each.attempt) for each in entries_of(told, ALERT, 0, "")]

    assert found == [
        (Phase.GATED, 1),
        (Phase.DRAINING, 1),
        (Phase.RETRYING, 1),
        (Phase.DRAINING, 2),
        (Phase.ESCALATED, 1),
    ]


def test_entries_of_a_history_that_was_cut_short_keep_keys_of_their_own() -> None:
    cut = operation(Phase.DRAINING, Phase.RETRYING, Phase.DRAINING)
    status = replace(cut.status, history=history(Phase.DRAINING, Phase.RETRYING, first=70))

    keys = [each.key for each in entries_of(replace(cut, status=status), ALERT, 0, "")]

    assert [attempt for _, _, attempt in keys] == [70, 71]


def test_an_escalated_operation_says_what_a_person_should_do_next() -> None:
    stuck = operation(Phase.ESCALATED)

    (entry,) = entries_of(stuck, ALERT, 0, "lab")

    assert "remediator release n1" in entry.text
    assert entry.operation == "lab/no-1"


SITE = "https://remediator.example/gpu"
PAGE = "\nhttps://remediator.example/gpu/operations/no-1"


def test_where_it_begins_ends_or_waits_for_a_person_the_entry_links_the_operations_page() -> None:
    told = operation(Phase.GATED, Phase.RESERVED, Phase.ESCALATED, Phase.VERIFYING, Phase.SUCCEEDED)

    found = [each.text.endswith(PAGE) for each in entries_of(told, ALERT, 0, "", SITE)]

    assert found == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("site", "linked"),
    [
        pytest.param(SITE, True, id="K1 an address that people reach is linked"),
        pytest.param("", False, id="K2 without one there is no link"),
        pytest.param("https://ada:secret@host", False, id="K3 a password is told to nobody"),
        pytest.param("https://host/" + "x" * 2000, False, id="K4 nor an address without end"),
    ],
)
def test_the_link_is_the_configured_address_and_fits(site: str, linked: bool) -> None:
    stuck = operation(Phase.ESCALATED)
    long = replace(stuck.status.history[0], text="x" * 5000)
    stuck = replace(stuck, status=replace(stuck.status, history=(long,)))

    (entry,) = entries_of(stuck, ALERT, 0, "", site)

    assert entry.text.endswith(f"{site}/operations/no-1") is linked
    assert ("operations/" in entry.text) is linked
    assert len(entry.text) == 4000


def test_the_address_is_the_one_of_the_present_configuration() -> None:
    peer = Peer(operations=[operation(Phase.GATED)])
    sites = ["https://old.example", "https://new.example"]
    outbox = peer.outbox(site=lambda: sites[-1])

    assert outbox.tell()

    assert [each.text for each in peer.entries] == ["so\nhttps://new.example/operations/no-1"]


def test_what_was_told_is_told_once_and_the_cursor_moves() -> None:
    peer = Peer(operations=[operation(Phase.GATED, Phase.RESERVED)])
    outbox = peer.outbox()

    assert outbox.tell()
    assert outbox.tell()

    assert [each.phase for each in peer.entries] == [Phase.GATED, Phase.RESERVED]
    assert outbox.told_up_to("no-1") == 2
    assert peer.told == ["no-1"]


def test_what_could_not_be_told_is_made_up_from_the_history() -> None:
    peer = Peer(operations=[operation(Phase.GATED)], failure=TemporaryError("away"))
    outbox = peer.outbox()
    assert not outbox.tell()
    assert outbox.told_up_to("no-1") == 0

    peer.failure = None
    peer.operations = [operation(Phase.GATED, Phase.RESERVED, Phase.ISOLATED)]
    assert outbox.tell()

    assert [each.phase for each in peer.entries] == [Phase.GATED, Phase.RESERVED, Phase.ISOLATED]


def test_what_is_refused_for_good_holds_up_nothing_after_it() -> None:
    peer = Peer(operations=[operation(Phase.GATED)], failure=PermanentError("never"))
    outbox = peer.outbox()

    assert outbox.tell()
    assert outbox.told_up_to("no-1") == 1


def test_a_new_leader_tells_only_what_an_ended_operation_has_not_told() -> None:
    ended = operation(Phase.GATED, Phase.CANCELLED, told=2)
    peer = Peer(operations=[ended])

    assert peer.outbox().tell()

    assert peer.entries == []


def test_an_alert_that_joins_is_told_the_story_from_its_beginning() -> None:
    first = operation(Phase.GATED, Phase.DRAINING)
    peer = Peer(operations=[first])
    outbox = peer.outbox()
    outbox.tell()
    joined = cause_of(CauseKind.ALERT, fingerprint="00000000000000bb")
    peer.operations = [replace(first, spec=replace(first.spec, causes=(ALERT, joined)))]
    peer.entries.clear()

    outbox.tell()

    assert {each.fingerprint for each in peer.entries} == {"00000000000000bb"}
    assert [each.phase for each in peer.entries] == [Phase.GATED, Phase.DRAINING]


@pytest.mark.parametrize("kind", [CauseKind.CONDITION, CauseKind.PERSON])
def test_an_operation_without_an_alert_has_nobody_to_be_told_to(kind: CauseKind) -> None:
    peer = Peer(operations=[operation(Phase.GATED, causes=(cause_of(kind),))])

    assert peer.outbox().tell()

    assert peer.entries == []
    assert peer.told == []
