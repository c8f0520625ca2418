"""The two Kubernetes APIs that the contract is checked on: the embedded one and the real one.

What a test does to a peer (kill, pause, restart, forget history) has the same name on both.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import structlog
import yaml

from chassis.kube_client import KubeClient, KubeSettings
from sandbox.kubernetes_server import SandboxKubernetes
from tests import kubernetes_api
from tests.contracts.tcp_relay import TCPRelay
from tests.kubernetes_api import KubernetesAPI, running_kubernetes_api

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")


class KubernetesPeer(ABC):
    """An API server under test, with its controllers but without kubelets."""

    def __init__(self, name: str, kubeconfig: Path) -> None:
        self.name = name
        self.kubeconfig = kubeconfig

    def client(self, **changes: Any) -> KubeClient:
        """A client of its own, as the administrator."""
        settings = {"kubeconfig": self.kubeconfig, "qps": 0.0, **changes}
        return KubeClient(KubeSettings(**settings), structlog.get_logger())

    @contextmanager
    def relayed(self) -> Iterator[tuple[KubeClient, TCPRelay]]:
        """A client whose way to the server can be cut."""
        text = self.kubeconfig.read_text()
        server = yaml.safe_load(text)["clusters"][0]["cluster"]["server"]
        parts = urlsplit(server)
        with TCPRelay((str(parts.hostname), parts.port or 443)) as relay:
            path = self.kubeconfig.with_name(f"relayed-{relay.port}")
            path.write_text(text.replace(server, f"{parts.scheme}://127.0.0.1:{relay.port}"))
            yield self.client(kubeconfig=path), relay

    @abstractmethod
    def kill(self) -> None:
        """End the server as a crash does; what it stored stays."""

    @abstractmethod
    def restart(self, *, new_history: bool = False) -> None:
        """Start it again on its port, with an empty database if `new_history`."""

    @abstractmethod
    def pause(self) -> None:
        """It answers nothing and closes nothing."""

    @abstractmethod
    def resume(self) -> None:
        """It goes on after `pause`."""

    @abstractmethod
    def forget_history(self) -> None:
        """No watch may start from a version of before now."""


class EmbeddedPeer(KubernetesPeer):
    def __init__(self, server: SandboxKubernetes, folder: Path) -> None:
        super().__init__("embedded", server.kubeconfig(folder / "kubeconfig"))
        self._server = server

    def kill(self) -> None:
        self._server.stop()

    def restart(self, *, new_history: bool = False) -> None:
        self._server.stop()
        self._server.start(keep=not new_history)

    def pause(self) -> None:
        self._server.control.pause()

    def resume(self) -> None:
        self._server.control.resume()

    def forget_history(self) -> None:
        self._server.control.expire_watches()


class RealPeer(KubernetesPeer):
    def __init__(self, api: KubernetesAPI) -> None:
        super().__init__("real", api.kubeconfig)
        self._api = api

    def kill(self) -> None:
        self._api.kill()

    def restart(self, *, new_history: bool = False) -> None:
        self._api.restart(new_history=new_history)

    def pause(self) -> None:
        self._api.pause()

    def resume(self) -> None:
        self._api.resume()

    def forget_history(self) -> None:
        # A new server's watch cache begins with now; older versions are "too old".
        self._api.restart()


@pytest.fixture(params=["embedded", "real"], scope="module")
def kubernetes_peer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KubernetesPeer]:
    """The API under test, shared by the tests of a module, so each uses names of its own."""
    folder = tmp_path_factory.mktemp("kubernetes")
    if request.param == "embedded":
        with SandboxKubernetes() as server:
            yield EmbeddedPeer(server, folder)
        return
    why_not = kubernetes_api.missing(*PROGRAMS)
    if why_not is not None:
        pytest.skip(why_not)
    with running_kubernetes_api(folder, controllers=True) as api:
        yield RealPeer(api)


@pytest.fixture
def kube(kubernetes_peer: KubernetesPeer) -> Iterator[KubeClient]:
    client = kubernetes_peer.client()
    yield client
    client.close()


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 20) -> Any:
    """The condition's first true value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not in {seconds} s: {what}"
        time.sleep(0.02)
    return value


def now() -> datetime:
    return datetime.now(UTC)


def a_node(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def a_config_map(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def a_pod(name: str, **labels: str) -> dict[str, Any]:
    container = {"name": "main", "image": "registry.invalid/nothing:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }


SOON = timedelta(seconds=2)
