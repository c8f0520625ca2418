"""Getting in as a GitHub App: one token an hour, shared by all threads, and no secret told."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from alerts2gh.ports import Outcome
from sandbox.github_server import Fault, FaultKind, SandboxGitHub
from tests.alerts2gh.github_peers import TARGET, ScriptedServer, drops, says, tracking

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PRIVATE = KEY.private_bytes(
    serialization.Encoding.PEM,
    serialization.PrivateFormat.TraditionalOpenSSL,
    serialization.NoEncryption(),
).decode()
PUBLIC = (
    KEY.public_key()
    .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    .decode()
)


@dataclass
class Home:
    """A GitHub with an App installed at acme, whose clock the test moves."""

    github: SandboxGitHub
    app: tuple[int, int, str]
    clock: list[datetime] = field(default_factory=list)

    @property
    def asked(self) -> list[tuple[str, str]]:
        return [(entry.method, entry.path) for entry in self.github.log()]


@pytest.fixture
def home() -> Iterator[Home]:
    clock = [datetime.now(UTC)]  # the JWT inside PyGithub carries the real time
    with SandboxGitHub(clock=lambda: clock[0]) as github:
        app = github.state.add_app("nodemend", "acme", PUBLIC)
        installation = github.state.add_installation(app, "acme")
        yield Home(github, (app.id, installation.id, PRIVATE), clock)


def test_an_installation_token_is_fetched_once_and_again_before_it_ends(
    tmp_path: Path, home: Home
) -> None:
    fetch = ("POST", f"/app/installations/{home.app[1]}/access_tokens")
    create = ("POST", "/repos/acme/alerts/issues")
    with tracking(tmp_path, home.github.url, app=home.app, now=lambda: home.clock[0]) as (
        tracker,
        _,
    ):
        home.github.state.switches.check_jwt_times = False
        made = tracker.create_issue(TARGET, "a", "b", [], None)
        tracker.create_issue(TARGET, "b", "b", [], None)
        home.clock[0] += timedelta(minutes=56)
        tracker.create_issue(TARGET, "c", "b", [], None)

    assert made.value is not None
    assert made.value.author == "nodemend[bot]"
    assert home.asked == [fetch, create, create, fetch, create]


def test_threads_that_start_together_fetch_one_token(tmp_path: Path, home: Home) -> None:
    with (
        tracking(tmp_path, home.github.url, app=home.app) as (tracker, _),
        ThreadPoolExecutor(6) as pool,
    ):
        answers = list(pool.map(lambda n: tracker.assignable(TARGET, f"p{n}"), range(12)))

    assert {answer.outcome for answer in answers} == {Outcome.DONE}
    assert len(home.asked) == 13


def test_a_revoked_installation_token_is_fetched_anew_with_the_next_request(
    tmp_path: Path, home: Home
) -> None:
    with tracking(tmp_path, home.github.url, app=home.app) as (tracker, _):
        tracker.assignable(TARGET, "alice")
        for token in home.github.state.tokens.all():
            home.github.state.revoke_token(token.value)
        refused = tracker.assignable(TARGET, "alice")
        again = tracker.assignable(TARGET, "alice")

    assert refused.outcome is Outcome.UNAUTHORISED
    assert again.value is True


def test_the_login_of_an_app_is_its_bot(tmp_path: Path, home: Home) -> None:
    with tracking(tmp_path, home.github.url, app=home.app) as (tracker, _):
        assert tracker.login().value == "nodemend[bot]"

    assert home.asked == [("GET", "/app")]


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (Fault(FaultKind.ERROR, status=502), Outcome.UNREACHABLE),
        (Fault(FaultKind.DROP), Outcome.UNREACHABLE),
        (Fault(FaultKind.SECONDARY_LIMIT), Outcome.SECONDARY_LIMIT),
        (Fault(FaultKind.ERROR, status=404, message="Not Found"), Outcome.UNAUTHORISED),
        (Fault(FaultKind.ERROR, status=403, message="suspended"), Outcome.UNAUTHORISED),
    ],
    ids=lambda it: f"{it.kind} {it.status}" if isinstance(it, Fault) else str(it),
)
def test_without_a_token_the_write_was_never_sent(
    tmp_path: Path, home: Home, fault: Fault, outcome: Outcome
) -> None:
    home.github.state.faults.add(fault)
    with tracking(tmp_path, home.github.url, app=home.app, timeout=0.5) as (tracker, _):
        answer = tracker.create_issue(TARGET, "a", "b", [], None)

    assert answer.outcome is outcome
    assert len(home.asked) == 1


def test_a_failed_refresh_uses_the_old_token_while_it_lasts(tmp_path: Path, home: Home) -> None:
    home.github.state.switches.check_jwt_times = False
    with tracking(tmp_path, home.github.url, app=home.app, now=lambda: home.clock[0]) as (
        tracker,
        _,
    ):
        tracker.assignable(TARGET, "alice")
        home.github.state.faults.add(Fault(FaultKind.ERROR, path="access_tokens"))
        home.clock[0] += timedelta(minutes=57)
        soon = tracker.assignable(TARGET, "alice")
        home.clock[0] += timedelta(minutes=4)
        late = tracker.assignable(TARGET, "alice")

    assert (soon.outcome, soon.value) == (Outcome.DONE, True)
    assert late.outcome is Outcome.UNREACHABLE


@pytest.mark.parametrize("key", ["no key at all", PUBLIC, PRIVATE[:200]])
def test_a_key_that_cannot_sign_is_told_without_its_content(tmp_path: Path, key: str) -> None:
    with (
        ScriptedServer([drops]) as server,
        tracking(tmp_path, server.url, app=(1, 2, key)) as (tracker, witness),
    ):
        answers = [tracker.create_issue(TARGET, "a", "b", [], None), tracker.login()]

        assert {answer.outcome for answer in answers} == {Outcome.UNAUTHORISED}
        assert "key.pem is not an RSA private key" in answers[0].text
        assert key not in repr(answers) + witness.log.getvalue()
        assert server.requests == []


@pytest.mark.parametrize(
    "body", [{}, {"token": 5}, {"token": "x", "expires_at": "later"}, [], "<html>"]
)
def test_a_token_that_cannot_be_read_is_none(tmp_path: Path, body: dict[str, object]) -> None:
    with (
        ScriptedServer([says(201, body)]) as server,
        tracking(tmp_path, server.url, app=(1, 2, PRIVATE)) as (tracker, _),
    ):
        answer = tracker.create_issue(TARGET, "a", "b", [], None)

        assert answer.outcome is Outcome.UNREACHABLE
        assert len(server.requests) == 1


def test_an_installation_token_is_in_no_log(tmp_path: Path, home: Home) -> None:
    with tracking(tmp_path, home.github.url, app=home.app) as (tracker, witness):
        told = repr([tracker.assignable(TARGET, "alice"), tracker.login()]) + witness.log.getvalue()

    tokens = [t.value for t in home.github.state.tokens.all() if t.installation is not None]
    assert len(tokens) == 1
    assert tokens[0] not in told
    assert "eyJ" not in told
