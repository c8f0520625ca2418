"""Which metrics, labels and values a PromQL expression names, and which of them docs/metrics.md knows.

Only as much of PromQL as deploy/ uses; a word that it does not know counts as a metric, so nothing slips through. That
docs/metrics.md and the code agree is another test's business.
"""

import re
from dataclasses import dataclass
from pathlib import Path

METRICS = Path(__file__).parents[2] / "docs" / "metrics.md"

_CODE = re.compile(r"`([^`]+)`")
_TEXT = re.compile(r'"[^"]*"')
_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\s*\{([^{}]*)\}")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"')
_BY = re.compile(r"\bby\s*\(([^()]*)\)")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)")
_RANGE = re.compile(r"\[[^\[\]]*\]")
_NAME = re.compile(r"(?<![\w:$.])[a-zA-Z_:][\w:]*")
_PREFIXES = tuple(
    f"| `{each}_" for each in ("alerts2gh", "gpu_admission", "nodemend", "remediator")
)
_HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")
_LANGUAGE = frozenset(
    {"absent", "and", "avg", "bool", "count", "deriv", "group", "histogram_quantile", "increase"}
    | {"last_over_time", "max", "min", "min_over_time", "offset", "or", "rate", "sum"}
    | {"sum_over_time", "time", "topk", "unless", "vector", "without", "by"}
)


@dataclass(frozen=True)
class Words:
    """`matchers` are metric, label and value of each; `grouped_by` the labels after `by`."""

    metrics: frozenset[str]
    matchers: frozenset[tuple[str, str, str]]
    grouped_by: frozenset[str]


def words(expression: str) -> Words:
    matchers = {
        (metric, label, value)
        for metric, inside in _SELECTOR.findall(expression)
        for label, value in _MATCHER.findall(inside)
    }
    grouped_by = {name for inside in _BY.findall(expression) for name in _NAME.findall(inside)}
    bare = re.sub(r"\{[^{}]*\}", " ", _TEXT.sub("", expression))
    bare = _RANGE.sub(" ", _GROUPING.sub(" ", bare))
    metrics = set(_NAME.findall(bare)) - _LANGUAGE
    return Words(frozenset(metrics), frozenset(matchers), frozenset(grouped_by))


def documented() -> dict[str, frozenset[str]]:
    """The name of each metric in docs/metrics.md, with its labels; a histogram also by its parts."""
    found: dict[str, frozenset[str]] = {}
    for line in METRICS.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith(_PREFIXES):
            continue
        name, labels = _CODE.findall(cells[0])[0], frozenset(_CODE.findall(cells[1]))
        found[name] = labels
        if cells[2].startswith("Histogram"):
            found |= {name + part: labels | {"le"} for part in _HISTOGRAM_PARTS}
    return found


def mistakes(expression: str, metrics: dict[str, frozenset[str]], own: frozenset[str]) -> list[str]:
    """What an expression names that nobody exposes. `own` are labels that Prometheus adds."""
    named = words(expression)
    known = frozenset[str]().union(*(metrics.get(name, frozenset()) for name in named.metrics))
    return [
        *(f"no metric {name}" for name in sorted(named.metrics - set(metrics))),
        *(
            f"{metric} has no label {label}"
            for metric, label, _ in sorted(named.matchers)
            if label not in metrics.get(metric, frozenset()) | own
        ),
        *(f"no label {label} to group by" for label in sorted(named.grouped_by - known - own)),
    ]
