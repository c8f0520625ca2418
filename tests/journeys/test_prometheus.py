"""A real Prometheus and two gossiping Alertmanagers, bearer and client certificate, one of them restarted."""

import http.server
import ssl
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox import programs
from sandbox.demo.monitoring import prometheus_config, rules
from sandbox.github_server import SandboxGitHub
from tests.chassis.certificates import an_authority
from tests.journeys.service import FALLBACK, HOME, Service, a_service, issues, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


class Metric:
    """An exporter with one condition of one node, which counts its scrapes."""

    def __init__(self) -> None:
        self.problem = False
        self.scrapes = 0
        metric = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = metric.render()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Scrapes are no news."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def render(self) -> bytes:
        self.scrapes += 1
        states = {"true": self.problem, "false": not self.problem, "unknown": False}
        lines = [
            f'nodemend_node_condition{{node="gpu-n1",condition="GPURuntimeError",status="{status}"}}'
            f" {int(held)}"
            for status, held in states.items()
        ]
        return ("\n".join(lines) + "\n").encode()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Cluster:
    """Two Alertmanagers that know each other; both send to one webhook."""

    def __init__(self, folder: Path, service: Service) -> None:
        self.folder = folder
        self.ports = [programs.free_port() for _ in range(2)]
        self._gossip = [programs.free_port() for _ in range(2)]
        self._config = folder / "alertmanager.yml"
        self._config.write_text(yaml.safe_dump(self._configuration(service)))
        self.running: dict[int, programs.Program] = {}

    def _configuration(self, service: Service) -> dict[str, Any]:
        http = {
            "authorization": {"credentials_file": str(service.folder / "webhook-token")},
            "tls_config": {
                "ca_file": str(service.folder / "ca" / "ca.crt"),
                "cert_file": str(service.folder / "ca" / "alertmanager.crt"),
                "key_file": str(service.folder / "ca" / "alertmanager.key"),
            },
        }
        webhook = {"url": f"{service.url}/v1/webhook", "send_resolved": True, "http_config": http}
        return {
            "route": {
                "receiver": "alerts2gh",
                "group_by": ["alertname", "node"],
                "group_wait": "1s",
                "group_interval": "2s",
                "repeat_interval": "1h",
            },
            "receivers": [{"name": "alerts2gh", "webhook_configs": [webhook]}],
        }

    def start(self, number: int) -> None:
        own, other = self._gossip[number], self._gossip[1 - number]
        flags = (
            f"--cluster.listen-address=127.0.0.1:{own}",
            f"--cluster.peer=127.0.0.1:{other}",
            "--cluster.peer-timeout=1s",
        )
        self.running[number] = programs.start_alertmanager(
            self._config,
            self.folder,
            self.ports[number],
            cluster=flags,
            name=f"alertmanager{number}",
        )

    def wait(self) -> None:
        for number, program in self.running.items():
            program.wait_until_ready(f"http://127.0.0.1:{self.ports[number]}/-/ready", 60)

    def restart(self, number: int) -> None:
        self.running[number].stop()
        self.start(number)
        self.wait()

    def stop(self) -> None:
        for program in self.running.values():
            program.stop()


@pytest.fixture
def github() -> Iterator[SandboxGitHub]:
    with SandboxGitHub(repositories=(HOME, FALLBACK)) as running:
        yield running


@pytest.fixture
def service(tmp_path: Path, github: SandboxGitHub) -> Iterator[Service]:
    authority = an_authority(tmp_path / "ca")
    server, client = authority.issue("server"), authority.issue("alertmanager")
    tls = {
        "cert_file": str(server),
        "key_file": str(server.with_suffix(".key")),
        "client_ca_file": str(authority.file),
    }
    policy = {"close_after": "5s", "reorder_window": "5s"}
    with a_service(tmp_path, github, serving={"tls": tls}, policy=policy) as one:
        one.start(wait=False)
        context = authority.trusting(client)
        wait_until("alerts2gh", lambda: answers(f"{one.url}/readyz", context), 60)
        with pytest.raises(OSError, match=r"."):
            urllib.request.urlopen(f"{one.url}/readyz", context=authority.trusting(), timeout=5)
        yield one


def answers(url: str, context: ssl.SSLContext | None = None) -> bool:
    try:
        with urllib.request.urlopen(url, context=context, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.fixture
def metric() -> Iterator[Metric]:
    one = Metric()
    one.start()
    yield one
    one.stop()


def start_prometheus(folder: Path, metric: Metric, cluster: Cluster) -> programs.Program:
    (folder / "rules.yml").write_text(yaml.safe_dump(rules()))
    config = prometheus_config(metric.port, cluster.ports)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    return programs.start_prometheus(folder / "prometheus.yml", folder, programs.free_port())


def states(github: SandboxGitHub) -> list[str]:
    return [issue.state for issue in issues(github)]


def test_an_alert_from_two_alertmanagers_is_one_issue_that_closes_and_reopens(
    tmp_path: Path, service: Service, github: SandboxGitHub, metric: Metric
) -> None:
    for name in ("prometheus", "prometheus-alertmanager"):
        if programs.find(name) is None:
            pytest.skip(f"{name} is not installed. {programs.HOW_TO_GET[name]}")
    cluster = Cluster(tmp_path, service)
    with ExitStack() as stack:
        stack.callback(cluster.stop)
        cluster.start(0)
        cluster.start(1)
        cluster.wait()
        stack.enter_context(programs.running(start_prometheus(tmp_path, metric, cluster)))
        # An alert of the very first evaluation is sent a minute late.
        wait_until("a scrape", lambda: metric.scrapes > 2)
        metric.problem = True
        wait_until("an issue", lambda: states(github) == ["open"], 60)
        cluster.restart(0)
        metric.problem = False
        wait_until("its close", lambda: states(github) == ["closed"], 60)
        metric.problem = True
        wait_until("its reopening", lambda: states(github) == ["open"], 60)
        time.sleep(8)  # the slower Alertmanager's turn: peer timeout and group interval
    assert states(github) == ["open"]
    creates = [e for e in github.log() if e.method == "POST" and e.path.endswith("/issues")]
    assert len(creates) == 1
    assert issues(github, FALLBACK) == []
