"""The real alerts2gh as a child process."""

import json
import os
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from sandbox import programs
from sandbox.github_server import SandboxGitHub

ROOT = Path(__file__).parents[2]
HOME, FALLBACK = "acme/alerts", "acme/fallback"
WEBHOOK_TOKEN = "webhook-token"
DEADLINE = 60.0
_FAST: dict[str, Any] = {
    "writes_per_second": 1000,
    "writes_per_minute": 1_000_000,
    "writes_per_hour": 1_000_000,
    "content_per_minute": 1_000_000,
    "content_per_hour": 1_000_000,
}


def wait_until(what: str, holds: Callable[[], bool], seconds: float = DEADLINE) -> None:
    """Wait for a condition; fail with its name when it does not come."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s for {what}, and it did not come")
        time.sleep(0.02)


class Service:
    """alerts2gh on a port of its own with a configuration of its own; may be killed and started again."""

    def __init__(self, folder: Path, github: SandboxGitHub, **changes: Any) -> None:
        self.folder = folder
        self.port = programs.free_port()
        self.config_file = folder / "alerts2gh.yaml"
        self.arguments = [sys.executable, "-m", "alerts2gh"]
        self.program: programs.Program | None = None
        (folder / "github-token").write_text(github.token)
        (folder / "webhook-token").write_text(WEBHOOK_TOKEN)
        self._config: dict[str, Any] = {
            "serving": {"listen": f"127.0.0.1:{self.port}", "drain": "5s"},
            "auth": {"bearer_token_file": "webhook-token"},
            "database": {"sqlite_file": "alerts2gh.db", "lease": "1s"},
            "credentials": {"main": {"base_url": github.url, "token_file": "github-token"}},
            "allowed_repositories": ["acme/*"],
            "fallback_repository": FALLBACK,
            "limits": _FAST,
            "policy": {"close_after": "0s", "reorder_window": "0s"},
            "recovery": {
                "look_after": ["100ms", "300ms"],
                "audit_after": "2s",
                "retry_after": "100ms",
                "retry_at_most": "1s",
            },
            "storm": {"enabled": False},
            "route": {"repository": HOME},
        }
        self.configure(**changes)

    @property
    def url(self) -> str:
        scheme = "https" if "tls" in self._config["serving"] else "http"
        return f"{scheme}://127.0.0.1:{self.port}"

    def configure(self, **changes: Any) -> None:
        """Write other sections into the configuration file."""
        for key, value in changes.items():
            merged = isinstance(value, Mapping) and isinstance(self._config.get(key), dict)
            self._config[key] = {**self._config[key], **value} if merged else value
        self.config_file.write_text(yaml.safe_dump(self._config))

    def start(self, *, wait: bool = True, preexec: Sequence[str] = ()) -> None:
        command = [*preexec, *self.arguments, "serve", "--config", str(self.config_file)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.program = programs.start("alerts2gh", command, self.folder, environment)
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        if self.program is None:
            raise AssertionError("it was not started")
        self.program.wait_until_ready(f"{self.url}/readyz", DEADLINE)

    @property
    def running(self) -> bool:
        return self.program is not None and self.program.process.poll() is None

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        if self.program is not None:
            self.program.process.kill()
            self.program.process.wait()

    def terminate(self) -> int:
        """SIGTERM; the exit status."""
        if self.program is None:
            raise AssertionError("it was not started")
        return self.program.stop()

    def hang_up(self) -> None:
        if self.program is None:
            raise AssertionError("it was not started")
        self.program.process.send_signal(signal.SIGHUP)

    def log(self) -> list[dict[str, Any]]:
        """The log lines so far."""
        text = (self.folder / "alerts2gh.log").read_text(encoding="utf-8", errors="replace")
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def post(
        self,
        body: bytes | Mapping[str, Any],
        *,
        token: str | None = WEBHOOK_TOKEN,
        query: str = "",
        seconds: float = 10,
    ) -> tuple[int, dict[str, Any]]:
        """Send a webhook: status and JSON of the answer. Raises OSError when there is no answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(
            f"{self.url}/v1/webhook{query}", data=data, headers=headers
        )
        try:
            with urllib.request.urlopen(request, timeout=seconds) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def metrics(self) -> str:
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            return str(answer.read(), "utf-8")


@contextmanager
def a_service(folder: Path, github: SandboxGitHub, **changes: Any) -> Iterator[Service]:
    """A service that is killed at the end, if it still runs."""
    service = Service(folder, github, **changes)
    try:
        yield service
    finally:
        service.kill()


def issues(github: SandboxGitHub, repository: str = HOME) -> list[Any]:
    """All issues of a repository, oldest first."""
    group = str(github.state.repository(repository).id)
    return sorted(github.state.issues.in_group(group), key=lambda issue: issue.number)


def free_socket_refuses(port: int) -> bool:
    """Whether nothing listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
