"""A pod's status as a kubelet writes it, made from what its containers do. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sandbox.simulated_nodes.node_objects import GPU_RESOURCE, seconds_text

MAX_MESSAGE = 4096
"""Bytes of a termination message that a kubelet keeps."""


@dataclass(frozen=True, slots=True)
class Waiting:
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    started_at: datetime


@dataclass(frozen=True, slots=True)
class Terminated:
    exit_code: int
    reason: str
    started_at: datetime
    finished_at: datetime
    message: str = ""


State = Waiting | Running | Terminated


@dataclass(slots=True)
class ContainerRun:
    """A container of a pod on its node; `spec` is its entry in the pod."""

    spec: Mapping[str, Any]
    is_init: bool
    state: State = Waiting("PodInitializing")
    last: Terminated | None = None
    restarts: int = 0
    ready: bool = False

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def image(self) -> str:
        return str(self.spec.get("image", ""))


@dataclass(slots=True)
class PodRun:
    """A pod on its node. `failure` is set when it was refused or ran out of time: reason and message."""

    pod: Mapping[str, Any]
    containers: list[ContainerRun]
    started_at: datetime
    ip: str
    host_ip: str
    devices: tuple[str, ...] = ()
    failure: tuple[str, str] | None = None
    is_deleting: bool = False
    grace: int | None = None
    """Seconds, as the deletion last said."""
    written: dict[str, Any] = field(default_factory=dict)
    """The status that the API has, as far as known."""

    @property
    def uid(self) -> str:
        return str(self.pod["metadata"]["uid"])

    @property
    def key(self) -> str:
        metadata = self.pod["metadata"]
        return f"{metadata['namespace']}/{metadata['name']}"

    @property
    def mains(self) -> list[ContainerRun]:
        return [each for each in self.containers if not each.is_init]

    @property
    def has_ended(self) -> bool:
        """Whether no container runs, and none will."""
        return self.failure is not None or phase_of(self) in {"Succeeded", "Failed"}

    @property
    def is_quiet(self) -> bool:
        return not any(isinstance(each.state, Running) for each in self.containers)


def containers_of(pod: Mapping[str, Any]) -> list[ContainerRun]:
    """The containers of a pod in the order in which they start."""
    spec = pod["spec"]
    inits = [ContainerRun(each, is_init=True) for each in spec.get("initContainers") or ()]
    reason = "PodInitializing" if inits else "ContainerCreating"
    mains = [ContainerRun(e, is_init=False, state=Waiting(reason)) for e in spec["containers"]]
    return inits + mains


def gpus_wanted(pod: Mapping[str, Any]) -> int:
    """How many GPUs the pod takes: the sum of its containers, or more if an init container takes more."""
    spec = pod["spec"]
    total = sum(_gpus(each) for each in spec["containers"])
    return max([total, *(_gpus(each) for each in spec.get("initContainers") or ())])


def _gpus(container: Mapping[str, Any]) -> int:
    limits = (container.get("resources") or {}).get("limits") or {}
    return int(limits.get(GPU_RESOURCE, 0))


def restarts_after(pod: Mapping[str, Any], exit_code: int, *, is_init: bool) -> bool:
    """Whether a container that ended so is started again."""
    policy = pod["spec"].get("restartPolicy", "Always")
    if policy == "Always":
        return not is_init or exit_code != 0
    return policy == "OnFailure" and exit_code != 0


def phase_of(run: PodRun) -> str:
    """The phase that the containers' states give."""
    if run.failure is not None:
        return "Failed"
    init_failed = any(_failed(each) for each in run.containers if each.is_init)
    if init_failed and not _any_restarts(run):
        return "Failed"
    ends = [each.state for each in run.mains if isinstance(each.state, Terminated)]
    if len(ends) == len(run.mains) and (run.is_deleting or not _any_restarts(run)):
        return "Succeeded" if all(end.exit_code == 0 for end in ends) else "Failed"
    started = any(not isinstance(e.state, Waiting) or e.restarts or e.last for e in run.mains)
    return "Running" if started else "Pending"


def _failed(container: ContainerRun) -> bool:
    return isinstance(container.state, Terminated) and container.state.exit_code != 0


def _any_restarts(run: PodRun) -> bool:
    return any(
        isinstance(each.state, Terminated)
        and restarts_after(run.pod, each.state.exit_code, is_init=each.is_init)
        for each in run.containers
    )


def pod_status(run: PodRun, now: datetime) -> dict[str, Any]:
    """The whole status; conditions keep the time of their last transition from `run.written`."""
    phase = phase_of(run)
    status: dict[str, Any] = {
        "phase": phase,
        "startTime": seconds_text(run.started_at),
        "hostIP": run.host_ip,
        "conditions": _conditions(run, phase, now),
    }
    if run.failure is not None:
        status["reason"], status["message"] = run.failure
    if run.failure is None or run.written.get("containerStatuses"):
        status["podIP"], status["podIPs"] = run.ip, [{"ip": run.ip}]
        inits = [_container_status(e) for e in run.containers if e.is_init]
        if inits:
            status["initContainerStatuses"] = inits
        status["containerStatuses"] = [_container_status(each) for each in run.mains]
    return status


def _conditions(run: PodRun, phase: str, now: datetime) -> list[dict[str, Any]]:
    inits_done = all(
        isinstance(each.state, Terminated) and each.state.exit_code == 0
        for each in run.containers
        if each.is_init
    )
    ready = phase == "Running" and all(each.ready for each in run.mains)
    values = {
        "PodScheduled": True,
        "Initialized": inits_done and run.failure is None,
        "ContainersReady": ready,
        "Ready": ready,
    }
    old = {each["type"]: each for each in run.written.get("conditions", ())}
    return [_condition(type_, value, phase, old.get(type_), now) for type_, value in values.items()]


def _condition(
    type_: str,
    value: bool,  # noqa: FBT001  (the status it tells)
    phase: str,
    before: Mapping[str, Any] | None,
    now: datetime,
) -> dict[str, Any]:
    status = "True" if value else "False"
    same = before is not None and before["status"] == status
    result = {
        "type": type_,
        "status": status,
        "lastTransitionTime": before["lastTransitionTime"]
        if same and before
        else seconds_text(now),
    }
    if not value:
        result["reason"] = {
            "Succeeded": "PodCompleted",
            "Failed": "PodFailed",
        }.get(phase, "ContainersNotReady")
    return result


def _container_status(container: ContainerRun) -> dict[str, Any]:
    running = isinstance(container.state, Running)
    status: dict[str, Any] = {
        "name": container.name,
        "image": container.image,
        "imageID": "" if isinstance(container.state, Waiting) else f"simulated/{container.image}",
        "ready": container.ready,
        "started": running,
        "restartCount": container.restarts,
        "state": _state(container.state),
        "lastState": _state(container.last) if container.last else {},
    }
    return status


def _state(state: State) -> dict[str, Any]:
    match state:
        case Waiting():
            text = {"message": state.message} if state.message else {}
            return {"waiting": {"reason": state.reason, **text}}
        case Running():
            return {"running": {"startedAt": seconds_text(state.started_at)}}
    ended = {
        "exitCode": state.exit_code,
        "reason": state.reason,
        "startedAt": seconds_text(state.started_at),
        "finishedAt": seconds_text(state.finished_at),
    }
    return {"terminated": ended | ({"message": state.message} if state.message else {})}


def replacement_of(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The pod that a StatefulSet makes in its place: same name, same node, no status."""
    metadata = pod["metadata"]
    kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": pod["spec"],
    }


def owner_kinds(pod: Mapping[str, Any]) -> Sequence[str]:
    return [each["kind"] for each in pod["metadata"].get("ownerReferences") or ()]
