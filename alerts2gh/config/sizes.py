"""How many entries a list or mapping may have, told once and only if the entries are right."""

from collections.abc import Callable, Sized
from typing import TypeVar

from pydantic import AfterValidator

S = TypeVar("S", bound=Sized)


def entries(at_least: int = 0, at_most: int | None = None) -> AfterValidator:
    """A check of the number of entries.

    pydantic's own min_length counts the entries that passed, so that one wrong entry would be told
    a second time as an empty list.
    """
    return AfterValidator(_checker(at_least, at_most))


def _checker(at_least: int, at_most: int | None) -> Callable[[S], S]:
    def check(value: S) -> S:
        if len(value) < at_least:
            raise ValueError(f"give at least {at_least} entr{'y' if at_least == 1 else 'ies'}")
        if at_most is not None and len(value) > at_most:
            raise ValueError(f"give at most {at_most} entries, not {len(value)}")
        return value

    return check
