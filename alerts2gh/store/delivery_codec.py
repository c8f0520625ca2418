"""A part of a delivery as JSON, made to be quick: a webhook's answer waits for it, and a group may hold a thousand alerts.

Each alert is a list in a fixed order. New fields go to the end; a reader skips what it does not know.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from alerts2gh.incident import DeliveryPart
from alerts2gh.store.codec import decode_raw, encode, from_json, reading
from chassis.alertmanager import Alert, AlertStatus

_STATUS = {status.value: status for status in AlertStatus}


def encode_part(part: DeliveryPart) -> bytes:
    return encode(
        {
            "part": replace(part, alerts=()),
            "alerts": [
                [
                    each.status.value,
                    each.starts_at,
                    each.ends_at,
                    each.fingerprint,
                    each.labels,
                    each.annotations,
                    each.generator_url,
                ]
                for each in part.alerts
            ],
        }
    )


def decode_part(body: bytes) -> DeliveryPart:
    """Read what `encode_part` wrote.

    Raises:
        PermanentError: It is something else.
    """
    with reading(DeliveryPart):
        raw = from_json(body)
        part = decode_raw(DeliveryPart, raw["part"])
        return replace(part, alerts=tuple([_alert(each) for each in raw["alerts"]]))


def _alert(raw: list[Any]) -> Alert:
    status, starts_at, ends_at, fingerprint, labels, annotations, generator_url = raw[:7]
    return Alert(
        _STATUS[status],
        labels,
        annotations,
        datetime.fromisoformat(starts_at),
        None if ends_at is None else datetime.fromisoformat(ends_at),
        generator_url,
        fingerprint,
    )
