"""Turns the database's exceptions into ours.

A database problem is always temporary for the sender of a webhook: it must send again, nothing is lost by it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from chassis.errors import TemporaryError

_TEXT_KEPT = 300


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise TemporaryError for what SQLAlchemy or the driver raises inside.

    Args:
        doing: What fails, for the message, such as `storing a delivery`.
    """
    try:
        yield
    except SQLAlchemyError as error:
        raise TemporaryError(f"{doing} failed: {told_by(error)}") from error


def told_by(error: SQLAlchemyError) -> str:
    """What the database itself says, in one line and without the statement's values."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    text = " ".join(str(cause).split()) or type(cause).__name__
    name = getattr(cause, "sqlite_errorname", None)
    return f"{text[:_TEXT_KEPT]} ({name})" if name else text[:_TEXT_KEPT]
