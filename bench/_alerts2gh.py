"""What the benchmarks of alerts2gh share: webhooks of any size, a configuration, the service on one CPU."""

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from chassis.alertmanager import fingerprint
from sandbox import programs
from sandbox.github_server.running import TOKEN

NO_LIMITS = {
    "writes_per_second": 10_000_000,
    "writes_per_minute": 1_000_000,
    "writes_per_hour": 10_000_000,
    "content_per_minute": 1_000_000,
    "content_per_hour": 10_000_000,
}


@dataclass(frozen=True)
class Service:
    """A started alerts2gh."""

    port: int
    program: programs.Program

    def cpu_seconds(self) -> float:
        """CPU time of its process so far."""
        stat = Path(f"/proc/{self.program.process.pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        """The largest resident set it has had."""
        lines = Path(f"/proc/{self.program.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024


def alert(number: int, group: str, *, firing: bool = True) -> dict[str, Any]:
    """One alert of a group, with labels and annotations as a GPU cluster's rules have them."""
    node = f"gpu-n{number:04d}"
    started = f"2026-11-30T11:{number % 60:02d}:{number % 59:02d}.{number % 1000:03d}456789Z"
    labels = {
        "alertname": "GPURuntimeError",
        "cluster": "prod-eu-1",
        "group": group,
        "gpu": str(number % 8),
        "instance": f"10.0.{number // 250}.{number % 250}:9400",
        "job": "nodemend-gpu",
        "namespace": "gpu-operator",
        "node": node,
        "severity": "critical",
    }
    return {
        "status": "firing" if firing else "resolved",
        "labels": labels,
        "annotations": {
            "summary": f"CUDA fails on {node}",
            "description": "No context can be made, so no job runs on this GPU until it is reset.",
            "runbook_url": "https://runbooks.example.org/gpu/runtime-error",
        },
        "startsAt": started,
        "endsAt": "0001-01-01T00:00:00Z" if firing else "2026-11-30T12:30:00Z",
        "generatorURL": "http://prometheus.example.org:9090/graph?g0.expr=gpu_runtime_ok+%3D%3D+0&g0.tab=1",
        "fingerprint": fingerprint(labels),
    }


def webhook(group: str, alerts: Sequence[dict[str, Any]]) -> bytes:
    """The body that Alertmanager sends for a group of these alerts."""
    firing = any(each["status"] == "firing" for each in alerts)
    named = {"alertname": "GPURuntimeError", "group": group}
    text = ", ".join(f'{name}="{value}"' for name, value in named.items())
    whole = {
        "version": "4",
        "groupKey": f"{{}}:{{{text}}}",
        "truncatedAlerts": 0,
        "status": "firing" if firing else "resolved",
        "receiver": "alerts2gh",
        "groupLabels": named,
        "commonLabels": {**named, "severity": "critical"},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager.example.org:9093",
        "alerts": list(alerts),
    }
    return json.dumps(whole, separators=(",", ":")).encode()


@contextmanager
def alerts2gh(
    folder: Path,
    github_url: str,
    postgres_url: str | None = None,
    *,
    pinned: bool = True,
    **sections: Any,
) -> Iterator[Service]:
    """The real service in a process of its own, if `pinned` on the first CPU; `sections` replace those of its file."""
    port = programs.free_port()
    config = write_config(folder, port, github_url, postgres_url, sections)
    with ExitStack() as stack:
        with on_cpu(0) if pinned else nullcontext():
            program = programs.start_alerts2gh(config, folder)
        stack.enter_context(programs.running(program))
        program.wait_until_ready(f"http://127.0.0.1:{port}/readyz")
        yield Service(port, program)


def write_config(
    folder: Path,
    port: int,
    github_url: str,
    postgres_url: str | None,
    sections: Mapping[str, Any],
) -> Path:
    (folder / "token").write_text(TOKEN)
    database: dict[str, Any] = {"sqlite_file": "alerts2gh.db"}
    if postgres_url is not None:
        (folder / "postgres-url").write_text(postgres_url)
        database = {"postgres_url_file": "postgres-url"}
    config = {
        "serving": {"listen": f"127.0.0.1:{port}"},
        "database": database,
        "credentials": {"main": {"base_url": github_url, "token_file": "token"}},
        "allowed_repositories": ["acme/*"],
        "limits": NO_LIMITS,
        "storm": {"enabled": False},
        "route": {
            "repository": "acme/alerts",
            "issue_labels": ["severity/{{ labels.severity }}"],
        },
        **sections,
    }
    path = folder / "alerts2gh.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


@contextmanager
def on_cpu(index: int) -> Iterator[None]:
    """Children started inside run on this CPU of those we have, counted from 0 and as far as there are so many."""
    ours = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {ours[min(index, len(ours) - 1)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, set(ours))


def fsync_milliseconds(folder: Path) -> tuple[float, float]:
    """What appending 4 KiB and fdatasync costs in `folder`: median and 99th percentile of 200."""
    took = []
    with (folder / "fsync-probe").open("wb", buffering=0) as file:
        for _ in range(200):
            start = time.perf_counter()
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - start) * 1000)
    (folder / "fsync-probe").unlink()
    return percentile(took, 50), percentile(took, 99)


def percentile(values: list[float], percent: float) -> float:
    """The smallest value that at least `percent` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def load_average() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def say(text: str) -> None:
    print(f"measuring: {text}", file=sys.stderr, flush=True)
