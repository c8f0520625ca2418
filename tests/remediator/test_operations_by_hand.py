"""What a person may put into a NodeOperation with kubectl, on the embedded and the real Kubernetes."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml

from chassis.kube_client import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NODES,
    AlreadyExists,
    KubeClient,
    NotFound,
    PatchKind,
)
from remediator.cluster import Fleet
from remediator.config import Config
from remediator.kube_cluster import NODE_OPERATIONS, KubeCluster
from remediator.lifecycle import Policy, Record, next_step
from remediator.operation import FINALIZER, OperationStatus, Phase, Reason, Trigger, read
from sandbox.kubernetes_rules.cel_rules import without_cel_rules
from tests.contracts.kubernetes_peers import KubernetesPeer, kube, kubernetes_peer, wait_for
from tests.remediator.building import config_of

__all__ = ["kube", "kubernetes_peer"]  # fixtures that are made elsewhere

CRD = Path(__file__).parents[2] / "deploy" / "remediator" / "crd.yaml"
SPEC = {"nodeName": "by-hand", "playbook": "gpu"}
BODY = {"apiVersion": NODE_OPERATIONS.api_version, "kind": NODE_OPERATIONS.kind}


@pytest.fixture
def client(kube: KubeClient, kubernetes_peer: KubernetesPeer) -> KubeClient:
    """A client of a cluster with the definition and one node."""
    definition = yaml.safe_load(CRD.read_text("utf-8"))
    if kubernetes_peer.name == "embedded":
        definition = without_cel_rules(definition)
    with suppress(AlreadyExists):
        kube.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "by-hand"}}
    with suppress(AlreadyExists):
        kube.create(NODES, node)

    def served() -> bool:
        try:
            kube.list(NODE_OPERATIONS)
        except NotFound:
            return False
        return True

    wait_for(served, "the definition is served")
    return kube


@pytest.fixture
def cluster(client: KubeClient) -> Iterator[KubeCluster]:
    log = structlog.get_logger()
    made = KubeCluster(client, config_of(), clock=lambda: datetime.now(UTC), log=log)
    yield made
    made.stop()


def made(client: KubeClient, metadata: dict[str, Any], **more: Any) -> dict[str, Any]:
    return client.create(NODE_OPERATIONS, {**BODY, "metadata": metadata, "spec": SPEC, **more})


def decided(cluster: KubeCluster, raw: dict[str, Any], config: Config) -> OperationStatus:
    """What the leader would write about it next."""
    operation = read(raw)
    observation = cluster.observe(operation, config.playbook(operation.spec.playbook))
    now = datetime.now(UTC)
    step = next_step(operation, observation, Policy(config), Fleet(now), (), now)
    assert isinstance(step, Record)
    return step.status


@pytest.mark.parametrize("metadata", [{"generateName": "repair-"}, {"name": "please.fix-n1"}])
def test_an_object_of_any_name_is_read_and_taken(
    client: KubeClient, cluster: KubeCluster, metadata: dict[str, str]
) -> None:
    raw = made(client, metadata)
    operation = read(raw)

    assert (operation.spec.trigger, operation.spec.episode) == (Trigger.MANUAL, 1)
    assert operation.status.phase is Phase.RECEIVED
    assert decided(cluster, raw, config_of()).phase is Phase.GATED
    cluster.set_finalizer(operation.name, wanted=True)
    assert client.get(NODE_OPERATIONS, operation.name)["metadata"]["finalizers"] == [FINALIZER]
    cluster.set_finalizer(operation.name, wanted=False)
    client.delete(NODE_OPERATIONS, operation.name)


def test_a_name_that_no_taint_can_carry_is_refused_with_the_reason(
    client: KubeClient, cluster: KubeCluster
) -> None:
    raw = made(client, {"name": "n" * 64})
    status = decided(cluster, raw, config_of())

    assert (status.phase, status.reason) == (Phase.CANCELLED, Reason.INVALID_OPERATION)
    assert "63 characters" in status.message
    stored = cluster.record(read(raw), status)
    assert stored.status.message == status.message


def test_who_may_ask_for_an_operation_cannot_set_its_state(client: KubeClient) -> None:
    """rem-N14"""
    status = {"phase": "Verifying", "reason": "Accepted", "isolated": True}
    raw = made(client, {"name": "no-state"}, status=status)
    assert "status" not in raw

    edited = client.replace(NODE_OPERATIONS, {**raw, "status": status})
    patched = client.patch(NODE_OPERATIONS, "no-state", {"status": status}, kind=PatchKind.MERGE)

    assert "status" not in edited
    assert "status" not in patched
    assert read(client.get(NODE_OPERATIONS, "no-state")).status == OperationStatus()


def test_a_job_that_an_object_brings_is_not_even_stored(client: KubeClient) -> None:
    """rem-N17"""
    spec = {**SPEC, "jobTemplate": {"spec": {"containers": [{"image": "evil:1"}]}}}
    raw = client.create(NODE_OPERATIONS, {**BODY, "metadata": {"name": "no-evil"}, "spec": spec})

    assert "evil" not in str(raw["spec"])
