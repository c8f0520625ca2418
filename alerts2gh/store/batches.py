"""Cuts long lists for statements: databases limit how many values one statement may name."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

_SIZE = 500


def in_batches(values: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(values)
    while batch := list(islice(rest, _SIZE)):
        yield batch
