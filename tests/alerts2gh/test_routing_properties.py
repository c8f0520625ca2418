"""Routing against a slow twin written from Alertmanager's description, and against any webhook."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts2gh.config import Config
from alerts2gh.routing import Routed, Router, Unrouted, UnroutedReason, explain
from chassis.alertmanager import Alert, AlertStatus, Webhook, fingerprint

NOW = datetime(2026, 11, 30, 9, 30, tzinfo=UTC)
NAMES = ("alertname", "team", "severity", "node")
VALUES = ("", "a", "b", "c")


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("secrets") / "token"
    file.write_text("made-up", encoding="utf-8")
    return file


def a_config(token: Path, route: Mapping[str, Any]) -> Config:
    return Config.model_validate(
        {
            "database": {"sqlite_file": "alerts2gh.db"},
            "credentials": {"main": {"token_file": str(token)}},
            "allowed_repositories": ["org/*"],
            "route": route,
        }
    )


def a_webhook(alerts: list[Alert], group: Mapping[str, str], **common: str) -> Webhook:
    return Webhook(
        version="4",
        group_key="",
        truncated_alerts=0,
        status=AlertStatus.FIRING,
        receiver="r",
        group_labels=group,
        common_labels=common,
        common_annotations={},
        external_url="",
        notification_reason=None,
        alerts=tuple(alerts),
    )


def an_alert(labels: Mapping[str, str], annotations: Mapping[str, str] | None = None) -> Alert:
    return Alert(AlertStatus.FIRING, labels, annotations or {}, NOW, None, "", fingerprint(labels))


# The reference knows only `=` and `!=` and works alert by alert on the raw mapping.


def takers(route: Mapping[str, Any], labels: Mapping[str, str], above: str) -> list[str]:
    repository = route.get("repository", above)
    found = []
    for child in route.get("routes", ()):
        name, operator, value = child["test"]
        if (labels.get(name, "") == value) is (operator == "="):
            found += takers(child, labels, repository)
            if not child["continue"]:
                break
    return found or [repository]


def names_of(labels: Mapping[str, str], by: Any, group: Mapping[str, str]) -> dict[str, str]:
    full = {name: value for name, value in labels.items() if value}
    if by == "per_alert":
        return full
    chosen = group if by == "group_labels" else {name: labels.get(name, "") for name in by}
    present = {name: value for name, value in chosen.items() if value}
    name = labels.get("alertname")
    return present or ({"alertname": name} if name else full)


def reference(
    route: Mapping[str, Any], alerts: list[Alert], by: Any, group: Mapping[str, str]
) -> dict[tuple[str, tuple[tuple[str, str], ...]], set[int]]:
    found: dict[tuple[str, tuple[tuple[str, str], ...]], set[int]] = {}
    for index, alert in enumerate(alerts):
        for template in takers(route, alert.labels, ""):
            repository = template.replace("{{ labels.team }}", alert.labels.get("team", "MISSING"))
            if template and "MISSING" not in repository and not repository.endswith("/"):
                named = tuple(sorted(names_of(alert.labels, by, group).items()))
                found.setdefault((repository, named), set()).add(index)
    return found


def as_written(route: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in route.items() if key not in {"test", "routes"}}
    if "test" in route:
        name, operator, value = route["test"]
        plain["matchers"] = f'{name}{operator}"{value}"'
    return {**plain, "routes": [as_written(child) for child in route.get("routes", ())]}


REPOSITORIES = st.sampled_from(["org/one", "org/two", "org/{{ labels.team }}"])
LABELS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES))
IDENTITIES = st.one_of(
    st.sampled_from(["group_labels", "per_alert"]),
    st.lists(st.sampled_from(NAMES), min_size=1, unique=True),
)


def a_route(children: st.SearchStrategy[list[Any]]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {
            "test": st.tuples(
                st.sampled_from(NAMES), st.sampled_from(["=", "!="]), st.sampled_from(VALUES)
            ),
            "continue": st.booleans(),
            "routes": children,
        },
        optional={"repository": REPOSITORIES},
    )


ROUTES = st.fixed_dictionaries(
    {
        "routes": st.lists(
            st.recursive(
                a_route(st.just([])),
                lambda inner: a_route(st.lists(inner, max_size=3)),
                max_leaves=6,
            ),
            max_size=4,
        )
    },
    optional={"repository": REPOSITORIES},
)


@settings(max_examples=150, deadline=None)
@given(
    route=ROUTES,
    labels=st.lists(LABELS, min_size=1, max_size=8),
    by=IDENTITIES,
    group=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES), max_size=2),
)
def test_every_alert_ends_in_exactly_the_incidents_that_the_reference_says(
    token: Path, route: dict[str, Any], labels: list[dict[str, str]], by: Any, group: dict[str, str]
) -> None:
    identity = {"by": by} if isinstance(by, str) else {"by": "labels", "labels": by}
    alerts = [an_alert(each) for each in labels]
    config = a_config(token, {**as_written(route), "identity": identity})

    found = Router(config).route(a_webhook(alerts, group), NOW, {})

    expected = reference(route, alerts, by, group)
    parts = found.parts if isinstance(found, Routed) else ()
    assert {
        (part.disposition.target.full_name, tuple(sorted(part.labels.items()))): [
            id(alert) for alert in part.alerts
        ]
        for part in parts
    } == {
        key: [id(alerts[index]) for index in sorted(indices)] for key, indices in expected.items()
    }
    assert len({part.incident_id for part in parts}) == len(parts)


ANY_TEXTS = st.dictionaries(
    st.one_of(
        st.sampled_from(["cluster", "alertname", "atg_owner", "atg_repo", "items"]), st.text()
    ),
    st.one_of(st.sampled_from(["ops", "org", "", "a,b", "{{ 1 }}", "\u2028"]), st.text()),
    max_size=4,
)


@settings(max_examples=150, deadline=None)
@given(
    alerts=st.lists(st.tuples(ANY_TEXTS, ANY_TEXTS), max_size=5),
    group=ANY_TEXTS,
    common=ANY_TEXTS,
    query=st.dictionaries(
        st.sampled_from(["owner", "repo", "labels", "x"]), st.lists(st.text(), max_size=2)
    ),
    repository=st.sampled_from(
        [
            "org/ops",
            "org/{{ labels.cluster }}",
            "org/{{ labels | length // (annotations | length) }}",
            "{{ labels.items() | list }}",
            None,
        ]
    ),
)
def test_routing_answers_for_any_webhook_and_loses_no_alert(
    token: Path,
    alerts: list[tuple[dict[str, str], dict[str, str]]],
    group: dict[str, str],
    common: dict[str, str],
    query: dict[str, list[str]],
    repository: str | None,
) -> None:
    labels = ["{{ labels.cluster }}", "{{ annotations.values() | join }}", "{{ receiver * 3 }}"]
    router = Router(a_config(token, {"repository": repository, "issue_labels": labels}))

    found = router.route(
        a_webhook([an_alert(*each) for each in alerts], group, **common), NOW, query
    )

    if isinstance(found, Unrouted):
        assert found.alerts == len(alerts)
        assert (found.reason is UnroutedReason.NO_ALERTS) is (not alerts)
        return
    placed = sum(len(part.alerts) for part in found.parts)
    assert placed + sum(each.alerts for each in found.refused) == len(alerts)
    assert len(explain(found)) == len(found.parts)
    for part in found.parts:
        assert part.disposition.target.owner.lower() == "org"
        assert part.disposition.issue_labels[0] == "alerts2gh"
        assert all(0 < len(label) <= 50 for label in part.disposition.issue_labels)


def test_a_group_of_a_thousand_alerts_is_routed_in_milliseconds(token: Path) -> None:
    """The target is 3 ms on average hardware; a shared machine gets five times that.

    Processor time and the best of several tries, since other tests run at the same time.
    """
    routes = [{"matchers": f'team="t{index}"', "repository": "org/x"} for index in range(20)]
    route = {
        "repository": "org/{{ labels.cluster }}-ops",
        "issue_labels": ["severity/{{ labels.severity }}"],
        "routes": routes,
    }
    router = Router(a_config(token, route))
    alerts = [
        an_alert({"alertname": "Xid", "node": f"n{index}", "cluster": "c", "severity": "critical"})
        for index in range(1000)
    ]
    webhook = a_webhook(alerts, {"alertname": "Xid"})

    seconds = []
    for _ in range(15):
        start = process_time()
        router.route(webhook, NOW, {})
        seconds.append(process_time() - start)

    assert min(seconds) < 0.015
