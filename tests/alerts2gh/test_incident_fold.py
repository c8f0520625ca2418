"""How a delivery changes an incident, whatever order deliveries come in."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts2gh.incident import (
    DeliveryPart,
    FoldReason,
    Intent,
    IntentAction,
    IssueState,
    Target,
    fold,
    incident_id,
    new_incident,
)
from chassis.alertmanager import Alert, AlertStatus
from tests.alerts2gh.builders import (
    NOW,
    TARGET,
    a_disposition,
    a_member,
    a_part,
    an_alert,
    an_incident,
    an_issue,
    minutes,
)


@pytest.mark.parametrize(
    ("known", "delivered", "received_after", "reason", "firing"),
    [
        pytest.param(
            None, ("firing", 0), 0, FoldReason.NEW_MEMBER, True, id="an unknown alert joins"
        ),
        pytest.param(
            ("firing", 0), ("firing", 0), 60, FoldReason.REPEAT, True, id="a repeat changes nothing"
        ),
        pytest.param(
            ("firing", 0),
            ("resolved", 0),
            1,
            FoldReason.RESOLVED,
            False,
            id="a resolved ends its firing",
        ),
        pytest.param(
            ("resolved", 0),
            ("firing", 0),
            2,
            FoldReason.REORDERED,
            False,
            id="the slower Alertmanager's firing within the window is no news",
        ),
        pytest.param(
            ("resolved", 0),
            ("firing", 0),
            2.1,
            FoldReason.FIRING_AGAIN,
            True,
            id="the same firing after the window is news",
        ),
        pytest.param(
            ("resolved", 0),
            ("firing", 5),
            0,
            FoldReason.NEWER_EPISODE,
            True,
            id="a later startsAt fires at once",
        ),
        pytest.param(
            ("firing", 5),
            ("resolved", 0),
            1,
            FoldReason.LATE,
            True,
            id="an older episode's resolved is late",
        ),
        pytest.param(
            ("firing", 5),
            ("firing", 0),
            1,
            FoldReason.LATE,
            True,
            id="an older episode's firing is late",
        ),
    ],
)
def test_one_alert_is_folded_by_its_starts_at(
    known: tuple[str, float] | None,
    delivered: tuple[str, float],
    received_after: float,
    reason: FoldReason,
    firing: bool,
) -> None:
    members = ()
    if known:
        status, start = known
        members = (
            a_member(firing=status == "firing", starts_at=NOW + minutes(start), changed_at=NOW),
        )
    incident = an_incident(*members)
    alert = an_alert(firing=delivered[0] == "firing", starts_at=NOW + minutes(delivered[1]))

    folded = fold(incident, a_part(alert, received_at=NOW + minutes(received_after)))

    assert (folded.reasons[alert.fingerprint], folded.incident.is_firing) == (reason, firing)


def test_absence_from_a_delivery_is_not_resolution() -> None:
    incident = an_incident(a_member("gpu-n1"), a_member("gpu-n2"))

    folded = fold(incident, a_part(an_alert("gpu-n1", firing=False, starts_at=NOW - minutes(30))))

    assert [m.labels["node"] for m in folded.incident.firing] == ["gpu-n2"]


def test_an_open_incident_keeps_its_target_when_routes_change() -> None:
    incident = an_incident(a_member(), issue=an_issue())
    elsewhere = a_disposition(target=Target("main", "acme", "elsewhere"))

    folded = fold(incident, a_part(an_alert(), disposition=elsewhere))

    assert folded.incident.disposition.target == TARGET


def test_a_closed_incident_keeps_the_repository_of_its_issue() -> None:
    incident = an_incident(a_member(firing=False), issue=an_issue(state=IssueState.CLOSED))
    elsewhere = a_disposition(target=Target("main", "acme", "elsewhere"))

    folded = fold(incident, a_part(an_alert(), disposition=elsewhere))

    assert folded.incident.disposition.target == TARGET


def test_identity_survives_a_renamed_credential_and_another_case_of_the_repository() -> None:
    labels = {"alertname": "A"}

    assert incident_id(Target("old", "Acme", "Alerts"), labels) == incident_id(
        Target("new", "acme", "alerts"), labels
    )


def test_truncation_of_the_last_delivery_is_remembered() -> None:
    incident = fold(an_incident(a_member()), a_part(an_alert(), truncated=5)).incident

    assert incident.truncated == 5
    assert fold(incident, a_part(an_alert())).incident.truncated == 0


deliveries = st.lists(
    st.tuples(
        st.sampled_from(["gpu-n1", "gpu-n2", "gpu-n3"]),
        st.booleans(),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=12,
)


@given(deliveries, st.randoms(use_true_random=False))
def test_the_end_does_not_depend_on_the_order_of_arrival(
    events: list[tuple[str, bool, int]], random: object
) -> None:
    """Within the reorder window each member ends as its newest episode says, resolved before firing."""
    parts = [
        an_alert(node, firing=firing, starts_at=NOW + minutes(10 * episode))
        for node, firing, episode in events
    ]
    shuffled = list(parts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    ends = []
    for order in (parts, shuffled, [*parts, *shuffled]):
        incident = new_incident(a_part())
        for seconds, alert in enumerate(order):
            part = a_part(alert, received_at=NOW + timedelta(seconds=seconds))
            incident = fold(incident, part).incident
        ends.append({f: (m.status, m.starts_at) for f, m in incident.members.items()})

    expected = {
        f: min(
            ((a.starts_at, a.status) for a in parts if a.fingerprint == f),
            key=lambda pair: (-pair[0].timestamp(), pair[1] is AlertStatus.FIRING),
        )
        for f in {a.fingerprint for a in parts}
    }
    assert ends == [{f: (status, start) for f, (start, status) in expected.items()}] * 3


def test_untold_transitions_are_bounded() -> None:
    incident = an_incident(issue=an_issue())
    for second in range(300):
        alert = an_alert(starts_at=NOW + timedelta(seconds=second))
        incident = fold(
            incident, a_part(alert, received_at=NOW + timedelta(seconds=second))
        ).incident

    assert (len(incident.untold), incident.untold_dropped) == (200, 100)


def test_resolved_since_is_when_the_last_member_resolved() -> None:
    incident = an_incident(a_member("gpu-n1"), a_member("gpu-n2"))
    for minute, node in ((1, "gpu-n1"), (5, "gpu-n2")):
        alert = an_alert(node, firing=False, starts_at=NOW - minutes(30))
        incident = fold(incident, a_part(alert, received_at=NOW + minutes(minute))).incident

    assert incident.resolved_since == NOW + minutes(5)
    again = replace(an_alert("gpu-n1"), starts_at=NOW + minutes(6))
    assert (
        fold(incident, a_part(again, received_at=NOW + minutes(6))).incident.resolved_since is None
    )


SETTLED = "d"


def settled(*before: Alert, part: DeliveryPart, **incident: Any) -> str:
    """What an incident is settled by after `before`, a minute ago, and then `part`."""
    earlier = an_incident(**incident)
    if before:
        earlier = fold(earlier, a_part(*before, received_at=NOW - minutes(1))).incident
    return fold(earlier, replace(part, digest=SETTLED)).incident.settled_by


def test_a_delivery_settles_the_incident_that_says_the_same_after_it() -> None:
    both = a_part(an_alert("gpu-n1"), an_alert("gpu-n2", firing=False))

    assert settled(part=both) == SETTLED
    assert settled(*both.alerts, part=both) == SETTLED


def test_a_firing_that_is_taken_for_a_late_one_settles_nothing_since_it_may_be_news_later() -> None:
    assert settled(an_alert(firing=False), part=a_part(an_alert())) == ""


def test_an_alert_twice_in_a_delivery_settles_nothing() -> None:
    assert settled(part=a_part(an_alert(), an_alert(firing=False))) == ""


def test_routes_that_file_elsewhere_settle_it_only_while_there_is_an_issue() -> None:
    moved = replace(a_disposition(), target=Target("main", "acme", "elsewhere"))
    part = a_part(an_alert(), disposition=moved)
    intent = Intent(IntentAction.CREATE, "token", NOW)

    assert settled(part=part, issue=an_issue()) == SETTLED
    assert settled(part=part, displaced=True) == SETTLED
    assert settled(part=part, intent=intent) == ""


def test_a_delivery_of_unknown_content_settles_nothing() -> None:
    assert fold(an_incident(), a_part(an_alert())).incident.settled_by == ""


@given(deliveries, deliveries, st.integers(0, 600))
def test_what_settles_an_incident_changes_nothing_however_much_later_it_comes_again(
    before: list[tuple[str, bool, int]], last: list[tuple[str, bool, int]], later: int
) -> None:
    def alerts(events: list[tuple[str, bool, int]]) -> list[Alert]:
        return [an_alert(n, firing=f, starts_at=NOW + minutes(10 * e)) for n, f, e in events]

    incident = new_incident(a_part())
    for alert in alerts(before):
        incident = fold(incident, a_part(alert)).incident
    part = replace(a_part(*alerts(last)), digest=SETTLED)
    once = fold(incident, part).incident

    again = fold(once, replace(part, received_at=NOW + minutes(later))).incident

    if once.settled_by:
        assert replace(again, last_delivery_at=once.last_delivery_at) == once
