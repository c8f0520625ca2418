"""The Job controller's rules: a Job's status from its pods, and the pods that it wants. Pure.

Indexed completion, success policies and per-index back-off are not carried out; a podFailurePolicy is, for FailJob and
Ignore by exit code or pod condition.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sandbox.kubernetes_rules.deletion import rfc3339
from sandbox.kubernetes_rules.names import generated_name

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JobStep:
    """What the controller does next: store `status`, create `create` pods, delete those in `delete`."""

    status: dict[str, Any]
    create: int = 0
    delete: tuple[Object, ...] = ()


@dataclass(frozen=True, slots=True)
class _Verdict:
    reason: str
    message: str


def pods_of(job: Object, pods: Iterable[Object]) -> list[Object]:
    uid = job["metadata"]["uid"]
    return [each for each in pods if _controller_uid(each) == uid]


def _controller_uid(pod: Object) -> str | None:
    for each in pod["metadata"].get("ownerReferences") or ():
        if each.get("controller"):
            return str(each.get("uid"))
    return None


def is_finished(job: Object) -> bool:
    return bool(_held(job.get("status") or {}) & {"Complete", "Failed"})


def _held(status: Mapping[str, Any]) -> set[str]:
    conditions = status.get("conditions") or ()
    return {str(e.get("type")) for e in conditions if e.get("status") == "True"}


def job_step(job: Object, pods: Iterable[Object], now: datetime) -> JobStep:
    """The next step for this Job; `pods` may hold others' pods, too."""
    before = dict(job.get("status") or {})
    if is_finished(job):
        return JobStep(before)
    mine = pods_of(job, pods)
    spec = job["spec"]
    status = _counted(before, spec, mine, now)
    if spec.get("suspend"):
        status = _suspended(before, status, now)
        return JobStep(status, 0, tuple(_living(mine)))
    failure = _failure(spec, status, mine, now)
    if failure:
        return _failing(status, failure, mine, now)
    if _is_complete(spec, status):
        return _completing(status, mine, now)
    _clear(status, "Suspended", now)
    return JobStep(status, max(_wanted(spec, status) - len(_living(mine)), 0))


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def _living(pods: Sequence[Object]) -> list[Object]:
    ended = {"Succeeded", "Failed"}
    return [
        e for e in pods if _phase(e) not in ended and not e["metadata"].get("deletionTimestamp")
    ]


def _counted(
    before: Mapping[str, Any], spec: Mapping[str, Any], pods: Sequence[Object], now: datetime
) -> dict[str, Any]:
    living = _living(pods)
    ignored = [e for e in pods if _policy_action(spec, e) == "Ignore"]
    failed = [e for e in pods if _phase(e) == "Failed" and e not in ignored]
    succeeded = sum(1 for each in pods if _phase(each) == "Succeeded")
    going = sum(1 for e in pods if e["metadata"].get("deletionTimestamp") and e not in failed)
    ready = sum(1 for each in living if _is_ready(each))
    counts = {"active": len(living), "succeeded": succeeded, "failed": len(failed)}
    status = {k: v for k, v in before.items() if k not in counts}
    status |= {name: count for name, count in counts.items() if count}
    status.update(ready=ready, terminating=going, uncountedTerminatedPods={})
    if not spec.get("suspend"):
        status.setdefault("startTime", rfc3339(now))
    return status


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(e.get("type") == "Ready" and e.get("status") == "True" for e in conditions)


def _failure(
    spec: Mapping[str, Any], status: Mapping[str, Any], pods: Sequence[Object], now: datetime
) -> _Verdict | None:
    for pod in pods:
        if _policy_action(spec, pod) == "FailJob":
            name = pod["metadata"]["name"]
            return _Verdict("PodFailurePolicy", f"Pod {name} matched a FailJob rule of the policy")
    deadline, started = spec.get("activeDeadlineSeconds"), status.get("startTime")
    if deadline is not None and started:
        due = datetime.fromisoformat(started) + timedelta(seconds=int(deadline))
        if now >= due:
            return _Verdict("DeadlineExceeded", "Job was active longer than specified deadline")
    if _failures(spec, status, pods) > int(spec.get("backoffLimit", 6)):
        return _Verdict("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    return None


def _failures(spec: Mapping[str, Any], status: Mapping[str, Any], pods: Sequence[Object]) -> int:
    """Failed pods; with restartPolicy OnFailure the restarts of living containers as well."""
    failed = int(status.get("failed") or 0)
    if ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy") != "OnFailure":
        return failed
    statuses = (e.get("status") or {} for e in _living(pods))
    return failed + sum(
        int(each.get("restartCount") or 0)
        for status_ in statuses
        for each in status_.get("containerStatuses") or ()
    )


def _policy_action(spec: Mapping[str, Any], pod: Object) -> str | None:
    """The action of the first rule that a failed pod matches."""
    if _phase(pod) != "Failed":
        return None
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        if _matches_codes(rule.get("onExitCodes"), pod) or _matches_conditions(
            rule.get("onPodConditions"), pod
        ):
            return str(rule.get("action"))
    return None


def _matches_codes(wanted: Mapping[str, Any] | None, pod: Object) -> bool:
    if not wanted:
        return False
    codes = [
        state["terminated"].get("exitCode", 0)
        for each in (pod.get("status") or {}).get("containerStatuses") or ()
        if wanted.get("containerName") in {None, each.get("name")}
        and (state := each.get("state") or {}).get("terminated")
    ]
    listed, inside = wanted.get("values") or (), wanted.get("operator") == "In"
    return any(code != 0 and (code in listed) == inside for code in codes)


def _matches_conditions(wanted: Sequence[Mapping[str, Any]] | None, pod: Object) -> bool:
    found = (pod.get("status") or {}).get("conditions") or ()
    return any(
        e.get("type") == each.get("type") and e.get("status") == each.get("status", "True")
        for each in wanted or ()
        for e in found
    )


def _is_complete(spec: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    done, wanted = int(status.get("succeeded") or 0), spec.get("completions")
    if wanted is None:  # a work queue: one success, and nobody works any more
        return done > 0 and not status.get("active")
    return done >= int(wanted)


def _wanted(spec: Mapping[str, Any], status: Mapping[str, Any]) -> int:
    parallel, wanted = int(spec.get("parallelism", 1)), spec.get("completions")
    done = int(status.get("succeeded") or 0)
    if wanted is None:
        return int(status.get("active") or 0) if done else parallel
    return min(parallel, int(wanted) - done)


def _failing(
    status: dict[str, Any], verdict: _Verdict, pods: Sequence[Object], now: datetime
) -> JobStep:
    """FailureTarget at once; Failed when the last pod has ended."""
    _set(status, "FailureTarget", now, verdict)
    living = _living(pods)
    if living or status.get("terminating"):
        return JobStep(status, 0, tuple(living))
    _set(status, "Failed", now, verdict)
    return JobStep(_ended(status))


def _completing(status: dict[str, Any], pods: Sequence[Object], now: datetime) -> JobStep:
    reached = _Verdict("CompletionsReached", "Reached expected number of succeeded pods")
    _set(status, "SuccessCriteriaMet", now, reached)
    living = _living(pods)
    if living or status.get("terminating"):
        return JobStep(status, 0, tuple(living))
    _set(status, "Complete", now, reached)
    status["completionTime"] = rfc3339(now)
    return JobStep(_ended(status))


def _ended(status: dict[str, Any]) -> dict[str, Any]:
    status.pop("active", None)
    return status


def _set(
    status: dict[str, Any], name: str, now: datetime, verdict: _Verdict, value: str = "True"
) -> None:
    others = [e for e in status.get("conditions") or () if e.get("type") != name]
    same = [e for e in status.get("conditions") or () if e.get("type") == name]
    if same and same[0].get("status") == value:
        return
    condition = {
        "type": name,
        "status": value,
        "lastProbeTime": rfc3339(now),
        "lastTransitionTime": rfc3339(now),
        "reason": verdict.reason,
        "message": verdict.message,
    }
    status["conditions"] = [*others, condition]


def _suspended(before: Mapping[str, Any], status: dict[str, Any], now: datetime) -> dict[str, Any]:
    _set(status, "Suspended", now, _Verdict("JobSuspended", "Job suspended"))
    if "startTime" in before:
        status.pop("startTime", None)
    return status


def _clear(status: dict[str, Any], name: str, now: datetime) -> None:
    if name in _held(status):
        _set(status, name, now, _Verdict("JobResumed", "Job resumed"), "False")


def job_pod(job: Object, random_suffix: str) -> dict[str, Any]:
    """A pod for this Job, to be created through the API like any other."""
    template = deepcopy(dict(job["spec"].get("template") or {}))
    meta, mine = template.get("metadata") or {}, job["metadata"]
    prefix = f"{mine['name']}-"
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": mine["name"],
        "uid": mine["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    named = {"name": generated_name(prefix, random_suffix), "generateName": prefix}
    meta = {**meta, **named, "namespace": mine["namespace"], "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template.get("spec") or {}}
