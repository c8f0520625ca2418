"""How fast alerts2gh acknowledges webhooks: groups of 1, 50, 1,000 alerts, and mixed, on SQLite and PostgreSQL.

The real service on one CPU; the sender, the sandbox GitHub and PostgreSQL on the other. The worker is at work all the
time: budgets are raised and the rollup is off. An acknowledgement means that the alerts are durable.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bench._alerts2gh import (
    Service,
    alert,
    alerts2gh,
    fsync_milliseconds,
    load_average,
    on_cpu,
    percentile,
    say,
    webhook,
)
from bench._webhook_load import Orders, Seen, write_bodies
from sandbox import programs

RUNS = 3
CONNECTIONS = 16
SATURATED_SECONDS = 2.0
MIXED_RATE = 200
MIXED_SECONDS = 6
SIZES = {"1": (1, 200), "50": (50, 40), "1000": (1000, 4)}
"""Alerts in a group, and how many such groups there are."""
RATES = {"1": 200.0, "50": 50.0, "1000": 4.0}
PACED_SECONDS = {"1": 3, "50": 3, "1000": 5}
DATABASES = ("SQLite", "PostgreSQL")
TARGET_MS = 20.0
HEAD = (
    "| database | webhooks | requests/s at most | alerts/s | paced at, 1/s | p50, ms | p99, ms | failed |\n"
    "|---|---|---:|---:|---:|---:|---:|---:|\n"
)


@dataclass(frozen=True)
class Row:
    """One line of the table; `most` is None where only the paced load was run."""

    database: str
    kind: str
    most: float | None
    alerts: int
    rate: float
    p50: float
    p99: float
    failed: int

    def __str__(self) -> str:
        most = "" if self.most is None else f"{self.most:,.0f}"
        alerts = "" if self.most is None else f"{self.most * self.alerts:,.0f}"
        return (
            f"| {self.database} | {self.kind} | {most} | {alerts} | {self.rate:g}"
            f" | {self.p50:.1f} | {self.p99:.1f} | {self.failed} |"
        )


def run() -> str:
    """The table, the disk's cost beside it, and whether the target was met."""
    rows: list[Row] = []
    notes = [f"load average before {load_average()}"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bodies = {
            kind: write_bodies(folder, kind, [_group(f"{kind}-{n}", size) for n in range(count)])
            for kind, (size, count) in SIZES.items()
        }
        for database in DATABASES:
            try:
                rows += _rows(database, bodies)
            except programs.ProgramError as error:
                notes.append(f"{database} not measured: {error}")
        p50, p99 = fsync_milliseconds(folder)
    notes += [
        f"after {load_average()}",
        f"fdatasync of 4 KiB here: p50 {p50:.2f} ms, p99 {p99:.2f} ms",
    ]
    return (
        HEAD
        + "\n".join(map(str, rows))
        + f"\n\n{_explained()} {'; '.join(notes)}.\n{_verdict(rows)}\n"
    )


def _group(name: str, size: int) -> bytes:
    return webhook(name, [alert(number, name) for number in range(size)])


def _explained() -> str:
    return (
        f"Medians of {RUNS} runs; paced requests are timed from when each was due. `mixed`: {MIXED_RATE} requests/s,"
        " 1 in 100 with 1,000 alerts, the others with 1; as Alertmanager repeats a group while nothing changes, and with"
        " a change in each."
    )


def _verdict(rows: list[Row]) -> str:
    mixed = [row for row in rows if row.kind.startswith("mixed")]
    met = [
        f"{r.database}, {r.kind.removeprefix('mixed, ')} {r.p99:.1f} ms{'' if r.p99 < TARGET_MS else ' (missed)'}"
        for r in mixed
    ]
    return f"Target p99 < {TARGET_MS:g} ms at {MIXED_RATE} requests/s, mixed: {'; '.join(met)}."


def _rows(database: str, bodies: dict[str, list[str]]) -> Iterator[Row]:
    for kind, (size, _) in SIZES.items():
        say(f"{database}, groups of {size}")
        with _started(database) as service:
            count = int(RATES[kind] * PACED_SECONDS[kind])
            # Each group comes once before: a first delivery makes issues, which is not the usual case.
            _send(service, bodies, [kind] * len(bodies[kind]), rate=RATES[kind])
            runs = [_send(service, bodies, [kind] * count, rate=RATES[kind]) for _ in range(RUNS)]
            fast = [_send(service, bodies, [kind], seconds=SATURATED_SECONDS) for _ in range(RUNS)]
        most = statistics.median(len(each.milliseconds[kind]) / each.seconds for each in fast)
        yield _row(database, f"{size:,} alert{'s' * (size > 1)}", runs, RATES[kind], most, size)
    say(f"{database}, mixed")
    with _started(database) as service:
        plan = ["1000" if n % 100 == 50 else "1" for n in range(MIXED_RATE * MIXED_SECONDS)]
        _send(service, bodies, plan, rate=MIXED_RATE)
        runs = [_send(service, bodies, plan, rate=MIXED_RATE) for _ in range(RUNS)]
        yield _row(database, "mixed, repeats", runs, MIXED_RATE)
        with tempfile.TemporaryDirectory() as name:
            runs = [
                _send(service, _news(Path(name), number), plan, rate=MIXED_RATE)
                for number in range(RUNS)
            ]
        say(f"{database}: {service.memory_mb():.0f} MB at most")
    yield _row(database, "mixed, news", runs, MIXED_RATE)


def _news(folder: Path, run: int) -> dict[str, list[str]]:
    """A body for each request, about the same groups, no two of them alike: an annotation differs."""
    requests = MIXED_RATE * MIXED_SECONDS

    def fresh(kind: str, number: int) -> bytes:
        size, groups = SIZES[kind]
        word = f"CUDA {run * requests + number:06d} on".encode()
        return _group(f"{kind}-{number % groups}", size).replace(b"CUDA fails on", word)

    counts = {"1": requests, "1000": requests // 100 + 1}
    return {
        kind: write_bodies(folder, f"news-{kind}-{run}", [fresh(kind, n) for n in range(count)])
        for kind, count in counts.items()
    }


def _row(
    database: str,
    kind: str,
    runs: list[Seen],
    rate: float,
    most: float | None = None,
    alerts: int = 0,
) -> Row:
    took = [[ms for each in run.milliseconds.values() for ms in each] for run in runs]
    for run in runs:
        if run.failed:
            say(f"{run.failed} failed, the first with {run.first_failure}")
    p50 = statistics.median(percentile(each, 50) for each in took)
    p99 = statistics.median(percentile(each, 99) for each in took)
    return Row(database, kind, most, alerts, rate, p50, p99, sum(run.failed for run in runs))


@contextmanager
def _started(database: str) -> Iterator[Service]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = programs.free_port()
        with on_cpu(1):
            url = (
                stack.enter_context(programs.running_postgres())
                if database == "PostgreSQL"
                else None
            )
            github = programs.start_github(folder, port, repositories=("acme/alerts",))
        stack.enter_context(programs.running(github))
        github.wait_until_ready(f"http://127.0.0.1:{port}/")
        yield stack.enter_context(alerts2gh(folder, f"http://127.0.0.1:{port}", url))


def _send(
    service: Service,
    bodies: dict[str, list[str]],
    plan: list[str],
    *,
    rate: float = 0,
    seconds: float = 0,
) -> Seen:
    used = {kind: names for kind, names in bodies.items() if kind in plan}
    orders = Orders(service.port, used, plan, CONNECTIONS, rate=rate, seconds=seconds)
    with on_cpu(1):
        sender = subprocess.run(
            [sys.executable, "-m", "bench._webhook_load"],
            input=json.dumps(asdict(orders)),
            capture_output=True,
            text=True,
            check=True,
        )
    return Seen(**json.loads(sender.stdout))
