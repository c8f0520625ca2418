"""How a strategic merge patch treats each list and map of the built-in kinds.

From the `x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key` of kube-apiserver 1.36's OpenAPI.
A list that is not named here is atomic (taints, tolerations, Service selectors' values): the patch replaces it whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sandbox.kubernetes_rules.resources import ResourceType


@dataclass(frozen=True, slots=True)
class Field:
    """`key` merges a list of objects by that key, "" a list of plain values; None: not a merged list."""

    key: str | None = None
    type: str = ""
    replaced: bool = False

    @property
    def merged(self) -> bool:
        return self.key is not None


Fields = Mapping[str, Field]

_META = Field(type="ObjectMeta")
_TEMPLATE = Field(type="PodTemplateSpec")
_CONDITIONS = Field("type")
_STATUS_WITH_CONDITIONS: Fields = {"conditions": _CONDITIONS}
_CONTAINER: Fields = {
    "env": Field("name"),
    "ports": Field("containerPort"),
    "volumeDevices": Field("devicePath"),
    "volumeMounts": Field("mountPath"),
}
_STATUS_TYPES = ("Namespace", "Service", "PersistentVolumeClaim", "Deployment", "StatefulSet")
_MORE_STATUS_TYPES = ("DaemonSet", "ReplicaSet", "Job", "PodDisruptionBudget")
_TEMPLATE_SPECS = ("DeploymentSpec", "DaemonSetSpec", "ReplicaSetSpec", "JobSpec")

_TYPES: dict[str, Fields] = {
    "": {},
    "ObjectMeta": {"finalizers": Field(""), "ownerReferences": Field("uid")},
    "NodeSpec": {"podCIDRs": Field("")},
    "NodeStatus": {"addresses": Field("type"), "conditions": _CONDITIONS},
    "PodSpec": {
        "containers": Field("name", "Container"),
        "ephemeralContainers": Field("name", "Container"),
        "hostAliases": Field("ip"),
        "imagePullSecrets": Field("name"),
        "initContainers": Field("name", "Container"),
        "resourceClaims": Field("name"),
        "schedulingGates": Field("name"),
        "topologySpreadConstraints": Field("topologyKey"),
        "volumes": Field("name", "Volume"),
    },
    "Container": _CONTAINER,
    "Volume": {"ephemeral": Field(type="EphemeralVolumeSource")},
    "EphemeralVolumeSource": {"volumeClaimTemplate": Field(type="Metadata")},
    "Metadata": {"metadata": _META},
    "PodStatus": {
        "conditions": _CONDITIONS,
        "hostIPs": Field("ip"),
        "podIPs": Field("ip"),
        "resourceClaimStatuses": Field("name"),
    },
    "PodTemplateSpec": {"metadata": _META, "spec": Field(type="PodSpec")},
    "ServiceSpec": {"ports": Field("port")},
    "StatefulSetSpec": {"template": _TEMPLATE},
    "CronJobSpec": {"jobTemplate": Field(type="JobTemplateSpec")},
    "JobTemplateSpec": {"metadata": _META, "spec": Field(type="JobSpec")},
    "PodDisruptionBudgetSpec": {"selector": Field(replaced=True)},
    "ServiceAccount": {"metadata": _META, "secrets": Field("name")},
    "Webhook": {"matchConditions": Field("name")},
    "WebhookConfiguration": {"metadata": _META, "webhooks": Field("name", "Webhook")},
    "ValidatingAdmissionPolicySpec": {"matchConditions": Field("name"), "variables": Field("name")},
    **{f"{kind}Status": _STATUS_WITH_CONDITIONS for kind in _STATUS_TYPES + _MORE_STATUS_TYPES},
    **{kind: {"template": _TEMPLATE} for kind in _TEMPLATE_SPECS},
}
TYPES: Mapping[str, Fields] = MappingProxyType(_TYPES)


def fields_of(kind: ResourceType) -> Fields:
    """The fields of an object of this built-in kind."""
    if kind.kind.endswith("WebhookConfiguration"):
        return TYPES["WebhookConfiguration"]
    if kind.kind in TYPES:
        return TYPES[kind.kind]
    fields = {"metadata": _META}
    for part in ("spec", "status"):
        name = f"{kind.kind}{part.capitalize()}"
        if name in TYPES:
            fields[part] = Field(type=name)
    return fields
