"""What the API server fills in: defaults of a kind, and what its own admission adds to pods and nodes.

Pure and idempotent: after a webhook has changed an object they are applied again, as the real server does.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any

from sandbox.kubernetes_rules.metadata import read_as
from sandbox.kubernetes_rules.quantities import canonical, parse_quantity
from sandbox.kubernetes_rules.resources import ResourceType
from sandbox.kubernetes_rules.statuses import Refusal, forbidden

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
_TOLERATION_SECONDS = 300
_ANY_TAG = ":latest"
_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
_CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
_SYSTEM_PRIORITIES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
_Filler = Callable[[dict[str, Any]], None]


def with_defaults(obj: Mapping[str, Any], kind: ResourceType) -> dict[str, Any]:
    """A copy with the defaults of its kind filled in; the metadata is left alone but for labels that a kind sets.

    Raises:
        Refusal: 400, a resource amount is no quantity, or a part has another shape.
    """
    filled = without_nulls(deepcopy(dict(obj))) if not kind.custom else deepcopy(dict(obj))
    fill = None if kind.custom else _FILLERS.get((kind.group, kind.kind))
    if fill is None:
        return filled
    with read_as(kind):
        fill(filled)
    return filled


def without_nulls(value: Any) -> Any:
    """Built-in types drop null on decoding; times of conditions come back by the defaults."""
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def _fill(target: dict[str, Any], **values: Any) -> None:
    for key, value in values.items():
        if target.get(key) in (None, ""):
            target[key] = value


def _fill_template_spec(spec: dict[str, Any], restart: str | None = "Always") -> None:
    for part in ("initContainers", "containers"):
        for container in spec.get(part) or []:
            _fill_container(container)
    if restart:
        _fill(spec, restartPolicy=restart)
    _fill(spec, terminationGracePeriodSeconds=30, dnsPolicy="ClusterFirst", securityContext={})
    _fill(spec, schedulerName="default-scheduler")


def _fill_container(container: dict[str, Any]) -> None:
    for port in container.get("ports") or []:
        _fill(port, protocol="TCP")
    resources = container.setdefault("resources", {})
    for part in ("limits", "requests"):
        if resources.get(part):
            resources[part] = {name: canonical(v) for name, v in resources[part].items()}
    image = container.get("image") or ""
    untagged = ":" not in image.rpartition("/")[2] and "@" not in image
    pull = "Always" if untagged or image.endswith(_ANY_TAG) else "IfNotPresent"
    _fill(container, terminationMessagePath="/dev/termination-log", imagePullPolicy=pull)
    _fill(container, terminationMessagePolicy="File")


def _fill_pod(pod: dict[str, Any]) -> None:
    spec = pod.setdefault("spec", {})
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        limits = (container.get("resources") or {}).get("limits") or {}
        if limits:
            requests = container["resources"].get("requests") or {}
            container["resources"]["requests"] = {**limits, **requests}
    _fill_template_spec(spec)
    _fill(spec, enableServiceLinks=True)
    spec["tolerations"] = with_default_tolerations(spec.get("tolerations") or [])
    status = pod.setdefault("status", {})
    _fill(status, phase="Pending")
    status["qosClass"] = qos_class(spec)
    _fill_condition_times(status, "lastProbeTime")


def with_default_tolerations(tolerations: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Five minutes on a node that is not ready or unreachable, unless the pod says otherwise."""
    filled = [dict(each) for each in tolerations]
    for key in (NOT_READY, UNREACHABLE):
        covering = (each for each in filled if (each.get("key") or key) == key)
        if not any(each.get("effect") in {None, "", "NoExecute"} for each in covering):
            added = {"key": key, "operator": "Exists", "effect": "NoExecute"}
            filled.append({**added, "tolerationSeconds": _TOLERATION_SECONDS})
    return filled


def qos_class(spec: Mapping[str, Any]) -> str:
    """By CPU and memory alone; other resources do not count."""
    resources = [
        each.get("resources") or {}
        for part in ("containers", "initContainers")
        for each in spec.get(part) or []
    ]
    counted = [_counted(each) for each in resources]
    if not any(requests or limits for requests, limits in counted):
        return "BestEffort"
    for requests, limits in counted:
        if len(limits) < 2 or requests != limits:  # noqa: PLR2004  (CPU and memory)
            return "Burstable"
    return "Guaranteed"


def _counted(resources: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    def positive(part: str) -> dict[str, Any]:
        values = resources.get(part) or {}
        numbers = {
            name: parse_quantity(values[name]) for name in ("cpu", "memory") if name in values
        }
        return {name: number for name, number in numbers.items() if number > 0}

    limits = positive("limits")
    return {**limits, **positive("requests")}, limits


def with_priority(
    pod: Mapping[str, Any], classes: Iterable[Mapping[str, Any]], kind: ResourceType
) -> dict[str, Any]:
    """A copy of a new pod with the priority of its PriorityClass, of the default one, or 0.

    Raises:
        Refusal: 403, no such class, or the pod names another priority than its class.
    """
    spec = dict(pod.get("spec") or {})
    name, found = _priority_of(spec.get("priorityClassName"), classes)
    value = int(found.get("value") or 0)
    asked = spec.get("priority")
    if name and not found:
        raise _no_pod(pod, kind, f"no PriorityClass with name {name} was found")
    if asked is not None and asked != value:
        why = f"the integer value of priority ({asked}) must not be provided in pod spec; priority admission controller computed {value}"
        raise _no_pod(pod, kind, f"{why} from the given PriorityClass name")
    policy = found.get("preemptionPolicy") or "PreemptLowerPriority"
    if name:
        spec["priorityClassName"] = name
    return {**pod, "spec": {**spec, "priority": value, "preemptionPolicy": policy}}


def _priority_of(
    name: str | None, classes: Iterable[Mapping[str, Any]]
) -> tuple[str | None, Mapping[str, Any]]:
    known = {each["metadata"]["name"]: each for each in classes}
    if name in _SYSTEM_PRIORITIES:
        return name, {"value": _SYSTEM_PRIORITIES[name]}
    if name:
        return name, known.get(name, {})
    usual = [each for each in known.values() if each.get("globalDefault")]
    if not usual:
        return None, {}
    chosen = min(usual, key=lambda each: int(each.get("value") or 0))
    return chosen["metadata"]["name"], chosen


def _no_pod(pod: Mapping[str, Any], kind: ResourceType, why: str) -> Refusal:
    return forbidden(kind, pod["metadata"].get("name") or "", why)


def _fill_node(node: dict[str, Any]) -> None:
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    for part in ("capacity", "allocatable"):
        if status.get(part):
            status[part] = {name: canonical(value) for name, value in status[part].items()}
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])
    _fill(status, daemonEndpoints={"kubeletEndpoint": {"Port": 0}})
    info = status.setdefault("nodeInfo", {})
    for name in _NODE_INFO:
        info.setdefault(name, "")
    _fill_condition_times(status, "lastHeartbeatTime")


def _fill_condition_times(status: dict[str, Any], first: str) -> None:
    """The real server writes times that are not set as null, it does not leave them out."""
    for condition in status.get("conditions") or []:
        condition.setdefault(first, None)
        condition.setdefault("lastTransitionTime", None)


def with_not_ready_taint(node: Mapping[str, Any]) -> dict[str, Any]:
    """A node that registers itself takes no pods until something finds it ready."""
    spec = dict(node.get("spec") or {})
    taints = list(spec.get("taints") or [])
    if not any(e.get("key") == NOT_READY and e.get("effect") == "NoSchedule" for e in taints):
        taints.append({"key": NOT_READY, "effect": "NoSchedule"})
    return {**node, "spec": {**spec, "taints": taints}}


def _fill_job(job: dict[str, Any]) -> None:
    spec = job.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    _fill(spec, parallelism=1, backoffLimit=6, completionMode="NonIndexed", suspend=False)
    replacement = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    _fill(spec, manualSelector=False, podReplacementPolicy=replacement)
    template = spec.setdefault("template", {})
    _fill_template_spec(template.setdefault("spec", {}), restart=None)
    _fill_job_selector(job, spec, template)
    job.setdefault("status", {})
    _fill_condition_times(job["status"], "lastProbeTime")


def _fill_job_selector(job: dict[str, Any], spec: dict[str, Any], template: dict[str, Any]) -> None:
    uid, name = job["metadata"].get("uid"), job["metadata"].get("name")
    if not uid or spec["manualSelector"]:
        return
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    marks = {_CONTROLLER_UID: uid, "batch.kubernetes.io/job-name": name}
    marks.update({"controller-uid": uid, "job-name": name})
    labels.update(marks)
    job["metadata"]["labels"] = {**(job["metadata"].get("labels") or labels)}
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {}).setdefault(_CONTROLLER_UID, uid)


def _fill_workload(item: dict[str, Any]) -> None:
    spec = item.setdefault("spec", {})
    template = spec.setdefault("template", {})
    _fill_template_spec(template.setdefault("spec", {}))
    item.setdefault("status", {})


def _fill_replicated(item: dict[str, Any]) -> None:
    _fill_workload(item)
    _fill(item["spec"], replicas=1)


def _fill_namespace(item: dict[str, Any]) -> None:
    name = item["metadata"].get("name")
    item["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    item.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    _fill(item.setdefault("status", {}), phase="Active")


def _fill_budget(item: dict[str, Any]) -> None:
    status = item.setdefault("status", {})
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    for part in counts:
        status.setdefault(part, 0)


def _fill_secret(item: dict[str, Any]) -> None:
    _fill(item, type="Opaque")


def _fill_priority_class(item: dict[str, Any]) -> None:
    _fill(item, preemptionPolicy="PreemptLowerPriority", value=0)


_FILLERS: dict[tuple[str, str], _Filler] = {
    ("", "Pod"): _fill_pod,
    ("", "Node"): _fill_node,
    ("", "Namespace"): _fill_namespace,
    ("", "Secret"): _fill_secret,
    ("batch", "Job"): _fill_job,
    ("apps", "Deployment"): _fill_replicated,
    ("apps", "StatefulSet"): _fill_replicated,
    ("apps", "ReplicaSet"): _fill_replicated,
    ("apps", "DaemonSet"): _fill_workload,
    ("policy", "PodDisruptionBudget"): _fill_budget,
    ("scheduling.k8s.io", "PriorityClass"): _fill_priority_class,
}
