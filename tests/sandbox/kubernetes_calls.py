"""Requests to a sandbox Kubernetes, and objects to send: for the tests of the server. Asks over plain HTTP."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

import pytest
import requests

from sandbox.kubernetes_server import SandboxKubernetes

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
NODES = "/api/v1/nodes"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
MERGE = "application/merge-patch+json"


@pytest.fixture
def server() -> Iterator[SandboxKubernetes]:
    with SandboxKubernetes() as running:
        yield running


@pytest.fixture
def bare() -> Iterator[SandboxKubernetes]:
    """Without controllers and scheduler: nothing acts on what is stored."""
    with SandboxKubernetes(controllers=False, scheduler=False) as running:
        yield running


def ask(
    server: SandboxKubernetes,
    method: str,
    path: str,
    body: Any = None,
    *,
    token: str | None = None,
    kind: str = "application/json",
    **params: Any,
) -> requests.Response:
    headers = {"Content-Type": kind}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body)
    return requests.request(
        method, server.url + path, data=data, headers=headers, params=params, timeout=20
    )


def made(server: SandboxKubernetes, path: str, body: Any) -> dict[str, Any]:
    response = ask(server, "POST", path, body)
    assert response.status_code == 201, response.text
    answer: dict[str, Any] = response.json()
    return answer


class Watch:
    """An open watch; `next` is its next event as (type, name, object)."""

    def __init__(self, server: SandboxKubernetes, path: str, **params: Any) -> None:
        self.response = requests.get(
            server.url + path, params={"watch": "1", **params}, stream=True, timeout=20
        )
        self._lines = self.response.iter_lines(chunk_size=1)

    def next(self) -> tuple[str, str, dict[str, Any]]:
        event = json.loads(next(self._lines))
        return event["type"], event["object"].get("metadata", {}).get("name", ""), event["object"]

    def kinds(self, count: int) -> list[tuple[str, str]]:
        return [self.next()[:2] for _ in range(count)]

    def __enter__(self) -> Self:
        assert self.response.status_code == 200, self.response.text
        return self

    def __exit__(self, *_: object) -> None:
        self.response.close()


def a_map(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, **({"labels": labels} if labels else {})}
    return {"metadata": metadata, "data": data}


def a_pod(name: str, **spec: Any) -> dict[str, Any]:
    labels = spec.pop("labels", {})
    annotations = spec.pop("annotations", {})
    container = {"name": "main", "image": "app", **spec.pop("container", {})}
    return {
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"containers": [container], **spec},
    }


def ready(server: SandboxKubernetes, name: str) -> None:
    """Say of a pod what a kubelet would."""
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    response = ask(server, "PATCH", f"{PODS}/{name}/status", {"status": status}, kind=MERGE)
    assert response.status_code == 200, response.text


def until(condition: Callable[[], Any], seconds: float = 15) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "this never came"
        time.sleep(0.01)
    return value
