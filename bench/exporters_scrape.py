"""How fast node-conditions is scraped, and what it costs: 1,000 to 10,000 nodes x 20 conditions on a real API server.

Beside it, in the same run, kube-state-metrics restricted to the same family (KSM_BINARY, or on the PATH). Each exporter
runs alone on one CPU; API server, writers and scrapers share the others.
"""

import gzip
import os
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench._alerts2gh import load_average, on_cpu, percentile, say
from bench._exporters import Cluster, Exporter, node_name
from sandbox import programs
from tests import kubernetes_api

SIZES = (1_000, 5_000, 10_000)
CONDITIONS = 20
SCRAPES = 20
UPDATES_PER_SECOND = 50
UPDATE_SECONDS = 20.0
SCRAPE_INTERVAL = 5.0
CHANGES = 12
JUDGED = 5_000
OURS, ALL, PEER = "ours, state only", "ours, all families", "kube-state-metrics"
HEAD = (
    "| nodes | exporter | samples | plain p50, ms | p99 | gzip p50, ms | p99 | memory, MB, gzip | plain"
    " | CPU at 50 updates/s | visible p50, ms | at most |\n"
    "|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
)


@dataclass(frozen=True)
class Row:
    """One line of the table: milliseconds, MB, percent of one CPU."""

    nodes: int
    exporter: str
    samples: int
    plain: tuple[float, float]
    gzip: tuple[float, float]
    memory: tuple[float, float]
    cpu: float
    visible: tuple[float, float]

    def __str__(self) -> str:
        timed = " | ".join(f"{low:,.0f} | {high:,.0f}" for low, high in (self.plain, self.gzip, self.memory))  # fmt: skip
        low, high = self.visible
        return (
            f"| {self.nodes:,} | {self.exporter} | {self.samples:,} | {timed}"
            f" | {self.cpu:.1f} % | {low:,.0f} | {high:,.0f} |"
        )


def run() -> str:
    """The table, and whether the targets were met."""
    rows: list[Row] = []
    notes = [f"load average before {load_average()}"]
    why_not = kubernetes_api.missing("etcd", "kube-apiserver", "kubectl")
    if why_not:
        return f"Not measured: {why_not}.\n"
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        with on_cpu(1):
            api = stack.enter_context(kubernetes_api.running_kubernetes_api(folder))
        cluster = Cluster(api.kubeconfig, CONDITIONS)
        candidates = _candidates(folder, api.kubeconfig, notes)
        for size in SIZES:
            say(f"creating nodes up to {size:,}")
            cluster.grow_to(size)
            for exporter, start in candidates.items():
                say(f"{size:,} nodes, {exporter}")
                rows.append(_row(cluster, exporter, start))
    notes.append(f"after {load_average()}")
    table = HEAD + "\n".join(map(str, rows))
    return f"{table}\n\n{_explained()} {'; '.join(notes)}.\n{_verdict(rows)}\n"


def _explained() -> str:
    return (
        f"{SCRAPES} scrapes of each kind, from the request to the last byte, while {UPDATES_PER_SECOND} nodes a second"
        " change. Memory: the most it was, the first list included, before and after the first plain scrapes. CPU in percent of one, with a gzip scrape"
        f" each {SCRAPE_INTERVAL:g} s. Visible: from the request that changes a node to the last byte of the first plain"
        f" scrape that has it; {CHANGES} changes."
    )


Start = Callable[[], programs.Program]


def _candidates(folder: Path, kubeconfig: Path, notes: list[str]) -> dict[str, tuple[int, Start]]:
    found: dict[str, tuple[int, Start]] = {}
    for exporter, families in ((OURS, ["condition"]), (ALL, None)):
        port = programs.free_port()
        config = _config(folder, port, kubeconfig, families)
        command = [sys.executable, "-m", "exporters", "node-conditions", "-c", str(config)]
        found[exporter] = (port, _starter("node-conditions", command, folder))
    peer = os.environ.get("KSM_BINARY") or programs.find("kube-state-metrics")
    if not peer:
        notes.append("kube-state-metrics not measured: name its binary in KSM_BINARY")
        return found
    port = programs.free_port()
    command = [
        peer,
        f"--kubeconfig={kubeconfig}",
        "--resources=nodes",
        "--metric-allowlist=kube_node_status_condition",
        "--enable-gzip-encoding",
        "--host=127.0.0.1",
        f"--port={port}",
        "--telemetry-host=127.0.0.1",
        f"--telemetry-port={programs.free_port()}",
    ]
    found[PEER] = (port, _starter("kube-state-metrics", command, folder))
    return found


def _starter(name: str, command: list[str], folder: Path) -> Start:
    return lambda: programs.start(name, command, folder)


def _config(folder: Path, port: int, kubeconfig: Path, families: list[str] | None) -> Path:
    settings = {
        "serving": {"listen": f"127.0.0.1:{port}", "drain": "1s"},
        "kubernetes": {"kubeconfig": str(kubeconfig)},
        "node_labels": {"zone": "topology.kubernetes.io/zone"},
    }
    path = folder / f"node-conditions-{'all' if families is None else 'state'}.yaml"
    path.write_text(yaml.safe_dump(settings | ({"families": families} if families else {})))
    return path


@contextmanager
def _started(cluster: Cluster, port: int, start: Start) -> Iterator[Exporter]:
    with on_cpu(0):
        program = start()
    with programs.running(program):
        exporter = Exporter(port, program)
        program.wait_until_ready(f"http://127.0.0.1:{port}/healthz", 60)
        deadline = time.monotonic() + 120
        while _samples(port) < cluster.size * CONDITIONS * 3:
            if time.monotonic() > deadline:
                raise programs.ProgramError(f"it never had all nodes:\n{program.tail()}")
            time.sleep(0.2)
        yield exporter


def _samples(port: int) -> int:
    """How many samples of nodes there are now."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/metrics", headers={"Accept-Encoding": "gzip"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return gzip.decompress(answer.read()).count(b'{node="')


def _row(cluster: Cluster, name: str, candidate: tuple[int, Start]) -> Row:
    with _started(cluster, *candidate) as exporter, on_cpu(1):
        # Compressed first: that is how Prometheus asks, and plain answers are what takes most memory.
        with cluster.changing(UPDATES_PER_SECOND):
            packed = [exporter.scrape(gzip=True)[0] for _ in range(SCRAPES)]
        cpu = _cpu_while_changing(cluster, exporter)
        memory = exporter.memory_mb("VmHWM")
        with cluster.changing(UPDATES_PER_SECOND):
            plain = [exporter.scrape(gzip=False)[0] for _ in range(SCRAPES)]
        visible = [_until_visible(cluster, exporter, number) for number in range(CHANGES)]
        samples = _samples(exporter.port)
        return Row(
            nodes=cluster.size,
            exporter=name,
            samples=samples,
            plain=_both(plain),
            gzip=_both(packed),
            memory=(memory, exporter.memory_mb("VmHWM")),
            cpu=cpu,
            visible=(statistics.median(visible), max(visible)),
        )


def _both(milliseconds: list[float]) -> tuple[float, float]:
    return percentile(milliseconds, 50), percentile(milliseconds, 99)


def _cpu_while_changing(cluster: Cluster, exporter: Exporter) -> float:
    with cluster.changing(UPDATES_PER_SECOND) as pace:
        before, start, given = exporter.cpu_seconds(), time.monotonic(), pace.given
        while (passed := time.monotonic() - start) < UPDATE_SECONDS:
            exporter.scrape(gzip=True)
            time.sleep(min(SCRAPE_INTERVAL, max(0.0, UPDATE_SECONDS - passed)))
        seconds = time.monotonic() - start
        spent = exporter.cpu_seconds() - before
        say(f"{(pace.given - given) / seconds:.0f} updates a second were made")
    return 100 * spent / seconds


def _until_visible(cluster: Cluster, exporter: Exporter, number: int) -> float:
    """Milliseconds until a scrape shows what was written; toggles, so that each change is one."""
    status = "true" if number % 2 == 0 else "false"
    chosen = cluster.size // 2
    line = f'node_status_condition{{node="{node_name(chosen)}",condition="{cluster.types[-1]}",status="{status}"}} 1\n'
    wanted = (
        line.encode(),
        line.replace("node_status_condition", "nodemend_node_condition").encode(),
    )
    start = time.monotonic()
    cluster.write(chosen, status.capitalize())
    while True:
        _, body = exporter.scrape(gzip=False)
        seen = time.monotonic()
        if any(each in body for each in wanted):
            return (seen - start) * 1000
        if seen - start > 60:
            raise programs.ProgramError("a change was not visible after a minute")


def _verdict(rows: list[Row]) -> str:
    judged = {row.exporter: row for row in rows if row.nodes == JUDGED}
    if not judged:
        return f"Targets are for {JUDGED:,} nodes, which were not measured."
    state, whole, peer = judged[OURS], judged[ALL], judged.get(PEER)
    lines = [
        _line("state only, plain p99", state.plain[1], 150, "ms"),
        _line("state only, gzip p99", state.gzip[1], 300, "ms"),
        _line("all families, plain p99", whole.plain[1], 300, "ms"),
        _line("all families, gzip p99", whole.gzip[1], 500, "ms"),
        _line("all families, memory", whole.memory[1], 300, "MB"),
        _line("a change visible", max(state.visible[1], whole.visible[1]), 1000, "ms"),
    ]
    if peer is not None:
        pairs = {
            "plain p50": (state.plain[0], peer.plain[0]),
            "gzip p50": (state.gzip[0], peer.gzip[0]),
            "memory": (state.memory[1], peer.memory[1]),
        }
        lines += [f"{name} {ours / its:.2f} of kube-state-metrics'{'' if ours < its else ' (missed)'}" for name, (ours, its) in pairs.items()]  # fmt: skip
    return f"Targets at {JUDGED:,} nodes: {'; '.join(lines)}."


def _line(what: str, value: float, target: float, unit: str) -> str:
    return f"{what} {value:,.0f} {unit} (target < {target:g}{'' if value < target else ', missed'})"
