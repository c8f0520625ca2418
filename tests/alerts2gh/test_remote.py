"""The commands beside a running service: they find it, get in, and say clearly why not."""

import contextlib
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts2gh.__main__ import main
from alerts2gh.commands import Given, NobodyListensError, Remote, remote_for
from alerts2gh.config import Config
from chassis.config import load_settings
from chassis.errors import NodemendError, PermanentError
from sandbox import programs
from sandbox.github_server import SandboxGitHub
from tests.alerts2gh.github_peers import ScriptedServer, drops, says
from tests.chassis.certificates import an_authority

PAYLOADS = Path(__file__).parents[1] / "payloads"


def write_config(folder: Path, port: int, **changes: Any) -> Path:
    (folder / "token").write_text("made-up")
    (folder / "hook").write_text("s3cret")
    whole = {
        "serving": {"listen": f"127.0.0.1:{port}"},
        "auth": {"bearer_token_file": "hook"},
        "database": {"sqlite_file": "alerts2gh.db"},
        "credentials": {"main": {"base_url": "http://127.0.0.1:9", "token_file": "token"}},
        "allowed_repositories": ["acme/*"],
        "route": {"repository": "acme/alerts"},
        **changes,
    }
    file = folder / "alerts2gh.yaml"
    file.write_text(yaml.safe_dump(whole))
    return file


def remote(folder: Path, given: Given | None = None, port: int = 8080, **changes: Any) -> Remote:
    file = write_config(folder, port, **changes)
    return remote_for(load_settings(file, Config), given or Given())


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("0.0.0.0:9000", "http://127.0.0.1:9000"),
        (":9000", "http://127.0.0.1:9000"),
        ("[::]:9000", "http://[::1]:9000"),
        ("[fd00::1]:9000", "http://[fd00::1]:9000"),
        ("alerts.example:80", "http://alerts.example:80"),
    ],
)
def test_the_address_comes_from_the_configuration(
    tmp_path: Path, listen: str, address: str
) -> None:
    assert remote(tmp_path, serving={"listen": listen}).address == address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://alerts.example", "http://alerts.example:80"),
        ("http://alerts.example:8080/", "http://alerts.example:8080"),
        ("https://alerts.example/a2g/", "https://alerts.example:443/a2g"),
        ("http://127.0.0.1:8080/v1/webhook", "http://127.0.0.1:8080"),
    ],
)
def test_a_given_address_counts(tmp_path: Path, url: str, address: str) -> None:
    assert remote(tmp_path, Given(url=url)).address == address


@pytest.mark.parametrize("url", ["alerts.example", "ftp://x", "http://", "http://x:99999"])
def test_an_address_that_is_none_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(PermanentError, match="--url"):
        remote(tmp_path, Given(url=url))


def test_a_port_that_the_system_chose_must_be_given(tmp_path: Path) -> None:
    with pytest.raises(NobodyListensError, match="--url"):
        remote(tmp_path, port=0)


@pytest.mark.parametrize(
    ("auth", "given", "header"),
    [
        (None, False, None),
        ({"bearer_token_file": "hook"}, False, "Bearer s3cret"),
        (
            {"basic_auth": {"username": "ada", "password_file": "hook"}},
            False,
            "Basic YWRhOnMzY3JldA==",
        ),
        ({"bearer_token_file": "hook"}, True, "Bearer made-up"),
    ],
    ids=["no auth", "token", "password", "token given"],
)
def test_the_credential_comes_from_the_configuration_unless_given(
    tmp_path: Path, auth: Any, given: bool, header: str | None
) -> None:
    named = Given(bearer_token_file=tmp_path / "token") if given else Given()
    made = remote(tmp_path, named, auth=auth)

    assert made.headers.get("Authorization") == header
    assert "s3cret" not in repr(made)


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (says(401, {"error": "x"}), "does not accept the credential"),
        (says(404, {"error": "x"}), "not as alerts2gh of this version"),
        (says(200, "<html>"), "not as alerts2gh of this version"),
        (says(503, {"error": "the disk is full", "reason": "full"}), "503 full: the disk is full"),
        (drops, "cannot be reached"),
    ],
    ids=["401", "404", "another program", "503", "no answer"],
)
def test_each_failure_has_its_words(tmp_path: Path, script: Any, words: str) -> None:
    with ScriptedServer([script]) as server:
        made = remote(tmp_path, port=port_of(server.url))
        with pytest.raises(NodemendError, match=words):
            made.get("/v1/status")


def test_nobody_listening_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(NobodyListensError, match=r"nothing listens at http://127\.0\.0\.1:"):
        remote(tmp_path, port=programs.free_port()).get("/v1/status")


@dataclass
class Running:
    """A service in a process of its own, and the commands run beside it."""

    config: Path
    github: SandboxGitHub
    capsys: pytest.CaptureFixture[str]

    def run(self, *line: str) -> tuple[int, str, str]:
        """Exit status, what was said, what was complained of."""
        status = main([*line, "--config", str(self.config)])
        told = self.capsys.readouterr()
        return status, told.out, told.err


def _wait_until_it_listens(program: programs.Program, listen: str) -> None:
    host, _, port = listen.rpartition(":")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and program.process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        time.sleep(0.05)
    raise AssertionError(f"it does not listen: {program.tail()}")


def _words(said: str) -> list[list[str]]:
    return [line.split() for line in said.splitlines()]


@contextmanager
def running(folder: Path, capsys: pytest.CaptureFixture[str], **changes: Any) -> Iterator[Running]:
    with SandboxGitHub(repositories=("acme/alerts",)) as github:
        port = programs.free_port()
        credentials = {"main": {"base_url": github.url, "token_file": "token"}}
        file = write_config(folder, port, credentials=credentials, **changes)
        (folder / "token").write_text(github.token)
        with programs.running(programs.start_alerts2gh(file, folder)) as program:
            _wait_until_it_listens(program, load_settings(file, Config).serving.listen)
            yield Running(file, github, capsys)


def until(condition: Any, beside: Running, *line: str) -> str:
    """Run a command until what it says fulfils the condition."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        _, said, _ = beside.run(*line)
        if condition(said):
            return said
        time.sleep(0.05)
    raise AssertionError(f"in vain: {said}")


def test_beside_a_running_service_all_commands_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(tmp_path, capsys) as beside:
        firing = str(PAYLOADS / "firing.json")
        (tmp_path / "bad.json").write_text("{}")
        assert beside.run("replay", firing) == (0, f"{firing}: taken, 1 incident\n", "")
        status, said, _ = beside.run("replay", firing, str(tmp_path / "bad.json"))
        assert status == 1
        assert "400 custom_payload: this is JSON, but not Alertmanager's webhook" in said

        told = until(lambda said: ["open", "1"] in _words(said), beside, "status")
        assert "the file is in use" in told
        assert "refused (custom_payload)" in told
        assert beside.run("dead-letters", "list") == (0, "there are no dead letters\n", "")
        assert beside.run("dead-letters", "requeue", "7")[:2] == (
            1,
            "0 of 1 brought back to work\n",
        )
        assert beside.run("report")[1].startswith("# Alerts of the last 30 days\n\n1 firing")


def test_a_wrong_token_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(tmp_path, capsys) as beside:
        (tmp_path / "wrong").write_text("wrong")

        status, _, err = beside.run("status", "--bearer-token-file", str(tmp_path / "wrong"))

    assert status == 2
    assert "does not accept the credential" in err


def test_over_tls_exactly_the_services_own_certificate_is_trusted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = an_authority(tmp_path / "ca")
    mine, other, client = (authority.issue(name) for name in ("mine", "other", "client"))
    tls = {"cert_file": str(mine), "key_file": str(mine.with_suffix(".key"))}
    port = programs.free_port()
    serving = {"listen": f"127.0.0.1:{port}", "tls": {**tls, "client_ca_file": str(authority.file)}}
    show = ("--client-cert-file", str(client), "--client-key-file", str(client.with_suffix(".key")))
    with running(tmp_path, capsys, serving=serving) as beside:
        assert "the file is in use" in beside.run("status", *show)[1]

        ca = ("--ca-file", str(authority.file))
        assert beside.run("status", *show, *ca)[0] == 0
        assert beside.run("status", *show, *ca, "--url", f"https://localhost:{port}")[0] == 0
        assert "client certificate" in beside.run("status")[2]
        assert "--ca-file" in beside.run("status", *show, "--url", f"https://localhost:{port}")[2]

        shutil.copy(other, mine)  # the file is not what is served
        status, _, err = beside.run("status", *show)
    assert (status, "--ca-file" in err) == (2, True)


def test_without_a_service_the_commands_read_the_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_config(tmp_path, programs.free_port())

    assert main(["status", "--config", str(file)]) == 0
    assert "no service runs" in capsys.readouterr().out
    assert main(["replay", str(PAYLOADS), "--config", str(file)]) == 2
    assert "nothing listens at" in capsys.readouterr().err


def test_a_configuration_with_mistakes_is_told_line_by_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_config(tmp_path, 8080, colour="red")

    assert main(["status", "--config", str(file)]) == 2
    assert "colour" in capsys.readouterr().err
