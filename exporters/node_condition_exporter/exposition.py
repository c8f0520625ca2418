"""What a scrape gets: the cached bytes of all nodes, family by family, and how well they are known.

Renders only what changes by time alone. Must not know where the nodes come from.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from exporters.node_condition_lines import (
    HEADERS,
    ORDER,
    Family,
    LinesPolicy,
    NodeLines,
    Oddity,
    StaleLines,
    stale_lines,
)

Nodes = Mapping[str, NodeLines | None]
"""The nodes by name; None for one that another shard serves."""

COUNT_METRIC = "nodemend_nodes"
ODDITIES_METRIC = "nodemend_node_condition_oddities"


@dataclass(frozen=True, slots=True)
class _Judged:
    lines: NodeLines
    stale: StaleLines


class Exposition:
    """The text of all nodes at the moment of a scrape.

    Args:
        nodes: The nodes as they are now, or None while they are not known; then no node has a series.
        policy: How they were rendered.
    """

    def __init__(self, nodes: Callable[[], Nodes | None], policy: LinesPolicy) -> None:
        self._nodes = nodes
        self._families = tuple(each for each in ORDER if each in policy.families)
        self._stale_after = policy.stale_after
        self._judged: dict[str, _Judged] = {}
        self._last: float = 0

    def pieces(self, now: datetime) -> Iterable[bytes]:
        """The exposition in pieces, in their order; `now` decides what is stale."""
        found = self._nodes()
        ours = {name: lines for name, lines in (found or {}).items() if lines is not None}
        stale = self._stale(ours, now) if Family.STALE in self._families else []
        pieces: list[bytes] = []
        for family in self._families:
            pieces.append(HEADERS[family])
            if family is Family.STALE:
                pieces += stale
            else:
                place = ORDER.index(family)
                pieces += [lines.chunks[place] for lines in ours.values()]
        return [*pieces, _own_lines(ours.values()) if found is not None else b""]

    def _stale(self, nodes: Mapping[str, NodeLines], now: datetime) -> list[bytes]:
        """Judges again only what was rendered anew or has come to its time; all of it when the clock went back."""
        at = now.timestamp()
        before = self._judged if at >= self._last else {}
        judged: dict[str, _Judged] = {}
        for name, lines in nodes.items():
            known = before.get(name)
            if known is None or known.lines is not lines or at >= known.stale.until:
                known = _Judged(lines, stale_lines(lines.freshness, self._stale_after, now))
            judged[name] = known
        self._judged, self._last = judged, at
        return [each.stale.chunk for each in judged.values()]


def _own_lines(nodes: Collection[NodeLines]) -> bytes:
    found = Counter(oddity for lines in nodes for oddity in lines.oddities)
    oddities = "".join(f'{ODDITIES_METRIC}{{oddity="{each}"}} {found[each]}\n' for each in Oddity)
    return (
        f"# HELP {COUNT_METRIC} Nodes that this process serves.\n# TYPE {COUNT_METRIC} gauge\n"
        f"{COUNT_METRIC} {len(nodes)}\n"
        f"# HELP {ODDITIES_METRIC} What Node objects hold now that cannot be shown as it is.\n"
        f"# TYPE {ODDITIES_METRIC} gauge\n{oddities}"
    ).encode()
