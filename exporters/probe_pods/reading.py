"""A pod's status as the stage of a probe, and what kept it from a report. Pure.

Reasons and conditions are Kubernetes' own: the container's waiting reasons of the kubelet, the pod condition
DisruptionTarget (documentation, "Disruptions: pod disruption conditions"), `status.reason` of a pod that the kubelet
refused or ended.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from exporters.probe_pods.manifest import CONTAINER
from exporters.probe_pods.model import (
    BOOT_ANNOTATION,
    GPUS_ANNOTATION,
    NODE_ANNOTATION,
    NODE_UID_ANNOTATION,
    OPERATION_ANNOTATION,
    PURPOSE_ANNOTATION,
    Outcome,
    PodStage,
    PodView,
    Purpose,
)

_ENDED = frozenset({"Succeeded", "Failed"})
_NO_IMAGE = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
    }
)
_CANNOT_RUN = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_REFUSED_BY_KUBELET = frozenset({"UnexpectedAdmissionError", "OutOfnvidia.com/gpu"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def view_of_pod(pod: Mapping[str, Any]) -> PodView:
    """A probe pod as the API gives it, whatever it holds."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    status = pod.get("status") or {}
    told = annotations.get(PURPOSE_ANNOTATION)
    ended = _terminated(status)
    return PodView(
        name=str(metadata["name"]),
        uid=str(metadata.get("uid", "")),
        node=str(annotations.get(NODE_ANNOTATION, "")),
        node_uid=str(annotations.get(NODE_UID_ANNOTATION, "")),
        boot_id=str(annotations.get(BOOT_ANNOTATION, "")),
        purpose=Purpose(told) if told in set(Purpose) else Purpose.PERIODIC,
        operation=str(annotations.get(OPERATION_ANNOTATION, "")),
        gpus=_number(annotations.get(GPUS_ANNOTATION)),
        created=_time(metadata.get("creationTimestamp")) or _EPOCH,
        stage=_stage(spec, status),
        trouble=_trouble(status),
        is_deleting="deletionTimestamp" in metadata,
        deadline=_deadline(spec, status),
        message=str(ended.get("message") or ""),
        exit_code=ended.get("exitCode") if isinstance(ended.get("exitCode"), int) else None,
        detail=_detail(status),
    )


def end_of(pod: PodView, *, reported: int) -> Outcome | None:
    """Why a pod that has ended, or has gone, gives no verdict; None if its reports count.

    Args:
        pod: As it was last seen.
        reported: How many GPUs it has reported on.
    """
    if pod.trouble is Outcome.TIMEOUT and reported >= max(1, pod.gpus):
        return None  # all was said; what cannot end is the process that hangs in a broken driver
    if pod.trouble is not None:
        return pod.trouble
    if pod.stage is not PodStage.ENDED:
        return Outcome.INTERRUPTED
    return None if reported else Outcome.ERROR


def gpus_in_use(pods: Iterable[Mapping[str, Any]], resource: str) -> int:
    """How many GPUs the pods of a node hold; those that have ended hold none."""
    return sum(_gpus_of(pod, resource) for pod in pods if _phase(pod) not in _ENDED)


def _gpus_of(pod: Mapping[str, Any], resource: str) -> int:
    spec = pod.get("spec") or {}
    mains = sum(_limit(each, resource) for each in spec.get("containers") or ())
    inits = [_limit(each, resource) for each in spec.get("initContainers") or ()]
    return max([mains, *inits])


def _limit(container: Mapping[str, Any], resource: str) -> int:
    resources = container.get("resources") or {}
    for kind in ("limits", "requests"):
        if resource in (resources.get(kind) or {}):
            return _number(resources[kind][resource])
    return 0


def _phase(pod: Mapping[str, Any]) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def _stage(spec: Mapping[str, Any], status: Mapping[str, Any]) -> PodStage:
    phase = status.get("phase")
    if phase in _ENDED:
        return PodStage.ENDED
    if phase == "Running":
        return PodStage.RUNNING
    return PodStage.STARTING if spec.get("nodeName") else PodStage.WAITING


def _trouble(status: Mapping[str, Any]) -> Outcome | None:
    disrupted = _disruption(status)
    if disrupted is not None:
        return disrupted
    waiting = _state(status, "waiting").get("reason")
    if waiting in _NO_IMAGE:
        return Outcome.IMAGE_PULL_FAILED
    if waiting in _CANNOT_RUN:
        return Outcome.ERROR
    return _why_failed(status)


def _why_failed(status: Mapping[str, Any]) -> Outcome | None:
    reason = str(status.get("reason") or "")
    if status.get("phase") != "Failed" or not reason:
        return None
    if reason == "DeadlineExceeded":
        return Outcome.TIMEOUT
    if reason in _REFUSED_BY_KUBELET or reason.startswith("OutOf"):
        return Outcome.SKIPPED_BUSY
    if reason in {"Evicted", "NodeAffinity", "Terminated", "NodeShutdown", "Shutdown"}:
        return Outcome.EVICTED
    return Outcome.INTERRUPTED if reason == "NodeLost" else Outcome.ERROR


def _disruption(status: Mapping[str, Any]) -> Outcome | None:
    for each in status.get("conditions") or ():
        if each.get("type") == "DisruptionTarget" and each.get("status") == "True":
            by_scheduler = each.get("reason") == "PreemptionByScheduler"
            return Outcome.PREEMPTED if by_scheduler else Outcome.EVICTED
    return None


def _state(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    for each in status.get("containerStatuses") or ():
        if each.get("name") == CONTAINER:
            found: Mapping[str, Any] = (each.get("state") or {}).get(kind) or {}
            return found
    return {}


def _terminated(status: Mapping[str, Any]) -> Mapping[str, Any]:
    return _state(status, "terminated")


def _detail(status: Mapping[str, Any]) -> str:
    """What a person should read about why it is as it is."""
    waiting = _state(status, "waiting")
    parts = [
        status.get("reason") or waiting.get("reason") or "",
        status.get("message") or waiting.get("message") or "",
    ]
    return ": ".join(str(part) for part in parts if part)[:300]


def _deadline(spec: Mapping[str, Any], status: Mapping[str, Any]) -> datetime | None:
    started, seconds = _time(status.get("startTime")), spec.get("activeDeadlineSeconds")
    if started is None or not isinstance(seconds, int):
        return None
    return started + timedelta(seconds=seconds)


def _number(text: object) -> int:
    """A count as Kubernetes writes it; 0 for what is none."""
    digits = str(text)
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def _time(text: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
