"""Who is assigned in the end, and that a person's choice is never overridden."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts2gh.assignment import (
    MAX_ASSIGNEES,
    Candidate,
    CandidateReason,
    Lookups,
    MayAssign,
    Settlement,
    choose,
    compare,
    may_assign,
    settle,
)
from alerts2gh.config import AssigneeSource
from alerts2gh.incident import Assignment
from tests.alerts2gh.incident_builders import NOW, a_member, an_incident


def naming(source: str, *logins: str, **more: Any) -> Candidate:
    return Candidate(source, logins, CandidateReason.NAMED, "why", **more)


NOBODY = Candidate("on_call", (), CandidateReason.NOBODY_ON_CALL, "the first shift is later")
SILENT = Candidate("from_label", (), CandidateReason.NO_SUCH_VALUE, "label owner")
WAITING = Candidate("codeowners", (), CandidateReason.LOOKUP_NEEDED, needs=Lookups(teams=("o/t",)))


@pytest.mark.parametrize(
    ("candidates", "assignable", "settlement"),
    [
        pytest.param([], {}, Settlement(), id="no chain, nobody"),
        pytest.param([naming("static", "Mona")], {}, Settlement(ask=("Mona",)), id="ask about the first"),
        pytest.param(
            [naming("static", "Mona")], {"mona": True}, Settlement(("Mona",), "static", "why"), id="assign the first"
        ),
        pytest.param(
            [naming("static", "a", "b")],
            {"a": False, "b": True},
            Settlement(("b",), "static", "why", ("static: a cannot be assigned in this repository",)),
            id="of several those who can be",
        ),
        pytest.param(
            [naming("owners", "a"), naming("static", "b")],
            {"a": False},
            Settlement(notes=("owners: a cannot be assigned in this repository",), ask=("b",)),
            id="unassignable falls through to the next question",
        ),
        pytest.param(
            [naming("owners", "a"), naming("static", "b")],
            {"a": False, "b": True},
            Settlement(("b",), "static", "why", ("owners: a cannot be assigned in this repository",)),
            id="and then to the next person, with a word about it",
        ),
        pytest.param(
            [SILENT, naming("static", "b")],
            {"b": True},
            Settlement(("b",), "static", "why"),
            id="a source without a value is passed over in silence",
        ),
        pytest.param(
            [NOBODY, naming("static", "b")],
            {"b": True},
            Settlement(("b",), "static", "why", ("on_call: nobody is on call; the first shift is later",)),
            id="a rotation without anybody is told",
        ),
        pytest.param(
            [WAITING, naming("static", "b")],
            {"b": True},
            Settlement(needs=Lookups(teams=("o/t",))),
            id="what comes first is looked up first",
        ),
        pytest.param(
            [naming("static", "b"), WAITING],
            {"b": True},
            Settlement(("b",), "static", "why"),
            id="what comes later is not looked up at all",
        ),
        pytest.param(
            [naming("static", "a")],
            {"a": False},
            Settlement(notes=("static: a cannot be assigned in this repository", "nobody could be assigned")),
            id="nobody is left",
        ),
        pytest.param(
            [naming("owners", "b", notes=("x is no login",))],
            {"b": True},
            Settlement(("b",), "owners", "why", ("owners: x is no login",)),
            id="a source's own words are kept",
        ),
    ],
)  # fmt: skip
def test_settle(
    candidates: list[Candidate], assignable: dict[str, bool], settlement: Settlement
) -> None:
    assert settle(candidates, assignable) == settlement


def test_more_than_ten_are_never_assigned() -> None:
    logins = [f"u{at}" for at in range(12)]
    settlement = settle([naming("owners", *logins)], dict.fromkeys(logins, True))
    assert settlement.logins == tuple(logins[:MAX_ASSIGNEES])
    assert settlement.notes == ("owners: 2 more than GitHub's 10 left out",)
    assert settlement.final


@pytest.mark.parametrize(
    ("assignment", "assignees", "verdict"),
    [
        pytest.param(Assignment(), [], MayAssign.YES, id="nobody yet"),
        pytest.param(Assignment(), ["mona"], MayAssign.HUMAN_CHOSE, id="a person was quicker"),
        pytest.param(Assignment(by_us=("a",)), ["A"], MayAssign.ALREADY_OURS, id="it is done"),
        pytest.param(Assignment(by_us=("a",)), ["a", "b"], MayAssign.HUMAN_CHOSE, id="a person added somebody"),
        pytest.param(Assignment(by_us=("a",)), ["b"], MayAssign.HUMAN_CHOSE, id="a person put somebody else"),
        pytest.param(Assignment(by_us=("a",)), [], MayAssign.HUMAN_REMOVED, id="a person took ours away"),
        pytest.param(Assignment(by_us=("a", "b")), ["a"], MayAssign.HUMAN_REMOVED, id="a person took one away"),
        pytest.param(Assignment(settled=True), [], MayAssign.SETTLED, id="it was settled without anybody"),
    ],
)  # fmt: skip
def test_may_assign(assignment: Assignment, assignees: list[str], verdict: MayAssign) -> None:
    assert may_assign(assignment, assignees) is verdict


LOGINS = st.lists(st.sampled_from(["a", "A", "b", "c"]), max_size=4)


@given(LOGINS, LOGINS, st.booleans())
def test_only_an_issue_that_nobody_touched_is_assigned(
    ours: list[str], there: list[str], settled: bool
) -> None:
    verdict = may_assign(Assignment(settled=settled, by_us=tuple(ours)), there)
    assert (verdict is MayAssign.YES) == (not ours and not there and not settled)


@pytest.mark.parametrize(
    ("wanted", "got", "notes"),
    [
        pytest.param(["a"], ["A"], (), id="all are there"),
        pytest.param(["a", "b"], ["b", "c"], ("GitHub did not assign a",), id="one was dropped without a word"),
    ],
)  # fmt: skip
def test_compare(wanted: list[str], got: list[str], notes: tuple[str, ...]) -> None:
    assert compare(wanted, got) == notes


NAMES = st.lists(st.sampled_from(["a", "b", "P", "nobody"]), min_size=1, max_size=10)
VALUES = st.text(max_size=10) | st.sampled_from(["a, @b", "@o/t", "x@y.example", "x", "10.1.2.3:9"])
SOURCES = st.one_of(
    st.builds(lambda names: {"static": {"logins": names}}, NAMES),
    st.builds(lambda names: {"round_robin": {"logins": names}}, NAMES),
    st.just({"from_label": {"label": "owner"}}),
    st.just({"from_label": {"annotation": "owner", "map": {"x": "y,z"}}}),
    st.just({"owners": {"rules": [{"match": "10.0.0.0/8", "logins": ["net"]}]}}),
    st.just({"codeowners": {"repository": "o/r", "path_annotation": "owner"}}),
    st.just({"on_call": {"start": "2026-01-01", "logins": ["p", "q"]}}),
)


@given(st.lists(SOURCES, max_size=5), VALUES, st.sets(st.sampled_from("abpqyz")))
def test_every_chain_comes_to_an_end_with_people_who_can_be_assigned(
    chain: list[dict[str, Any]], value: str, good: set[str]
) -> None:
    sources = [AssigneeSource.model_validate(each) for each in chain]
    member = a_member(labels={"owner": value, "node": value}, annotations={"owner": value})
    incident = an_incident([member])
    files: dict[str, str | None] = {}
    teams: dict[str, tuple[str, ...] | None] = {}
    assignable: dict[str, bool] = {}
    for _ in range(60):
        candidates = choose(sources, incident, now=NOW, codeowners=files, teams=teams)
        settlement = settle(candidates, assignable)
        if settlement.final:
            break
        files |= {
            f"{repository}/{path}": "* @a @o/t" for repository, path in settlement.needs.files
        }
        teams |= dict.fromkeys(settlement.needs.teams, ("a", "b"))
        assignable |= {login.lower(): login.lower() in good for login in settlement.ask}
    assert settlement.final
    assert {login.lower() for login in settlement.logins} <= good
    assert len(settlement.logins) <= MAX_ASSIGNEES
