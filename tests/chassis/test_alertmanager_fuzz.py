"""Whatever arrives, the answer is a webhook that can be kept or a WebhookError."""

import json
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from chassis.alertmanager import (
    Webhook,
    WebhookError,
    fingerprint,
    parse_api_alerts,
    parse_webhook,
)
from chassis.alertmanager.alerts import FieldError

RECORDED = (Path(__file__).parents[1] / "payloads" / "grouped-3.json").read_bytes()

scalars = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**70), max_value=2**70)
    | st.floats()
    | st.text(st.characters(codec=None), max_size=20)
    | st.sampled_from(["4", "firing", "resolved", "0001-01-01T00:00:00Z", "2026-11-30T09:22:46Z"])
)
keys = st.sampled_from(
    ["version", "status", "alerts", "labels", "startsAt", "endsAt", "truncatedAlerts", "receiver"]
) | st.text(st.characters(codec=None), max_size=5)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5)
)
alerts = st.fixed_dictionaries(
    {"status": st.sampled_from(["firing", "resolved"]), "startsAt": scalars, "labels": anything}
)
webhooks = st.fixed_dictionaries(
    {"version": st.just("4"), "status": st.just("firing"), "alerts": st.lists(alerts, max_size=3)},
    optional={"receiver": scalars, "truncatedAlerts": scalars, "commonLabels": anything},
)


def outcome(body: bytes) -> Webhook | None:
    try:
        return parse_webhook(body)
    except WebhookError as error:
        str(error).encode()  # the answer to the sender can be written
        return None


def assert_can_be_kept(webhook: Webhook) -> None:
    texts = [webhook.group_key, webhook.receiver, *webhook.common_labels.values()]
    for alert in webhook.alerts:
        texts += [*alert.labels, *alert.labels.values(), *alert.annotations.values()]
        assert alert.starts_at.utcoffset() is not None
        assert len(alert.fingerprint) == 16
    for text in texts:
        assert "\x00" not in text
        text.encode()
    assert 0 <= webhook.truncated_alerts < 2**31


@given(st.binary(max_size=200))
@example(b'"\\u')
@example(b"\\ud800")
def test_any_bytes_are_a_webhook_or_an_error(body: bytes) -> None:
    outcome(body)


@given(anything | webhooks)
def test_any_json_is_a_webhook_or_an_error(value: Any) -> None:
    webhook = outcome(json.dumps(value).encode())

    if webhook is not None:
        assert_can_be_kept(webhook)


@given(
    st.integers(min_value=0, max_value=len(RECORDED) - 1),
    st.integers(min_value=0, max_value=30),
    st.binary(max_size=10),
)
def test_a_damaged_recording_is_a_webhook_or_an_error(at: int, cut: int, put: bytes) -> None:
    webhook = outcome(RECORDED[:at] + put + RECORDED[at + cut :])

    if webhook is not None:
        assert_can_be_kept(webhook)


@given(anything | st.lists(alerts, max_size=3))
def test_any_answer_of_the_api_is_alerts_or_an_error(value: Any) -> None:
    try:
        parse_api_alerts(json.dumps(value).encode())
    except FieldError as error:
        str(error).encode()


@given(st.dictionaries(st.text(st.characters(codec=None)), st.text(st.characters(codec=None))))
def test_any_labels_have_a_fingerprint(labels: dict[str, str]) -> None:
    assert int(fingerprint(labels), 16) < 2**64
