"""A part of a delivery as JSON, made to be quick: a webhook's answer waits for it, and a group may hold a thousand alerts.

Each alert is a list in a fixed order. New fields go to the end; a reader skips what it does not know. A large part is
compressed: that takes less time than to make it durable as it is, and other threads go on meanwhile.
"""

import hashlib
import zlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from alerts2gh.incident import DeliveryPart
from alerts2gh.store.codec import decode_raw, encode, from_json, reading
from chassis.alertmanager import Alert, AlertStatus

_STATUS = {status.value: status for status in AlertStatus}


_LARGE = 32 * 1024
_FAST = 1  # zlib's level; higher ones hardly make it smaller
_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """A part as it is stored, and the digest that it shares with all that differ in `received_at` only."""

    body: bytes
    digest: str


def encode_part(part: DeliveryPart) -> EncodedPart:
    content = _content(part)
    digest = hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()
    body = b'%b,"received_at":"%b","digest":"%b"}' % (
        content[:-1],
        part.received_at.isoformat().encode(),
        digest.encode(),
    )
    return EncodedPart(zlib.compress(body, _FAST) if len(body) > _LARGE else body, digest)


def _content(part: DeliveryPart) -> bytes:
    return encode(
        {
            "part": replace(part, alerts=(), received_at=_NO_TIME, digest=""),
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
        raw = from_json(body if body.startswith(b"{") else _expanded(body))
        part = decode_raw(DeliveryPart, raw["part"])
        return replace(
            part,
            alerts=tuple([_alert(each) for each in raw["alerts"]]),
            received_at=datetime.fromisoformat(raw["received_at"]),
            digest=raw["digest"],
        )


def _expanded(body: bytes) -> bytes:
    try:
        return zlib.decompress(body)
    except zlib.error as error:
        raise ValueError(str(error)) from error


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
