"""A sender of webhooks in a process of its own: `python -m bench._webhook_load`, its orders as JSON on stdin.

`rate` 0 sends as fast as `connections` allow. Otherwise requests keep to a schedule and are timed from when each was
due, so a stall counts for all that it delayed. The answer on stdout is JSON: milliseconds by body, failures, seconds.
"""

import http.client
import json
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_OK = 200


@dataclass(frozen=True)
class Orders:
    """What to send where. `bodies` are files by kind; `plan` names the kind of each request in turn."""

    port: int
    bodies: dict[str, list[str]]
    plan: list[str]
    connections: int
    path: str = "/v1/webhook"
    rate: float = 0
    seconds: float = 0
    """With a rate of 0: when to end, the plan is repeated until then; 0 for one time through it."""


@dataclass
class Seen:
    """What came of it."""

    milliseconds: dict[str, list[float]] = field(default_factory=dict)
    failed: int = 0
    first_failure: str = ""
    seconds: float = 0


class Sender:
    """Takes one request after the other off the plan; several threads share it."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._bodies = {
            kind: [Path(name).read_bytes() for name in names]
            for kind, names in orders.bodies.items()
        }
        self._lock = threading.Lock()
        self._next = 0
        self.seen = Seen({kind: [] for kind in orders.bodies})

    def run(self) -> Seen:
        self._start = time.monotonic() + 0.2
        threads = [threading.Thread(target=self._client) for _ in range(self._orders.connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.seen.seconds = time.monotonic() - self._start
        return self.seen

    def _take(self) -> tuple[int, str, float] | None:
        """Number, kind and due time of the next request."""
        with self._lock:
            number = self._next
            self._next += 1
        plan, rate = self._orders.plan, self._orders.rate
        over = number >= len(plan)
        if rate or not self._orders.seconds:
            due = self._start + number / rate if rate else time.monotonic()
            return None if over else (number, plan[number], due)
        now = time.monotonic()
        if now > self._start + self._orders.seconds:
            return None
        return number, plan[number % len(plan)], now

    def _client(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._orders.port, timeout=60)
        time.sleep(max(0.0, self._start - time.monotonic()))
        while (taken := self._take()) is not None:
            number, kind, due = taken
            time.sleep(max(0.0, due - time.monotonic()))
            bodies = self._bodies[kind]
            try:
                self._call(connection, bodies[number % len(bodies)])
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                self.seen.failed += 1
                self.seen.first_failure = self.seen.first_failure or repr(error)
            self.seen.milliseconds[kind].append((time.monotonic() - due) * 1000)

    def _call(self, connection: http.client.HTTPConnection, body: bytes) -> None:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", self._orders.path, body, headers)
        answer = connection.getresponse()
        told = answer.read()
        if answer.status != _OK:
            raise OSError(f"status {answer.status}: {told[:300]!r}")
        if answer.will_close:
            connection.close()


def write_bodies(folder: Path, kind: str, bodies: Sequence[bytes]) -> list[str]:
    """Put bodies into files for `Orders`."""
    names = []
    for number, body in enumerate(bodies):
        path = folder / f"{kind}-{number}.json"
        path.write_bytes(body)
        names.append(str(path))
    return names


def main() -> None:
    given: dict[str, Any] = json.load(sys.stdin)
    sys.setswitchinterval(0.001)  # its threads must not make each other late
    json.dump(asdict(Sender(Orders(**given)).run()), sys.stdout)


if __name__ == "__main__":
    main()
