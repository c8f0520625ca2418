"""The metrics of single nodes and GPUs as text, from the records: bytes cached a node, rendered when it changes.

With 5,000 nodes these are some 150,000 samples; the client library would take seconds for them. Knows no API.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping

from exporters.gpu_monitor.nodes import MonitoredNode
from exporters.gpu_monitor.record import Coverage
from exporters.node_condition_lines.label_text import label_value
from exporters.probe_pods import Outcome
from exporters.readings import ProbeEnd

PROBE = "cuda"
RUNS = "nodemend_gpu_probe_runs_total"
SUCCESS = "nodemend_gpu_probe_success"
LAST_RUN = "nodemend_gpu_probe_last_run_timestamp_seconds"
LAST_SUCCESS = "nodemend_gpu_probe_last_success_timestamp_seconds"
EXPECTED = "nodemend_gpu_probe_gpus"
COVERED = "nodemend_gpu_probe_gpus_covered"
_FAMILIES = (SUCCESS, LAST_RUN, LAST_SUCCESS, EXPECTED, COVERED)
_HEADERS = {
    RUNS: ("counter", "Probes of a node, by how they ended."),
    SUCCESS: ("gauge", "Whether the last probe of this GPU with a verdict passed."),
    LAST_RUN: ("gauge", "When this GPU was last probed."),
    LAST_SUCCESS: ("gauge", "When this GPU last passed."),
    EXPECTED: ("gauge", "How many GPUs the node has, by what it offers to pods."),
    COVERED: ("gauge", "How many GPUs of the node were reported on since it started."),
}
_Lines = Mapping[str, bytes]


class ProbeExposition:
    """The text at a scrape. `count` is called by the leader's thread, `pieces` by the server's."""

    def __init__(self) -> None:
        self._runs: dict[str, Counter[Outcome]] = {}
        self._lines: dict[str, tuple[str, _Lines]] = {}
        self._lock = threading.Lock()

    def meet(self, names: Iterable[str]) -> None:
        """Let the counters of exactly these nodes exist, from 0 on."""
        known = set(names)
        with self._lock:
            for name in known - self._runs.keys():
                self._runs[name] = Counter()
            for name in self._runs.keys() - known:
                del self._runs[name]

    def count(self, node: str, outcome: Outcome) -> None:
        """A probe of a node has ended so."""
        with self._lock:
            self._runs.setdefault(node, Counter())[outcome] += 1

    def runs(self, node: str) -> Mapping[Outcome, int]:
        """How the probes of a node have ended so far."""
        with self._lock:
            return dict(self._runs.get(node, {}))

    def clear(self) -> None:
        with self._lock:
            self._runs.clear()

    def pieces(self, nodes: Mapping[str, MonitoredNode]) -> Iterable[bytes]:
        """The exposition of these nodes."""
        with self._lock:
            runs = b"".join(_runs_of(name, counts) for name, counts in self._runs.items())
            self._lines = {name: self._lines_of(node) for name, node in nodes.items()}
            found = [lines for _, lines in self._lines.values()]
        pieces = [_header(RUNS), runs]
        for family in _FAMILIES:
            pieces += [_header(family), *(lines[family] for lines in found)]
        return pieces

    def _lines_of(self, node: MonitoredNode) -> tuple[str, _Lines]:
        version = f"{node.view.uid}/{node.view.version}"
        cached = self._lines.get(node.name)
        return cached if cached and cached[0] == version else (version, _render(node))


def _header(family: str) -> bytes:
    kind, says = _HEADERS[family]
    return f"# HELP {family} {says}\n# TYPE {family} {kind}\n".encode()


def _runs_of(name: str, counts: Mapping[Outcome, int]) -> bytes:
    start = f'{RUNS}{{node="{label_value(name)}",probe="{PROBE}",result="'
    return "".join(f'{start}{each.value}"}} {counts.get(each, 0)}\n' for each in Outcome).encode()


def _render(node: MonitoredNode) -> _Lines:
    """The samples of a node by family; one without a probe so far has none of a GPU's."""
    label = f'node="{label_value(node.name)}",probe="{PROBE}"'
    gpus = node.record.gpus if node.record is not None else {}
    is_now = node.record is not None and node.record.boot_id == node.boot_id
    here = sum(each.here for each in gpus.values()) if is_now else 0
    lines = {
        EXPECTED: [f"{EXPECTED}{{{label}}} {node.expected}\n"],
        COVERED: [f"{COVERED}{{{label}}} {here}\n"],
        SUCCESS: [],
        LAST_RUN: [],
        LAST_SUCCESS: [],
    }
    for uuid, gpu in gpus.items():
        for family, value in _values(gpu):
            lines[family].append(f'{family}{{{label},gpu_uuid="{label_value(uuid)}"}} {value}\n')
    return {family: "".join(each).encode() for family, each in lines.items()}


def _values(gpu: Coverage) -> Iterable[tuple[str, str]]:
    if gpu.end is not ProbeEnd.INCONCLUSIVE:
        yield SUCCESS, "1" if gpu.end is ProbeEnd.PASSED else "0"
    yield LAST_RUN, f"{gpu.ran.timestamp():.3f}"
    if gpu.passed is not None:
        yield LAST_SUCCESS, f"{gpu.passed.timestamp():.3f}"
