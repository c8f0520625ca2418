"""Tells the API about one simulated node: registration, heartbeats, status, the agent's conditions, probe answers.

All methods run on the node's lane. A call that fails is tried again with the next heartbeat or report, or sooner.
"""

from collections.abc import Callable
from typing import Any

from chassis.contracts import PROBE_RESULT_ANNOTATION
from chassis.errors import NodemendError, TemporaryError
from chassis.kube_client import LEASES, NODES, AlreadyExists, Conflict, NotFound, PatchKind
from sandbox.simulated_nodes.conditions import agent_conditions, gpu_verdict, probe_result
from sandbox.simulated_nodes.faults import FaultKind
from sandbox.simulated_nodes.history import Happening
from sandbox.simulated_nodes.machine import Machine
from sandbox.simulated_nodes.node_objects import (
    LEASE_NAMESPACE,
    kubelet_conditions,
    lease_body,
    node_body,
    node_status,
    unknown_conditions,
    wanted_taints,
)
from sandbox.simulated_nodes.shared import Shared

_TAINT_TRIES = 5


class Reporter:
    """What one node writes about itself."""

    def __init__(self, machine: Machine, shared: Shared) -> None:
        self._machine = machine
        self._shared = shared
        self._name = machine.spec.name
        self._conditions: dict[str, dict[str, str]] = {}
        self._uid = ""
        self._lease_version: str | None = None
        self._tainted_for: str | None = None
        self.is_shutting_down = False

    @property
    def is_registered(self) -> bool:
        return bool(self._uid)

    @property
    def _ready(self) -> bool:
        return not self.is_shutting_down and not self._machine.has(FaultKind.NOT_READY)

    def register(self) -> None:
        """Create the Node, or take over the one of this name, and its Lease.

        Raises:
            NodemendError: The API did not do it.
        """
        body = node_body(self._machine.spec, self._kubelet_status())
        try:
            node = self._shared.client.create(NODES, body)
        except AlreadyExists:
            node = self._take_over(body)
        self._uid = node["metadata"]["uid"]
        self._lease_version = None
        self._beat()
        self._keep_taints("True" if self._ready else "False", node)
        self._machine.note(Happening.REGISTERED)

    def _take_over(self, body: dict[str, Any]) -> dict[str, Any]:
        client = self._shared.client
        metadata = {key: body["metadata"][key] for key in ("labels", "annotations")}
        client.patch(NODES, self._name, {"metadata": metadata}, kind=PatchKind.MERGE)
        node = client.get(NODES, self._name)
        old = (node.get("status") or {}).get("conditions") or ()
        self._conditions = {each["type"]: each for each in old}
        self._patch_status(self._kubelet_status())
        return node

    # Kubelet.

    def _kubelet_status(self) -> dict[str, Any]:
        why = "simulated kubelet is ready" if self._ready else "simulated: not ready"
        if self.is_shutting_down:
            why = "node is shutting down"
        told = kubelet_conditions(self._ready, why, self._shared.clock(), self._conditions)
        self._conditions |= {each["type"]: each for each in told}
        usable = len(self._machine.healthy_gpus())
        return node_status(self._machine.spec, self._machine.told_boot_id, usable, told)

    def report(self) -> None:
        """Write the kubelet's whole status; whether that worked."""
        status = self._kubelet_status()
        if self._tried("status", lambda: self._patch_status(status)):
            self._keep_taints("True" if self._ready else "False")

    def beat(self) -> None:
        """Renew the Lease."""
        self._tried("lease", self._beat)

    def _beat(self) -> None:
        client, seconds = self._shared.client, self._shared.timing.lease_duration
        now = self._shared.clock()
        body = lease_body(self._name, self._uid, seconds, now, self._lease_version)
        try:
            answer = (
                client.replace(LEASES, body) if self._lease_version else client.create(LEASES, body)
            )
        except (AlreadyExists, Conflict):
            old = client.get(LEASES, self._name, LEASE_NAMESPACE)
            version = old["metadata"]["resourceVersion"]
            answer = client.replace(
                LEASES, lease_body(self._name, self._uid, seconds, now, version)
            )
        except NotFound:
            self._lease_version = None  # deleted: made anew with the next beat
            return
        self._lease_version = answer["metadata"]["resourceVersion"]

    def _patch_status(self, status: dict[str, Any]) -> None:
        self._shared.client.patch(NODES, self._name, {"status": status}, subresource="status")

    # Agent.

    def report_agent(self) -> None:
        """Write the conditions that the node's agent finds."""
        if not self._shared.roles.agent or not self._machine.is_on:
            return
        faults = () if self._machine.has(FaultKind.CLAIMS_HEALTH) else self._machine.faults
        now = self._shared.clock()
        told = agent_conditions(self._machine.gpus, faults, now, self._conditions)
        if self._tried("conditions", lambda: self._patch_status({"conditions": told})):
            self._conditions |= {each["type"]: each for each in told}

    def answer_probe(self, operation: str) -> None:
        """Answer a probe request."""
        if not self._machine.is_on:
            return
        lying = self._machine.has(FaultKind.CLAIMS_HEALTH)
        verdicts = {
            gpu.uuid: gpu_verdict(() if lying else self._machine.faults_of(gpu))
            for gpu in self._machine.gpus
        }
        now, boot_id = self._shared.clock(), self._machine.told_boot_id
        value = probe_result(operation, boot_id, verdicts, now)
        body = {"metadata": {"annotations": {PROBE_RESULT_ANNOTATION: value}}}
        client = self._shared.client
        if self._tried(
            "probe", lambda: client.patch(NODES, self._name, body, kind=PatchKind.MERGE)
        ):
            self._machine.note(Happening.PROBE_ANSWERED, operation)

    # Node controller.

    def fall_silent(self) -> None:
        """What the control plane writes when it has not heard of the node for too long."""
        if not self._shared.roles.node_controller or not self._conditions:
            return
        told = unknown_conditions(self._shared.clock(), self._conditions)
        if self._tried("silence", lambda: self._patch_status({"conditions": told})):
            self._conditions |= {each["type"]: each for each in told}
            self._keep_taints("Unknown")

    def _keep_taints(self, ready: str, node: dict[str, Any] | None = None) -> None:
        if not self._shared.roles.node_controller or ready == self._tainted_for:
            return
        if self._tried("taints", lambda: self._write_taints(ready, node)):
            self._tainted_for = ready

    def _write_taints(self, ready: str, node: dict[str, Any] | None) -> None:
        for _ in range(_TAINT_TRIES):
            node = node or self._shared.client.get(NODES, self._name)
            taints = node["spec"].get("taints") or []
            wanted = wanted_taints(taints, ready, self._shared.clock())
            if wanted == taints:
                return
            version = node["metadata"]["resourceVersion"]
            body = {"metadata": {"resourceVersion": version}, "spec": {"taints": wanted}}
            try:
                self._shared.client.patch(NODES, self._name, body, kind=PatchKind.MERGE)
            except Conflict:
                node = None
            else:
                return
        raise TemporaryError("the node changed each time its taints were written")

    def _tried(self, what: str, call: Callable[[], object]) -> bool:
        try:
            call()
        except NodemendError as error:
            self._shared.log.info(
                "simulated_node_not_told", node=self._name, what=what, error=str(error)
            )
            return False
        return True
