"""The webhook as the API server meets it: TLS, reviews, everything that is no review, catalogues that change."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.kubernetes_server import SandboxKubernetes
from tests.gpu_admission.served import CATALOGUE, Served, a_pod, a_review, a_webhook, asking
from tests.journeys.service import wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[SandboxKubernetes]:
    with SandboxKubernetes(controllers=False, scheduler=False) as running:
        yield running


@pytest.fixture(scope="module")
def served(
    cluster: SandboxKubernetes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with a_webhook(folder, cluster.kubeconfig(folder / "kubeconfig")) as running:
        running.start()
        yield running


def patch_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    assert response["patchType"] == "JSONPatch"
    patch: list[dict[str, Any]] = json.loads(base64.b64decode(response["patch"]))
    return patch


def test_a_pod_that_asks_for_a_gpu_gets_the_nodes_resource_and_the_models(served: Served) -> None:
    response = served.review("/mutate-pods", a_review(asking("any-40gb")))

    assert response["allowed"] is True
    patch = {each["path"]: each for each in patch_of(response)}
    limits = "/spec/containers/0/resources/limits"
    assert patch[f"{limits}/preferred.jp~1gpu-any-40gb"]["op"] == "remove"
    assert patch[f"{limits}/nvidia.com~1gpu"]["value"] in {"1", 1}
    assert "A100-80" in json.dumps(patch)
    assert "Tesla-T4" not in json.dumps(patch)


def test_a_name_that_nobody_knows_is_refused_with_the_names_that_there_are(served: Served) -> None:
    response = served.review("/mutate-pods", a_review(asking("a1000")))

    assert response["allowed"] is False
    assert response["status"]["code"] == 400
    for part in ('container "train"', "a1000", 'did you mean "a100"', "t4"):
        assert part in response["status"]["message"]


def test_a_deployment_with_a_bad_spec_is_refused_where_the_user_looks(served: Served) -> None:
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default"},
        "spec": {"template": {"metadata": {}, "spec": asking("a1000")["spec"]}},
    }

    response = served.review("/validate-workloads", a_review(workload))

    assert response["allowed"] is False


def test_a_spec_that_was_left_over_is_refused(served: Served) -> None:
    response = served.review("/validate-pods", a_review(asking("t4")))

    assert response["allowed"] is False


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(b"", "malformed_review", id="nothing"),
        pytest.param(b"{", "malformed_review", id="half a JSON"),
        pytest.param(b"[]", "malformed_review", id="a list"),
        pytest.param(b'{"kind":"Pod"}', "malformed_review", id="a pod, not a review"),
        pytest.param(b"\xff\xfe", "malformed_review", id="no UTF-8"),
        pytest.param(b"[" * 100_000, "malformed_review", id="nested without end"),
    ],
)
def test_what_is_no_review_is_a_400_that_says_so(served: Served, body: bytes, reason: str) -> None:
    status, answer = served.send("/mutate-pods", body)

    assert (status, answer["reason"]) == (400, reason)


def test_a_body_over_the_limit_is_a_413_that_arrives(served: Served) -> None:
    status, answer = served.send("/mutate-pods", b"x" * 10_000_001)

    assert (status, answer["reason"]) == (413, "body_too_large")


def test_a_review_of_nearly_ten_megabytes_is_answered(served: Served) -> None:
    pod = asking("t4")
    pod["metadata"]["annotations"] = {"big": "x" * 9_900_000}

    assert served.review("/mutate-pods", a_review(pod))["allowed"] is True


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        pytest.param("GET", "/mutate-pods", 405, id="a GET"),
        pytest.param("POST", "/mutate", 404, id="another path"),
        pytest.param("POST", "/metrics", 404, id="metrics are on the other port"),
    ],
)
def test_other_requests_are_refused(served: Served, method: str, path: str, status: int) -> None:
    assert served.send(path, b"{}", method)[0] == status


def test_an_invalid_pod_is_answered_whatever_it_is(served: Served) -> None:
    """Mutating webhooks are called before the API server validates."""
    for spec in (None, [], "x", {"containers": None}, {"containers": [None, 3, {"resources": 1}]}):
        pod = {**a_pod(), "spec": spec}
        assert served.review("/mutate-pods", a_review(pod))["allowed"] is True


def test_a_dry_run_gets_the_same_answer_and_counts_nothing(served: Served) -> None:
    line = 'gpu_admission_asks_total{class="low",minimum_vram_gb="80"'
    before = served.metric(line)

    response = served.review("/mutate-pods", a_review(asking("any-80gb"), dryRun=True))

    assert patch_of(response)
    assert served.metric(line) == before
    served.review("/mutate-pods", a_review(asking("any-80gb")))
    assert served.metric(line) == (before or 0) + 1


def test_one_connection_carries_many_reviews(served: Served) -> None:
    connection = served.connection()
    try:
        for _ in range(20):
            connection.request("POST", "/mutate-pods", json.dumps(a_review(asking("t4"))))
            assert connection.getresponse().read()
    finally:
        connection.close()


def test_a_new_catalogue_counts_without_a_restart_and_a_broken_one_changes_nothing(
    cluster: SandboxKubernetes, tmp_path: Path
) -> None:
    kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig")
    with a_webhook(tmp_path / "served", kubeconfig) as served:
        served.start()
        assert served.review("/mutate-pods", a_review(asking("l4")))["allowed"] is False
        l4 = {"id": "l4", "variants": [{"vram_gb": 24, "node_label_values": ["NVIDIA-L4"]}]}

        served.catalogue({**CATALOGUE, "models": [*CATALOGUE["models"], l4]})
        served.hang_up()
        wait_until(
            "the new catalogue",
            lambda: served.review("/mutate-pods", a_review(asking("l4")))["allowed"],
        )

        served.catalogue("models: []")
        served.hang_up()
        refused = "gpu_admission_catalogue_config_last_reload_successful"
        wait_until("the refusal", lambda: served.metric(refused) == 0)
        assert served.review("/mutate-pods", a_review(asking("l4")))["allowed"] is True
        assert served.get("/readyz")[0] == 200


def test_without_a_catalogue_it_is_not_ready_and_takes_one_that_comes(
    cluster: SandboxKubernetes, tmp_path: Path
) -> None:
    kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig")
    with a_webhook(tmp_path / "served", kubeconfig) as served:
        served.catalogue_file.unlink()
        served.start(ready=False)
        wait_until("an answer", lambda: answers(served))
        status, text = served.get("/readyz")
        assert status == 503
        assert "catalogue" in text
        assert served.metric('gpu_admission_ready{part="catalogue"}') == 0
        assert served.metric('gpu_admission_ready{part="cluster"}') is not None
        wait_until("the port", lambda: listens(served))
        assert served.send("/mutate-pods", json.dumps(a_review(asking("t4"))).encode())[0] == 503

        served.catalogue(CATALOGUE)

        wait_until("readiness", lambda: served.get("/readyz")[0] == 200)
        assert served.review("/mutate-pods", a_review(asking("t4")))["allowed"] is True
        assert served.terminate() == 0


def answers(served: Served) -> bool:
    try:
        return served.get("/readyz")[0] == 503
    except OSError:
        return False


def listens(served: Served) -> bool:
    connection = served.connection()
    try:
        connection.connect()
    except OSError:
        return False
    finally:
        connection.close()
    return True
