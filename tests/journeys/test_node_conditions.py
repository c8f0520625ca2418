"""The real exporter between a real Kubernetes API and a real Prometheus."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from chassis.kube_client import NODES, KubeClient, KubeSettings, PatchKind
from chassis.telemetry import get_logger
from sandbox import programs
from tests import kubernetes_api
from tests.exporters.node_builders import a_condition, a_node
from tests.journeys.service import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

ODD_TYPE = 'quo"te\\ and\nline\u2028 and \x00 nul'


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kubernetes_api.KubernetesAPI]:
    why_not = kubernetes_api.missing("etcd", "kube-apiserver", "kubectl")
    if why_not:
        pytest.skip(why_not)
    with kubernetes_api.running_kubernetes_api(tmp_path_factory.mktemp("api")) as running:
        yield running


@pytest.fixture
def cluster(api: kubernetes_api.KubernetesAPI) -> Iterator["Cluster"]:
    one = Cluster(api)
    yield one
    one.clear()


class Cluster:
    """Nodes in the API, whose conditions only the test writes."""

    def __init__(self, api: kubernetes_api.KubernetesAPI) -> None:
        self.api = api
        self.client = KubeClient(KubeSettings(kubeconfig=api.kubeconfig), get_logger("test"))

    def create(self, name: str, *conditions: Any, **changes: Any) -> None:
        self.client.create(NODES, a_node(name, conditions, **changes))

    def set(self, name: str, *conditions: Any) -> None:
        self.client.patch(
            NODES,
            name,
            {"status": {"conditions": list(conditions)}},
            kind=PatchKind.STRATEGIC,
            subresource="status",
        )

    def delete(self, name: str) -> None:
        self.client.delete(NODES, name)

    def clear(self) -> None:
        for node in self.client.list(NODES).items:
            self.delete(node["metadata"]["name"])
        self.client.close()


class Exporter:
    """`exporters node-conditions` as a child process."""

    def __init__(self, folder: Path, kubeconfig: Path, **settings: Any) -> None:
        self.port = programs.free_port()
        self.config = folder / "node-conditions.yaml"
        self._settings = {
            "serving": {"listen": f"127.0.0.1:{self.port}", "drain": "2s"},
            "kubernetes": {"kubeconfig": str(kubeconfig), "timeout": "5s"},
        }
        self.write(**settings)
        command = [sys.executable, "-m", "exporters", "node-conditions", "-c", str(self.config)]
        self.program = programs.start("node-conditions", command, folder)

    def write(self, **settings: Any) -> None:
        self.config.write_text(yaml.safe_dump({**self._settings, **settings}))

    def wait(self) -> None:
        self.program.wait_until_ready(f"http://127.0.0.1:{self.port}/readyz")

    def scrape(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    def value(self, series: str) -> float | None:
        """The value of a series by its whole text; None when it is not there."""
        found = [line for line in self.scrape().split("\n") if line.startswith(f"{series} ")]
        assert len(found) <= 1
        return float(found[0].removeprefix(series)) if found else None


@pytest.fixture
def exporter(tmp_path: Path, cluster: Cluster) -> Iterator[Exporter]:
    one = Exporter(tmp_path, cluster.api.kubeconfig)
    try:
        one.wait()
        yield one
    finally:
        one.program.stop()


class Prometheus:
    """A Prometheus that scrapes one target each second, and puts a label `node` of its own on it."""

    def __init__(self, folder: Path, target: int) -> None:
        self.port = programs.free_port()
        job = {
            "job_name": "node-conditions",
            "scrape_interval": "1s",
            "honor_labels": True,
            "static_configs": [
                {"targets": [f"127.0.0.1:{target}"], "labels": {"node": "where-the-exporter-runs"}}
            ],
        }
        config = folder / "prometheus.yml"
        config.write_text(yaml.safe_dump({"scrape_configs": [job]}))
        self.program = programs.start_prometheus(config, folder, self.port)

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        query = urlencode({"query": expression})
        url = f"http://127.0.0.1:{self.port}/api/v1/query?{query}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            found = json.load(answer)["data"]["result"]
        return [(each["metric"], float(each["value"][1])) for each in found]

    def nodes(self, expression: str) -> list[str]:
        return sorted(labels["node"] for labels, _ in self.query(expression))


@pytest.fixture
def prometheus(tmp_path: Path, exporter: Exporter) -> Iterator[Prometheus]:
    if programs.find("prometheus") is None:
        pytest.skip(f"no prometheus here; {programs.HOW_TO_GET['prometheus']}")
    one = Prometheus(tmp_path, exporter.port)
    with programs.running(one.program):
        one.program.wait_until_ready(f"http://127.0.0.1:{one.port}/-/ready", 60)
        yield one


def state(node: str, condition: str, status: str) -> str:
    return f'nodemend_node_condition{{node="{node}",condition="{condition}",status="{status}"}}'


def test_prometheus_sees_a_condition_come_and_go_and_the_node_with_it(
    cluster: Cluster, exporter: Exporter, prometheus: Prometheus
) -> None:
    """Whatever a type holds; and although the target has a label `node` of its own."""
    is_lost = 'nodemend_node_condition{condition="GPUIsLost",status="true"} == 1'
    cluster.create("n1", a_condition("GPUIsLost", "False"), a_condition(ODD_TYPE, "True"))
    cluster.create("n2", a_condition("GPUIsLost", "True", reason="GPUFallenOffBus"))
    wait_until("the alert of n2", lambda: prometheus.nodes(is_lost) == ["n2"])

    cluster.set("n1", a_condition("GPUIsLost", "True"))
    cluster.set("n2", a_condition("GPUIsLost", "False"))
    wait_until("the alert of n1 alone", lambda: prometheus.nodes(is_lost) == ["n1"])
    cluster.delete("n2")
    wait_until("the end of n2's series", lambda: prometheus.nodes("nodemend_node_info") == ["n1"])

    types = {labels["condition"] for labels, _ in prometheus.query("nodemend_node_condition")}
    assert types == {"GPUIsLost", ODD_TYPE.replace("\x00", "\ufffd")}
    assert prometheus.query("up") == [
        ({"__name__": "up", "instance": f"127.0.0.1:{exporter.port}", "job": "node-conditions", "node": "where-the-exporter-runs"}, 1.0)
    ]  # fmt: skip


def test_a_change_is_visible_within_a_second_without_a_scrape_in_between(
    cluster: Cluster, exporter: Exporter
) -> None:
    cluster.create("n1", a_condition("GPUIsLost", "False"))
    wait_until("n1", lambda: exporter.value(state("n1", "GPUIsLost", "false")) == 1)

    cluster.set("n1", a_condition("GPUIsLost", "True"))

    wait_until("the change", lambda: exporter.value(state("n1", "GPUIsLost", "true")) == 1, 1)


def test_promtool_has_nothing_to_say_about_the_families_of_nodes(
    cluster: Cluster, exporter: Exporter
) -> None:
    promtool = programs.find("promtool")
    if promtool is None:
        pytest.skip(f"no promtool here; {programs.HOW_TO_GET['promtool']}")
    exporter.write(node_labels={"zone": "topology.kubernetes.io/zone"})
    exporter.program.process.send_signal(signal.SIGHUP)
    cluster.create("n1", a_condition("GPUIsLost", "True"), a_condition(ODD_TYPE, "Bogus"))
    wait_until("the new settings", lambda: 'nodemend_node_labels{node="n1"' in exporter.scrape())

    checked = subprocess.run(
        [promtool, "check", "metrics"],
        input=exporter.scrape(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


class Way:
    """The way from an exporter to the API server, which can be cut."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: list[socket.socket] = []
        self._cut = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._cut.set()
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._cut.clear()

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near = self._listener.accept()[0]
                if self._cut.is_set():
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._target))
                self._open += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    @staticmethod
    def _carry(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError), source, sink:
            while data := source.recv(65536):
                sink.sendall(data)


@pytest.fixture
def way(cluster: Cluster) -> Iterator[Way]:
    one = Way(int(cluster.api.url.rpartition(":")[2]))
    yield one
    one.close()


def test_the_last_known_nodes_stay_while_the_api_is_away_and_their_age_shows(
    tmp_path: Path, cluster: Cluster, way: Way
) -> None:
    """And a node that was deleted while nobody watched has no series afterwards."""
    age = 'nodemend_watch_last_event_timestamp_seconds{resource="nodes"}'
    failures = 'nodemend_watch_failures_total{resource="nodes"}'
    cluster.create("n1", a_condition("GPUIsLost", "True"))
    cluster.create("n2", a_condition("GPUIsLost", "True"))
    kubeconfig = tmp_path / "kubeconfig"
    text = cluster.api.kubeconfig.read_text()
    kubeconfig.write_text(text.replace(cluster.api.url, f"https://127.0.0.1:{way.port}"))
    exporter = Exporter(tmp_path, kubeconfig)
    with programs.running(exporter.program):
        exporter.wait()
        assert exporter.value("nodemend_nodes") == 2

        way.cut()
        wait_until("a failure", lambda: (exporter.value(failures) or 0) > 1)
        before = exporter.value(age)
        cluster.delete("n1")
        cluster.set("n2", a_condition("GPUIsLost", "False"))
        assert exporter.value(state("n1", "GPUIsLost", "true")) == 1
        assert exporter.value(age) == before
        exporter.wait()

        way.mend()
        wait_until("n2 now", lambda: exporter.value(state("n2", "GPUIsLost", "false")) == 1)
        wait_until("the end of n1", lambda: exporter.value("nodemend_nodes") == 1)
        assert 'node="n1"' not in exporter.scrape()
        assert (exporter.value(age) or 0) > (before or 0)


def test_before_the_nodes_are_known_it_is_not_ready_and_shows_none(
    tmp_path: Path, cluster: Cluster
) -> None:
    cluster.create("n1", a_condition("GPUIsLost", "True"))
    cluster.api.pause()
    try:
        exporter = Exporter(tmp_path, cluster.api.kubeconfig)
        with programs.running(exporter.program):
            exporter.program.wait_until_ready(f"http://127.0.0.1:{exporter.port}/healthz")
            assert "nodemend_node_condition{" not in exporter.scrape()
            assert exporter.value("nodemend_nodes") is None
            with pytest.raises(urllib.error.HTTPError, match="503"):
                urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/readyz", timeout=5)
            cluster.api.resume()
            exporter.wait()
            assert exporter.value(state("n1", "GPUIsLost", "true")) == 1
    finally:
        cluster.api.resume()


def test_two_shards_serve_every_node_once(tmp_path: Path, cluster: Cluster) -> None:
    for number in range(12):
        cluster.create(f"n{number}", a_condition("GPUIsLost", "True"))
    served: list[set[str]] = []
    for index in range(2):
        folder = tmp_path / str(index)
        folder.mkdir()
        shard = Exporter(folder, cluster.api.kubeconfig, shard={"total": 2, "index": index})
        with programs.running(shard.program):
            shard.wait()
            text = shard.scrape()
        served.append({f"n{n}" for n in range(12) if f'nodemend_node_info{{node="n{n}",' in text})

    assert served[0] & served[1] == set()
    assert len(served[0] | served[1]) == 12
    assert all(served)
