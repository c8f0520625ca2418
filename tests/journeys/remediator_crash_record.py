"""What the API server kept and the simulated nodes saw, and what is wrong with it. Reads nothing of ours but the objects."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chassis.contracts import OPERATION_TAINT, PROBE_RESULT_ANNOTATION
from remediator.operation import OPERATION_UID_LABEL
from sandbox.kubernetes_server import SandboxKubernetes
from sandbox.simulated_nodes import Happening, SimulatedNode

OPERATIONS = "nodeoperations.nodemend.dev"
CONDITION = "GPURuntimeError"


@dataclass(frozen=True, slots=True)
class NodeThen:
    """A node at one version. `probe`: operation UID, boot id and verdict of the last probe."""

    version: int
    name: str
    uid: str
    taint: str
    boot_id: str
    ready: bool
    faulty: bool
    probe: tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class OperationThen:
    """An operation at one version; `job` and `boot_id` stand in its intent, if there is one."""

    version: int
    name: str
    uid: str
    node: str
    phase: str
    action: str
    job: str


@dataclass(frozen=True, slots=True)
class JobThen:
    """A Job when it was made."""

    version: int
    name: str
    operation_uid: str


class Record:
    """The server's history of nodes, operations and Jobs, one entry a version."""

    def __init__(self, server: SandboxKubernetes) -> None:
        self.nodes: list[NodeThen] = []
        self.operations: list[OperationThen] = []
        self.jobs: list[JobThen] = []
        server.listen(self._note)

    def _note(self, kind: str, event: Any) -> None:
        body = event.record.body
        if kind == "nodes" and event.kind != "DELETED":
            self.nodes.append(_node(event.version, body))
        elif kind == OPERATIONS and event.kind != "DELETED":
            self.operations.append(_operation(event.version, body))
        elif kind == "jobs.batch" and event.kind == "ADDED":
            labels = body["metadata"].get("labels") or {}
            name = body["metadata"]["name"]
            self.jobs.append(JobThen(event.version, name, labels.get(OPERATION_UID_LABEL, "")))

    def mistakes(self, budget: int) -> list[str]:
        """What must never have happened and did."""
        return [
            *_over_budget(self.nodes, budget),
            *self._tainted_after_success(),
            *self._released_unproven(),
            *self._unannounced(),
        ]

    # What must never happen.

    def _tainted_after_success(self) -> list[str]:
        done = {
            each.name: each.version for each in self.operations[::-1] if each.phase == "Succeeded"
        }  # the first version in which it had
        return [
            f"{node.name} carries the taint of {node.taint} at {node.version}, which has succeeded"
            for node in self.nodes
            if node.taint in done and node.version > done[node.taint]
        ]

    def _released_unproven(self) -> list[str]:
        uids = {each.name: each.uid for each in self.operations}
        wrong: list[str] = []
        before: dict[str, NodeThen] = {}
        boots: dict[str, str] = {}
        for node in self.nodes:
            last = before.get(node.name)
            if node.taint and (last is None or last.taint != node.taint):
                boots[node.taint] = node.boot_id
            if last is not None and last.taint and last.taint != node.taint:
                why = _unproven(node, uids.get(last.taint, ""), boots[last.taint])
                wrong += [f"{node.name} was released at {node.version}: {why}"] if why else []
            before[node.name] = node
        return wrong

    def _unannounced(self) -> list[str]:
        """Effects that no status had announced: taints that appear, and Jobs."""
        isolations = {(each.name, each.action): each.version for each in self.operations[::-1]}
        jobs = {(each.uid, each.job): each.version for each in self.operations[::-1]}
        wrong: list[str] = []
        before: dict[str, str] = {}
        for node in self.nodes:
            announced = isolations.get((node.taint, "Isolate"), node.version)
            if node.taint and before.get(node.name) != node.taint and announced >= node.version:
                wrong.append(f"the taint of {node.taint} on {node.name} was not announced")
            before[node.name] = node.taint
        return wrong + [
            f"Job {job.name} at {job.version} was not announced"
            for job in self.jobs
            if jobs.get((job.operation_uid, job.name), job.version) >= job.version
        ]


def reboots_wrong(nodes: Iterable[SimulatedNode], expected: Mapping[str, int]) -> list[str]:
    """Nodes that were asked to reboot, or went down, more or less often than expected."""
    wrong = []
    for sim in nodes:
        went, asked = sim.history.reboots, sim.history.count(Happening.REBOOT_REQUESTED)
        if (went, asked) != (expected[sim.name],) * 2:
            wrong.append(f"{sim.name}: {went} reboots, {asked} asked for, not {expected[sim.name]}")
    return wrong


def _over_budget(nodes: Iterable[NodeThen], budget: int) -> list[str]:
    """Versions at which more nodes were isolated than the budget allows."""
    isolated: set[str] = set()
    wrong = []
    for node in nodes:
        (isolated.add if node.taint else isolated.discard)(node.name)
        if len(isolated) > budget:
            wrong.append(f"{sorted(isolated)} were isolated at {node.version}")
    return wrong


def _unproven(node: NodeThen, operation_uid: str, boot_before: str) -> str:
    """Why a node must not have been released as it was, empty if it may."""
    if node.faulty:
        return f"{CONDITION} was not False"
    if not node.ready:
        return "it was not Ready"
    if node.boot_id == boot_before:
        return "it had not rebooted"
    if node.probe != (operation_uid, node.boot_id, "pass"):
        return f"its last probe was {node.probe}"
    return ""


def _node(version: int, body: Mapping[str, Any]) -> NodeThen:
    status = body.get("status") or {}
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    taints = (body.get("spec") or {}).get("taints") or ()
    ours = [str(each.get("value")) for each in taints if each["key"] == OPERATION_TAINT]
    answer = (body["metadata"].get("annotations") or {}).get(PROBE_RESULT_ANNOTATION)
    probe = json.loads(answer) if answer else {}
    return NodeThen(
        version,
        body["metadata"]["name"],
        body["metadata"]["uid"],
        ours[0] if ours else "",
        (status.get("nodeInfo") or {}).get("bootID", ""),
        conditions.get("Ready") == "True",
        conditions.get(CONDITION) != "False",
        (probe.get("operation", ""), probe.get("bootID", ""), probe.get("result", "")),
    )


def _operation(version: int, body: Mapping[str, Any]) -> OperationThen:
    status = body.get("status") or {}
    intent = status.get("intent") or {}
    return OperationThen(
        version,
        body["metadata"]["name"],
        body["metadata"]["uid"],
        (body.get("spec") or {}).get("nodeName", ""),
        status.get("phase", ""),
        intent.get("action", ""),
        intent.get("job", ""),
    )
