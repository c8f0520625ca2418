"""A NodeOperationTemplate as a rung of the ladder and the Job template behind it.

Pure.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from chassis.errors import PermanentError
from remediator.importing.manifests import NODE_ANNOTATION, Manifest, plain_name

Note = Callable[[str], None]
_SPEC = "template.spec"
_JOB = f"{_SPEC}.jobTemplate"
_KNOWN = ("template", "backoffLimit", "activeDeadlineSeconds")
_STRATEGIES = {
    "Evict": "Evict",
    "Delete": "Delete",
    "ForceDelete": "ForceDelete",
    "None": "WaitForCompletion",  # there, None waits for the pods to end by themselves
}


def job_template(template: Manifest, note: Note) -> dict[str, Any]:
    """The entry of `job_templates`.

    Raises:
        PermanentError: It has no pod.
    """
    try:
        pod = _pod(template, note)
    except (AttributeError, KeyError, TypeError) as error:
        raise PermanentError(f"{template.title}: its pod is not as Kubernetes has it") from error
    _dropped(template, note)
    metadata = template.mapping(f"{_JOB}.spec.template.metadata")
    found = {"pod": pod}
    for key in ("labels", "annotations"):
        if metadata.get(key):
            found[key] = dict(metadata[key])
    return found


def _pod(template: Manifest, note: Note) -> dict[str, Any]:
    pod = deepcopy(template.mapping(f"{_JOB}.spec.template.spec"))
    if not pod.get("containers"):
        raise PermanentError(f"{template.title}: the Job has no containers")
    if pod.pop("restartPolicy", "Never") != "Never":
        note("its pods were restarted on failure; here a repair that ends is not begun again")
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        if env := container.get("env"):
            container["env"] = [_env(each) for each in env]
    return pod


def _env(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The node's name came from an annotation; here it is a variable, which others may refer to."""
    field = ((entry.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath", "")
    if field == f"metadata.annotations['{NODE_ANNOTATION}']":
        return {"name": entry["name"], "value": "$(NODEMEND_NODE)"}
    return dict(entry)


def _dropped(template: Manifest, note: Note) -> None:
    job = template.mapping(f"{_JOB}.spec")
    if job.get("backoffLimit", 6) != 0:
        note(
            "its Job was tried several times (backoffLimit); here once, see `attempts` of the rung"
        )
    if others := sorted(set(job) - set(_KNOWN)):
        note(f"of its Job, {', '.join(others)} has no counterpart")
    if namespace := template.part(f"{_JOB}.metadata.namespace"):
        note(f"its Job ran in namespace {namespace}; here all run in `jobs.namespace`")


def rung(template: Manifest, note: Note) -> dict[str, Any]:
    """The rung that runs the template's Job.

    Raises:
        PermanentError: Its eviction strategy is none.
    """
    name = plain_name(template.name)
    note("its Job runs on another node, as there; set `on_node: true` if it must run on its own")
    note("set `reboots: true` in run_job if it reboots the node, so that a new boot is waited for")
    found: dict[str, Any] = {
        "name": name,
        "repair": {"run_job": {"template": name, "on_node": False}},
    }
    seconds = template.part(f"{_JOB}.spec.activeDeadlineSeconds")
    if seconds is not None:
        found["timeout"] = f"{seconds}s"
    if template.part(f"{_SPEC}.nodeDisruptionBudgetSelector"):
        note(
            "nodeDisruptionBudgetSelector has no counterpart: every budget that selects a node holds"
        )
    return found | {"drain": _drain(template, note)}


def _drain(template: Manifest, note: Note) -> dict[str, Any]:
    strategy = template.part(f"{_SPEC}.evictionStrategy") or "Evict"
    if strategy not in _STRATEGIES:
        known = ", ".join(_STRATEGIES)
        raise PermanentError(
            f"{template.title}: spec.{_SPEC}.evictionStrategy is {strategy!r}, not one of {known}"
        )
    drain = {"strategy": _STRATEGIES[strategy], "unmanaged": "delete"}
    if template.part(f"{_SPEC}.skipWaitingForEviction"):
        note("skipWaitingForEviction became a deadline of 10s after which the repair goes on")
        return drain | {"deadline": "10s", "on_deadline": "proceed"}
    note("a drain ends after 15m and then goes to a person; see `deadline` and `on_deadline`")
    return drain
