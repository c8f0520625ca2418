"""The real process: what it answers, what it does on signals, what is there after a kill."""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.github_server import Fault, FaultKind, SandboxGitHub
from tests.alerts2gh.world import alert, webhook
from tests.journeys.service import (
    FALLBACK,
    HOME,
    Service,
    a_service,
    free_socket_refuses,
    issues,
    wait_until,
)

ROOT = Path(__file__).parents[2]
PAYLOADS = sorted(
    [*(ROOT / "tests/payloads").glob("*.json"), *(ROOT / "sandbox/recorded").glob("*.json")]
)


@pytest.fixture
def github() -> Iterator[SandboxGitHub]:
    with SandboxGitHub(repositories=(HOME, FALLBACK, "acme/other")) as running:
        yield running


@pytest.fixture
def service(tmp_path: Path, github: SandboxGitHub) -> Iterator[Service]:
    with a_service(tmp_path, github, max_body_bytes=20_000) as one:
        one.start()
        yield one


def recorded(name: str) -> dict[str, Any]:
    return dict(json.loads((ROOT / "tests/payloads" / name).read_text()))


def test_recorded_webhooks_open_and_close_issues(service: Service, github: SandboxGitHub) -> None:
    for path in PAYLOADS:
        status, answer = service.post(path.read_bytes())
        assert (status, answer) == (200, {"incidents": 1, "status": "accepted"}), path
    service.post(recorded("firing.json"))
    service.post(recorded("grouped-3.json"))
    wait_until("three issues", lambda: len(issues(github)) >= 2)
    service.post(recorded("resolved.json"))
    service.post(recorded("resolved-grouped-3.json"))

    def whole_ones_closed() -> bool:
        return all(
            issue.state == "closed" or "left out" in (issue.body or "") for issue in issues(github)
        )

    wait_until("those that are not truncated to close", whole_ones_closed)
    assert service.terminate() == 0


def test_refused_webhooks_get_a_text_and_become_an_incident(
    service: Service, github: SandboxGitHub
) -> None:
    refusals = {
        "bad_json": (400, b"{"),
        "wrong_version": (400, json.dumps(webhook(alert()) | {"version": "3"}).encode()),
        "custom_payload": (400, b'{"text": "a template of my own"}'),
    }
    assert service.post(b" " * 20_001)[0] == 413
    for reason, (status, body) in refusals.items():
        got, answer = service.post(body)
        assert (got, answer["reason"]) == (status, reason), answer
        assert len(answer["error"]) > 20
    assert service.post(webhook(alert()), token=None)[0] == 401
    assert service.post(webhook(alert()), token="wrong")[0] == 401
    got, answer = service.post(webhook(alert()), query="?owner=evil&repo=x")
    assert (got, "allowed_repositories" in answer["error"]) == (400, True)
    wait_until("the incident of the refusals", lambda: len(issues(github, FALLBACK)) == 1)
    wait_until(
        "all reasons in it",
        lambda: all(reason in (issues(github, FALLBACK)[0].body or "") for reason in refusals),
    )
    assert issues(github) == []
    for reason in ("bad_json", "too_large"):
        assert f'alerts2gh_webhooks_total{{reason="{reason}"}} 1.0' in service.metrics()


def test_a_hang_up_takes_new_routes_and_keeps_the_last_good_ones(
    service: Service, github: SandboxGitHub
) -> None:
    service.configure(route={"repository": "acme/other"})
    service.hang_up()
    wait_until("the reload", lambda: "config_last_reload_successful 1.0" in service.metrics())
    wait_until(
        "an issue where the new routes say",
        lambda: (
            service.post(webhook(alert(group := str(time.monotonic())), group={"g": group}))[0]
            == 200
            and bool(issues(github, "acme/other"))
        ),
    )
    service.configure(route={"repository": "not a repository"})
    service.hang_up()
    wait_until("its refusal", lambda: "config_last_reload_successful 0.0" in service.metrics())
    before = len(issues(github, "acme/other"))
    assert service.post(webhook(alert("gpu-n7"), group={"g": "last"}))[0] == 200
    wait_until("one more there", lambda: len(issues(github, "acme/other")) > before)


def test_a_term_signal_lets_what_runs_finish(service: Service, github: SandboxGitHub) -> None:
    github.state.faults.add(
        Fault(FaultKind.LATENCY, method="POST", path="/issues$", seconds=0.5, count=1)
    )
    service.post(webhook(alert()))
    wait_until(
        "the create to be under way", lambda: any("state=open" in e.query for e in github.log())
    )
    assert service.terminate() == 0
    assert free_socket_refuses(service.port)
    service.start()
    wait_until("the issue", lambda: len(issues(github)) == 1)
    service.post(webhook(alert("gpu-n2")))
    wait_until("the second alert in it", lambda: "gpu-n2" in (issues(github)[0].body or ""))
    assert len(issues(github)) == 1


def test_accepted_and_killed_it_still_files_exactly_one_issue(
    service: Service, github: SandboxGitHub
) -> None:
    """Once before the create is sent, once while it is under way."""
    hold = github.state.faults.add(
        Fault(FaultKind.LATENCY, method="GET", path="/issues$", seconds=30)
    )
    assert service.post(webhook(alert()))[0] == 200
    service.kill()
    github.state.faults.remove(hold)
    github.state.faults.add(
        Fault(FaultKind.TIMEOUT, "after", "POST", "/issues$", seconds=30, count=1)
    )
    service.start()
    wait_until("the create to take effect", lambda: len(issues(github)) == 1)
    service.kill()
    service.start()
    service.post(webhook(alert("gpu-n2")))
    wait_until("the second alert in it", lambda: "gpu-n2" in (issues(github)[0].body or ""))
    assert [issue.state for issue in issues(github)] == ["open"]


def test_a_full_disk_is_503_and_then_it_goes_on(tmp_path: Path, github: SandboxGitHub) -> None:
    with a_service(tmp_path, github) as service:
        service.start()
        assert service.program is not None
        assert service.post(webhook(alert()))[0] == 200
        size = (tmp_path / "alerts2gh.db-wal").stat().st_size
        pid = service.program.process.pid
        limits = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size // 2, limits[1]))
        bulky, *others = (
            webhook(*(alert(f"gpu-n{n}", annotations={"summary": f"{k}" * 400}) for n in range(40)))
            for k in range(1, 9)
        )
        statuses = [service.post(each)[0] for each in (bulky, *others) * 3]
        assert statuses[-1] == 503
        assert service.running
        resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
        wait_until("it to take webhooks again", lambda: service.post(bulky)[0] == 200)
        wait_until(
            "the issue",
            lambda: "gpu-n39" in (issues(github)[-1].body or "") if issues(github) else False,
        )


def test_two_on_one_database_is_refused(service: Service) -> None:
    other = service.config_file.with_name("other.yaml")
    text = service.config_file.read_text().replace(str(service.port), "0")
    other.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "alerts2gh", "serve", "--config", str(other)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 2
    assert "in use by another process" in done.stderr


def test_a_broken_configuration_ends_it_at_once_with_one_line_a_mistake(
    tmp_path: Path, github: SandboxGitHub
) -> None:
    with a_service(tmp_path, github, routes={}, search_label="") as service:
        service.start(wait=False)
        assert service.program is not None
        assert service.program.process.wait(30) == 2
        mistakes = service.program.tail().splitlines()
        assert len(mistakes) == 2
        assert any("routes" in line for line in mistakes)
