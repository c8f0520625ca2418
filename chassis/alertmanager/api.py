"""Reads the answers of Alertmanager's API version 2.

Pure; asking is the business of `chassis.monitoring`. Source of the format: Alertmanager's
`api/v2/openapi.yaml`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from chassis.alertmanager.alerts import Alert, AlertStatus, FieldError, alert_from, moment
from chassis.alertmanager.json_text import read_json


def parse_api_alerts(body: bytes) -> tuple[Alert, ...]:
    """The alerts in an answer of GET /api/v2/alerts.

    All have the status firing: Alertmanager lists no alert whose end has passed. Whether one is
    silenced or inhibited is not told, as neither resolves it.

    Raises:
        FieldError: The answer is something else.
    """
    try:
        raw = read_json(body)
    except ValueError as error:
        raise FieldError(f"the answer is no JSON: {error}") from error
    if not isinstance(raw, list):
        raise FieldError("the answer is no list of alerts")
    return tuple(
        alert_from(each, f"[{index}]", AlertStatus.FIRING) for index, each in enumerate(raw)
    )


def parse_api_start(body: bytes) -> datetime:
    """When the Alertmanager started, from an answer of GET /api/v2/status; UTC.

    Raises:
        FieldError: The answer is something else.
    """
    try:
        raw = read_json(body)
    except ValueError as error:
        raise FieldError(f"the answer is no JSON: {error}") from error
    started = moment("uptime", raw.get("uptime") if isinstance(raw, dict) else None)
    if started is None:
        raise FieldError("uptime is missing")
    return started


def parse_api_silencers(body: bytes) -> Mapping[str, tuple[str, ...]]:
    """By fingerprint, the ids of the silences that hold an alert, from GET /api/v2/alerts.

    Raises:
        FieldError: The answer is something else.
    """
    found: dict[str, tuple[str, ...]] = {}
    for each in _objects(body):
        status = each.get("status")
        ids = status.get("silencedBy") if isinstance(status, dict) else None
        if isinstance(ids, list) and ids:
            found[str(each.get("fingerprint"))] = tuple(str(one) for one in ids)
    return found


def parse_api_silences(body: bytes) -> Mapping[str, str]:
    """By id, who made a silence and why, from GET /api/v2/silences.

    Raises:
        FieldError: The answer is something else.
    """
    return {
        str(each.get("id")): f"by {each.get('createdBy')}: {each.get('comment')}"
        for each in _objects(body)
    }


def _objects(body: bytes) -> list[dict[str, Any]]:
    try:
        raw = read_json(body)
    except ValueError as error:
        raise FieldError(f"the answer is no JSON: {error}") from error
    if not isinstance(raw, list) or not all(isinstance(each, dict) for each in raw):
        raise FieldError("the answer is no list of objects")
    return raw
