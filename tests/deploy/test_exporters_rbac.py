"""Each exporter as a process with nothing but its service account's token: it does what its roles allow, and no more.

Compared both ways with the API server's own audit log: nothing is refused, and no right is there that is not used.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from chassis.kube_client import NODES, PODS, KubeClient, KubeSettings, NotFound, PatchKind
from chassis.telemetry import get_logger
from exporters.cuda_probe.lines import format_report
from exporters.probe_pods import SELECTOR
from exporters.readings import ProbeEnd, ProbeReport
from sandbox import programs
from tests.deploy.exporters_cluster import (
    NAMESPACE,
    Audit,
    Object,
    a_node,
    allowed,
    apply,
    built,
    namespace_exists,
    of_kind,
    token,
    token_kubeconfig,
    told,
    wait_for_rights,
)
from tests.journeys.service import wait_until
from tests.kubernetes_api import KubernetesAPI

SECONDS = 80
LOG = (NAMESPACE, "", "pods/log", "get")

pytestmark = pytest.mark.slow


@contextmanager
def running(
    api: KubernetesAPI, command: str, bearer: str, folder: Path, *, node: str = "", **settings: Any
) -> Iterator[programs.Program]:
    """`exporters COMMAND` until the end of the block."""
    port = programs.free_port()
    config = {
        "serving": {"listen": f"127.0.0.1:{port}"},
        "kubernetes": {"kubeconfig": str(token_kubeconfig(api, bearer, folder / "kubeconfig"))},
        **settings,
    }
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    arguments = [sys.executable, "-m", "exporters", command, "--config", str(file)]
    environment = {**os.environ, "NODE_NAME": node}
    with programs.running(programs.start(command, arguments, folder, environment)) as program:
        program.wait_until_ready(f"http://127.0.0.1:{port}/healthz")
        yield program


def all_is_used_and_nothing_refused(
    audit: Audit, objects: list[Object], program: programs.Program
) -> None:
    """Waits until the process has done what it may; fails with what is missing."""
    rights = allowed(objects)
    try:
        wait_until("all rights to be used", lambda: audit.deeds() >= rights, SECONDS)
    except AssertionError as late:
        unused = sorted(rights - audit.deeds())
        raise AssertionError(f"never used: {unused}\n{program.tail(40)}") from late
    assert audit.refusals() == []
    assert audit.deeds() == rights


def applied(api: KubernetesAPI, account: str, objects: list[Object]) -> Audit:
    """The objects, in force; the audit begins."""
    apply(api, objects)
    wait_for_rights(api, account, allowed(objects))
    return Audit(api, account)


@pytest.fixture
def api(kubernetes: KubernetesAPI) -> KubernetesAPI:
    namespace_exists(kubernetes)
    return kubernetes


def test_node_conditions(api: KubernetesAPI, kubectl: str, tmp_path: Path) -> None:
    account = "nodemend-node-conditions"
    objects = built(kubectl, "node-conditions", tmp_path)
    audit = applied(api, account, objects)

    with running(api, "node-conditions", token(api, account), tmp_path) as program:
        all_is_used_and_nothing_refused(audit, objects, program)


def test_a_right_that_is_missing_would_be_noticed(
    api: KubernetesAPI, kubectl: str, tmp_path: Path
) -> None:
    account = "nodemend-node-conditions"
    objects = built(kubectl, "node-conditions", tmp_path)
    (role,) = of_kind(objects, "ClusterRole")
    role["rules"][0]["verbs"].remove("watch")
    audit = applied(api, account, objects)

    with running(api, "node-conditions", token(api, account), tmp_path):
        wait_until("a refusal", lambda: audit.refusals() != [], SECONDS)
    assert any("watch" in each for each in audit.refusals())


# node-agent.


def test_node_agent(api: KubernetesAPI, kubectl: str, tmp_path: Path) -> None:
    """Its own node is got only after a patch was refused: so one is."""
    account, node = "nodemend-node-agent", "agents-node"
    objects = built(kubectl, "node-agent", tmp_path)
    apply(api, [a_node(node)])
    audit = applied(api, account, objects)
    bearer = token(api, account, node)
    host: dict[str, Any] = {"state_file": str(tmp_path / "state.json"), "heartbeat": "1s"}

    with (
        a_policy_that_refuses(api, account),
        running(api, "node-agent", bearer, tmp_path, node=node, **host) as program,
    ):
        all_is_used_and_nothing_refused(audit, objects, program)
        assert conditions_of(api, node) == set()
    with running(api, "node-agent", bearer, tmp_path, node=node, **host):
        wait_until("conditions", lambda: "DStateProcess" in conditions_of(api, node), SECONDS)
    assert audit.refusals() == []


def conditions_of(api: KubernetesAPI, node: str) -> set[str]:
    found = api.kubectl("get", "node", node, "-o", "jsonpath={.status.conditions[*].type}")
    return set(told(found).split())


@contextmanager
def a_policy_that_refuses(api: KubernetesAPI, account: str) -> Iterator[None]:
    """Any change of a node by this account."""
    group = "admissionregistration.k8s.io"
    resources = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": ["nodes", "nodes/status"],
    }
    common = {"apiVersion": f"{group}/v1", "metadata": {"name": "test-refusal"}}
    policy = {
        **common,
        "kind": "ValidatingAdmissionPolicy",
        "spec": {
            "matchConstraints": {"resourceRules": [resources]},
            "validations": [{"expression": f"!request.userInfo.username.endsWith(':{account}')"}],
        },
    }
    binding = {
        **common,
        "kind": "ValidatingAdmissionPolicyBinding",
        "spec": {"policyName": "test-refusal", "validationActions": ["Deny"]},
    }
    apply(api, [policy, binding])
    yield
    for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
        told(api.kubectl("delete", kind, "test-refusal"))


# gpu-monitor.


def test_gpu_monitor(api: KubernetesAPI, kubectl: str, tmp_path: Path) -> None:
    """One probe pod after the other, each played by us; the node is changed meanwhile, so that patches conflict."""
    account, node = "nodemend-gpu-monitor", "probed-node"
    objects = built(kubectl, "gpu-monitor", tmp_path)
    apply(api, [a_gpu_node(node)])
    audit = applied(api, account, objects)
    hands = KubeClient(KubeSettings(kubeconfig=api.kubeconfig), get_logger("test"))
    pod = {"image": "registry.example/nodemend-exporters"}
    settings: dict[str, Any] = {"namespace": NAMESPACE, "heartbeat": "1s", "pod": pod}
    rights = allowed(objects)

    def all_used() -> bool:
        touch(hands, node)
        for each in hands.list(PODS, NAMESPACE, label_selector=SELECTOR).items:
            play(hands, each, node, log_was_asked_for=LOG in audit.deeds())
        return audit.deeds() >= rights

    with running(api, "gpu-monitor", token(api, account), tmp_path, **settings) as program:
        try:
            wait_until("all rights to be used", all_used, SECONDS)
        except AssertionError as late:
            unused = sorted(rights - audit.deeds())
            raise AssertionError(f"never used: {unused}\n{program.tail(40)}") from late
        all_is_used_and_nothing_refused(audit, objects, program)


def a_gpu_node(name: str) -> Object:
    gpus = {"nvidia.com/gpu": "1"}
    status = {
        "capacity": gpus,
        "allocatable": gpus,
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"bootID": "boot-1"},
    }
    return a_node(name, status=status)


def touch(hands: KubeClient, node: str) -> None:
    """Somebody else changes the node."""
    body = {"metadata": {"annotations": {"example.org/touched": str(time.monotonic())}}}
    hands.patch(NODES, node, body, kind=PatchKind.MERGE)


def play(hands: KubeClient, pod: Mapping[str, Any], node: str, *, log_was_asked_for: bool) -> None:
    """Be scheduler and kubelet: the pod is placed and ends; its last words come late; a deleted one goes."""
    name = pod["metadata"]["name"]
    if "deletionTimestamp" in pod["metadata"]:
        with contextlib.suppress(NotFound):
            hands.delete(PODS, name, NAMESPACE, grace_seconds=0)
    elif not pod["spec"].get("nodeName"):
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}}
        hands.create(PODS, {**binding, "target": target}, NAMESPACE, "binding", name)
    elif pod["status"].get("phase") == "Pending":
        end(hands, name, "")
    elif log_was_asked_for:
        passed = ProbeReport("GPU-1", "A", ProbeEnd.PASSED, "Healthy", "compare", None, "", 1.0)
        end(hands, name, format_report(passed))


def end(hands: KubeClient, name: str, words: str) -> None:
    ended = {"exitCode": 0, "reason": "Completed", "message": words}
    container = {
        "name": "gpu-probe",
        "image": "",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": ended},
    }
    status = {"status": {"phase": "Succeeded", "containerStatuses": [container]}}
    with contextlib.suppress(NotFound):
        hands.patch(PODS, name, status, NAMESPACE, kind=PatchKind.MERGE, subresource="status")
