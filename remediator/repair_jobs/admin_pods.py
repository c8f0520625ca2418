"""The pod of an admin's own repair, from a template in the configuration.

Pure. The template is followed but for where it runs, that it runs once, and the environment.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from chassis.errors import PermanentError
from remediator.config import JobSettings, JobTemplate
from remediator.repair_jobs.own_pods import literal


def admin_pod(template: JobTemplate, env: Mapping[str, str], jobs: JobSettings) -> dict[str, Any]:
    """The PodSpec; where it runs is added by the caller."""
    pod = deepcopy(template.pod)
    pod["restartPolicy"] = "Never"
    pod.setdefault("serviceAccountName", jobs.service_account)
    pod.setdefault("automountServiceAccountToken", False)
    pod.setdefault("enableServiceLinks", False)
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        others = [each for each in container.get("env", ()) if each.get("name") not in env]
        ours = [{"name": name, "value": literal(value)} for name, value in env.items()]
        # Ours first, so that the template's own variables may refer to them.
        container["env"] = [*ours, *others]
    return pod


def keep_off(pod: dict[str, Any], node: str) -> None:
    """Let the pod run on any node but this one, which may be switched off under it.

    Raises:
        PermanentError: The template pins it to this very node, or its affinity is no affinity.
    """
    if pod.get("nodeName") == node:
        raise PermanentError(
            f"the template pins its pod to {node}, which is the node to be repaired"
        )
    elsewhere = {"key": "metadata.name", "operator": "NotIn", "values": [node]}
    try:
        affinity = pod.setdefault("affinity", {}).setdefault("nodeAffinity", {})
        required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
        # A node must fit any one of the terms, so each has to exclude ours.
        terms = required.setdefault("nodeSelectorTerms", [{}]) or [{}]
        for term in terms:
            term["matchFields"] = [*term.get("matchFields", ()), elsewhere]
        required["nodeSelectorTerms"] = terms
    except (AttributeError, TypeError) as error:
        raise PermanentError("the template's pod.affinity is not as Kubernetes has it") from error
