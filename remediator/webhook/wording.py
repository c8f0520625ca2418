"""How the pages say things: times that people grasp, commands as code, what a person can do now.

Pure. Whatever came from outside is escaped.
"""

from datetime import timedelta

from markupsafe import Markup, escape

from remediator.cluster import Fleet
from remediator.config import Breaker
from remediator.operation import NodeOperation, Phase

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_UNITS = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"))


def span(time: timedelta) -> str:
    """A time in one unit, without a sign: `3 min`."""
    seconds = abs(round(time.total_seconds()))
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def coded(text: str) -> Markup:
    """A text in which what stands between backquotes is code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    marked = (
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )
    return Markup("").join(marked)


def choices(operation: NodeOperation) -> list[tuple[str, str]]:
    """What a person can do about an operation now: the command and what it does."""
    status, node = operation.status, operation.spec.node
    if not operation.active:
        return []
    found: list[tuple[str, str]] = []
    if any(held.gate == "approval" for held in status.held_by):
        found.append((f"remediator approve {operation.name}", "lets it begin"))
    if status.phase is Phase.ESCALATED and status.isolated:
        found.append((f"remediator release {node}", "proves the node and returns it"))
    does = "ends it; the node is proven first" if operation.repaired else "ends it"
    return [*found, (f"remediator cancel {operation.name}", does)]


def breaker_words(fleet: Fleet, settings: Breaker) -> str:
    """How the breaker stands, in one sentence."""
    total = sum(node.counts for node in fleet.nodes.values())
    if fleet.breaker.open:
        return "The breaker is open."
    if not settings.enabled:
        return "The breaker is switched off."
    if total < settings.min_nodes:
        return f"There is no breaker for fewer than {settings.min_nodes} nodes."
    limit = settings.max_unavailable.limit(total)
    return (
        f"The breaker is closed; it opens when more than {limit} of {total} nodes are isolated or"
        " not Ready."
    )
