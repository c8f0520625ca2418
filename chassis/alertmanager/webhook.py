"""Reads the body of an Alertmanager webhook, version 4, into frozen data.

Source of the format: Alertmanager's documentation of `webhook_config` and its `notify/webhook`.
Pure. A body is refused only when it can never be understood: unknown fields are ignored, absent
optional ones are empty, and characters that no database takes are replaced.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

from chassis.alertmanager.alerts import (
    Alert,
    AlertStatus,
    FieldError,
    alert_from,
    ordinary_alert,
    status_from,
    text,
    texts,
)
from chassis.alertmanager.json_text import read_json
from chassis.errors import PermanentError

_VERSION = "4"
_LARGEST_COUNT = 2**31 - 1  # what every database's integer holds
_QUOTED_META = re.compile(r"\\([\\.+*?()|\[\]{}^$])")
_CUSTOM = (
    "this is JSON, but not Alertmanager's webhook of version 4: {}. Remove `payload` from the"
    " webhook_configs entry, and send from Prometheus Alertmanager itself"
)


class WebhookProblem(StrEnum):
    """Why a body was refused; a label of metrics."""

    BAD_JSON = "bad_json"
    CUSTOM_PAYLOAD = "custom_payload"
    WRONG_VERSION = "wrong_version"
    BAD_FIELD = "bad_field"


class WebhookError(PermanentError):
    """The body can never be taken; the text says what to change at the sender."""

    def __init__(self, problem: WebhookProblem, message: str) -> None:
        super().__init__(message)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Webhook:
    """One notification about one group of alerts.

    `status` and the common labels and annotations are computed by Alertmanager after it cut the
    group to `max_alerts`: with `truncated_alerts` above 0, "resolved" proves nothing. `alerts` may
    hold the same fingerprint more than once.
    """

    version: str
    group_key: str
    truncated_alerts: int
    status: AlertStatus
    receiver: str
    group_labels: Mapping[str, str]
    common_labels: Mapping[str, str]
    common_annotations: Mapping[str, str]
    external_url: str
    notification_reason: str | None
    alerts: tuple[Alert, ...]


def parse_webhook(body: bytes) -> Webhook:
    """Read a webhook body.

    NUL and lone surrogates in texts become U+FFFD, as databases and UTF-8 cannot hold them.

    Raises:
        WebhookError: With the problem as a word and what to do as its text.
    """
    raw = _json_from(body)
    if not isinstance(raw, dict):
        _refuse_shape(raw)
    _check_version(raw)
    try:
        return _webhook_from(raw)
    except FieldError as error:
        raise WebhookError(
            WebhookProblem.BAD_FIELD, f"not a webhook of Alertmanager: {error}"
        ) from error


def _webhook_from(raw: dict[str, Any]) -> Webhook:
    reason = raw.get("notification_reason")
    return Webhook(
        version=_VERSION,
        group_key=text(raw, "groupKey"),
        truncated_alerts=_count(raw, "truncatedAlerts"),
        status=status_from(raw),
        receiver=_QUOTED_META.sub(r"\1", text(raw, "receiver")),
        group_labels=texts(raw, "groupLabels"),
        common_labels=texts(raw, "commonLabels"),
        common_annotations=texts(raw, "commonAnnotations"),
        external_url=text(raw, "externalURL"),
        # New and for people only, so a strange one is no reason to lose alerts.
        notification_reason=reason if isinstance(reason, str) else None,
        alerts=_alerts(raw.get("alerts")),
    )


def _alerts(raw: Any) -> tuple[Alert, ...]:
    if raw is None:  # how Go writes an empty list
        return ()
    if type(raw) is not list:
        raise FieldError("alerts must be a list")
    return tuple(
        [
            ordinary_alert(each) or alert_from(each, f"alerts[{index}]")
            for index, each in enumerate(raw)
        ]
    )


def _count(raw: dict[str, Any], key: str) -> int:
    value = raw.get(key)
    if value is None:
        return 0
    if type(value) is float and value >= _LARGEST_COUNT:
        return _LARGEST_COUNT  # the JSON reader makes floats of integers beyond 64 bits
    if type(value) is not int or value < 0:
        raise FieldError(f"{key} must be a number of alerts")
    return min(value, _LARGEST_COUNT)


def _check_version(raw: dict[str, Any]) -> None:
    missing = [key for key in ("version", "alerts") if key not in raw]
    if missing:
        lacks = " and ".join(f"`{key}`" for key in missing)
        raise WebhookError(WebhookProblem.CUSTOM_PAYLOAD, _CUSTOM.format(f"it has no {lacks}"))
    if raw["version"] != _VERSION:
        given = raw["version"] if isinstance(raw["version"], str) else "of another type"
        raise WebhookError(
            WebhookProblem.WRONG_VERSION,
            f'webhook version {given[:20]!r} is not "4"; send from a Prometheus Alertmanager that'
            " writes version 4 (Grafana's own alerting does not)",
        )


def _refuse_shape(raw: Any) -> NoReturn:
    kinds = {list: "a list", str: "a text", type(None): "null", bool: "a boolean"}
    kind = kinds.get(type(raw), "a number")
    hint = "; Prometheus sends lists, to Alertmanager and not here" if kind == "a list" else ""
    raise WebhookError(
        WebhookProblem.CUSTOM_PAYLOAD, _CUSTOM.format(f"it is {kind}, not an object{hint}")
    )


def _json_from(body: bytes) -> Any:
    try:
        return read_json(body)
    except ValueError as error:
        what = f"the body is no JSON: {error}" if body.strip() else "the body is empty"
        raise WebhookError(
            WebhookProblem.BAD_JSON, f"{what}; expected the JSON of an Alertmanager webhook"
        ) from error
