"""The body of a webhook becomes frozen data, or is refused with what to do."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from chassis.alertmanager import (
    AlertStatus,
    Webhook,
    WebhookError,
    WebhookProblem,
    fingerprint,
    parse_webhook,
)

PAYLOADS = Path(__file__).parents[1] / "payloads"
RECORDED = sorted(PAYLOADS.glob("*.json"))


def an_alert(**changes: Any) -> dict[str, Any]:
    return {
        "status": "firing",
        "labels": {"alertname": "A", "node": "gpu-1"},
        "annotations": {"summary": "s"},
        "startsAt": "2026-11-30T09:22:46.715Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus/graph",
        "fingerprint": "586d088728731196",
    } | changes


def a_webhook(**changes: Any) -> dict[str, Any]:
    return {
        "version": "4",
        "groupKey": "{}:{}",
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "team",
        "groupLabels": {},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager",
        "alerts": [an_alert()],
    } | changes


def parsed(**changes: Any) -> Webhook:
    return parse_webhook(json.dumps(a_webhook(**changes)).encode())


def problem_of(body: bytes) -> WebhookProblem:
    with pytest.raises(WebhookError) as caught:
        parse_webhook(body)
    return caught.value.problem


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_what_a_real_alertmanager_sent_is_read_whole(path: Path) -> None:
    raw = json.loads(path.read_bytes())

    webhook = parse_webhook(path.read_bytes())

    assert [dict(alert.labels) for alert in webhook.alerts] == [a["labels"] for a in raw["alerts"]]
    assert [str(alert.status) for alert in webhook.alerts] == [a["status"] for a in raw["alerts"]]
    assert webhook.common_labels == raw["commonLabels"]
    assert webhook.group_key == raw["groupKey"]
    assert webhook.truncated_alerts == raw["truncatedAlerts"]


def test_a_resolved_alert_has_an_end_and_a_firing_one_has_none() -> None:
    resolved = parse_webhook((PAYLOADS / "resolved.json").read_bytes()).alerts[0]
    firing = parse_webhook((PAYLOADS / "firing.json").read_bytes()).alerts[0]

    assert resolved.ends_at == datetime(2026, 11, 30, 9, 23, 0, 715_000, tzinfo=UTC)
    assert firing.ends_at is None


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_the_fingerprint_is_the_one_that_alertmanager_computes(path: Path) -> None:
    for alert in parse_webhook(path.read_bytes()).alerts:
        assert fingerprint(alert.labels) == alert.fingerprint


def test_no_labels_have_the_offset_of_the_hash_as_fingerprint() -> None:
    assert fingerprint({}) == "cbf29ce484222325"


def test_the_order_of_labels_does_not_change_the_fingerprint() -> None:
    assert fingerprint({"a": "1", "b": "2"}) == fingerprint({"b": "2", "a": "1"})
    assert fingerprint({"a": "1b", "c": ""}) != fingerprint({"a": "1", "bc": ""})


@pytest.mark.parametrize("given", [None, "", "xyz", "586D088728731196", "0" * 500])
def test_a_missing_or_strange_fingerprint_is_computed_from_the_labels(given: str | None) -> None:
    alert = parsed(alerts=[an_alert(fingerprint=given)]).alerts[0]

    assert alert.fingerprint == fingerprint({"alertname": "A", "node": "gpu-1"})


@pytest.mark.parametrize(
    ("text", "microsecond", "hour"),
    [
        pytest.param("2026-11-30T09:22:46Z", 0, 9, id="whole seconds"),
        pytest.param("2026-11-30T09:22:46.7Z", 700_000, 9, id="tenths"),
        pytest.param("2026-11-30T09:22:46.123456789Z", 123_456, 9, id="nanoseconds are cut"),
        pytest.param("2026-11-30T09:22:46.999999999Z", 999_999, 9, id="nothing is rounded up"),
        pytest.param("2026-11-30T09:22:46.5+09:00", 500_000, 0, id="east of UTC"),
        pytest.param("2026-11-30T09:22:46.5-03:30", 500_000, 12, id="west of UTC, half hours"),
    ],
)
def test_a_time_is_utc_with_microseconds(text: str, microsecond: int, hour: int) -> None:
    start = parsed(alerts=[an_alert(startsAt=text)]).alerts[0].starts_at

    assert (start.tzinfo, start.microsecond, start.hour) == (UTC, microsecond, hour)


@pytest.mark.parametrize(
    "text",
    [
        "yesterday",
        "2026-11-30",
        "2026-11-30T09:22:46",
        "2026-13-30T09:22:46Z",
        "2026-11-30T09:22:60Z",
        "9999-12-31T23:59:59-23:59",
        "2026-W48-1T00:00:00Z",
        "٢026-11-30T09:22:46Z",
        "0001-01-01T00:00:00Z",
        1_764_494_566,
    ],
)
def test_a_start_that_is_no_time_is_refused(text: str | int) -> None:
    body = json.dumps(a_webhook(alerts=[an_alert(), an_alert(startsAt=text)])).encode()

    with pytest.raises(WebhookError, match=r"alerts\[1\]\.startsAt") as caught:
        parse_webhook(body)
    assert caught.value.problem is WebhookProblem.BAD_FIELD


@pytest.mark.parametrize("end", [None, "", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00.5+14:00"])
def test_the_year_one_is_no_end(end: str | None) -> None:
    assert parsed(alerts=[an_alert(endsAt=end)]).alerts[0].ends_at is None


@pytest.mark.parametrize(
    ("quoted", "name"),
    [
        (r"team\.a", "team.a"),
        (r"a\+b\(c\)\[d\]\{e\}\^\$\|\?\*", "a+b(c)[d]{e}^$|?*"),
        (r"back\\slash", r"back\slash"),
        ("plain-name_1", "plain-name_1"),
        (r"not\quoted", r"not\quoted"),
    ],
)
def test_the_receiver_loses_the_quoting_for_regular_expressions(quoted: str, name: str) -> None:
    assert parsed(receiver=quoted).receiver == name


def test_unknown_fields_are_ignored() -> None:
    webhook = parsed(routeLabels={"x": 1}, future=[], alerts=[an_alert(silencedBy=["s"])])

    assert webhook.alerts[0].labels["node"] == "gpu-1"


def test_what_is_optional_may_be_missing() -> None:
    alert = {"status": "firing", "labels": {"a": "b"}, "startsAt": "2026-11-30T09:22:46Z"}
    body = json.dumps({"version": "4", "status": "firing", "alerts": [alert]}).encode()

    webhook = parse_webhook(body)

    assert (webhook.group_key, webhook.receiver, webhook.truncated_alerts) == ("", "", 0)
    assert (webhook.group_labels, webhook.notification_reason) == ({}, None)
    assert webhook.alerts[0].annotations == {}
    assert webhook.alerts[0].fingerprint == fingerprint({"a": "b"})


def test_null_is_empty_as_go_writes_it() -> None:
    webhook = parsed(groupLabels=None, commonAnnotations=None, alerts=None)

    assert (webhook.group_labels, webhook.common_annotations, webhook.alerts) == ({}, {}, ())


def test_the_reason_of_the_notification_is_kept_and_a_strange_one_ignored() -> None:
    assert parsed(notification_reason="repeat interval elapsed").notification_reason == (
        "repeat interval elapsed"
    )
    assert parsed(notification_reason={"new": 1}).notification_reason is None


def test_the_same_fingerprint_twice_stays_twice() -> None:
    firing, resolved = an_alert(), an_alert(status="resolved")

    statuses = [alert.status for alert in parsed(alerts=[firing, resolved]).alerts]

    assert statuses == [AlertStatus.FIRING, AlertStatus.RESOLVED]


@pytest.mark.parametrize(
    ("given", "kept"),
    [(0, 0), (90, 90), (2**31 - 1, 2**31 - 1), (2**64 - 1, 2**31 - 1), (10**30, 2**31 - 1)],
)
def test_a_huge_count_of_truncated_alerts_fits_a_database(given: int, kept: int) -> None:
    assert parsed(truncatedAlerts=given).truncated_alerts == kept


@pytest.mark.parametrize(
    "change",
    [
        {"truncatedAlerts": -1},
        {"truncatedAlerts": 1.5},
        {"truncatedAlerts": True},
        {"truncatedAlerts": "1"},
        {"status": "pending"},
        {"status": None},
        {"receiver": ["team"]},
        {"groupLabels": []},
        {"commonLabels": {"a": 1}},
        {"alerts": {}},
        {"alerts": ["x"]},
        {"alerts": [an_alert(labels={"a": None})]},
        {"alerts": [an_alert(annotations="x")]},
        {"alerts": [an_alert(status="unknown")]},
        {"alerts": [an_alert(startsAt=None)]},
        {"alerts": [an_alert(fingerprint=1)]},
        {"alerts": [an_alert(generatorURL=1)]},
    ],
    ids=str,
)
def test_a_field_of_another_type_is_refused(change: dict[str, Any]) -> None:
    body = json.dumps(a_webhook(**change)).encode()

    assert problem_of(body) is WebhookProblem.BAD_FIELD


@pytest.mark.parametrize("version", ["3", "5", "1", "", 4, None])
def test_another_version_is_refused_by_name(version: str | int | None) -> None:
    with pytest.raises(WebhookError, match='is not "4"; send from a Prometheus') as caught:
        parsed(version=version)
    assert caught.value.problem is WebhookProblem.WRONG_VERSION


@pytest.mark.parametrize(
    "value", [{}, {"text": "hi"}, {"version": "4"}, {"alerts": []}, [], [an_alert()], "x", 1, None]
)
def test_json_that_is_no_webhook_says_what_to_do(value: Any) -> None:
    with pytest.raises(WebhookError, match="Remove `payload` from the webhook_configs") as caught:
        parse_webhook(json.dumps(value).encode())
    assert caught.value.problem is WebhookProblem.CUSTOM_PAYLOAD


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"  \n", id="white space"),
        pytest.param(b"alerts=1", id="a form"),
        pytest.param(b'{"version": "4"', id="cut off"),
        pytest.param(b"\xff\xfe{\x00}\x00", id="UTF-16"),
        pytest.param(b'{"version": "\xed\xa0\x80"}', id="a surrogate in the bytes"),
        pytest.param(b'{"a": NaN}', id="NaN"),
        pytest.param(b'{"a": NaN, "b": "\\ud800"}', id="NaN beside a lone surrogate"),
        pytest.param(b'{"a": Infinity}', id="infinity"),
        pytest.param(b"[" * 100_000, id="deep nesting"),
        pytest.param(b"[" * 100_000 + b'"\\ud800"', id="deep nesting and a lone surrogate"),
        pytest.param(
            b"[" * 5_000 + b'"\\ud800"' + b"]" * 5_000, id="deep and whole, with a surrogate"
        ),
        pytest.param(b'"\\ud800\xff"', id="broken bytes beside a lone surrogate"),
        pytest.param(b'{"a": "\x01"}', id="a raw control character"),
    ],
)
def test_what_is_no_json_is_refused(body: bytes) -> None:
    assert problem_of(body) is WebhookProblem.BAD_JSON


@pytest.mark.parametrize(
    ("escaped", "kept"),
    [
        pytest.param(r"a\ud800b", "a\ufffdb", id="a lone high surrogate"),
        pytest.param(r"a\uDFFFb", "a\ufffdb", id="a lone low surrogate"),
        pytest.param(r"\udc00\ud800", "\ufffd\ufffd", id="a pair in the wrong order"),
        pytest.param(r"\ud83d\ude00", "\U0001f600", id="a true pair"),
        pytest.param(r"a\u0000b", "a\ufffdb", id="NUL"),
        pytest.param(r"a\\ud800", "a\\ud800", id="a backslash and the text ud800"),
        pytest.param(r"a\\u0000", "a\\u0000", id="a backslash and the text u0000"),
        pytest.param(r"a\u2028b", "a\u2028b", id="a line separator"),
        pytest.param(r"a\u001b[31m", "a\x1b[31m", id="a control character"),
        pytest.param(r"\u202eabc", "\u202eabc", id="a right-to-left override"),
    ],
)
def test_each_text_can_be_stored_and_encoded(escaped: str, kept: str) -> None:
    body = json.dumps(a_webhook(alerts=[an_alert(annotations={"x": "HERE"})]))

    text = parse_webhook(body.replace("HERE", escaped).encode()).alerts[0].annotations["x"]

    assert text == kept
    assert text.encode().decode() == kept


def test_a_name_of_a_label_is_mended_like_a_value() -> None:
    body = json.dumps(a_webhook(commonLabels={"NAME": "x"})).replace("NAME", r"\ud800")

    assert parse_webhook(body.encode()).common_labels == {"\ufffd": "x"}


def test_labels_of_300_characters_and_large_groups_are_taken() -> None:
    labels = {"l" * 300: "ü" * 300}

    webhook = parsed(alerts=[an_alert(labels=labels)] * 500)

    assert len(webhook.alerts) == 500
    assert webhook.alerts[499].labels == labels


def test_of_a_key_given_twice_the_last_counts_on_both_ways_of_reading() -> None:
    plain = json.dumps(a_webhook()).replace('"receiver": "team"', '"receiver": "a", "receiver":"b"')
    mended = plain.replace('"summary": "s"', r'"summary": "\ud800"')

    assert [parse_webhook(each.encode()).receiver for each in (plain, mended)] == ["b", "b"]


def test_an_error_does_not_repeat_a_whole_body() -> None:
    checks: list[Callable[[], Webhook]] = [
        lambda: parsed(version="x" * 10_000),
        lambda: parsed(alerts=[an_alert(startsAt="x" * 10_000)]),
        lambda: parse_webhook(b"x" * 10_000),
    ]
    for check in checks:
        with pytest.raises(WebhookError) as caught:
            check()
        assert len(str(caught.value)) < 300
