"""Ends a world's alerts2gh at a chosen point: before or after a write to GitHub, before or after a commit."""

from collections.abc import Callable
from typing import Any

WRITES = (
    "create_issue",
    "edit_issue",
    "add_comment",
    "add_assignees",
    "add_labels",
    "remove_label",
)
COMMITS = ("save", "save_budget", "bury")


class CrashError(Exception):
    """The process would be dead now."""


class CrashPoints:
    """Counts the points that the world passes; at one it raises CrashError, once."""

    def __init__(self) -> None:
        self.count = 0
        self._number: int | None = None
        self._name: str | None = None

    def crash_at(self, number: int) -> None:
        """At the `number`-th point from now, counted from 1."""
        self._number = self.count + number

    def crash_on(self, name: str) -> None:
        """At the next point called `name`: "before create_issue", "after save", …"""
        self._name = name

    @property
    def armed(self) -> bool:
        return self._number is not None or self._name is not None

    def disarm(self) -> None:
        self._number = self._name = None

    def pass_by(self, name: str) -> None:
        self.count += 1
        if self.count == self._number or name == self._name:
            self.disarm()
            raise CrashError(name)

    def tracker(self, tracker: Any) -> Any:
        return _Watched(tracker, WRITES, self.pass_by)

    def store(self, store: Any) -> Any:
        return _Watched(store, COMMITS, self.pass_by)


class _Watched:
    """Everything as in `inner`, with a point before and after each of `names`."""

    def __init__(self, inner: Any, names: tuple[str, ...], pass_by: Callable[[str], None]) -> None:
        self._inner = inner
        self._names = names
        self._pass_by = pass_by

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name not in self._names:
            return method

        def watched(*args: Any, **kwargs: Any) -> Any:
            self._pass_by(f"before {name}")
            result = method(*args, **kwargs)
            self._pass_by(f"after {name}")
            return result

        return watched
