"""When a new incident belongs to a storm, and what the rollup is told of it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from alerts2gh.config import CommentOn, IssuePolicy, Recovery, StormPolicy
from alerts2gh.incident import (
    Incident,
    Intent,
    IntentAction,
    PastIssue,
    Target,
    fold,
    incident_id,
    new_incident,
)
from alerts2gh.issue_plan import Action, Reason, Step, next_step
from alerts2gh.rendering import BODY_LIMIT, Renderer, builtin_templates
from alerts2gh.storm import (
    RESOLVED_ROWS,
    ROLLUP_LABELS,
    Neighbours,
    News,
    StormReason,
    began_at,
    counts_as_new,
    judge,
    rolled,
    rollup_id,
    rollup_part,
    tidied,
    told,
)
from chassis.alertmanager import AlertStatus
from tests.alerts2gh.builders import (
    NOW,
    TARGET,
    a_member,
    a_part,
    an_alert,
    an_incident,
    an_issue,
    minutes,
)

POLICY = StormPolicy(incidents=20, window=timedelta(minutes=5), split_after=timedelta(hours=1))
HOUR = timedelta(hours=1)
A_PAST_ISSUE = PastIssue(1, "", "completed", NOW, NOW)
CREATING = Intent(IntentAction.CREATE, "t", NOW)


def a_new_incident(**changes: Any) -> Incident:
    return an_incident(a_member(), **{"new_since": NOW, **changes})


@pytest.mark.parametrize(
    ("incident", "policy", "neighbours", "expected"),
    [
        pytest.param(
            a_new_incident(), POLICY, Neighbours(19, 0), StormReason.CALM, id="as many as allowed"
        ),
        pytest.param(
            a_new_incident(), POLICY, Neighbours(20, 0), StormReason.STORM, id="one more than that"
        ),
        pytest.param(
            a_new_incident(),
            POLICY,
            Neighbours(0, 20),
            StormReason.STORM,
            id="an early one of a storm is of it, when the others are known in time",
        ),
        pytest.param(
            a_new_incident(),
            POLICY,
            Neighbours(19, 19),
            StormReason.CALM,
            id="two windows that are not full are no storm",
        ),
        pytest.param(
            a_new_incident(),
            StormPolicy(enabled=False, incidents=2),
            Neighbours(99, 99),
            StormReason.SWITCHED_OFF,
            id="switched off",
        ),
        pytest.param(
            a_new_incident(issue=an_issue()),
            POLICY,
            Neighbours(99, 99),
            StormReason.NOT_NEW,
            id="one that has an issue keeps it",
        ),
        pytest.param(
            a_new_incident(past=(A_PAST_ISSUE,)),
            POLICY,
            Neighbours(99, 99),
            StormReason.NOT_NEW,
            id="one that had an issue gets another",
        ),
        pytest.param(
            a_new_incident(intent=CREATING),
            POLICY,
            Neighbours(99, 99),
            StormReason.NOT_NEW,
            id="one whose create is unanswered may have an issue",
        ),
        pytest.param(
            a_new_incident(audit_at=NOW),
            POLICY,
            Neighbours(99, 99),
            StormReason.NOT_NEW,
            id="one whose create is not settled may have an issue",
        ),
        pytest.param(
            rolled(a_new_incident(), POLICY, NOW),
            POLICY,
            Neighbours(99, 99),
            StormReason.NOT_NEW,
            id="one that outlasted its storm is not rolled up again",
        ),
        pytest.param(
            an_incident(a_member(firing=False)),
            POLICY,
            Neighbours(99, 99),
            StormReason.NOT_NEW,
            id="one that does not fire needs no issue",
        ),
        pytest.param(
            a_new_incident(displaced=True),
            POLICY,
            Neighbours(99, 99),
            StormReason.NEVER_ROLLED,
            id="what went to the fallback repository is told there",
        ),
        pytest.param(
            a_new_incident(labels=ROLLUP_LABELS),
            POLICY,
            Neighbours(99, 99),
            StormReason.NEVER_ROLLED,
            id="the rollup itself",
        ),
        pytest.param(
            a_new_incident(labels={"alertname": "Alerts2ghRefusedWebhooks"}),
            POLICY,
            Neighbours(99, 99),
            StormReason.NEVER_ROLLED,
            id="refused webhooks",
        ),
    ],
)
def test_whether_an_incident_is_rolled_up(
    incident: Incident, policy: StormPolicy, neighbours: Neighbours, expected: StormReason
) -> None:
    assert judge(incident, policy, neighbours) is expected


ROLLED = rolled(a_new_incident(), POLICY, NOW)
TOLD = told(ROLLED, News.ROLLED_UP)


@pytest.mark.parametrize(
    ("incident", "now", "expected"),
    [
        pytest.param(
            ROLLED, NOW, Step(Action.TELL_ROLLUP, Reason.ROLLED_UP), id="first the rollup learns it"
        ),
        pytest.param(
            TOLD, NOW, Step(Action.SLEEP, Reason.ROLLED_UP, NOW + HOUR), id="then it waits"
        ),
        pytest.param(
            replace(TOLD, members={"m": a_member(firing=False)}),
            NOW,
            Step(Action.TELL_ROLLUP, Reason.STORM_OVER),
            id="what resolves leaves the rollup",
        ),
        pytest.param(
            replace(TOLD, members={"m": a_member(firing=False)}, dead_reason="gone"),
            NOW,
            Step(Action.TELL_ROLLUP, Reason.STORM_OVER),
            id="what was given up and resolves leaves the rollup",
        ),
        pytest.param(
            TOLD,
            NOW + HOUR,
            Step(Action.CREATE, Reason.STORM_OUTLASTED),
            id="what lasts gets an issue",
        ),
        pytest.param(
            replace(TOLD, issue=an_issue()),
            NOW,
            Step(Action.TELL_ROLLUP, Reason.SPLIT_FROM_ROLLUP),
            id="what has an issue leaves the rollup",
        ),
        pytest.param(
            replace(TOLD, intent=CREATING),
            NOW,
            Step(Action.SLEEP, Reason.OUTCOME_UNKNOWN, NOW + timedelta(seconds=5)),
            id="an unanswered create is cleared up first",
        ),
    ],
)
def test_what_a_rolled_incident_does_next(incident: Incident, now: Any, expected: Step) -> None:
    assert next_step(incident, Recovery(), "as-written", now) == expected


def test_an_incident_is_new_when_it_first_fires_and_again_after_a_pause_without_an_issue() -> None:
    quiet = fold(new_incident(a_part()), a_part(an_alert(firing=False))).incident
    assert not counts_as_new(quiet)

    start = NOW + minutes(5)
    fires = fold(quiet, a_part(an_alert(starts_at=start), received_at=start)).incident
    assert (began_at(fires), counts_as_new(fires)) == (start, True)
    more = fold(fires, a_part(an_alert("gpu-n2"), received_at=start + minutes(1))).incident
    assert began_at(more) == start

    filed = replace(quiet, issue=an_issue())
    again = fold(filed, a_part(an_alert(starts_at=start), received_at=start)).incident
    assert again.new_since == quiet.new_since


def test_ours_and_what_the_fallback_took_make_no_storm() -> None:
    assert counts_as_new(a_new_incident())
    assert not counts_as_new(a_new_incident(labels=ROLLUP_LABELS))
    assert not counts_as_new(a_new_incident(displaced=True))


@pytest.mark.parametrize("news", News)
def test_what_the_rollup_is_told_is_a_member_named_after_the_incident(news: News) -> None:
    incident = replace(ROLLED, issue=an_issue(number=7)) if news is News.SPLIT else ROLLED
    part = rollup_part(incident, news, POLICY, TARGET, NOW + minutes(1))
    (row,) = part.alerts

    assert part.incident_id == rollup_id(TARGET) == incident_id(TARGET, ROLLUP_LABELS)
    assert part.disposition.target == TARGET
    assert row.fingerprint == incident.id[:16]
    assert row.labels == incident.labels
    assert row.starts_at == NOW
    status = AlertStatus.FIRING if news is News.ROLLED_UP else AlertStatus.RESOLVED
    assert row.status is status
    own = " (still fires, and has issue 7 of its own)" if news is News.SPLIT else ""
    assert row.annotations["summary"] == f"CUDA fails on gpu-n1{own}"


def test_the_rollup_lives_by_the_routes_policy_without_comments_and_without_damping() -> None:
    policy = IssuePolicy(close_after=minutes(42), keep_open_label="stay")
    incident = a_new_incident(policy=policy)

    of_rollup = rollup_part(incident, News.ROLLED_UP, POLICY, TARGET, NOW).disposition.policy

    assert of_rollup.comment_on is CommentOn.NOTHING
    same = policy.model_copy(
        update={"comment_on": CommentOn.NOTHING, "flapping": of_rollup.flapping}
    )
    assert of_rollup == same


def test_telling_twice_changes_nothing() -> None:
    part = rollup_part(ROLLED, News.ROLLED_UP, POLICY, TARGET, NOW)
    once = fold(new_incident(part), part)
    again = fold(once.incident, replace(part, received_at=NOW + minutes(1)))

    assert (once.changed, again.changed) == (True, False)


def test_after_it_was_told_for_the_last_time_it_is_on_its_own() -> None:
    for news in (News.OVER, News.SPLIT):
        free = told(TOLD, news)
        assert (free.rolled_into, free.rolled_told, free.split_at) == (None, False, None)


def _a_rollup(firing: int, over: int) -> Incident:
    members = {}
    for number in range(firing + over):
        labels = {"alertname": "GPURuntimeError", "group": f"g{number:05}"}
        member = a_member(firing=number < firing, changed_at=NOW + timedelta(seconds=number))
        fingerprint = f"{number:016x}"
        summary = {"summary": f"CUDA fails in group g{number:05} of the cluster in the basement"}
        members[fingerprint] = replace(
            member, fingerprint=fingerprint, labels=labels, annotations=summary
        )
    target = Target("main", "acme", "alerts")
    return an_incident(labels=ROLLUP_LABELS, id=rollup_id(target), members=members)


def test_a_rollup_keeps_all_that_fires_and_the_newest_of_the_rest() -> None:
    kept = tidied(_a_rollup(700, RESOLVED_ROWS + 100)).members.values()

    assert len([m for m in kept if m.firing]) == 700
    over = [m for m in kept if not m.firing]
    assert len(over) == RESOLVED_ROWS
    assert min(m.changed_at for m in over) == NOW + timedelta(seconds=800)


def test_only_a_rollup_is_tidied() -> None:
    other = replace(_a_rollup(0, RESOLVED_ROWS + 100), labels={"alertname": "Mine"})

    assert tidied(other) is other


def test_a_rollup_of_two_thousand_fits_into_an_issue() -> None:
    body = Renderer(builtin_templates()).new_body(_a_rollup(2000, 0))

    assert len(body) < BODY_LIMIT
    assert "**2000 alerts firing**" in body
    assert "alerts are not shown here" in body


def test_the_table_of_a_rollup_is_written_at_most_every_fifteen_seconds() -> None:
    changed = an_issue(block_hash="old", written_at=NOW)
    rollup = replace(_a_rollup(3, 0), issue=changed)
    later = NOW + timedelta(seconds=15)

    step = next_step(rollup, Recovery(), "new", NOW + timedelta(seconds=14))
    assert step == Step(Action.SLEEP, Reason.BODY_OUTDATED, later)
    assert next_step(rollup, Recovery(), "new", later).action is Action.EDIT
