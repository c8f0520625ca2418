"""Pods and repair Jobs as the decisions see them. Pure."""

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

from remediator.cluster import JobState, JobView, PodView
from remediator.kube_cluster.reading import count, each, part, text, texts, time
from remediator.repair_jobs import parse_end

_MIRROR = "kubernetes.io/config.mirror"
_DEFAULT_GRACE = 30
_NEVER_RAN = frozenset({"StartError", "ContainerCannotRun"})
"""Reasons of a container that ended before its first process ran."""
_NO_IMAGE = frozenset({"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})


def pod_view(raw: Mapping[str, Any], gpu_resources: Collection[str]) -> PodView:
    """The view of a Pod."""
    metadata, spec = part(raw, "metadata"), part(raw, "spec")
    annotations = texts(metadata, "annotations")
    owner: Mapping[str, Any] = next(
        (one for one in each(metadata, "ownerReferences") if one.get("controller") is True), {}
    )
    seconds = metadata.get("deletionGracePeriodSeconds")
    if not isinstance(seconds, int):
        seconds = spec.get("terminationGracePeriodSeconds")
    priority = spec.get("priority")
    return PodView(
        namespace=text(metadata, "namespace"),
        name=text(metadata, "name"),
        uid=text(metadata, "uid"),
        phase=text(part(raw, "status"), "phase"),
        owner_kind=text(owner, "kind"),
        owner_name=text(owner, "name"),
        mirror=_MIRROR in annotations,
        daemon_set=owner.get("kind") == "DaemonSet",
        terminating_since=_terminating_since(metadata),
        grace=timedelta(seconds=seconds if isinstance(seconds, int) else _DEFAULT_GRACE),
        gpus=_gpus(spec, gpu_resources),
        empty_dir=any("emptyDir" in volume for volume in each(spec, "volumes")),
        labels=texts(metadata, "labels"),
        annotations=annotations,
        priority=priority if isinstance(priority, int) else 0,
        created_at=time(metadata, "creationTimestamp"),
    )


def _terminating_since(metadata: Mapping[str, Any]) -> Any:
    # deletionTimestamp is when the grace period ends, not when it began.
    end, seconds = time(metadata, "deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    if end is None:
        return None
    return end - timedelta(seconds=seconds if isinstance(seconds, int) else 0)


def _gpus(spec: Mapping[str, Any], resources: Collection[str]) -> int:
    """How many GPUs, or parts of some, the containers ask for; `*` in a name stands for anything."""
    wanted = [
        part(container, "resources", "limits")
        for key in ("containers", "initContainers")
        for container in each(spec, key)
    ]
    return sum(
        count(limits, name)
        for limits in wanted
        for name in limits
        if any(fnmatchcase(name, pattern) for pattern in resources)
    )


def job_view(raw: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> JobView:
    """The view of a Job of ours with its pods (at most one, as it is never tried again).

    It counts as begun unless it is certain that no container ever started.
    """
    status = part(raw, "status")
    pod: Mapping[str, Any] = next(iter(pods), {})
    state, told = _state(status)
    ended = _ended(pod)
    code = None if ended.get("reason") in _NEVER_RAN else ended.get("exitCode")
    message = text(ended, "message")
    end = parse_end(message)
    return JobView(
        name=text(part(raw, "metadata"), "name"),
        state=state,
        began=_began(status, pod, state),
        image_failed=_waits_for(pod) in _NO_IMAGE,
        exit_code=code if isinstance(code, int) else None,
        text=(end.detail if end else message) or _waits_for(pod) or told,
        started_at=time(status, "startTime"),
        ended_at=time(ended, "finishedAt") or time(status, "completionTime"),
    )


def _state(status: Mapping[str, Any]) -> tuple[JobState, str]:
    for condition in each(status, "conditions"):
        if condition.get("status") != "True":
            continue
        if condition.get("type") == "Complete":
            return JobState.SUCCEEDED, ""
        if condition.get("type") == "Failed":
            return JobState.FAILED, f"{text(condition, 'reason')}: {text(condition, 'message')}"
    return JobState.ACTIVE, ""


def _containers(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        *each(pod, "status", "containerStatuses"),
        *each(pod, "status", "initContainerStatuses"),
    ]


def _ended(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    for container in each(pod, "status", "containerStatuses"):
        if found := part(container, "state", "terminated") or part(
            container, "lastState", "terminated"
        ):
            return found
    return {}


def _waits_for(pod: Mapping[str, Any]) -> str:
    for container in _containers(pod):
        if reason := text(part(container, "state", "waiting"), "reason"):
            return reason
    return ""


def _has_run(container: Mapping[str, Any]) -> bool:
    found = [
        part(container, key, kind)
        for key in ("state", "lastState")
        for kind in ("running", "terminated")
    ]
    return any(each and each.get("reason") not in _NEVER_RAN for each in found)


def _began(status: Mapping[str, Any], pod: Mapping[str, Any], state: JobState) -> bool:
    if not pod:
        # Without a pod that could tell, only a Job that never had one has certainly not begun.
        had_one = any(count(status, key) for key in ("active", "ready", "succeeded", "failed"))
        return (
            had_one or state is not JobState.ACTIVE or bool(part(status, "uncountedTerminatedPods"))
        )
    if any(_has_run(container) for container in _containers(pod)):
        return True
    if any(part(container, "state", "terminated") for container in _containers(pod)):
        return False
    phase = text(part(pod, "status"), "phase")
    if phase in {"", "Pending"}:
        return False
    disrupted = any(
        one.get("type") == "DisruptionTarget" for one in each(pod, "status", "conditions")
    )
    refused = phase == "Failed" and bool(text(part(pod, "status"), "reason")) and not disrupted
    return not refused
