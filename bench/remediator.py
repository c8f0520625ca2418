"""From the webhook to the isolated node on 5,000 nodes: single alerts, a burst of 200, a restart, a standby, memory.

On the embedded API in a process of its own, and on the real one where its programs are (REMEDIATOR_API names one of
the two). Nodes write their status every five minutes, as kubelets do; nothing is limited, two budgets are counted.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import _remediator as world
from bench._alerts2gh import load_average, on_cpu, percentile, say
from chassis.kube_client import KubeClient
from tests import kubernetes_api
from tests.journeys.remediator_world import Remediator

NODES = 5_000
SINGLES = 100
PAUSE = 0.25
BURST = 200
BURSTS = 3
TURNS = 3
HEAD = (
    "| API | single p50, ms | p99 | at most | burst of 200, s | CPU of it, s | restart, s | standby, s"
    " | memory, MB |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n"
)


@dataclass
class Figures:
    """What was measured on one API: milliseconds, seconds, MB."""

    api: str
    singles: list[float] = field(default_factory=list)
    bursts: list[float] = field(default_factory=list)
    burst_cpu: list[float] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)
    standbys: list[float] = field(default_factory=list)
    memory: float = 0.0

    def __str__(self) -> str:
        low, high = percentile(self.singles, 50), percentile(self.singles, 99)
        return (
            f"| {self.api} | {low:,.0f} | {high:,.0f} | {max(self.singles):,.0f}"
            f" | {_median(self.bursts)} | {_median(self.burst_cpu)} | {_median(self.restarts)}"
            f" | {_median(self.standbys)} | {self.memory:,.0f} |"
        )


def _median(values: list[float]) -> str:
    shown = ", ".join(f"{each:.1f}" for each in sorted(values))
    return f"{statistics.median(values):.1f} ({shown})" if len(values) > 1 else shown


def run() -> str:
    """The table, and whether the targets were met."""
    chosen = os.environ.get("REMEDIATOR_API", "embedded,real").split(",")
    notes, rows = [f"load average before {load_average()}"], []
    for api in chosen:
        why_not = kubernetes_api.missing("etcd", "kube-apiserver", "kubectl")
        if api == "real" and why_not:
            notes.append(f"the real API not measured: {why_not}")
            continue
        rows.append(_measured(api))
    notes.append(f"after {load_average()}")
    table = HEAD + "\n".join(map(str, rows))
    return f"{table}\n\n{_explained()} {'; '.join(notes)}.\n{_verdict(rows)}\n"


def _explained() -> str:
    return (
        f"{NODES:,} nodes x 20 conditions. Single: {SINGLES} alerts, one each {PAUSE:g} s, from the first byte of the webhook to"
        f" the event with the taint. Burst: one webhook of {BURST} alerts on {BURST} nodes until the last is tainted, while"
        f" those before are drained and repaired; {BURSTS} times, a fresh set of nodes each. Restart: SIGKILL, and the"
        " same identity again, from its start until a webhook has tainted a node. Standby: SIGKILL of the leader until a"
        " webhook to the other has tainted a node; the lease lasts 15 s. Memory: the most it had. Medians (all)."
    )


@contextmanager
def _api(api: str, folder: Path) -> Iterator[tuple[KubeClient, Path]]:
    if api == "real":
        with world.real(folder, NODES) as both:
            yield both
        return
    with world.embedded(folder, NODES) as client:
        yield client, folder / "kubeconfig"


def _measured(api: str) -> Figures:
    found = Figures(api)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        say(f"{api}: starting with {NODES:,} nodes")
        with _api(api, folder) as (client, kubeconfig):
            tainted = world.Tainted(client)
            with world.heartbeats(client, NODES):
                _on(found, folder, kubeconfig, tainted)
            tainted.stop()
    return found


def _on(found: Figures, folder: Path, kubeconfig: Path, tainted: world.Tainted) -> None:
    fresh = iter(range(NODES))
    with world.remediator(folder, kubeconfig) as one:
        world.wait_until_leading(one)
        time.sleep(2)
        say(f"{found.api}: {SINGLES} single alerts")
        for _ in range(SINGLES):
            found.singles.append(_single(one, next(fresh), tainted) * 1000)
            time.sleep(PAUSE)
        for _ in range(BURSTS):
            say(f"{found.api}: a burst")
            _burst(found, one, [next(fresh) for _ in range(BURST)], tainted)
        found.memory = world.memory_mb(one)
    _turns(found, folder, kubeconfig, fresh, tainted)


def _single(one: Remediator, node: int, tainted: world.Tainted) -> float:
    start = time.perf_counter()
    world.post(one, [node])
    return tainted.wait([node], 60)[0] - start


def _burst(found: Figures, one: Remediator, nodes: list[int], tainted: world.Tainted) -> None:
    cpu, start = world.cpu_seconds(one), time.perf_counter()
    world.post(one, nodes)
    found.bursts.append(max(tainted.wait(nodes, 300)) - start)
    found.burst_cpu.append(world.cpu_seconds(one) - cpu)
    _settle(one)


def _settle(one: Remediator) -> None:
    """Until what the burst left to do is done: it uses hardly any CPU."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        before = world.cpu_seconds(one)
        time.sleep(1)
        if world.cpu_seconds(one) - before < 0.2:
            return


def _turns(
    found: Figures, folder: Path, kubeconfig: Path, fresh: Iterator[int], tainted: world.Tainted
) -> None:
    """The same identity again, and another that stands by."""
    for turn in range(TURNS):
        say(f"{found.api}: a restart and a standby")
        with world.remediator(folder, kubeconfig, "remediator-0") as one:
            world.wait_until_leading(one)
            one.kill()
            start, node = time.perf_counter(), next(fresh)
            with on_cpu(0):
                one.start()
            world.post(one, [node])
            found.restarts.append(tainted.wait([node], 60)[0] - start)
            with world.remediator(folder, kubeconfig, f"standby-{turn}") as other:
                time.sleep(3)
                one.kill()
                start, node = time.perf_counter(), next(fresh)
                world.post(other, [node])
                found.standbys.append(tainted.wait([node], 60)[0] - start)
                other.stop()


def _verdict(rows: list[Figures]) -> str:
    lines = []
    for row in rows:
        p99 = percentile(row.singles, 99)
        lines += [
            _line(f"{row.api}: single p99", p99, 1000, "ms"),
            _line("burst", statistics.median(row.bursts), 5, "s"),
            _line("restart", statistics.median(row.restarts), 5, "s"),
            _line("memory", row.memory, 200, "MB"),
        ]
    return f"Targets: {'; '.join(lines)}."


def _line(what: str, value: float, target: float, unit: str) -> str:
    met = "" if value < target else ", missed"
    return f"{what} {value:,.1f} {unit} (target < {target:g}{met})"
