"""Pod templates: a request that would be refused for every pod is refused where the user looks.

An object whose template did not change is only warned about: a new catalogue must not stop anybody
from scaling or deleting what is there.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gpu_admission.catalogue import Catalogue, NamespaceView, PriorityClasses
from gpu_admission.gpu_request import Refusal, requests_of
from gpu_admission.gpu_request.shapes import mapping
from gpu_admission.judging import Case, judge, warnings_about
from gpu_admission.selection import NO_PRIORITY_CLASSES
from gpu_admission.validation.answers import Allowed, Verdict

_PATHS: Mapping[str, tuple[str, ...]] = {
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}


def validate_workload(  # noqa: PLR0913 - a review and its surroundings, as the webhook has them
    kind: str,
    workload: Mapping[str, Any],
    old: Mapping[str, Any] | None,
    namespace: NamespaceView,
    catalogue: Catalogue,
    now: datetime,
    *,
    priorities: PriorityClasses = NO_PRIORITY_CLASSES,
) -> Verdict:
    """Judge the template of a workload.

    Args:
        kind: As in the review, like Deployment; others than those with a pod template are allowed.
        workload: The new object.
        old: The object before, on an update.
        namespace: Where it is.
        catalogue: The GPUs and the policies.
        now: For exclusions that end.
        priorities: A template has the name of its PriorityClass only.
    """
    template = template_of(kind, workload)
    if not template or catalogue.leaves_alone(namespace.name):
        return Allowed()
    case = Case.of(
        template, namespace, catalogue, now, priorities, in_daemonset=kind == "DaemonSet"
    )
    request = requests_of(case.spec, catalogue)
    outcome = request if isinstance(request, Refusal) else judge(case, request)
    if isinstance(outcome, Refusal):
        if old is not None and template_of(kind, old) == template:
            return Allowed((f"its pods would be refused: {outcome.text}",))
        return case.denied(outcome)
    if isinstance(request, Refusal) or not request.containers:
        return Allowed()
    return Allowed((*warnings_about(case, request), *(outcome.warnings if outcome else ())))


def template_of(kind: str, workload: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = workload if kind in _PATHS else None
    for step in _PATHS.get(kind, ()):
        found = mapping(found).get(step)
    return mapping(found)
