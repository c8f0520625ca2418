"""When an alert that was never reported as resolved counts as over."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from alerts2gh.incident import REFUSED_ALERTNAME, ROLLUP_ALERTNAME, Incident, fold
from alerts2gh.metrics import ReconcileMetrics
from alerts2gh.reconciliation import Sight, SightReason, View, reconcile, see
from alerts2gh.worker import Reconciler
from chassis.alertmanager import Alert
from chassis.errors import PermanentError, TemporaryError
from tests.alerts2gh.builders import LABELS, NOW, a_member, an_alert, an_incident, an_issue, minutes

LONG_AGO = NOW - timedelta(hours=3)
ONE, TWO = an_alert("gpu-n1"), an_alert("gpu-n2")
KEY_ONE = (an_incident().id, ONE.fingerprint)


def view(*alerts: Alert, started_at: datetime | None = LONG_AGO, url: str = "http://a") -> View:
    return View(url, alerts, started_at)


UNREACHABLE = View("http://b", None, None)


@pytest.mark.parametrize(
    ("views", "expected"),
    [
        pytest.param([], SightReason.NOT_CONFIGURED, id="without Alertmanagers nothing is known"),
        pytest.param([view()], SightReason.COMPLETE, id="one that answers is enough if it is all"),
        pytest.param([view(), view(TWO)], SightReason.COMPLETE, id="all answer"),
        pytest.param(
            [view(), UNREACHABLE], SightReason.UNREACHABLE, id="one of two does not answer"
        ),
        pytest.param(
            [view(), view(started_at=NOW - minutes(9))],
            SightReason.JUST_STARTED,
            id="one of two has just been restarted",
        ),
        pytest.param(
            [view(started_at=NOW - minutes(10))],
            SightReason.COMPLETE,
            id="ten minutes after its start it knows",
        ),
        pytest.param(
            [view(started_at=NOW + minutes(1))],
            SightReason.JUST_STARTED,
            id="one whose clock is ahead has just been restarted",
        ),
        pytest.param(
            [view(started_at=None)],
            SightReason.UNREACHABLE,
            id="one that does not say since when it runs",
        ),
    ],
)
def test_whether_the_alertmanagers_can_be_relied_on(
    views: list[View], expected: SightReason
) -> None:
    assert see(views, NOW).reason is expected


def test_what_any_of_them_has_is_present() -> None:
    present = see([view(ONE), view(TWO)], NOW).present

    assert set(present) == {ONE.fingerprint, TWO.fingerprint}


def firing(*nodes: str, **changes: Any) -> Incident:
    return an_incident(*(a_member(node) for node in nodes), issue=an_issue(), **changes)


def complete(*alerts: Alert) -> Sight:
    return see([view(*alerts)], NOW)


@pytest.mark.parametrize(
    ("incident", "present", "since", "resolved", "counting"),
    [
        pytest.param(
            firing("gpu-n1"), [ONE], {}, [], {}, id="one that is present, silenced or not, fires"
        ),
        pytest.param(
            firing("gpu-n1"), [], {}, [], {KEY_ONE: NOW}, id="one that is absent begins to count"
        ),
        pytest.param(
            firing("gpu-n1"),
            [],
            {KEY_ONE: NOW - minutes(14)},
            [],
            {KEY_ONE: NOW - minutes(14)},
            id="one absent for less than close_after goes on counting",
        ),
        pytest.param(
            firing("gpu-n1"),
            [],
            {KEY_ONE: NOW - minutes(15)},
            ["gpu-n1"],
            {},
            id="one absent for close_after is over",
        ),
        pytest.param(
            firing("gpu-n1"),
            [ONE],
            {KEY_ONE: NOW - minutes(14)},
            [],
            {},
            id="one that comes back counts from the beginning",
        ),
        pytest.param(
            firing("gpu-n1", "gpu-n2"),
            [TWO],
            {KEY_ONE: NOW - minutes(15)},
            ["gpu-n1"],
            {},
            id="each member for itself",
        ),
        pytest.param(
            an_incident(a_member(firing=False), issue=an_issue()),
            [],
            {},
            [],
            {},
            id="what is resolved already is not looked for",
        ),
        pytest.param(
            firing("gpu-n1", labels={"alertname": REFUSED_ALERTNAME}),
            [],
            {KEY_ONE: LONG_AGO},
            [],
            {},
            id="no Alertmanager ever knew the refused webhooks",
        ),
        pytest.param(
            firing("gpu-n1", labels={"alertname": ROLLUP_ALERTNAME}),
            [],
            {KEY_ONE: LONG_AGO},
            [],
            {},
            id="no Alertmanager ever knew the rows of a rollup",
        ),
    ],
)
def test_absence(
    incident: Incident,
    present: list[Alert],
    since: Mapping[tuple[str, str], datetime],
    resolved: list[str],
    counting: Mapping[tuple[str, str], datetime],
) -> None:
    done = reconcile([incident], complete(*present), since, NOW)

    made_up = [a.labels["node"] for part in done.parts for a in part.alerts]
    assert (made_up, dict(done.absent_since)) == (resolved, dict(counting))


@pytest.mark.parametrize("views", [[UNREACHABLE], [view(started_at=NOW)], []])
def test_an_incomplete_sight_resolves_nothing_and_starts_the_count_anew(views: list[View]) -> None:
    done = reconcile([firing("gpu-n1")], see(views, NOW), {KEY_ONE: LONG_AGO}, NOW)

    assert (done.parts, dict(done.absent_since)) == ((), {})


def test_what_is_made_up_resolves_the_episode_that_is_known() -> None:
    incident = firing("gpu-n1")
    done = reconcile([incident], complete(), {KEY_ONE: NOW - minutes(15)}, NOW)

    after = fold(incident, done.parts[0]).incident
    assert (after.is_firing, after.resolved_since) == (False, NOW)


@pytest.mark.parametrize(
    ("present", "group", "left"),
    [
        pytest.param([], LABELS, 0, id="a truncated group of which nothing is left is over"),
        pytest.param([TWO], LABELS, 3, id="one alert of the group is left"),
        pytest.param(
            [an_alert("gpu-n3")], {"alertname": "Another"}, 0, id="what is left is of another group"
        ),
        pytest.param([], {}, 3, id="without group labels nobody can tell"),
    ],
)
def test_members_that_a_truncated_delivery_hid(
    present: list[Alert], group: Mapping[str, str], left: int
) -> None:
    incident = replace(
        an_incident(a_member(firing=False), issue=an_issue()), truncated=3, group_labels=group
    )
    done = reconcile([incident], complete(*present), {}, NOW)

    assert (done.parts[0].truncated if done.parts else 3) == left


class Manager:
    """An Alertmanager that answers what a test wants."""

    def __init__(self, *alerts: Alert) -> None:
        self.answer: tuple[Alert, ...] | Exception = alerts
        self.started = LONG_AGO

    def alerts(self) -> tuple[Alert, ...]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def started_at(self) -> datetime:
        return self.started


class Memory:
    """Of a store what the reconciler needs."""

    def __init__(self, *incidents: Incident) -> None:
        self.incidents = incidents
        self.accepted: list[object] = []

    def open_and_firing(self) -> tuple[Incident, ...]:
        return self.incidents

    def accept(self, parts: object) -> None:
        self.accepted.append(parts)


def a_reconciler(memory: Memory, **managers: Manager) -> tuple[Reconciler, list[datetime]]:
    clock = [NOW]
    reconciler = Reconciler(
        memory,  # type: ignore[arg-type]  # the part of a store that it uses
        lambda: managers,
        every=lambda: minutes(1),
        poke=lambda: None,
        clock=lambda: clock[0],
        metrics=ReconcileMetrics(CollectorRegistry()),
        log=structlog.wrap_logger(structlog.ReturnLogger()),
    )
    return reconciler, clock


@pytest.mark.parametrize("error", [TemporaryError("no answer"), PermanentError("access refused")])
def test_one_that_cannot_be_asked_starts_the_count_anew(error: Exception) -> None:
    memory, manager = Memory(firing("gpu-n1")), Manager()
    reconciler, clock = a_reconciler(memory, a=manager)
    seen = []
    for at, answer in ((0, ()), (14, error), (16, ()), (30, ())):
        clock[0], manager.answer = NOW + minutes(at), answer
        seen.append(reconciler.turn())
    assert memory.accepted == []
    assert seen == [SightReason.COMPLETE, SightReason.UNREACHABLE, *[SightReason.COMPLETE] * 2]

    clock[0] = NOW + minutes(31)
    reconciler.turn()
    assert len(memory.accepted) == 1


def test_a_restart_in_between_starts_the_count_anew() -> None:
    memory, manager = Memory(firing("gpu-n1")), Manager()
    reconciler, clock = a_reconciler(memory, a=manager)
    reconciler.turn()
    manager.started = NOW + minutes(14)
    for at in (14, 16, 23, 24, 38):
        clock[0] = NOW + minutes(at)
        reconciler.turn()
    assert memory.accepted == []

    clock[0] = NOW + minutes(39)
    reconciler.turn()
    assert len(memory.accepted) == 1
