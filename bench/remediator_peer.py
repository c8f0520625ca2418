"""Beside node-operation-controller on the same real API server: from a node's condition to tainted, to drained, and the writes.

NOC_BINARY names its binary, NOC_CONFIG the folder `config` of its source, where its definitions are. Each runs alone,
ours after it, on nodes of its own with one pod each.
"""

import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import _remediator as world
from bench._alerts2gh import load_average, on_cpu, say
from chassis.kube_client import NODES, PODS, KubeClient, NotFound, PatchKind, Resource
from remediator.kube_cluster import NODE_OPERATIONS
from sandbox import programs
from tests import kubernetes_api
from tests.journeys.remediator_world import PLAYBOOK, client_of, prepare

FLEET = 300
BURST = 50
POD_ENDS_AFTER = 2.0
CONDITION = "GPURuntimeError"
PEER, OURS = "node-operation-controller", "remediator"
WRITES = frozenset({"create", "update", "patch", "delete"})
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
THEIR_GROUP = "nodeops.k8s.preferred.jp"
THEIR_TAINT = f"{THEIR_GROUP}/operating"
THEIRS = Resource(THEIR_GROUP, "v1alpha1", "nodeoperations", namespaced=False, kind="NodeOperation")
HEAD = (
    "| who | tainted p50, s | all | drained p50, s | all | API writes an operation | of them Events |\n"
    "|---|---:|---:|---:|---:|---:|---:|\n"
)


@dataclass(frozen=True)
class Row:
    """Seconds since the conditions were written, one a node; writes per operation."""

    who: str
    tainted: list[float]
    drained: list[float]
    writes: float
    events: float

    def __str__(self) -> str:
        times = " | ".join(
            f"{statistics.median(each):.2f} | {max(each):.2f}"
            for each in (self.tainted, self.drained)
        )
        return f"| {self.who} | {times} | {self.writes:.1f} | {self.events:.1f} |"


def run() -> str:
    """The table and the ratios."""
    why_not = kubernetes_api.missing("etcd", "kube-apiserver", "kubectl")
    if why_not:
        return f"Not measured: {why_not}.\n"
    binary, config = os.environ.get("NOC_BINARY"), os.environ.get("NOC_CONFIG")
    before = load_average()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with on_cpu(1):
            servers = kubernetes_api.running_kubernetes_api(folder / "api", audit_policy=AUDIT)
            with servers as api:
                rows = _rows(api, folder, binary, config)
    notes = f"load average before {before}, after {load_average()}"
    if not binary or not config:
        notes += f"; {PEER} not measured: name its binary in NOC_BINARY, its `config` in NOC_CONFIG"
    return f"{HEAD}{chr(10).join(map(str, rows))}\n\n{_explained()} {notes}.\n{_ratios(rows)}\n"


def _explained() -> str:
    return (
        f"{FLEET} nodes; {BURST} conditions are written one after the other as fast as the API takes them. Tainted: seen by a"
        " watch. Drained: seen in the operation; a pod takes 2 s to end once it must. Both from the write of the node's condition. Writes: in the audit log, by"
        " the user that each runs as, Leases aside, from the first condition until all are drained and their Jobs made."
    )


def _rows(
    api: kubernetes_api.KubernetesAPI, folder: Path, binary: str | None, config: str | None
) -> list[Row]:
    client = client_of(api.kubeconfig)
    prepare(client)
    world.grow(client, FLEET)
    rows = []
    if binary and config:
        _install_peer(api, client, Path(config))
        with _peer(api, folder, binary):
            rows.append(_measured(PEER, api, client, THEIRS, THEIR_TAINT, range(BURST)))
    kubeconfig = api.kubeconfig_for(OURS, [kubernetes_api.ADMINS])
    playbook = {**PLAYBOOK, "ladder": world.settings(kubeconfig)["playbooks"][0]["ladder"]}
    with world.remediator(folder, kubeconfig, playbooks=[playbook]) as one:
        world.wait_until_leading(one)
        nodes = range(BURST, 2 * BURST)
        rows.append(_measured(OURS, api, client, NODE_OPERATIONS, world.OUR_TAINT, nodes))
    client.close()
    return rows


def _install_peer(api: kubernetes_api.KubernetesAPI, client: KubeClient, config: Path) -> None:
    """Its definitions, and one rule for the nodes that it is to look after."""
    # They are too long for the annotation of a plain apply.
    answer = api.kubectl("create", "-f", str(config / "crd" / "bases"))
    if answer.returncode:
        raise programs.ProgramError(f"its definitions were not taken: {answer.stderr}")
    answer = api.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    for number in range(BURST):
        body = {"metadata": {"labels": {"looked-after": "theirs"}}}
        client.patch(NODES, world.node_name(number), body, kind=PatchKind.MERGE)
    answer = api.kubectl("apply", "-f", "-", stdin=json.dumps(_their_rule()))
    if answer.returncode:
        raise programs.ProgramError(f"its rule was not taken: {answer.stderr}")


def _their_rule() -> dict[str, Any]:
    container = {"name": "main", "image": "repair:1", "command": ["reboot"]}
    pod = {"restartPolicy": "Never", "containers": [container]}
    operation = {
        "apiVersion": f"{THEIR_GROUP}/v1alpha1",
        "kind": "NodeOperationTemplate",
        "metadata": {"name": "reboot"},
        "spec": {
            "template": {
                "metadata": {},
                "spec": {
                    "jobTemplate": {
                        "metadata": {"namespace": "default"},
                        "spec": {"template": {"spec": pod}},
                    }
                },
            }
        },
    }
    remediation = {
        "apiVersion": f"{THEIR_GROUP}/v1alpha1",
        "kind": "NodeRemediationTemplate",
        "metadata": {"name": "reboot"},
        "spec": {
            "nodeSelector": {"looked-after": "theirs"},
            "template": {
                "spec": {
                    "rule": {"conditions": [{"type": CONDITION, "status": "True"}]},
                    "nodeOperationTemplateName": "reboot",
                }
            },
        },
    }
    return {"apiVersion": "v1", "kind": "List", "items": [operation, remediation]}


@contextmanager
def _peer(api: kubernetes_api.KubernetesAPI, folder: Path, binary: str) -> Iterator[None]:
    """It, on the first CPU, once it has a NodeRemediation for each of its nodes."""
    kubeconfig, probes = api.kubeconfig_for(PEER, [kubernetes_api.ADMINS]), programs.free_port()
    command = [
        binary,
        f"--metrics-bind-address=127.0.0.1:{programs.free_port()}",
        f"--health-probe-bind-address=127.0.0.1:{probes}",
    ]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    with on_cpu(0):
        program = programs.start(PEER, command, folder, environment)
    with programs.running(program):
        program.wait_until_ready(f"http://127.0.0.1:{probes}/readyz", 60)
        client = client_of(api.kubeconfig)
        rules = Resource(
            THEIR_GROUP, "v1alpha1", "noderemediations", namespaced=False, kind="NodeRemediation"
        )
        _wait(
            "its NodeRemediations",
            lambda: len(client.list(rules).items) >= BURST,
            120,
            program.tail,
        )
        client.close()
        yield


def _wait(
    what: str, holds: Callable[[], bool], seconds: float, tail: Callable[[], str] = str
) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise programs.ProgramError(f"waited {seconds} s for {what}\n{tail()}")
        time.sleep(0.05)


def _measured(
    who: str,
    api: kubernetes_api.KubernetesAPI,
    client: KubeClient,
    operations: Resource,
    taint: str,
    nodes: range,
) -> Row:
    say(f"{who}: {len(nodes)} conditions")
    for number in nodes:
        _pod(client, number)
    time.sleep(3)
    audited = len(api.audited())
    tainted = world.Tainted(client, taint)
    with _kubelets(client):
        written = {world.node_name(number): _fault(client, number) for number in nodes}
        drained = _until_drained(client, operations, set(written))
    tainted.wait(nodes, 60)
    tainted.stop()
    time.sleep(3)
    writes = [
        event
        for event in api.audited()[audited:]
        if event["user"]["username"] == who
        and event["verb"] in WRITES
        and event.get("objectRef", {}).get("resource") != "leases"
    ]
    events = [event for event in writes if event.get("objectRef", {}).get("resource") == "events"]
    return Row(
        who,
        [tainted.seen[name] - at for name, at in written.items()],
        [drained[name] - at for name, at in written.items()],
        len(writes) / len(nodes),
        len(events) / len(nodes),
    )


def _pod(client: KubeClient, number: int) -> None:
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"work-{number}",
            "namespace": "default",
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "work",
                    "uid": "00000000-0000-4000-8000-000000000000",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "nodeName": world.node_name(number),
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "main", "image": "work:1"}],
        },
    }
    client.create(PODS, body)
    # The peer takes pods only that run.
    client.patch(
        PODS,
        body["metadata"]["name"],
        {"status": {"phase": "Running"}},
        "default",
        kind=PatchKind.MERGE,
        subresource="status",
    )


@contextmanager
def _kubelets(client: KubeClient) -> Iterator[None]:
    """In place of the nodes': a pod that is to end is gone some seconds later."""
    stop = threading.Event()

    def work() -> None:
        ending: dict[str, float] = {}
        while not stop.wait(0.25):
            for pod in client.list(PODS, "default").items:
                name, now = pod["metadata"]["name"], time.monotonic()
                if "deletionTimestamp" not in pod["metadata"]:
                    continue
                if now - ending.setdefault(name, now) >= POD_ENDS_AFTER:
                    with suppress(NotFound):
                        client.delete(PODS, name, "default", grace_seconds=0)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _fault(client: KubeClient, number: int) -> float:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {
        "type": CONDITION,
        "status": "True",
        "reason": "Bench",
        "message": "",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    body = {"status": {"conditions": [condition]}}
    at = time.perf_counter()
    client.patch(
        NODES, world.node_name(number), body, kind=PatchKind.STRATEGIC, subresource="status"
    )
    return at


_DRAINED = frozenset(
    {"Drained", "JobCreating", "Running", "Completed", "Executing", "AwaitingReturn"}
)


def _until_drained(
    client: KubeClient, operations: Resource, nodes: set[str], seconds: float = 300
) -> dict[str, float]:
    """When each node's operation was first seen past its drain; looked at ten times a second."""
    found: dict[str, float] = {}
    deadline = time.monotonic() + seconds
    while nodes - found.keys():
        if time.monotonic() > deadline:
            raise programs.ProgramError(f"{len(nodes - found.keys())} nodes were not drained")
        for each in client.list(operations).items:
            if (each.get("status") or {}).get("phase") in _DRAINED:
                found.setdefault(each["spec"]["nodeName"], time.perf_counter())
        time.sleep(0.1)
    return found


def _ratios(rows: list[Row]) -> str:
    by = {row.who: row for row in rows}
    if PEER not in by:
        return "No ratio without the peer."
    ours, theirs = by[OURS], by[PEER]
    pairs = {
        "tainted, all": (max(ours.tainted), max(theirs.tainted)),
        "drained, all": (max(ours.drained), max(theirs.drained)),
        "writes": (ours.writes, theirs.writes),
    }
    shown = "; ".join(f"{name} {mine / its:.2f}" for name, (mine, its) in pairs.items())
    return f"Ours / {PEER}'s: {shown}."
