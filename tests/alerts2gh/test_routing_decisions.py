"""Where alerts go: the rules of routing one by one, on recorded and made-up webhooks."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from alerts2gh.config import Config
from alerts2gh.incident import DeliveryPart, Target, incident_id, label_key
from alerts2gh.ports import OpenIncident
from alerts2gh.routing import (
    Routed,
    Router,
    Unrouted,
    UnroutedReason,
    explain,
    keep_filed_targets,
)
from chassis.alertmanager import Alert, AlertStatus, Webhook, fingerprint, parse_webhook

NOW = datetime(2026, 11, 30, 9, 30, tzinfo=UTC)
PAYLOADS = Path(__file__).parents[1] / "payloads"


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("made-up", encoding="utf-8")
    return file


@pytest.fixture
def router(token: Path) -> Any:
    def make(route: Mapping[str, Any], **others: Any) -> Router:
        whole = {
            "database": {"sqlite_file": "alerts2gh.db"},
            "credentials": {"main": {"token_file": str(token)}},
            "allowed_repositories": ["org/*", "other/gpu-ops"],
            "route": route,
        }
        return Router(Config.model_validate({**whole, **others}))

    return make


def an_alert(annotations: Mapping[str, str] | None = None, **labels: str) -> Alert:
    return Alert(
        status=AlertStatus.FIRING,
        labels=labels,
        annotations=annotations or {},
        starts_at=NOW - timedelta(minutes=1),
        ends_at=None,
        generator_url="",
        fingerprint=fingerprint(labels),
    )


def a_webhook(
    *alerts: Alert, group: Mapping[str, str] | None = None, truncated: int = 0
) -> Webhook:
    shared = [set(alert.labels.items()) for alert in alerts]
    return Webhook(
        version="4",
        group_key="{}:{}",
        truncated_alerts=truncated,
        status=AlertStatus.FIRING,
        receiver="github",
        group_labels={"alertname": "Xid"} if group is None else group,
        common_labels=dict(set.intersection(*shared)) if shared else {},
        common_annotations={},
        external_url="http://alertmanager.example",
        notification_reason=None,
        alerts=alerts,
    )


def routed(router: Router, webhook: Webhook, query: Any = None) -> Routed:
    found = router.route(webhook, NOW, query or {})
    assert isinstance(found, Routed)
    return found


def places(found: Routed) -> list[tuple[str, str, int]]:
    return [
        (part.disposition.route, part.disposition.target.full_name, len(part.alerts))
        for part in found.parts
    ]


def refused(router: Router, webhook: Webhook, query: Any = None) -> Unrouted:
    found = router.route(webhook, NOW, query or {})
    assert isinstance(found, Unrouted)
    return found


TREE = {
    "repository": "org/rest",
    "routes": [
        {
            "name": "gpu",
            "matchers": 'team="gpu"',
            "repository": "org/gpu",
            "routes": [
                {"name": "urgent", "matchers": 'severity="critical"', "repository": "org/urgent"},
                {"name": "inherits", "matchers": 'severity="warning"'},
            ],
        },
        {"name": "audit", "matchers": 'audit="yes"', "repository": "org/audit", "continue": True},
        {"name": "late", "matchers": 'team=~"gpu|net"', "repository": "org/net"},
    ],
}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({"team": "web"}, [("root", "org/rest")], id="no child matches: the root"),
        pytest.param({"team": "net"}, [("late", "org/net")], id="a child that matches"),
        pytest.param({"team": "gpu"}, [("gpu", "org/gpu")], id="the first child, not a later one"),
        pytest.param(
            {"team": "gpu", "severity": "critical"},
            [("urgent", "org/urgent")],
            id="depth first: the grandchild and not its parent",
        ),
        pytest.param(
            {"team": "gpu", "severity": "warning"},
            [("inherits", "org/gpu")],
            id="a route without repository has its parent's",
        ),
        pytest.param(
            {"audit": "yes"}, [("audit", "org/audit")], id="continue with nothing after it"
        ),
        pytest.param(
            {"audit": "yes", "team": "net"},
            [("audit", "org/audit"), ("late", "org/net")],
            id="continue: the next sibling that matches as well",
        ),
    ],
)
def test_an_alert_takes_the_route_that_alertmanager_would_choose(
    router: Any, labels: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    found = routed(router(TREE), a_webhook(an_alert(alertname="Xid", **labels)))

    assert places(found) == [(*each, 1) for each in expected]


def test_alerts_of_one_delivery_take_different_routes(router: Any) -> None:
    webhook = a_webhook(
        an_alert(alertname="Xid", team="gpu", gpu="0"),
        an_alert(alertname="Xid", team="net"),
        an_alert(alertname="Xid", team="gpu", gpu="1"),
        truncated=7,
    )

    found = routed(router(TREE), webhook)

    assert places(found) == [("gpu", "org/gpu", 2), ("late", "org/net", 1)]
    assert [part.truncated for part in found.parts] == [7, 7]
    assert [alert.labels["gpu"] for alert in found.parts[0].alerts] == ["0", "1"]


@pytest.mark.parametrize("issue_labels", [[], ["{{ labels.gpu }}"]])
def test_the_alerts_of_a_part_keep_the_order_of_the_webhook(
    router: Any, issue_labels: list[str]
) -> None:
    """Told apart by matchers, and by the labels of templates, and come together again."""
    tree = {
        "repository": "org/ops",
        "issue_labels": issue_labels,
        "routes": [{"matchers": 'team="web"'}],
    }
    alerts = [
        an_alert(alertname="Xid", node=f"n{index}", gpu=str(index % 3), team="ab"[index % 2])
        for index in range(12)
    ]

    (part,) = routed(router(tree), a_webhook(*alerts)).parts

    assert list(part.alerts) == alerts


def test_a_recorded_group_is_one_incident_named_by_its_group_labels(router: Any) -> None:
    webhook = parse_webhook((PAYLOADS / "grouped-3.json").read_bytes())

    (part,) = routed(router({"repository": "org/{{ labels.cluster }}-ops"}), webhook).parts

    target = Target("main", "org", "testc-ops")
    assert part.disposition.target == target
    assert part.incident_id == incident_id(target, {"alertname": "Grouped"})
    assert part.label_key == label_key({"alertname": "Grouped"})
    assert len(part.alerts) == 3


@pytest.mark.parametrize("payload", sorted(PAYLOADS.glob("*.json")), ids=lambda path: path.stem)
def test_firing_and_resolved_and_truncated_deliveries_go_the_same_way(
    router: Any, payload: Path
) -> None:
    webhook = parse_webhook(payload.read_bytes())

    found = routed(router({"repository": "org/ops"}), webhook)

    assert [part.alerts for part in found.parts] == [webhook.alerts]
    assert found.parts[0].truncated == webhook.truncated_alerts


def test_a_child_changes_only_the_policy_keys_that_it_sets(router: Any) -> None:
    tree = {
        "repository": "org/rest",
        "policy": {"close_after": "30m", "comment_on": "nothing"},
        "routes": [{"matchers": 'a="b"', "policy": {"close_after": "1h"}}],
    }

    (part,) = routed(router(tree, policy={"reopen_window": "1d"}), a_webhook(an_alert(a="b"))).parts

    policy = part.disposition.policy
    assert policy.close_after == timedelta(hours=1)
    assert policy.comment_on == "nothing"
    assert policy.reopen_window == timedelta(days=1)
    assert policy.suppress_for == timedelta(days=7)


def test_a_child_may_take_back_labels_assignees_and_milestone(router: Any) -> None:
    tree = {
        "repository": "org/rest",
        "issue_labels": ["bug"],
        "milestone": "Q4",
        "assignees": [{"static": {"logins": ["ada"]}}],
        "routes": [
            {"matchers": 'a="b"', "issue_labels": [], "milestone": "", "assignees": []},
            {"matchers": 'a="c"'},
        ],
    }

    bare = routed(router(tree), a_webhook(an_alert(a="b"))).parts[0].disposition
    full = routed(router(tree), a_webhook(an_alert(a="c"))).parts[0].disposition

    assert (bare.issue_labels, bare.milestone, bare.assignees) == (("alerts2gh",), None, ())
    assert (full.issue_labels, full.milestone) == (("alerts2gh", "bug"), "Q4")
    assert full.assignees[0].static is not None


def test_a_child_changes_only_the_template_files_that_it_sets(router: Any, tmp_path: Path) -> None:
    for name in ("a.j2", "b.j2"):
        (tmp_path / name).write_text("text", encoding="utf-8")
    tree = {
        "repository": "org/rest",
        "templates": {"title": "a.j2", "body": "a.j2"},
        "routes": [{"matchers": 'a="b"', "templates": {"body": "b.j2"}}],
    }

    found = routed(router(tree, templates_directory=str(tmp_path)), a_webhook(an_alert(a="b")))

    templates = found.parts[0].disposition.templates
    assert (templates.title, templates.body, templates.comment) == ("a.j2", "b.j2", None)


@pytest.mark.parametrize(
    ("template", "labels", "expected"),
    [
        pytest.param("{{ labels.team }}", {"team": "a,b\x00\u202ec"}, "a b c", id="cleaned"),
        pytest.param("{{ labels.team }}", {"team": "é" * 60}, "é" * 50, id="cut to 50 characters"),
        pytest.param("{{ labels.team }}", {}, None, id="left out when the label is absent"),
        pytest.param("{{ labels.team }}", {"team": " \n,"}, None, id="left out when empty"),
        pytest.param("{{ labels.team }}", {"team": "ALERTS2GH"}, None, id="not twice in any case"),
        pytest.param("{{ labels.items }}", {"items": "x"}, "x", id="a label named like a method"),
        pytest.param("{{ labels.get('a', 'none') }}", {}, "none", id="get with a default"),
        pytest.param("{{ labels.a | default('none') }}", {}, "none", id="the default filter"),
        pytest.param("{% if labels.a %}x{% else %}y{% endif %}", {}, "y", id="absent is false"),
        pytest.param("{{ 1 // 0 }}", {}, None, id="left out when the template fails"),
        pytest.param("{{ annotations.p }}", {}, "annotated", id="from an annotation"),
        pytest.param("{{ group_labels.alertname }}/{{ receiver }}", {}, "Xid/github", id="group"),
        pytest.param("{{ labels.__class__.__mro__ }}", {}, None, id="no way out of the sandbox"),
    ],
)
def test_an_issue_label_comes_from_a_template(
    router: Any, template: str, labels: dict[str, str], expected: str | None
) -> None:
    made = router({"repository": "org/ops", "issue_labels": [template]})

    found = routed(made, a_webhook(an_alert({"p": "annotated"}, **labels)))

    wanted = ("alerts2gh",) if expected is None else ("alerts2gh", expected)
    assert found.parts[0].disposition.issue_labels == wanted


def test_an_issue_has_at_most_a_hundred_labels_and_ours_is_first(router: Any) -> None:
    alerts = [an_alert(node=f"n{index}") for index in range(300)]
    made = router({"repository": "org/ops", "issue_labels": ["{{ labels.node }}"]})

    labels = routed(made, a_webhook(*alerts)).parts[0].disposition.issue_labels

    assert len(labels) == 100
    assert labels[:3] == ("alerts2gh", "n0", "n1")


@pytest.mark.parametrize(
    ("identity", "group", "expected"),
    [
        pytest.param({}, {"alertname": "Xid"}, [({"alertname": "Xid"}, 3)], id="group labels"),
        pytest.param(
            {"by": "labels", "labels": ["node"]},
            {"alertname": "Xid"},
            [({"node": "n0"}, 2), ({"gpu": "0"}, 1)],
            id="chosen labels; an alert with none of them and no alertname, by all its labels",
        ),
        pytest.param(
            {"by": "labels", "labels": ["node", "gpu"]},
            {},
            [({"node": "n0", "gpu": "0"}, 1), ({"node": "n0"}, 1), ({"gpu": "0"}, 1)],
            id="a chosen label that is absent is left out",
        ),
        pytest.param(
            {},
            {},
            [({"alertname": "Xid"}, 2), ({"gpu": "0"}, 1)],
            id="no group labels: alertname, else all labels, never one issue for everything",
        ),
        pytest.param(
            {"by": "per_alert"},
            {"alertname": "Xid"},
            [
                ({"alertname": "Xid", "node": "n0", "gpu": "0"}, 1),
                ({"alertname": "Xid", "node": "n0"}, 1),
                ({"gpu": "0"}, 1),
            ],
            id="an incident of each alert",
        ),
    ],
)
def test_identity_decides_which_alerts_are_one_incident(
    router: Any,
    identity: dict[str, Any],
    group: dict[str, str],
    expected: list[tuple[dict[str, str], int]],
) -> None:
    webhook = a_webhook(
        an_alert(alertname="Xid", node="n0", gpu="0"),
        an_alert(alertname="Xid", node="n0", empty=""),
        an_alert(gpu="0"),
        group=group,
    )
    found = routed(router({"repository": "org/ops", "identity": identity}), webhook)

    assert [(dict(part.labels), len(part.alerts)) for part in found.parts] == expected


def test_routes_that_meet_in_one_incident_make_one_part_with_the_first_ones_settings(
    router: Any,
) -> None:
    tree = {
        "repository": "org/ops",
        "routes": [
            {
                "name": "all",
                "matchers": 'alertname="Xid"',
                "continue": True,
                "issue_labels": ["a"],
                "policy": {"auto_close": False},
            },
            {"name": "critical", "matchers": 'severity="critical"', "issue_labels": ["b"]},
        ],
    }
    webhook = a_webhook(
        an_alert(alertname="Xid", severity="critical"), an_alert(alertname="Xid", severity="info")
    )

    found = routed(router(tree), webhook)

    (part,) = found.parts
    assert part.alerts == webhook.alerts
    assert part.disposition.route == "all"
    assert part.disposition.issue_labels == ("alerts2gh", "a", "b")
    assert not part.disposition.policy.auto_close
    assert "also taken by critical" in explain(found)[0].notes[0]


@pytest.mark.parametrize(
    ("query", "labels", "expected"),
    [
        pytest.param({}, {}, "org/ops", id="nothing asked: the route's"),
        pytest.param({"owner": ["other"], "repo": ["gpu-ops"]}, {}, "other/gpu-ops", id="query"),
        pytest.param({"repo": ["x", "y"]}, {}, "org/x", id="query: half, the owner is the route's"),
        pytest.param({}, {"atg_repo": "lab"}, "org/lab", id="label: half"),
        pytest.param(
            {"owner": ["nobody"], "repo": ["x"]},
            {"atg_owner": "other", "atg_repo": "gpu-ops"},
            "other/gpu-ops",
            id="labels go before the query",
        ),
        pytest.param(
            {"repo": [""], "owner": []}, {"atg_repo": ""}, "org/ops", id="empty is unsaid"
        ),
    ],
)
def test_a_sender_may_name_the_repository_as_for_alertmanager_to_github(
    router: Any, query: dict[str, list[str]], labels: dict[str, str], expected: str
) -> None:
    found = routed(router({"repository": "org/ops"}), a_webhook(an_alert(**labels)), query)

    assert found.parts[0].disposition.target.full_name == expected


def test_atg_labels_count_only_when_all_alerts_share_them(router: Any) -> None:
    webhook = a_webhook(an_alert(atg_repo="x"), an_alert(atg_repo="y"))

    assert places(routed(router({"repository": "org/ops"}), webhook)) == [("root", "org/ops", 2)]


def test_the_labels_parameter_replaces_the_routes_labels(router: Any) -> None:
    made = router({"repository": "org/ops", "issue_labels": ["mine"]})

    found = routed(made, a_webhook(an_alert()), {"labels": ["bug, urgent,,bug", "unused"]})

    assert found.parts[0].disposition.issue_labels == ("alerts2gh", "bug", "urgent")
    assert explain(found)[0].labels_from == "the query parameter labels"


@pytest.mark.parametrize(("value", "closes"), [("true", False), ("false", True), ("True", True)])
def test_one_annotated_alert_keeps_the_issue_open(router: Any, value: str, closes: bool) -> None:
    webhook = a_webhook(an_alert(a="1"), an_alert({"atg_skip_auto_close": value}, a="2"))

    found = routed(router({"repository": "org/ops"}), webhook)

    assert found.parts[0].disposition.policy.auto_close is closes
    assert bool(explain(found)[0].notes) is not closes


NO_REPOSITORY: dict[str, Any] = {"routes": [{"name": "gpu", "matchers": 'team="gpu"'}]}


@pytest.mark.parametrize(
    ("route", "labels", "query", "reason", "text"),
    [
        pytest.param(
            NO_REPOSITORY,
            {"team": "gpu"},
            {},
            UnroutedReason.NO_REPOSITORY,
            "route gpu took the alerts, but neither it nor a parent has a `repository`; add one"
            " there, or a route under it that matches these alerts and has one",
            id="no repository",
        ),
        pytest.param(
            NO_REPOSITORY,
            {},
            {"repo": ["x"]},
            UnroutedReason.HALF_A_REPOSITORY,
            "the query parameter repo says 'x', which is half a repository; say both owner and"
            " repo, or add a `repository` to the route",
            id="half a repository",
        ),
        pytest.param(
            {"repository": "org/{{ labels.cluster }}"},
            {},
            {},
            UnroutedReason.TEMPLATE_FAILED,
            "route route: the repository template 'org/{{ labels.cluster }}' has no result: the"
            " alert has no 'cluster' among its labels; add the label to the alert, a default to"
            " the template, or a route for alerts without it",
            id="template without its label",
        ),
        pytest.param(
            {"repository": "org/{{ labels.cluster }}"},
            {"cluster": "../secret"},
            {},
            UnroutedReason.BAD_REPOSITORY_NAME,
            "'org/../secret' (said by route route, from 'org/{{ labels.cluster }}') is no"
            " OWNER/REPO; correct it there",
            id="no name of a repository",
        ),
        pytest.param(
            {"repository": "org/ops"},
            {"atg_owner": "evil", "atg_repo": "leak"},
            {},
            UnroutedReason.REPOSITORY_NOT_ALLOWED,
            "the repository evil/leak (said by the label atg_owner and the label atg_repo) fits no"
            " entry of allowed_repositories; add it there",
            id="not allowed, whoever asks",
        ),
    ],
)
def test_an_alert_without_a_place_says_what_to_add_where(
    router: Any,
    route: dict[str, Any],
    labels: dict[str, str],
    query: dict[str, list[str]],
    reason: UnroutedReason,
    text: str,
) -> None:
    found = refused(router(route), a_webhook(an_alert(**labels)), query)

    assert (found.reason, found.text, found.alerts) == (reason, text, 1)


def test_a_webhook_without_alerts_has_nothing_to_file(router: Any) -> None:
    assert refused(router(TREE), a_webhook()).reason is UnroutedReason.NO_ALERTS


def test_alerts_with_a_place_are_taken_although_others_have_none(router: Any) -> None:
    made = router({"repository": "org/{{ labels.cluster }}"})
    webhook = a_webhook(an_alert(cluster="a"), an_alert(gpu="0"), an_alert(gpu="1"))

    found = routed(made, webhook)

    assert places(found) == [("root", "org/a", 1)]
    assert [(each.reason, each.alerts) for each in found.refused] == [
        (UnroutedReason.TEMPLATE_FAILED, 2)
    ]


def test_the_allow_list_ignores_case_and_does_not_reach_into_other_owners(router: Any) -> None:
    made = router(
        {"repository": "{{ labels.repo }}"}, allowed_repositories=["Org/GPU-*", "org/a.b"]
    )

    allowed = {
        name: isinstance(made.route(a_webhook(an_alert(repo=name)), NOW, {}), Routed)
        for name in ("org/gpu-ops", "ORG/gpu-", "org/aXb", "org/gpu-ops\n", "x-org/gpu-ops", "org/")
    }

    # White space around is not part of a name; a newline at its end is taken off.
    assert [name for name, yes in allowed.items() if yes] == [
        "org/gpu-ops",
        "ORG/gpu-",
        "org/gpu-ops\n",
    ]


def test_a_route_may_use_another_credential(router: Any, token: Path) -> None:
    made = router(
        {
            "credential": "main",
            "repository": "org/ops",
            "routes": [{"matchers": 'a="b"', "credential": "enterprise"}],
        },
        credentials={
            "main": {"token_file": str(token)},
            "enterprise": {"token_file": str(token), "base_url": "https://ghe.example/api/v3"},
        },
    )

    assert [
        routed(made, a_webhook(an_alert(a=value))).parts[0].disposition.target.credential
        for value in ("b", "c")
    ] == ["enterprise", "main"]


def test_an_explanation_names_route_matchers_repository_and_identity(router: Any) -> None:
    webhook = a_webhook(an_alert(alertname="Xid", team="gpu", severity="critical"))

    (explained,) = explain(routed(router(TREE), webhook))

    assert explained.route == ("root", "gpu", "urgent")
    assert explained.because == ('team="gpu"', 'severity="critical"')
    assert explained.repository == "org/urgent"
    assert explained.repository_from == "route urgent"
    assert explained.named_by == {"alertname": "Xid"}
    assert explained.named_why == "the group labels"


def filed(part: DeliveryPart, repository: str) -> OpenIncident:
    owner, _, repo = repository.partition("/")
    target = Target("main", owner, repo)
    return OpenIncident(incident_id(target, part.labels), part.label_key, target)


def test_an_open_incident_keeps_its_repository_when_the_routes_change(router: Any) -> None:
    parts = routed(router({"repository": "org/new"}), a_webhook(an_alert(a="1"))).parts
    earlier = filed(parts[0], "org/old")
    known = {earlier.id: [parts[0].alerts[0].fingerprint]}

    (kept,) = keep_filed_targets(parts, [earlier], known)

    assert kept.incident_id == earlier.id
    assert kept.disposition.target == earlier.target


@pytest.mark.parametrize("case", ["other alerts", "filed here as well", "also routed there"])
def test_an_incident_elsewhere_is_not_taken_for_this_one(router: Any, case: str) -> None:
    tree = {
        "repository": "org/ops",
        "routes": [
            {"matchers": 'a="1"', "repository": "org/one", "continue": case == "also routed there"},
            {"matchers": 'a="1"', "repository": "org/two"},
        ],
    }
    parts = routed(router(tree), a_webhook(an_alert(a="1"))).parts
    elsewhere = filed(parts[0], "org/one" if case == "also routed there" else "org/old")
    fingerprints = [] if case == "other alerts" else [parts[0].alerts[0].fingerprint]
    here = [filed(parts[0], "org/one")] if case == "filed here as well" else []

    kept = keep_filed_targets(parts, [elsewhere, *here], {elsewhere.id: fingerprints})

    assert kept == parts
