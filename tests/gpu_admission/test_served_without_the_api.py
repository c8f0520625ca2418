"""No review waits for the API: with every request to it held up, all are answered from what was seen before."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.kubernetes_server import SandboxKubernetes
from tests.gpu_admission.served import CATALOGUE, Served, a_review, a_webhook, asking
from tests.journeys.service import wait_until

POLICY = [{"match": {"labels": {"team": "eval"}}, "allowed_models": ["t4"]}]
LABELLED: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "eval", "labels": {"team": "eval"}},
}


@pytest.fixture
def cluster() -> Iterator[SandboxKubernetes]:
    with SandboxKubernetes(controllers=False, scheduler=False) as running:
        running.put(LABELLED)
        yield running


@pytest.fixture
def cut_off(cluster: SandboxKubernetes, tmp_path: Path) -> Iterator[Served]:
    """A webhook that is ready, and then gets no answer any more; it keeps no capacity, which would ask."""
    kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig")
    with a_webhook(tmp_path / "served", kubeconfig, capacity={"enabled": False}) as served:
        served.catalogue({**CATALOGUE, "namespace_policy": POLICY})
        served.start()
        cluster.control.hold()
        yield served
        cluster.control.let_go()


def test_a_review_asks_the_api_for_nothing(cut_off: Served, cluster: SandboxKubernetes) -> None:
    answers = {
        (path, namespace): cut_off.review(path, a_review(asking("a100"), namespace=namespace))
        for path in ("/mutate-pods", "/validate-pods")
        for namespace in ("default", "eval", "unheard-of")
    }

    assert cluster.control.held == ()
    allowed = {key: each["allowed"] for key, each in answers.items() if key[0] == "/mutate-pods"}
    assert list(allowed.values()) == [True, False, False]
    assert "not allowed" in answers["/mutate-pods", "eval"]["status"]["message"]
    assert answers["/mutate-pods", "unheard-of"]["status"]["code"] == 503
    assert "try again" in answers["/mutate-pods", "unheard-of"]["status"]["message"]


def test_a_request_would_be_noticed(cut_off: Served, cluster: SandboxKubernetes) -> None:
    """The control: a second webhook, whose start must ask."""
    kubeconfig = cluster.kubeconfig(cut_off.folder / "another")
    with a_webhook(cut_off.folder / "second", kubeconfig) as second:
        second.start(ready=False)
        wait_until("its request", lambda: bool(cluster.control.held))
