"""Accepted parts as rows of the inbox: the one statement that a sender waits for, given to the driver as it is.

SQLAlchemy's own way to it takes several times as long as the statement itself.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from alerts2gh.incident import DeliveryPart
from alerts2gh.store.columns import as_microseconds, as_storable
from alerts2gh.store.delivery_codec import encode_part


class NewPart(NamedTuple):
    """A row that has no number yet; `digest` is for telling a repeat and not stored beside the body."""

    incident_id: str
    target_key: str
    received_at: int
    body: bytes
    digest: str


def new_part(part: DeliveryPart) -> NewPart:
    encoded = encode_part(part)
    return NewPart(
        as_storable(part.incident_id),
        as_storable(part.disposition.target.key),
        as_microseconds(part.received_at),
        encoded.body,
        encoded.digest,
    )


_COLUMNS = "INSERT INTO deliveries (incident_id, target_key, received_at, body) VALUES"
_STATEMENTS = {"sqlite": f"{_COLUMNS} (?, ?, ?, ?)", "postgresql": f"{_COLUMNS} (%s, %s, %s, %s)"}


def insert_parts(connection: Connection, parts: Sequence[NewPart]) -> None:
    """Add the parts, numbered in their order."""
    connection.exec_driver_sql(_STATEMENTS[connection.dialect.name], [each[:4] for each in parts])
