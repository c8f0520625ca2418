"""What is particular to alerts2gh's Prometheus rules."""

from collections.abc import Mapping
from typing import cast

import pytest
from flask import Flask
from prometheus_client import CollectorRegistry

from alerts2gh.incident import OWN_ALERTNAMES
from alerts2gh.reconciliation import SightReason
from alerts2gh.store.incident_rows import IncidentState
from alerts2gh.webhook import Intake, install_webhook
from chassis.telemetry import get_logger
from chassis.webapp import create_app
from tests.deploy.promql_words import words
from tests.deploy.rule_files import ALERTS2GH

SHARED_BY_REPLICAS = {"alerts2gh_stored", "alerts2gh_github_blocked_seconds"}


def handlers() -> set[str]:
    """The patterns that alerts2gh's paths have in its metrics."""
    app: Flask = create_app(
        "alerts2gh",
        registry=CollectorRegistry(),
        log=get_logger("test"),
        max_body_bytes=1,
        auth=None,
    )
    install_webhook(app, cast("Intake", None), 1)  # no request is made
    return {rule.rule for rule in app.url_map.iter_rules()}


def test_the_values_that_rules_look_for_exist() -> None:
    known: Mapping[str, set[str]] = {
        "kind": {*IncidentState, "backlog", "dead_letters"},
        "sight": set(SightReason),
        "handler": handlers(),
        "reason": {"accepted"},
    }

    assert ALERTS2GH.unknown_values(known) == set()
    assert {label for _, label, _ in ALERTS2GH.matchers()} == {*known, "code", "status"}


@pytest.mark.parametrize("alert", ALERTS2GH.rules)
def test_what_all_replicas_tell_alike_is_told_once(alert: str) -> None:
    expr = ALERTS2GH.rules[alert]["expr"]
    shared = words(expr).metrics & SHARED_BY_REPLICAS

    assert not shared or expr.startswith("max without (instance, pod) ")


def test_the_names_are_not_those_of_alerts2ghs_own_incidents() -> None:
    assert set(ALERTS2GH.rules) & OWN_ALERTNAMES == set()
