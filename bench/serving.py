"""Which WSGI server: TLS, keep-alive, 7 kB POST on one CPU, certificate changes, SIGKILL.

Each candidate runs the same Flask route in a process of its own, pinned to one CPU; the load comes
from the other one. Saturation is measured by `wrk`, latency by a client that keeps to a schedule.
"""

import http.client
import importlib.util
import os
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench._certificates import write_pair

RUNS = 3
LOAD_SECONDS = 3
RATE = 500
PACED_SECONDS = 3
GIVE_UP_SECONDS = 5
CHANGES = 4
CLIENTS = 8
BODY = b"x" * 7000

CANDIDATES = {
    "ours": ("granian worker in this process (chosen)", "granian"),
    "ours-whole": ("the same, under chassis.webapp", "granian"),
    "granian": ("granian, its own processes", "granian"),
    "cheroot": ("cheroot, in this process", "cheroot"),
    "gunicorn": ("gunicorn gthread, its own processes", "gunicorn"),
}
HEAD = (
    f"| server | requests/s | requests per CPU second | p50 at {RATE}/s, ms | p99, ms | failed over {CHANGES} certificate"
    " changes | first answer beside 50 silent clients, ms | processes left by SIGKILL |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|\n"
)


@dataclass
class Candidate:
    """A started server."""

    port: int
    process: subprocess.Popen[bytes]
    folder: Path

    def connect(self) -> http.client.HTTPSConnection:
        context = ssl._create_unverified_context()  # noqa: SLF001 (the load is not about trust)
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=10)

    def cpu_seconds(self) -> float:
        """CPU time of all its processes so far; other work on the CPU does not count."""
        ticks = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = path.read_text().rpartition(")")[2].split()
                if int(fields[2]) == self.process.pid:  # the process group
                    ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


@dataclass
class Tally:
    """What clients saw."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0


def run() -> str:
    """The table; medians of three runs, the candidates after each other on the same CPUs."""
    if shutil.which("wrk") is None:
        return "needs `wrk` (Debian: apt-get install wrk)"
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[-1]})
    try:
        rows = [_row(kind, cpus[0]) for kind in CANDIDATES]
    finally:
        os.sched_setaffinity(0, cpus)
    note = f"\nMedians of {RUNS} runs of {LOAD_SECONDS} s; server on one CPU, load on another.\n"
    return HEAD + "\n".join(rows) + "\n" + note


def _row(kind: str, cpu: int) -> str:
    name, module = CANDIDATES[kind]
    print(f"measuring: {name}", file=sys.stderr)
    if importlib.util.find_spec(module) is None:
        return f"| {name} | not installed (pip install {module}) | | | | | | |"
    with _started(kind, cpu) as candidate:
        rates, efforts = zip(*(_saturate(candidate) for _ in range(RUNS)), strict=True)
        paced = [_paced(candidate) for _ in range(RUNS)]
        failed = _failed_over_changes(candidate)
        silent = _beside_silent_clients(candidate)
        left = _left_by_sigkill(candidate)
    for tally in paced:
        if tally.failed:
            print(f"{name}: {tally.failed} paced calls failed", file=sys.stderr)
    p50 = statistics.median(_percentile(each, 50) for each in paced)
    p99 = statistics.median(_percentile(each, 99) for each in paced)
    rate, effort = statistics.median(rates), statistics.median(efforts)
    waited = f"{silent:,.0f}" if silent < float("inf") else "none within 10 s"
    return f"| {name} | {rate:,.0f} | {effort:,.0f} | {p50:.1f} | {p99:.1f} | {failed} | {waited} | {left} |"


@contextmanager
def _started(kind: str, cpu: int) -> Iterator[Candidate]:
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        taken.close()
        cert, key = write_pair(Path(folder))
        command = [sys.executable, "-m", "bench._serving_child", kind, str(port), str(cert)]
        process = subprocess.Popen(
            [*command, str(key)],
            preexec_fn=lambda: os.sched_setaffinity(0, {cpu}),  # noqa: PLW1509 (before any thread)
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        candidate = Candidate(port, process, Path(folder))
        try:
            _await(candidate)
            yield candidate
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _await(candidate: Candidate) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with suppress(OSError, http.client.HTTPException):
            connection = candidate.connect()
            _call(connection)
            connection.close()
            return
        time.sleep(0.05)
    raise RuntimeError("the candidate did not answer within 30 s")


def _call(connection: http.client.HTTPSConnection) -> bool:
    """One request; whether the server asks to reconnect after it."""
    connection.request("POST", "/v1/review", BODY)
    answer = connection.getresponse()
    answer.read()
    if answer.status != http.HTTPStatus.OK:
        raise OSError(f"status {answer.status}")
    return answer.will_close


def _saturate(candidate: Candidate) -> tuple[float, float]:
    """Requests a second, and a second of the CPU time that the server's processes took."""
    script = candidate.folder / "post.lua"
    script.write_text('wrk.method = "POST"\nwrk.body = string.rep("x", 7000)\n')
    url = f"https://127.0.0.1:{candidate.port}/v1/review"
    command = ["wrk", "-t1", "-c16", f"-d{LOAD_SECONDS}s", "-s", str(script), url]
    before = candidate.cpu_seconds()
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    took = candidate.cpu_seconds() - before
    if "Non-2xx" in told or "Socket errors" in told:
        print(told, file=sys.stderr)
    rate = next(line for line in told.splitlines() if line.startswith("Requests/sec"))
    done = next(line for line in told.splitlines() if " requests in " in line)
    return float(rate.split()[-1]), int(done.split()[0]) / took


def _paced(candidate: Candidate) -> Tally:
    """Calls on a schedule, timed from when each was due, so a stall counts for all it delayed."""
    tally = Tally()
    start = time.monotonic() + 0.2

    def client(offset: int) -> None:
        connection = candidate.connect()
        for number in range(offset, RATE * PACED_SECONDS, CLIENTS):
            due = start + number / RATE
            if time.monotonic() - due > GIVE_UP_SECONDS:
                return  # it cannot keep up at all; the percentiles say so already
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                if _call(connection):
                    connection.close()
            except (OSError, http.client.HTTPException):
                connection.close()
                tally.failed += 1
            tally.seconds.append(time.monotonic() - due)

    _in_threads(client)
    return tally


def _failed_over_changes(candidate: Candidate) -> int:
    tally, over = Tally(), threading.Event()

    def client(_offset: int) -> None:
        connection = candidate.connect()
        while not over.is_set():
            try:
                if _call(connection):
                    connection.close()
            except (OSError, http.client.HTTPException):
                tally.failed += 1
                connection.close()

    def change() -> None:
        for _ in range(CHANGES):
            write_pair(candidate.folder)
            os.kill(candidate.process.pid, signal.SIGHUP)
            time.sleep(2.5)
        over.set()

    changer = threading.Thread(target=change)
    changer.start()
    _in_threads(client)
    changer.join()
    return tally.failed


def _in_threads(client: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=client, args=(i,)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _beside_silent_clients(candidate: Candidate) -> float:
    with ExitStack() as closing:
        for _ in range(50):
            with suppress(TimeoutError):  # its queue is full already
                where = ("127.0.0.1", candidate.port)
                closing.enter_context(socket.create_connection(where, timeout=0.1))
        start = time.monotonic()
        connection = candidate.connect()
        try:
            _call(connection)
        except (OSError, http.client.HTTPException):
            return float("inf")
        finally:
            connection.close()
        return (time.monotonic() - start) * 1000


def _left_by_sigkill(candidate: Candidate) -> int:
    os.kill(candidate.process.pid, signal.SIGKILL)
    candidate.process.wait()
    group = str(candidate.process.pid)
    found = subprocess.run(["ps", "-o", "pid=", "-g", group], capture_output=True, check=False)
    return len(found.stdout.split())


def _percentile(tally: Tally, percent: int) -> float:
    return statistics.quantiles(tally.seconds, n=100)[percent - 1] * 1000
