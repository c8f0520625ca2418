"""What the API server demands of a pod's spec (and of a template's), and what of it may change. Pure.

Only what people hit: names, images, ports, resources, volumes, tolerations, node affinity, selectors.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from sandbox.kubernetes_rules import names
from sandbox.kubernetes_rules.field_checks import at_least, forbidden, one_of, required
from sandbox.kubernetes_rules.names import invalid_value
from sandbox.kubernetes_rules.quantities import parse_quantity
from sandbox.kubernetes_rules.selector_validation import node_affinity_causes
from sandbox.kubernetes_rules.statuses import Cause, CauseReason

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_LARGEST_PORT = 65535
_LARGEST_INT32 = 2**31 - 1
_STANDARD_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_MAY_CHANGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def spec_causes(spec: Mapping[str, Any], path: str = "spec") -> list[Cause]:
    """Of a whole pod spec; defaults are in place already."""
    volumes = spec.get("volumes") or []
    causes = _volume_causes(volumes, f"{path}.volumes")
    containers = spec.get("containers") or []
    if not containers:
        causes.append(required(f"{path}.containers"))
    volume_names = {each.get("name") for each in volumes}
    seen: set[str] = set()
    for part in ("containers", "initContainers"):
        causes += _containers_causes(spec.get(part) or [], f"{path}.{part}", volume_names, seen)
    causes += one_of(spec.get("restartPolicy"), RESTART_POLICIES, f"{path}.restartPolicy")
    causes += _deadline_causes(spec, path)
    causes += names.label_causes(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    causes += _node_name_causes(spec, path)
    causes += _toleration_causes(spec.get("tolerations") or [], f"{path}.tolerations")
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return causes + node_affinity_causes(affinity, f"{path}.affinity.nodeAffinity")


def _deadline_causes(spec: Mapping[str, Any], path: str) -> list[Cause]:
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is None or 1 <= seconds <= _LARGEST_INT32:
        return []
    problem = f"must be between 1 and {_LARGEST_INT32}, inclusive"
    return [invalid_value(f"{path}.activeDeadlineSeconds", seconds, problem)]


def _node_name_causes(spec: Mapping[str, Any], path: str) -> list[Cause]:
    name = spec.get("nodeName")
    if not name:
        return []
    field = f"{path}.nodeName"
    if spec.get("schedulingGates"):
        return [forbidden(field, "cannot be set until all schedulingGates have been cleared")]
    return [invalid_value(field, name, each) for each in names.subdomain_problems(name)]


def _volume_causes(volumes: Sequence[Mapping[str, Any]], path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        causes += _unique_label(volume.get("name"), f"{path}[{index}].name", seen)
        host_path = volume.get("hostPath")
        if host_path is not None and not host_path.get("path"):
            causes.append(required(f"{path}[{index}].hostPath.path"))
    return causes


def _unique_label(name: str | None, field: str, seen: set[str]) -> list[Cause]:
    if not name:
        return [required(field)]
    causes = [invalid_value(field, name, each) for each in names.label_problems(name)]
    if name in seen:
        told = f"Duplicate value: {names.quoted(name)}"
        causes.append(Cause(CauseReason.DUPLICATE, told, field))
    seen.add(name)
    return causes


def _containers_causes(
    containers: Iterable[Mapping[str, Any]], path: str, volumes: set[Any], seen: set[str]
) -> list[Cause]:
    causes: list[Cause] = []
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        named = _unique_label(container.get("name"), f"{here}.name", seen)
        duplicate = [each for each in named if each.reason is CauseReason.DUPLICATE]
        causes += [each for each in named if each not in duplicate]
        if not container.get("image"):
            causes.append(required(f"{here}.image"))
        causes += _port_causes(container.get("ports") or [], f"{here}.ports")
        causes += _env_causes(container.get("env") or [], f"{here}.env")
        causes += _mount_causes(
            container.get("volumeMounts") or [], f"{here}.volumeMounts", volumes
        )
        pull = container.get("imagePullPolicy")
        causes += one_of(pull, _PULL_POLICIES, f"{here}.imagePullPolicy")
        causes += resources_causes(container.get("resources") or {}, f"{here}.resources")
        causes += duplicate
    return causes


def _port_causes(ports: Sequence[Mapping[str, Any]], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, port in enumerate(ports):
        number = port.get("containerPort")
        field = f"{path}[{index}].containerPort"
        if not number:
            causes.append(required(field))
        elif not 0 < number <= _LARGEST_PORT:
            problem = f"must be between 1 and {_LARGEST_PORT}, inclusive"
            causes.append(invalid_value(field, number, problem))
        causes += one_of(port.get("protocol"), _PROTOCOLS, f"{path}[{index}].protocol")
    return causes


def _env_causes(variables: Sequence[Mapping[str, Any]], path: str) -> list[Cause]:
    unnamed = [index for index, each in enumerate(variables) if not each.get("name")]
    return [required(f"{path}[{index}].name") for index in unnamed]


def _mount_causes(mounts: Sequence[Mapping[str, Any]], path: str, volumes: set[Any]) -> list[Cause]:
    causes: list[Cause] = []
    for index, mount in enumerate(mounts):
        name = mount.get("name")
        if not name:
            causes.append(required(f"{path}[{index}].name"))
        elif name not in volumes:
            told = f"Not found: {names.quoted(name)}"
            causes.append(Cause(CauseReason.NOT_FOUND, told, f"{path}[{index}].name"))
        if not mount.get("mountPath"):
            causes.append(required(f"{path}[{index}].mountPath"))
    return causes


def resources_causes(resources: Mapping[str, Any], path: str) -> list[Cause]:
    """Names, whole numbers, and requests within limits; extended resources never overcommit."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    causes: list[Cause] = []
    for part, values in (("limits", limits), ("requests", requests)):
        for name, value in values.items():
            causes += _amount_causes(name, value, f"{path}.{part}[{name}]")
    for name, value in requests.items():
        causes += _request_causes(name, value, limits.get(name), path)
    return causes


def _amount_causes(name: str, value: object, field: str) -> list[Cause]:
    causes = [invalid_value(field, name, each) for each in names.qualified_name_problems(name)]
    standard = name in _STANDARD_RESOURCES or name.startswith("hugepages-")
    if not causes and not standard and "/" not in name:
        causes += [
            invalid_value(field, name, "must be a standard resource type or fully qualified"),
            invalid_value(field, name, "must be a standard resource for containers"),
        ]
    number = parse_quantity(value)
    if number < 0:
        causes.append(invalid_value(field, str(value), "must be greater than or equal to 0"))
    if "/" in name and number.denominator != 1:
        causes.append(invalid_value(field, str(value), "must be an integer"))
    return causes


def _request_causes(name: str, value: object, limit: object, path: str) -> list[Cause]:
    field = f"{path}.requests"
    if limit is None:
        if "/" not in name:
            return []
        message = "Required value: Limit must be set for non overcommitable resources"
        return [Cause(CauseReason.REQUIRED, message, f"{path}.limits")]
    wanted, most = parse_quantity(value), parse_quantity(limit)
    if "/" in name and wanted != most:
        return [invalid_value(field, str(value), f"must be equal to {name} limit of {limit}")]
    if wanted > most:
        problem = f"must be less than or equal to {name} limit of {limit}"
        return [invalid_value(field, str(value), problem)]
    return []


def _toleration_causes(tolerations: Sequence[Mapping[str, Any]], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, each in enumerate(tolerations):
        causes += _one_toleration_causes(each, f"{path}[{index}]")
    return causes


def _one_toleration_causes(toleration: Mapping[str, Any], path: str) -> list[Cause]:
    key, operator = toleration.get("key"), toleration.get("operator") or "Equal"
    causes: list[Cause] = []
    if key:
        problems = names.qualified_name_problems(key)
        causes += [invalid_value(f"{path}.key", key, each) for each in problems]
    elif operator != "Exists":
        problem = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        causes.append(invalid_value(f"{path}.operator", operator, problem))
    if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
        problem = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        causes.append(invalid_value(f"{path}.effect", toleration.get("effect") or "", problem))
    value = toleration.get("value")
    if operator == "Exists" and value:
        problem = "value must be empty when `operator` is 'Exists'"
        causes.append(invalid_value(f"{path}.operator", value, problem))
    causes += one_of(operator, ("Equal", "Exists"), f"{path}.operator")
    return causes + one_of(toleration.get("effect"), _EFFECTS, f"{path}.effect")


def update_causes(current: Mapping[str, Any], new: Mapping[str, Any]) -> list[Cause]:
    """Of a pod's spec that is to replace another."""
    old_spec, new_spec = current.get("spec") or {}, new.get("spec") or {}
    causes = _deadline_update_causes(old_spec, new_spec)
    old, fresh = old_spec.get("tolerations") or [], new_spec.get("tolerations") or []
    if any(each not in fresh for each in old):
        problem = "existing toleration can not be modified except its tolerationSeconds"
        if any(not _kept(each, fresh) for each in old):
            causes.append(forbidden("spec.tolerations", problem))
    if _fixed_part(old_spec) != _fixed_part(new_spec):
        causes.append(forbidden("spec", _MAY_CHANGE))
    return causes


def _kept(toleration: Mapping[str, Any], fresh: Sequence[Mapping[str, Any]]) -> bool:
    def fixed(each: Mapping[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in each.items() if k != "tolerationSeconds"}

    return any(fixed(each) == fixed(toleration) for each in fresh)


def _deadline_update_causes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Cause]:
    was, now = old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")
    field = "spec.activeDeadlineSeconds"
    if was == now:
        return []
    if was is None:
        return _deadline_causes(new, "spec")
    if now is None:
        return [
            invalid_value(field, "null", "must not update from a positive integer to nil value")
        ]
    problem = f"must be less than or equal to previous value {was}"
    return at_least(now, 0, field) or ([invalid_value(field, now, problem)] if now > was else [])


def _fixed_part(spec: Mapping[str, Any]) -> dict[str, Any]:
    fixed = {k: deepcopy(v) for k, v in spec.items() if v not in (None, [], {})}
    for part in ("containers", "initContainers"):
        for container in fixed.get(part, []):
            container.pop("image", None)
    for part in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        fixed.pop(part, None)
    if spec.get("schedulingGates"):  # a gated pod's node selection may still be narrowed
        fixed.pop("nodeSelector", None)
        fixed.pop("affinity", None)
    return fixed
