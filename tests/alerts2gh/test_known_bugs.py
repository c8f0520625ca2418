"""Bugs that others had in public, as far as a pure decision of ours prevents them; see tests/known_bugs.yaml."""

import inspect
import re
import unicodedata
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

import alerts2gh
from alerts2gh.config import (
    AssigneeSource,
    Config,
    IssuePolicy,
    Recovery,
    StaticAssignees,
    WriteLimits,
)
from alerts2gh.github_answers import Exchange, RequestKind, TransportFailure, classify
from alerts2gh.incident import (
    ClosedBy,
    DeliveryPart,
    Disposition,
    FoldReason,
    Incident,
    Intent,
    IntentAction,
    Issue,
    IssueState,
    Target,
    fold,
    incident_id,
    label_key,
    new_incident,
)
from alerts2gh.issue_plan import Action, Reason, Step, next_step, observed, start_anew
from alerts2gh.metrics import GitHubMetrics
from alerts2gh.ports import Answer, BudgetState, Outcome, Tracker
from alerts2gh.reconciliation import Key, Sight, SightReason, View, reconcile, see
from alerts2gh.rendering import BODY_LIMIT, TITLE_LIMIT, Renderer, builtin_templates, find_marker
from alerts2gh.rendering.sanitising import cell, inline, lines
from alerts2gh.rendering.sizes import cut, utf16_length
from alerts2gh.routing import Routed, Router, Unrouted, UnroutedReason
from alerts2gh.worker.aftermath import Course, after_failure
from alerts2gh.write_budget import after_answer, after_write, may_read, may_write
from chassis.alertmanager import Alert, AlertStatus, Webhook, fingerprint

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
DAY = 24 * HOUR
TARGET = Target("main", "acme", "nodes")
RECOVERY = Recovery()
FIRING, RESOLVED = AlertStatus.FIRING, AlertStatus.RESOLVED
RENDERER = Renderer(builtin_templates())
HASH = "as it should read"


def an_alert(
    node: str = "node-1",
    status: AlertStatus = FIRING,
    *,
    starts_at: datetime = NOW,
    summary: str = "broken",
    **more: str,
) -> Alert:
    labels = {"alertname": "GPURuntimeError", "node": node, **more}
    return Alert(
        status=status,
        labels=labels,
        annotations={"summary": summary},
        starts_at=starts_at,
        ends_at=None if status is FIRING else starts_at + MINUTE,
        generator_url="",
        fingerprint=fingerprint(labels),
    )


def a_part(
    *alerts: Alert,
    at: datetime = NOW,
    policy: IssuePolicy | None = None,
    target: Target = TARGET,
    **more: Any,
) -> DeliveryPart:
    labels = {"alertname": "GPURuntimeError"}
    return DeliveryPart(
        incident_id=incident_id(target, labels),
        label_key=label_key(labels),
        disposition=Disposition(target, "root", policy or IssuePolicy()),
        labels=labels,
        alerts=alerts or (an_alert(),),
        received_at=at,
        group_labels=labels,
        **more,
    )


def folded(*parts: DeliveryPart) -> Incident:
    incident = new_incident(parts[0])
    for part in parts:
        incident = fold(incident, part).incident
    return incident


def an_issue(**changes: Any) -> Issue:
    values: dict[str, Any] = {
        "number": 7,
        "url": "https://github.example/acme/nodes/issues/7",
        "repository": "acme/nodes",
        "state": IssueState.OPEN,
        "created_at": NOW,
        "block_hash": HASH,
    }
    return Issue(**(values | changes))


def told(incident: Incident, **changes: Any) -> Incident:
    """The incident with an issue that says all there is to say."""
    issue = changes.pop("issue", an_issue())
    return replace(incident, issue=issue, untold=(), **changes)


def closed(at: datetime, by: ClosedBy = ClosedBy.US, reason: str = "completed") -> Issue:
    return an_issue(state=IssueState.CLOSED, closed_at=at, closed_by=by, state_reason=reason)


def plan(incident: Incident, at: datetime = NOW) -> Step:
    return next_step(incident, RECOVERY, HASH, at)


# How an issue lives.


def test_what_is_first_heard_of_as_resolved_makes_no_issue() -> None:
    incident = folded(a_part(an_alert(status=RESOLVED)))

    assert plan(incident, NOW + DAY) == Step(Action.NOTHING, Reason.NEVER_FIRED)


def test_a_resolved_incident_stays_open_when_auto_close_is_off() -> None:
    policy = IssuePolicy(auto_close=False)
    incident = told(folded(a_part(policy=policy), a_part(an_alert(status=RESOLVED), policy=policy)))

    assert plan(incident, NOW + DAY) == Step(Action.NOTHING, Reason.AUTO_CLOSE_OFF)


@pytest.mark.parametrize(
    ("window", "ago", "action"),
    [
        pytest.param(DAY, HOUR, Action.REOPEN, id="inside the window it is reopened"),
        pytest.param(DAY, 2 * DAY, Action.START_ANEW, id="after the window a new one begins"),
        pytest.param(7 * DAY, 365 * DAY, Action.START_ANEW, id="after a year a new one begins"),
        pytest.param(
            timedelta(), SECOND, Action.START_ANEW, id="a window of zero always begins a new one"
        ),
    ],
)
def test_firing_again_reopens_inside_the_window_and_begins_a_new_issue_after_it(
    window: timedelta, ago: timedelta, action: Action
) -> None:
    policy = IssuePolicy(reopen_window=window)
    incident = told(folded(a_part(policy=policy)), issue=closed(NOW - ago))

    assert plan(incident).action is action


def test_a_new_issue_after_the_window_links_to_the_old_one() -> None:
    incident = start_anew(told(folded(a_part()), issue=closed(NOW - 30 * DAY)), "completed")

    assert plan(incident) == Step(Action.CREATE, Reason.FIRING_AFTER_WINDOW)
    assert "issues/7" in RENDERER.new_body(incident)


def test_a_new_episode_reopens_what_a_person_closed_as_completed() -> None:
    later = a_part(an_alert(starts_at=NOW + HOUR), at=NOW + HOUR)
    incident = told(folded(a_part(), later), issue=closed(NOW + MINUTE, ClosedBy.HUMAN))

    assert plan(incident, NOW + HOUR) == Step(Action.REOPEN, Reason.FIRING_AGAIN)


def test_an_issue_closed_as_not_planned_stays_quiet_for_the_members_it_had() -> None:
    incident = told(folded(a_part()))
    incident = observed(incident, closed(NOW, ClosedBy.HUMAN, "not_planned"))
    again = fold(incident, a_part(an_alert(starts_at=NOW + HOUR), at=NOW + HOUR)).incident
    other = fold(incident, a_part(an_alert("node-2"), at=NOW + HOUR)).incident

    assert plan(again, NOW + HOUR) == Step(Action.SLEEP, Reason.NOT_PLANNED_QUIET, NOW + 7 * DAY)
    assert plan(other, NOW + HOUR) == Step(Action.START_ANEW, Reason.NOT_PLANNED_NEW_MEMBER)


def test_a_closed_issue_is_not_closed_again() -> None:
    incident = folded(a_part(), a_part(an_alert(status=RESOLVED), at=NOW + HOUR))
    incident = told(incident, issue=closed(NOW + MINUTE, ClosedBy.HUMAN))

    assert plan(incident, NOW + DAY) == Step(Action.NOTHING, Reason.CLOSED_AND_RESOLVED)


@pytest.mark.parametrize("status", [FIRING, RESOLVED])
@pytest.mark.parametrize("after", [MINUTE, HOUR, 30 * DAY])
def test_no_step_creates_an_issue_while_one_is_open(status: AlertStatus, after: timedelta) -> None:
    repeats = [a_part(an_alert(status=status), at=NOW + n * MINUTE) for n in range(3)]
    incident = told(folded(a_part(), *repeats))

    assert plan(incident, NOW + after).action not in {Action.CREATE, Action.START_ANEW}


def test_a_truncated_delivery_closes_nothing() -> None:
    resolved = a_part(an_alert(status=RESOLVED), at=NOW + MINUTE, truncated=90)
    incident = told(folded(a_part(), resolved))

    assert plan(incident, NOW + 30 * DAY) == Step(Action.NOTHING, Reason.TRUNCATED)
    assert "90" in RENDERER.new_body(incident)


@pytest.mark.parametrize(
    "sender",
    [
        {},
        {"external_url": "https://the-other-alertmanager.example"},
        {"group_key": "{}/{team=other}:{}"},
    ],
    ids=["the same once more", "from the other Alertmanager", "after a reload of the routes"],
)
def test_the_same_alerts_once_more_are_no_news(sender: dict[str, Any]) -> None:
    incident = told(folded(a_part()))

    again = incident
    for n in range(1, 10):
        result = fold(again, a_part(at=NOW + n * HOUR, **sender))
        assert set(result.reasons.values()) == {FoldReason.REPEAT}
        again = result.incident

    assert plan(again, NOW + 10 * HOUR) == Step(Action.NOTHING, Reason.UP_TO_DATE)


def test_a_transition_is_told_in_a_comment() -> None:
    incident = told(folded(a_part(an_alert(), an_alert("node-2"))))
    changed = fold(incident, a_part(an_alert(status=RESOLVED), at=NOW + HOUR)).incident

    assert plan(changed, NOW + HOUR) == Step(Action.COMMENT, Reason.TRANSITIONS_UNTOLD)


def test_an_issue_is_created_without_assignees_and_assigned_afterwards() -> None:
    chain = (AssigneeSource(static=StaticAssignees(logins=("nobody-here",))),)
    part = a_part()
    incident = folded(replace(part, disposition=replace(part.disposition, assignees=chain)))

    assert plan(incident) == Step(Action.CREATE, Reason.FIRST_FIRING)
    assert "assignees" not in inspect.signature(Tracker.create_issue).parameters
    assert plan(told(incident)) == Step(Action.ASSIGN, Reason.UNASSIGNED)


def test_a_thousand_deliveries_of_one_incident_are_one_write() -> None:
    parts = [a_part(an_alert(f"node-{n % 50}"), at=NOW + n * SECOND) for n in range(1000)]
    incident = folded(*parts)

    assert plan(incident).action is Action.CREATE
    assert plan(told(incident), NOW + HOUR).action is Action.NOTHING


# Resolved messages that never come.


def compared(incident: Incident, sight: Sight, times: list[timedelta]) -> Incident:
    """The incident after it was compared with the same sight at these times after NOW."""
    absent_since: dict[Key, datetime] = {}
    for after in times:
        done = reconcile([incident], sight, absent_since, NOW + after)
        absent_since = dict(done.absent_since)
        for part in done.parts:
            incident = fold(incident, part).incident
    return incident


def test_an_alert_that_all_alertmanagers_have_forgotten_ends_its_incident() -> None:
    incident = told(folded(a_part()))
    both = [View(url, (), NOW - DAY) for url in ("one", "other")]

    before = compared(incident, see(both, NOW), [timedelta(), 14 * MINUTE])
    after = compared(incident, see(both, NOW), [timedelta(), 15 * MINUTE])

    assert plan(before, NOW + 30 * DAY) == Step(Action.NOTHING, Reason.UP_TO_DATE)
    assert not after.is_firing
    assert plan(told(after), NOW + HOUR) == Step(Action.CLOSE, Reason.QUIET_PERIOD_OVER)


def test_a_restarted_alertmanager_is_believed_only_once_it_knows_again() -> None:
    incident = told(folded(a_part()))
    views = [View("one", (), NOW - DAY), View("restarted", (), NOW)]

    early, late = see(views, NOW + MINUTE), see(views, NOW + HOUR)

    assert (early.reason, late.reason) == (SightReason.JUST_STARTED, SightReason.COMPLETE)
    assert compared(incident, early, [timedelta(), DAY]).is_firing
    assert not compared(incident, late, [HOUR, 2 * HOUR]).is_firing


# Writes whose outcome is not known.


def test_a_create_without_an_answer_is_looked_for_before_it_is_made_again() -> None:
    incident = replace(folded(a_part()), intent=Intent(IntentAction.CREATE, "t", NOW))

    steps = []
    for looks, at in enumerate(RECOVERY.look_after):
        assert incident.intent is not None
        incident = replace(incident, intent=replace(incident.intent, looks=looks))
        steps += [plan(incident, NOW + at - SECOND).action, plan(incident, NOW + at).action]
    looked = replace(incident, intent=Intent(IntentAction.CREATE, "t", NOW, looks=len(steps) // 2))

    assert steps == [Action.SLEEP, Action.LOOK] * len(RECOVERY.look_after)
    assert plan(looked, NOW + HOUR) == Step(Action.FORGET_INTENT, Reason.LISTED_AND_NOT_FOUND)


def test_an_issue_made_after_looking_in_vain_is_audited_later() -> None:
    lag = 8 * MINUTE
    incident = told(folded(a_part()), audit_at=NOW + RECOVERY.audit_after)

    assert RECOVERY.audit_after > lag
    assert plan(incident, NOW + lag) == Step(
        Action.SLEEP, Reason.UP_TO_DATE, NOW + RECOVERY.audit_after
    )
    assert plan(incident, NOW + RECOVERY.audit_after) == Step(Action.LOOK, Reason.DUPLICATE_AUDIT)


# What GitHub answers.


def an_answer(status: int, message: str = "", **headers: str) -> Answer[object]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = f'{{"message": "{message}"}}'
    return classify(Exchange(RequestKind.CREATE, status, named, body), NOW).answer()


SECONDARY = (
    "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(an_answer(403, SECONDARY), id="403 with words only"),
        pytest.param(an_answer(403, "Forbidden", retry_after="30"), id="403 with Retry-After"),
        pytest.param(
            an_answer(
                403,
                "API rate limit exceeded for user ID 1.",
                x_ratelimit_remaining="0",
                x_ratelimit_limit="5000",
                x_ratelimit_reset=str(int((NOW + HOUR).timestamp())),
            ),
            id="403 with the hour used up",
        ),
        pytest.param(an_answer(429), id="429 without anything"),
        pytest.param(an_answer(429, "", retry_after="30"), id="429 with Retry-After"),
    ],
)
def test_every_way_github_says_slow_down_is_waited_out(answer: Answer[object]) -> None:
    incident = replace(folded(a_part()), intent=Intent(IntentAction.CREATE, "t", NOW))
    blocked = after_answer(BudgetState(), answer, NOW)

    aftermath = after_failure(incident, IntentAction.CREATE, answer, RECOVERY, NOW)

    assert aftermath.course is Course.WAIT_FOR_LIMIT
    assert aftermath.incident.dead_reason is None
    assert not may_write(blocked, WriteLimits(), IntentAction.CREATE, NOW).allowed


def test_retry_after_silences_the_credential_for_as_long_as_it_says() -> None:
    state = after_answer(BudgetState(), an_answer(429, "", retry_after="30"), NOW)

    assert not may_write(
        state, WriteLimits(), IntentAction.CREATE, NOW + timedelta(seconds=29)
    ).allowed
    assert not may_read(state, NOW + timedelta(seconds=29)).allowed
    assert may_write(state, WriteLimits(), IntentAction.CREATE, NOW + timedelta(seconds=30)).allowed


@pytest.mark.parametrize(
    "answer",
    [
        an_answer(403, "Resource not accessible by integration"),
        an_answer(403, "Repository was archived so is read-only."),
        an_answer(404, "Not Found"),
        an_answer(410, "Issues are disabled for this repo"),
        an_answer(422, "Validation Failed"),
    ],
    ids=["forbidden", "archived", "not found", "issues disabled", "invalid"],
)
def test_a_create_that_github_will_never_take_goes_to_the_fallback_at_once(
    answer: Answer[object],
) -> None:
    aftermath = after_failure(folded(a_part()), IntentAction.CREATE, answer, RECOVERY, NOW)

    assert aftermath.course is Course.FALL_BACK


def test_a_request_that_never_left_is_tried_again() -> None:
    exchange = Exchange(
        RequestKind.CREATE, None, {}, "connection refused", TransportFailure.NEVER_LEFT
    )
    answer: Answer[object] = classify(exchange, NOW).answer()

    aftermath = after_failure(folded(a_part()), IntentAction.CREATE, answer, RECOVERY, NOW)

    assert answer.outcome is Outcome.UNREACHABLE
    assert aftermath.course is Course.RETRY
    assert aftermath.wake_at == NOW + RECOVERY.retry_after


def test_a_flood_of_creates_stays_within_githubs_published_limits() -> None:
    """GitHub: about 80 requests a minute and 500 an hour that create content, a second between writes."""
    state, now = BudgetState(), NOW
    made: list[datetime] = []
    while len(made) < 500:
        permission = may_write(state, WriteLimits(), IntentAction.CREATE, now)
        if permission.allowed:
            state = after_write(state, IntentAction.CREATE, now)
            made.append(now)
        now = max(permission.at, now + timedelta(milliseconds=100))

    busiest_minute = max(sum(at - MINUTE < each <= at for each in made) for at in made)
    busiest_hour = max(sum(at - HOUR < each <= at for each in made) for at in made)
    assert (busiest_minute < 80, busiest_hour < 500) == (True, True)
    assert min(b - a for a, b in pairwise(made)) >= SECOND


def test_requests_that_fail_or_have_no_answer_are_counted() -> None:
    registry = CollectorRegistry()
    metrics = GitHubMetrics(registry)
    metrics.response("main", "create_issue", 403, None)
    metrics.response("main", "create_issue", None, None)

    counted = {
        status: registry.get_sample_value(
            "alerts2gh_github_requests_total",
            {"credential": "main", "endpoint": "create_issue", "status": status},
        )
        for status in ("403", "none")
    }
    assert counted == {"403": 1.0, "none": 1.0}


def test_no_code_searches_github() -> None:
    """The search index lags, has a limit of its own, and changes its rules."""
    sources = Path(alerts2gh.__file__).parent.rglob("*.py")
    searching = re.compile(r"search_issues|search_code|/search/|[\"']search[\"']")

    assert [path.name for path in sources if searching.search(path.read_text("utf-8"))] == []


# Where it is filed, and under which name.


@pytest.fixture
def routed(tmp_path: Path) -> Any:
    (tmp_path / "token").write_text("made-up", encoding="utf-8")

    def route(
        tree: dict[str, Any], *alerts: Alert, query: Any = None, **webhook: Any
    ) -> Routed | Unrouted:
        config = Config.model_validate(
            {
                "database": {"sqlite_file": "alerts2gh.db"},
                "credentials": {"main": {"token_file": str(tmp_path / "token")}},
                "allowed_repositories": ["acme/*"],
                "route": tree,
            }
        )
        values: dict[str, Any] = {
            "version": "4",
            "group_key": "{}:{}",
            "truncated_alerts": 0,
            "status": FIRING,
            "receiver": "github",
            "group_labels": {"alertname": "GPURuntimeError"},
            "common_labels": dict(
                set.intersection(*(set(alert.labels.items()) for alert in alerts))
            ),
            "common_annotations": {},
            "external_url": "",
            "notification_reason": None,
            "alerts": alerts,
        }
        return Router(config).route(Webhook(**(values | webhook)), NOW, query or {})

    return route


def ids(answer: Routed | Unrouted) -> list[str]:
    assert isinstance(answer, Routed)
    return [part.incident_id for part in answer.parts]


def test_a_webhook_without_a_place_says_what_to_add_where(routed: Any) -> None:
    answer = routed({}, an_alert())

    assert isinstance(answer, Unrouted)
    assert answer.reason is UnroutedReason.NO_REPOSITORY
    assert "add one" in answer.text


def test_a_sender_cannot_reach_a_repository_that_is_not_allowed(routed: Any) -> None:
    by_label = an_alert(atg_owner="evil", atg_repo="repo")
    answers = [
        routed({"repository": "acme/nodes"}, by_label),
        routed(
            {"repository": "acme/nodes"}, an_alert(), query={"owner": ["evil"], "repo": ["repo"]}
        ),
    ]

    assert [answer.reason for answer in answers] == [UnroutedReason.REPOSITORY_NOT_ALLOWED] * 2


def test_three_hosts_in_one_group_are_three_incidents_when_asked_for(routed: Any) -> None:
    alerts = [an_alert(f"node-{n}") for n in range(3)]
    each = {"repository": "acme/nodes", "identity": {"by": "per_alert"}}

    assert len(set(ids(routed(each, *alerts)))) == 3
    assert len(set(ids(routed({"repository": "acme/nodes"}, *alerts)))) == 1


def test_repository_and_issue_labels_follow_from_the_alert(routed: Any) -> None:
    tree = {
        "repository": "acme/{{ labels.team }}-ops",
        "issue_labels": ["severity/{{ labels.severity }}"],
    }
    answer = routed(tree, an_alert(team="gpu", severity="critical"))

    assert isinstance(answer, Routed)
    assert answer.parts[0].disposition.target.full_name == "acme/gpu-ops"
    assert answer.parts[0].disposition.issue_labels == ("alerts2gh", "severity/critical")


def test_the_identity_does_not_depend_on_alertmanagers_routes(routed: Any) -> None:
    tree = {"repository": "acme/nodes"}
    before = routed(tree, an_alert(), group_key='{}:{alertname="GPURuntimeError"}')
    after = routed(tree, an_alert(), group_key='{}/{team="gpu"}:{alertname="GPURuntimeError"}')

    assert ids(before) == ids(after)


def test_empty_group_labels_do_not_gather_unrelated_alerts(routed: Any) -> None:
    alerts = [an_alert(), an_alert(alertname="NodeDown")]

    assert len(set(ids(routed({"repository": "acme/nodes"}, *alerts, group_labels={})))) == 2


def test_the_same_labels_in_two_repositories_are_two_incidents(routed: Any) -> None:
    tree = {
        "repository": "acme/nodes",
        "routes": [
            {"repository": "acme/one", "matchers": ['node=~".+"'], "continue": True},
            {"repository": "acme/two", "matchers": ['node=~".+"']},
        ],
    }

    assert len(set(ids(routed(tree, an_alert())))) == 2


# What it says.


def test_a_title_is_one_line_within_githubs_limit() -> None:
    labels = {"alertname": "N\n" * 300}
    incident = replace(folded(a_part()), labels=labels, group_labels=labels)

    title = RENDERER.title(incident)

    assert 0 < utf16_length(title) <= TITLE_LIMIT
    assert title.isprintable()


def test_a_group_of_500_alerts_fits_in_one_body() -> None:
    alerts = [an_alert(f"node-{n}-" + "x" * 300, summary="y" * 300) for n in range(500)]
    incident = folded(a_part(*alerts))

    body = RENDERER.new_body(incident)

    assert utf16_length(body) <= BODY_LIMIT
    assert find_marker(body) == incident.id


def test_each_alert_has_its_own_status_and_summary_in_the_body() -> None:
    incident = folded(
        a_part(
            an_alert("node-1", summary="fan of one"),
            an_alert("node-2", RESOLVED, summary="disk of two"),
        )
    )

    rows = [line for line in RENDERER.new_body(incident).splitlines() if line.startswith("|")]
    one, two = (next(row for row in rows if node in row) for node in ("node-1", "node-2"))

    assert "fan of one" in one
    assert "disk of two" in two
    assert ("firing" in one.lower(), "firing" in two.lower()) == (True, False)
    assert "resolved" in two.lower()


def test_a_repeated_notification_leaves_the_body_as_it_is() -> None:
    incident = folded(a_part())
    body = "A person's words.\n" + RENDERER.new_body(incident) + "\nMore of them."
    repeated = fold(incident, a_part(at=NOW + 4 * HOUR)).incident

    assert RENDERER.block_hash(repeated) == RENDERER.block_hash(incident)
    assert RENDERER.body_with_block(body, repeated) is None


NASTY = "@org/everyone #12 owner/repo#3 GH-4 <img src=x> --> <!-- **b** | `c` \u202e https://github.com/a/b/issues/5"


CODE_SPAN = re.compile(r"(?<![\\`])(`+)(?!`).*?(?<!`)\1(?!`)")


@pytest.mark.parametrize("write", [inline, lines, cell], ids=["inline", "lines", "cell"])
def test_a_value_can_neither_mention_nor_refer_nor_write_markup(write: Any) -> None:
    text = str(write(NASTY))
    outside_code = CODE_SPAN.sub("", text)

    assert not re.search(r"@\w|(?<!&)#\d|GH-\d|<|-->|\*\*b|://", outside_code)
    assert "\u202e" not in text
    assert "](<https://github.com/a/b/issues/5>)" not in text


@pytest.mark.parametrize("whole", ["e\u0301" * 10, "👩\u200d🔬" * 4, "🇯🇵" * 5 + "é"])
def test_cutting_never_splits_a_character(whole: str) -> None:
    for limit in range(8, utf16_length(whole)):  # room for the first character
        short = cut(whole, limit)
        kept = short.removesuffix("…")

        assert utf16_length(short) <= limit
        assert whole.startswith(kept)
        assert not kept.endswith("\u200d")
        following = whole[len(kept) : len(kept) + 1]
        assert not (kept and following and unicodedata.combining(following))
        short.encode("utf-8")  # no half of a surrogate pair


@pytest.mark.parametrize("quoted", ["> {}", "See `{}` in the docs", "    {}", "text {}"])
def test_a_quoted_marker_is_nobodys(quoted: str) -> None:
    marker = RENDERER.new_body(folded(a_part())).splitlines()[0]

    assert find_marker(marker) is not None
    assert find_marker(quoted.format(marker)) is None


def test_an_issue_is_known_by_its_marker_alone() -> None:
    incident = folded(a_part())
    renamed = replace(told(incident), issue=an_issue(title="What a person calls it"))

    assert find_marker(RENDERER.new_body(renamed)) == incident.id
    assert fold(renamed, a_part(at=NOW + HOUR)).incident.id == incident.id
