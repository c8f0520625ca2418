"""The write budgets of all credentials: asked before each request, spent before each write, taught by the answers.

What was written and until when GitHub wants silence is kept in the store and read from there each time: a restart
must not forget it, and another replica may write with the same credential.
"""

import threading
from datetime import datetime

from alerts2gh.config import WriteLimits
from alerts2gh.incident import IntentAction
from alerts2gh.ports import Answer, BudgetState, Store
from alerts2gh.write_budget import (
    Permission,
    after_answer,
    after_write,
    may_read,
    may_write,
    settle,
)


class Budgets:
    """One lock for all credentials: the arithmetic is short, the calls to GitHub happen outside it."""

    def __init__(self, store: Store, limits: WriteLimits) -> None:
        self._store = store
        self._limits = limits
        self._lock = threading.Lock()

    def use(self, limits: WriteLimits) -> None:
        """Take new limits after a reload."""
        self._limits = limits

    def ask(self, credential: str, kind: IntentAction | None, now: datetime) -> Permission:
        """Whether a write of this kind may go now, or, with None, a read; it costs nothing."""
        state = settle(self.state(credential), now)
        if kind is None:
            return may_read(state, now)
        return may_write(state, self._limits, kind, _at_least_now(state, now))

    def spend(self, credential: str, kind: IntentAction, now: datetime) -> Permission:
        """Take a write from the budget, durably, or say when to ask again."""
        with self._lock:
            state = settle(self._store.load_budget(credential), now)
            now = _at_least_now(state, now)
            permission = may_write(state, self._limits, kind, now)
            if permission.allowed:
                self._store.save_budget(credential, after_write(state, kind, now))
            return permission

    def learn(self, credential: str, answer: Answer[object], now: datetime) -> None:
        """Note what an answer says about limits; it is written down only when something changed."""
        with self._lock:
            before = self._store.load_budget(credential)
            after = after_answer(before, answer, now)
            if after != before:
                self._store.save_budget(credential, after)

    def state(self, credential: str) -> BudgetState:
        """What is stored, for pages and metrics."""
        return self._store.load_budget(credential)


def _at_least_now(state: BudgetState, now: datetime) -> datetime:
    """`now` is from when a look began; a write that another thread has made since tells that it is later."""
    return max([now, *state.writes[-1:]])
