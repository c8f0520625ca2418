"""Serves the sandbox GitHub on a port of this machine, in a thread of this process.

Werkzeug's server rather than the services' one: a fault may have to cut a connection in the middle,
which needs the bare socket. It is for tests and demos, never for the open network.
"""

import socket
import threading
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

from sandbox.github_server.app import create_github
from sandbox.github_server.human import Human
from sandbox.github_server.request_log import LogEntry
from sandbox.github_server.state import Clock, GitHubState

TOKEN = "sandbox-token"  # noqa: S105  (opens only the sandbox)
LOGIN = "nodemend-bot"
REPOSITORY = "acme/alerts"


def utc_now() -> datetime:
    return datetime.now(UTC)


class _Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"  # keep-alive
    disable_nagle_algorithm = True  # head and body go out apart; without this each waits 40 ms

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002  (werkzeug's name)
        """The sandbox has its own log."""


class GitHubServer(ThreadedWSGIServer):
    """Listens once made; `start` answers in the background, `stop` ends open connections too."""

    def __init__(self, state: GitHubState, host: str = "127.0.0.1", port: int = 0) -> None:
        self.request_queue_size = 512
        self._state = state
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(host, port, create_github(state), handler=_Handler)
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.server_port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._state.closing.set()
        self.shutdown()
        self._thread.join()
        self.server_close()
        with self._guard:
            for connection in self._open:
                _cut(connection)
        self._state.close()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)


class SandboxGitHub:
    """A sandbox GitHub with one repository, one robot with push access, and a few people.

    Use as a context manager. `state` sets it up and reads it, `human(login)` acts as a person.
    """

    def __init__(  # noqa: PLR0913  (all optional, all by keyword)
        self,
        *,
        repositories: Iterable[str] = (REPOSITORY,),
        people: Iterable[str] = ("alice", "bob"),
        clock: Clock = utc_now,
        database: str | None = None,
        port: int = 0,
        token: str = TOKEN,
        login: str = LOGIN,
    ) -> None:
        self.token = token
        self.login = login
        self.repositories = tuple(repositories)
        self.state = GitHubState(clock, database)
        prepare(self.state, self.repositories, people=people, login=login, token=token)
        self._server = GitHubServer(self.state, port=port)

    @property
    def url(self) -> str:
        """Base URL of the API and of the pages; PyGithub takes it as `base_url`."""
        return self._server.url

    @property
    def repository(self) -> str:
        return self.repositories[0]

    def log(self, after: int = 0) -> list[LogEntry]:
        return self.state.log.entries(after)

    def human(self, login: str) -> Human:
        return Human(self.state, login)

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def prepare(
    state: GitHubState,
    repositories: Iterable[str],
    *,
    people: Iterable[str],
    login: str,
    token: str,
) -> None:
    """Make what is missing: repositories, people and a robot who may push, the robot's token."""
    rights: Mapping[str, str] = {login: "write", **dict.fromkeys(people, "write")}
    for name in repositories:
        if state.repositories.get("", name.lower()) is None:
            state.add_repository(name)
        for person, right in rights.items():
            state.set_collaborator(name, person, right)
    state.add_token(token, login)


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the other side was faster
