"""The circuit breaker: too much of the fleet out at once means that the fault is not the nodes'.

Pure. Opens by itself, closes only by a person; then the present alone counts, and isolations from
before the reset do not.
"""

from collections.abc import Iterable
from datetime import datetime

from remediator.budgets import Account
from remediator.cluster import BreakerState, Fleet
from remediator.config import Breaker
from remediator.operation import NodeOperation


def breaker_after(
    fleet: Fleet,
    operations: Iterable[NodeOperation],
    settings: Breaker,
    now: datetime,
    account: Account | None = None,
) -> BreakerState | None:
    """The state to remember before anything is done in this pass; None leaves it as it is.

    `account` is that of this fleet and these operations, if somebody keeps one.
    """
    if fleet.breaker.open or not settings.enabled:
        return None
    operations = list(operations)
    account = account or Account.of(fleet, operations, ())
    if account.counted < settings.min_nodes:
        return None
    limit = settings.max_unavailable.limit(account.counted)
    since = max(now - settings.within, fleet.breaker.reset_at or now - settings.within)
    lately = {
        each.spec.node
        for each in operations
        if each.status.isolated_at is not None and each.status.isolated_at > since
    }
    affected = {name for name in lately if name in fleet.nodes} | _ours_or_down(fleet, account)
    if len(affected) <= limit:
        return None
    text = (
        f"{len(affected)} of {account.counted} nodes are isolated or not Ready, more than"
        f" {settings.max_unavailable} ({limit}); find the common cause, then `remediator resume`"
    )
    return BreakerState(open=True, since=now, text=text, reset_at=fleet.breaker.reset_at)


def _ours_or_down(fleet: Fleet, account: Account) -> set[str]:
    # A person's cordon is no fault: rolling maintenance must not open the breaker.
    return account.taken | {name for name in account.out if not fleet.nodes[name].is_ready}
