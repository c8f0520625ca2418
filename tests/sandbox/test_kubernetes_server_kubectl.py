"""kubectl against the sandbox Kubernetes: what people type at the demo works as on a real cluster."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.kubernetes_server import SandboxKubernetes
from tests import kubernetes_api
from tests.sandbox.kubernetes_calls import a_map, until

pytestmark = pytest.mark.skipif(
    kubernetes_api.missing("kubectl") is not None,
    reason=str(kubernetes_api.missing("kubectl")),
)


class Kubectl:
    def __init__(self, server: SandboxKubernetes, kubeconfig: Path) -> None:
        self.server = server
        self._command = [str(kubernetes_api.find("kubectl")), f"--kubeconfig={kubeconfig}"]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*self._command, *arguments], stdout=subprocess.PIPE, text=True)

    def __call__(self, *arguments: str, body: Any = None) -> str:
        done = subprocess.run(
            [*self._command, *arguments],
            input=None if body is None else json.dumps(body),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with SandboxKubernetes(rbac=True) as server:
        server.add_nodes(2)
        yield Kubectl(server, server.kubeconfig(tmp_path_factory.mktemp("k") / "kubeconfig"))


def a_config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", **a_map(name, **data)}


def test_get_shows_tables_and_yaml(kubectl: Kubectl) -> None:
    head, first, *_ = kubectl("get", "nodes").splitlines()

    assert head.split() == ["NAME", "STATUS", "VERSION", "AGE"]
    assert first.split()[:2] == ["node-00000", "Ready"]
    assert "kind: Node" in kubectl("get", "node", "node-00000", "-o", "yaml")


@pytest.mark.parametrize("flag", [(), ("--server-side",)], ids=["client side", "server side"])
def test_apply_makes_and_changes(kubectl: Kubectl, flag: tuple[str, ...]) -> None:
    name = f"applied{len(flag)}"
    for value in ("1", "2"):
        kubectl("apply", *flag, "-f", "-", body=a_config_map(name, x=value))

    stored = kubectl.server.object("configmaps", name, "default")
    assert stored is not None
    assert stored["data"] == {"x": "2"}


def test_patch_taint_cordon_and_label_change_a_node(kubectl: Kubectl) -> None:
    kubectl("cordon", "node-00001")
    kubectl("taint", "node", "node-00001", "a=b:NoSchedule")
    kubectl("label", "node", "node-00001", "team=red")
    kubectl("patch", "node", "node-00001", "-p", '{"metadata":{"annotations":{"a":"1"}}}')

    node = kubectl.server.object("nodes", "node-00001")
    assert node is not None
    assert node["spec"]["unschedulable"] is True
    assert {"key": "a", "value": "b", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert node["metadata"]["labels"]["team"] == "red"
    assert node["metadata"]["annotations"] == {"a": "1"}


def test_drain_evicts_through_the_eviction_api(kubectl: Kubectl) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "drained"}}
    kubectl.server.put({**pod, "spec": {**spec, "nodeName": "node-00000"}})

    kubectl("drain", "node-00000", "--force", "--timeout=20s")
    kubectl("uncordon", "node-00000")

    assert kubectl.server.object("pods", "drained", "default") is None
    evictions = kubectl.server.log(keep=lambda each: each.subresource == "eviction")
    assert [(each.verb, each.name, each.code, each.user) for each in evictions] == [
        ("create", "drained", 201, "admin")
    ]


def test_wait_and_get_watch_follow_changes(kubectl: Kubectl) -> None:
    kubectl.server.put(a_config_map("watched"))
    watching = kubectl.start("get", "configmaps", "watched", "-w", "-o", "name")
    assert watching.stdout is not None
    assert watching.stdout.readline() == "configmap/watched\n"
    waiting = kubectl.start("wait", "--for=delete", "configmap/watched", "--timeout=20s")
    until(lambda: kubectl.server.control.open_watches("configmaps") == 2)

    kubectl("delete", "configmap", "watched")

    assert waiting.wait(20) == 0
    assert watching.stdout.readline() == "configmap/watched\n"
    watching.terminate()
    watching.wait(20)
    for each in (watching, waiting):
        assert each.stdout is not None
        each.stdout.close()


def test_the_command_serves_until_it_is_stopped(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    serving = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "sandbox",
            "kubernetes",
            "--listen=127.0.0.1:0",
            "--nodes=2",
            f"--kubeconfig={kubeconfig}",
            "--rbac",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert serving.stdout is not None
    assert serving.stdout.readline().startswith("sandbox Kubernetes: https://127.0.0.1:")
    command = [str(kubernetes_api.find("kubectl")), f"--kubeconfig={kubeconfig}"]
    found = subprocess.run(
        [*command, "get", "nodes", "-o", "name"], capture_output=True, text=True, check=True
    )
    who = subprocess.run([*command, "auth", "whoami"], capture_output=True, text=True, check=True)

    serving.send_signal(signal.SIGINT)
    started = time.monotonic()
    assert serving.wait(20) == 0
    assert time.monotonic() - started < 10
    assert found.stdout.splitlines() == ["node/node-00000", "node/node-00001"]
    assert "admin" in who.stdout
    serving.stdout.close()
