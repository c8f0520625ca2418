"""From what the API told to what has changed. Pure.

Of each object only what the caller keeps is held, with the uid and resourceVersion that tell
whether another copy is news. Versions are compared for equality only, as the API promises no more
for all servers that we meet.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")


class ChangeKind(StrEnum):
    """What became of an object, from the cache's point of view."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One object's change: `old` is None when it was added, `new` when it was deleted.

    `key` is `namespace/name`, or the name alone where there are no namespaces.
    """

    kind: ChangeKind
    key: str
    old: T | None
    new: T | None


class Entry(NamedTuple, Generic[T]):
    """What is held of an object."""

    value: T
    uid: str
    version: str


def key_of(thing: Mapping[str, Any]) -> str:
    """`namespace/name` or `name`.

    Raises:
        KeyError: It has no name, so it is no object of Kubernetes.
    """
    metadata = thing["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def entry_of(thing: dict[str, Any], keep: Callable[[dict[str, Any]], T]) -> Entry[T]:
    """The entry of an object as the API gave it."""
    metadata = thing["metadata"]
    return Entry(keep(thing), metadata.get("uid", ""), metadata.get("resourceVersion", ""))


def fold_seen(key: str, old: Entry[T] | None, new: Entry[T]) -> Iterator[Change[T]]:
    """The changes when an object was seen; none when this very version is held already.

    An object that was deleted and made again under its name while nobody looked is two changes.
    """
    if old is None:
        yield Change(ChangeKind.ADDED, key, None, new.value)
    elif old.uid != new.uid:
        yield Change(ChangeKind.DELETED, key, old.value, None)
        yield Change(ChangeKind.ADDED, key, None, new.value)
    elif old.version != new.version:
        yield Change(ChangeKind.MODIFIED, key, old.value, new.value)


def fold_relist(
    held: Mapping[str, Entry[T]], fresh: Mapping[str, Entry[T]], *, same_history: bool
) -> Iterator[Change[T]]:
    """The changes between what is held and a complete new list: first what vanished.

    Args:
        held: The entries so far; not changed here.
        fresh: All objects that there are now.
        same_history: False after the server lost writes (a restored backup): then an equal
            version is no proof of an equal object, and everything counts as modified.
    """
    for key, old in held.items():
        if key not in fresh:
            yield Change(ChangeKind.DELETED, key, old.value, None)
    for key, new in fresh.items():
        known = held.get(key)
        if known is not None and not same_history:
            known = known._replace(version="")
        yield from fold_seen(key, known, new)


def history_went_back(before: str | None, now: str) -> bool:
    """Whether a list is older than what was seen before, so that the server lost writes."""
    try:
        return before is not None and int(now) < int(before)
    except ValueError:  # a server whose versions are no numbers
        return False
