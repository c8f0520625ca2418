"""What gpu_admission makes of a pod is what a real kube-apiserver takes, defaults and stores unchanged."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import event, given, settings

from gpu_admission.mutation import Denied, Mutated, Unchanged, mutate
from gpu_admission.review import apply_patch
from gpu_admission.validation import Allowed, validate_pod
from tests.contracts.kubernetes_rules_peers import RealServer, a_real_server
from tests.gpu_admission.admitting import NOW, TEAM, P, asking, catalogue_of, with_model
from tests.gpu_admission.pod_shapes import OTHER_LABEL, pods

pytestmark = pytest.mark.slow

L4 = {"vram_gb": 24, "label_key": OTHER_LABEL, "node_label_values": ["l4"], "max_per_node": 4}
CATALOGUE = catalogue_of(models=with_model("l4", variants=[L4]), defaults={"raw_gpu": "warn"})
DRY_RUN = "/api/v1/namespaces/default/pods?dryRun=All"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with a_real_server(tmp_path_factory.mktemp("kubernetes")) as server:
        high = {"metadata": {"name": "high"}, "value": 1000}
        assert server.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", high)[0] == 201
        yield server


def submitted(real: RealServer, pod: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """What the API server answers, and the pod as it would be stored: with its defaults."""
    spec = {key: value for key, value in pod["spec"].items() if key != "priority"}
    if pod["spec"].get("priority"):
        spec["priorityClassName"] = "high"
    kept = {key: pod["metadata"][key] for key in ("name", "annotations") if key in pod["metadata"]}
    return real.call("POST", DRY_RUN, {"metadata": kept, "spec": spec})


@settings(max_examples=60, deadline=None)
@given(pods)
def test_a_changed_pod_is_taken_and_its_defaults_are_no_change(
    real: RealServer, pod: dict[str, Any]
) -> None:
    code, seen = submitted(real, pod)
    event(f"before: {code}")
    if code != 201:
        return
    decision = mutate(seen, TEAM, CATALOGUE, NOW)
    event(type(decision).__name__)
    if isinstance(decision, Denied):
        return
    changed = apply_patch(seen, decision.patch if isinstance(decision, Mutated) else ())

    code, stored = submitted(real, changed)

    assert code == 201, stored
    assert stored["spec"] == changed["spec"]
    assert isinstance(mutate(stored, TEAM, CATALOGUE, NOW), Unchanged)
    assert isinstance(validate_pod(stored, TEAM, CATALOGUE, NOW), Allowed)


def test_the_api_server_computes_the_priority_before_we_see_the_pod(real: RealServer) -> None:
    _, seen = submitted(real, asking("any", priority=1000))

    assert seen["spec"]["priority"] == 1000
    assert seen["spec"]["containers"][0]["resources"]["requests"] == {f"{P}any": "1"}


def test_what_the_api_server_refuses_can_be_told(real: RealServer) -> None:
    """This comparison can fail: half a GPU is refused."""
    code, answer = submitted(real, asking("any", "500m"))

    assert code == 422
    assert "must be an integer" in answer["message"]
