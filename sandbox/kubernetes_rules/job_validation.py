"""What the API server demands of a Job, of a change to it, and of its status. Pure."""

from collections.abc import Mapping
from typing import Any

from sandbox.kubernetes_rules import pod_validation
from sandbox.kubernetes_rules.field_checks import at_least, one_of, required, unchanged
from sandbox.kubernetes_rules.names import invalid_value
from sandbox.kubernetes_rules.statuses import Cause, CauseReason

_COUNTS = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit")
_IMMUTABLE = (
    "completions",
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
)


def job_causes(job: Mapping[str, Any]) -> list[Cause]:
    spec = job.get("spec") or {}
    causes: list[Cause] = []
    for part in (*_COUNTS, "ttlSecondsAfterFinished"):
        causes += at_least(spec.get(part), 0, f"spec.{part}")
    causes += one_of(spec.get("completionMode"), ("NonIndexed", "Indexed"), "spec.completionMode")
    template = (spec.get("template") or {}).get("spec") or {}
    causes += pod_validation.spec_causes(template, "spec.template.spec")
    policy, field = template.get("restartPolicy"), "spec.template.spec.restartPolicy"
    if policy in {None, "", "Always"}:
        causes.append(required(field, 'valid values: "OnFailure", "Never"'))
    if spec.get("podFailurePolicy") and policy != "Never":
        problem = "only `Never` is supported when podFailurePolicy is specified"
        causes.append(invalid_value(field, policy or "", problem))
    return causes


def job_update_causes(current: Mapping[str, Any], new: Mapping[str, Any]) -> list[Cause]:
    """Its template may still change its scheduling while it is suspended and never started."""
    old, fresh = current.get("spec") or {}, new.get("spec") or {}
    causes = unchanged(old, fresh, _IMMUTABLE, "spec")
    started = bool((current.get("status") or {}).get("startTime"))
    if old.get("suspend") and not started:
        same = _unscheduled(old.get("template")) == _unscheduled(fresh.get("template"))
    else:
        same = old.get("template") == fresh.get("template")
    return causes if same else [*causes, *unchanged(old, fresh, ("template",), "spec")]


def _unscheduled(template: Any) -> Any:
    """A template without what may be set before a suspended Job starts."""
    if not template:
        return template
    movable = {"nodeSelector", "affinity", "tolerations", "schedulingGates"}
    return {k: v for k, v in (template.get("spec") or {}).items() if k not in movable}


def job_status_causes(job: Mapping[str, Any]) -> list[Cause]:
    """Of a status that says the Job has ended."""
    status = job.get("status") or {}
    held = {e.get("type") for e in status.get("conditions") or [] if e.get("status") == "True"}
    if not held & {"Complete", "Failed"}:
        return []
    causes: list[Cause] = []
    if "Complete" in held and not status.get("completionTime"):
        why = "completionTime is required for Complete jobs"
        causes.append(required("status.completionTime", why))
    for ended, before, word in (
        ("Complete", "SuccessCriteriaMet", "true"),
        ("Failed", "FailureTarget", "true"),
    ):
        if ended in held and before not in held:
            told = f"cannot set {ended}=True condition without the {before}={word} condition"
            causes.append(Cause(CauseReason.INVALID, f"Invalid value: {told}", "status.conditions"))
    active = status.get("active") or 0
    if active > 0:
        problem = "active>0 is invalid for finished job"
        causes.append(invalid_value("status.active", active, problem))
    if not status.get("startTime"):
        causes.append(required("status.startTime", "startTime is required for finished job"))
    return causes
