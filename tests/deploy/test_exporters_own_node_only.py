"""An agent's token changes its own node alone, and there only Nodemend's conditions and annotations."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from chassis.contracts import (
    PROBE_OWNER_ANNOTATION,
    PROBE_REQUEST_ANNOTATION,
    PROBE_RESULT_ANNOTATION,
    ConditionType,
)
from chassis.kube_client import NODES, Forbidden, KubeClient, KubeSettings, PatchKind
from chassis.telemetry import get_logger
from exporters.condition_writer import OWNED_ANNOTATION
from tests.deploy.exporters_cluster import (
    EXPORTERS,
    NAMESPACE,
    a_node,
    apply,
    built,
    namespace_exists,
    token,
    token_kubeconfig,
)
from tests.journeys.service import wait_until
from tests.kubernetes_api import KubernetesAPI

ACCOUNT = "nodemend-node-agent"
OWN, OTHER = "own-node", "other-node"
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
LOST = {"type": "GPUIsLost", "status": "True", "reason": "GPUIsLost", "message": "GPU-1=GPUIsLost"}
PATCH_NODES = "test-patch-nodes"

pytestmark = pytest.mark.slow


class Agent:
    """Who holds a token of an agent."""

    def __init__(self, api: KubernetesAPI, bearer: str, folder: Path) -> None:
        kubeconfig = token_kubeconfig(api, bearer, folder / f"kubeconfig-{len(bearer)}")
        self._client = KubeClient(KubeSettings(kubeconfig=kubeconfig), get_logger("test"))

    def patch(self, node: str, body: dict[str, Any], subresource: str | None = "status") -> Any:
        return self._client.patch(
            NODES, node, body, kind=PatchKind.STRATEGIC, subresource=subresource
        )

    def why_not(self, node: str, body: dict[str, Any], subresource: str | None = "status") -> str:
        """The policy's message; fails if there was no refusal."""
        with pytest.raises(Forbidden) as refused:
            self.patch(node, body, subresource)
        text = str(refused.value)
        assert "ValidatingAdmissionPolicy 'nodemend-node-agent'" in text
        return text.partition("denied request: ")[2]


@pytest.fixture(scope="module")
def cluster(
    kubernetes: KubernetesAPI, kubectl: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KubernetesAPI]:
    """Two nodes and the agent's manifests; the account may patch whole nodes, so that only the policy refuses it."""
    namespace_exists(kubernetes)
    status = {"conditions": [READY], "capacity": {"cpu": "8"}, "allocatable": {"cpu": "8"}}
    labels = {"zone": "a"}
    for name in (OWN, OTHER):
        node = a_node(name, status=status, spec={"podCIDR": "10.9.0.0/24"})
        node["metadata"] |= {"labels": labels, "annotations": {"example.org/theirs": "1"}}
        apply(kubernetes, [node])
    apply(kubernetes, built(kubectl, "node-agent", tmp_path_factory.mktemp("built")))
    apply(kubernetes, _may_patch_whole_nodes())
    yield kubernetes
    kubernetes.kubectl("delete", "node", OWN, OTHER)
    kubernetes.kubectl("delete", "clusterrole,clusterrolebinding", PATCH_NODES)


def _may_patch_whole_nodes() -> list[dict[str, Any]]:
    group = "rbac.authorization.k8s.io"
    common = {"apiVersion": f"{group}/v1", "metadata": {"name": PATCH_NODES}}
    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}]
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": PATCH_NODES}
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    return [
        {**common, "kind": "ClusterRole", "rules": rules},
        {**common, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]},
    ]


@pytest.fixture(scope="module")
def agent(cluster: KubernetesAPI, tmp_path_factory: pytest.TempPathFactory) -> Agent:
    """With the token of a pod on OWN, once the policy is in force."""
    made = Agent(cluster, token(cluster, ACCOUNT, OWN), tmp_path_factory.mktemp("agent"))

    def is_refused() -> bool:
        try:
            made.patch(OTHER, {"status": {"conditions": [LOST]}})
        except Forbidden:
            return True
        return False

    wait_until("the policy", is_refused)
    return made


def conditions(**changes: str) -> dict[str, Any]:
    return {"status": {"conditions": [{**LOST, **changes}]}}


def annotations(**values: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": values}}


# Allowed.


def test_it_writes_changes_and_removes_every_condition_of_ours_on_its_own_node(
    agent: Agent,
) -> None:
    for kind in ConditionType:
        agent.patch(OWN, conditions(type=kind))
        agent.patch(OWN, conditions(type=kind, status="False", reason="Healthy", message=""))
    node = agent.patch(
        OWN,
        {"status": {"conditions": [{"$patch": "delete", "type": each} for each in ConditionType]}},
    )

    assert [each["type"] for each in node["status"]["conditions"]] == ["Ready"]


@pytest.mark.parametrize("subresource", ["status", None])
@pytest.mark.parametrize("key", [OWNED_ANNOTATION, PROBE_OWNER_ANNOTATION, PROBE_RESULT_ANNOTATION])
def test_it_writes_changes_and_removes_its_annotations(
    agent: Agent, key: str, subresource: str | None
) -> None:
    for value in ("1", "2"):
        node = agent.patch(OWN, annotations(**{key: value}), subresource)
        assert node["metadata"]["annotations"][key] == value
    node = agent.patch(OWN, annotations(**{key: None}), subresource)

    assert key not in node["metadata"]["annotations"]
    assert node["metadata"]["annotations"]["example.org/theirs"] == "1"


def test_one_patch_may_hold_conditions_and_annotations(agent: Agent) -> None:
    body = {**conditions(), **annotations(**{OWNED_ANNOTATION: "GPUIsLost"})}

    node = agent.patch(OWN, body)

    assert node["metadata"]["annotations"][OWNED_ANNOTATION] == "GPUIsLost"
    assert {each["type"] for each in node["status"]["conditions"]} == {"Ready", "GPUIsLost"}


def test_a_node_without_conditions_and_annotations_is_no_obstacle(
    cluster: KubernetesAPI, tmp_path: Path
) -> None:
    apply(cluster, [a_node("bare-node")])
    bare = Agent(cluster, token(cluster, ACCOUNT, "bare-node"), tmp_path)

    node = bare.patch("bare-node", {**conditions(), **annotations(**{OWNED_ANNOTATION: "x"})})

    assert node["status"]["conditions"][0]["type"] == "GPUIsLost"
    cluster.kubectl("delete", "node", "bare-node")


# Refused.


@pytest.mark.parametrize(
    ("body", "subresource"),
    [
        pytest.param(conditions(), "status", id="a condition"),
        pytest.param(annotations(**{OWNED_ANNOTATION: "x"}), "status", id="an annotation"),
        pytest.param(annotations(**{OWNED_ANNOTATION: "y"}), None, id="past the status"),
    ],
)
def test_another_node_is_out_of_reach(
    agent: Agent, body: dict[str, Any], subresource: str | None
) -> None:
    assert agent.why_not(OTHER, body, subresource) == (
        "an agent changes only the node that its pod runs on"
    )


def test_a_token_of_no_pod_reaches_no_node(
    agent: Agent, cluster: KubernetesAPI, tmp_path: Path
) -> None:
    loose = Agent(cluster, token(cluster, ACCOUNT), tmp_path)

    assert loose.why_not(OWN, conditions()) == "an agent changes only the node that its pod runs on"


@pytest.mark.parametrize("subresource", ["status", None])
@pytest.mark.parametrize(
    ("body", "what"),
    [
        pytest.param({"metadata": {"labels": {"zone": "b"}}}, "labels", id="a label changed"),
        pytest.param({"metadata": {"labels": {"new": "b"}}}, "labels", id="a label added"),
        pytest.param({"metadata": {"labels": {"zone": None}}}, "labels", id="a label removed"),
        pytest.param({"metadata": {"finalizers": ["example.org/x"]}}, "labels", id="a finalizer"),
        pytest.param(annotations(**{"example.org/theirs": "2"}), "annotations", id="changed"),
        pytest.param(annotations(**{"example.org/new": "1"}), "annotations", id="added"),
        pytest.param(annotations(**{"example.org/theirs": None}), "annotations", id="removed"),
        pytest.param(annotations(**{PROBE_REQUEST_ANNOTATION: "1"}), "annotations", id="request"),
    ],
)
def test_what_others_wrote_into_the_metadata_stays(
    agent: Agent, body: dict[str, Any], what: str, subresource: str | None
) -> None:
    assert agent.why_not(OWN, body, subresource).startswith(f"an agent changes no {what}")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"spec": {"unschedulable": True}}, id="a cordon"),
        pytest.param({"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}}, id="a taint"),
    ],
)
def test_the_spec_stays(agent: Agent, body: dict[str, Any]) -> None:
    assert agent.why_not(OWN, body, None) == "an agent changes no spec of a node"


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param({**READY, "status": "False"}, id="changed"),
        pytest.param({"$patch": "delete", "type": "Ready"}, id="removed"),
        pytest.param({**LOST, "type": "KernelDeadlock"}, id="added"),
    ],
)
def test_conditions_of_others_stay(agent: Agent, condition: dict[str, Any]) -> None:
    said = agent.why_not(OWN, {"status": {"conditions": [condition]}})

    assert said == f"an agent changes no conditions of a node but {', '.join(types())}"


def types() -> list[str]:
    """The types that the policy lists."""
    policy, _ = yaml.safe_load_all(
        (EXPORTERS / "node-agent" / "own-node-only.yaml").read_text("utf-8")
    )
    (found,) = [each for each in policy["spec"]["variables"] if each["name"] == "types"]
    return list(yaml.safe_load(found["expression"]))


def test_the_policy_lists_the_conditions_that_there_are() -> None:
    assert types() == list(ConditionType)


@pytest.mark.parametrize(
    "status",
    [
        {"capacity": {"nvidia.com/gpu": "64"}},
        {"allocatable": {"cpu": "1"}},
        {"phase": "Terminated"},
        {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]},
        {"nodeInfo": {"bootID": "made-up"}},
        {"daemonEndpoints": {"kubeletEndpoint": {"Port": 666}}},
        {"images": [{"names": ["registry.example/evil"]}]},
        {"volumesInUse": ["example.org/volume"]},
        {"volumesAttached": [{"name": "example.org/volume", "devicePath": ""}]},
        {"runtimeHandlers": [{"name": "evil"}]},
        {"features": {"supplementalGroupsPolicy": True}},
    ],
    ids=lambda status: next(iter(status)),
)
def test_the_rest_of_the_status_stays(agent: Agent, status: dict[str, Any]) -> None:
    assert agent.why_not(OWN, {"status": status}) == (
        "an agent changes nothing in the status of a node but conditions"
    )


# Everybody else.


def test_nobody_else_is_kept_from_anything(agent: Agent, cluster: KubernetesAPI) -> None:
    labelled = cluster.kubectl("label", "node", OTHER, "test=1")

    assert agent is not None  # the policy is in force
    assert (labelled.returncode, labelled.stderr) == (0, "")
