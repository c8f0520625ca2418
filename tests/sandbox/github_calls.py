"""A sandbox GitHub on a clock that tests turn, and plain calls to it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import requests

from sandbox.github_server import SandboxGitHub

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
REPO = "/repos/acme/alerts"


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **by: float) -> None:
        self.now += timedelta(**by)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def github(clock: Clock) -> Iterator[SandboxGitHub]:
    with SandboxGitHub(clock=clock) as server:
        yield server


def ask(
    server: SandboxGitHub,
    method: str,
    path: str,
    body: Any = None,
    *,
    token: str | None = None,
    timeout: float = 20,
    **headers: str,
) -> requests.Response:
    """Call as the robot, or with `token` ("" for nobody); redirects are not followed."""
    value = server.token if token is None else token
    credentials = {"Authorization": f"Bearer {value}"} if value else {}
    return requests.request(
        method,
        f"{server.url}{path}",
        json=body,
        headers={**credentials, **headers},
        allow_redirects=False,
        timeout=timeout,
    )


def an_issue(server: SandboxGitHub, title: str = "down", **fields: Any) -> dict[str, Any]:
    response = ask(server, "POST", f"{REPO}/issues", {"title": title, **fields})
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()
    return made


def events_of(server: SandboxGitHub, number: int) -> list[tuple[str, str]]:
    """(what, who) of an issue's timeline, oldest first."""
    timeline = ask(server, "GET", f"{REPO}/issues/{number}/timeline").json()
    return [(entry["event"], entry["actor"]["login"]) for entry in timeline]
