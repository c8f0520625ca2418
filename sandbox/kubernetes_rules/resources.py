"""Which kinds of object the embedded Kubernetes knows, as API discovery tells them.

Data and names only. `storage` is False for kinds that are only asked, never kept (reviews).
"""

from dataclasses import dataclass, field

ALL_VERBS: tuple[str, ...] = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)
STATUS = frozenset({"status"})
_SCALED = frozenset({"status", "scale"})


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column: what `kubectl get` shows of a custom resource; `path` is a JSON path."""

    name: str
    type: str
    path: str
    priority: int = 0


@dataclass(frozen=True, slots=True)
class ResourceType:
    """One served resource. `custom` kinds come from a CustomResourceDefinition."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    subresources: frozenset[str] = frozenset()
    verbs: tuple[str, ...] = ALL_VERBS
    storage: bool = True
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    custom: bool = False
    list_kind: str = field(default="")

    def __post_init__(self) -> None:
        if not self.list_kind:
            object.__setattr__(self, "list_kind", f"{self.kind}List")

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_plural(self) -> str:
        """As messages name a resource: `nodes`, `jobs.batch`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """As messages name a kind: `Node`, `Job.batch`."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources

    @property
    def collection_path(self) -> str:
        """The path of all of them: `/api/v1/nodes`, `/apis/batch/v1/jobs`."""
        root = f"/apis/{self.group}" if self.group else "/api"
        return f"{root}/{self.version}/{self.plural}"


def _core(
    kind: str,
    plural: str,
    short: str = "",
    subresources: frozenset[str] = frozenset(),
    *,
    namespaced: bool = True,
) -> ResourceType:
    return ResourceType(
        group="",
        version="v1",
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        short_names=tuple(short.split()),
        namespaced=namespaced,
        subresources=subresources,
        categories=("all",) if kind in {"Pod", "Service"} else (),
    )


def _grouped(
    group: str,
    kind: str,
    short: str = "",
    subresources: frozenset[str] = frozenset(),
    *,
    namespaced: bool = True,
) -> ResourceType:
    plural = f"{kind.lower()}es" if kind.endswith("s") else f"{kind.lower()}s"
    if kind.endswith("y"):
        plural = f"{kind.lower()[:-1]}ies"
    return ResourceType(
        group=group,
        version="v1",
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        short_names=tuple(short.split()),
        namespaced=namespaced,
        subresources=subresources,
        categories=_CATEGORIES.get(group, ()),
    )


_ADMISSION = "admissionregistration.k8s.io"
_EXTENSIONS = "apiextensions.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_DEVICES = "resource.k8s.io"
_CATEGORIES = {
    "apps": ("all",),
    "batch": ("all",),
    _ADMISSION: ("api-extensions",),
    _EXTENSIONS: ("api-extensions",),
}


def _review(group: str, kind: str, *, namespaced: bool = False) -> ResourceType:
    return ResourceType(
        group=group,
        version="v1",
        kind=kind,
        plural=f"{kind.lower()}s",
        singular=kind.lower(),
        namespaced=namespaced,
        verbs=("create",),
        storage=False,
    )


NODE = _core("Node", "nodes", "no", STATUS, namespaced=False)
POD = _core(
    "Pod", "pods", "po", frozenset({"status", "binding", "eviction", "log", "ephemeralcontainers"})
)
NAMESPACE = _core(
    "Namespace", "namespaces", "ns", frozenset({"status", "finalize"}), namespaced=False
)
CONFIG_MAP = _core("ConfigMap", "configmaps", "cm")
SECRET = _core("Secret", "secrets")
SERVICE = _core("Service", "services", "svc", STATUS)
SERVICE_ACCOUNT = _core("ServiceAccount", "serviceaccounts", "sa", frozenset({"token"}))
EVENT = _core("Event", "events", "ev")
DEPLOYMENT = _grouped("apps", "Deployment", "deploy", _SCALED)
STATEFUL_SET = _grouped("apps", "StatefulSet", "sts", _SCALED)
DAEMON_SET = _grouped("apps", "DaemonSet", "ds", STATUS)
REPLICA_SET = _grouped("apps", "ReplicaSet", "rs", _SCALED)
JOB = _grouped("batch", "Job", "", STATUS)
CRON_JOB = _grouped("batch", "CronJob", "cj", STATUS)
POD_DISRUPTION_BUDGET = _grouped("policy", "PodDisruptionBudget", "pdb", STATUS)
LEASE = _grouped("coordination.k8s.io", "Lease")
NEW_EVENT = _grouped("events.k8s.io", "Event", "ev")
PRIORITY_CLASS = _grouped("scheduling.k8s.io", "PriorityClass", "pc", namespaced=False)
CUSTOM_RESOURCE_DEFINITION = _grouped(
    _EXTENSIONS, "CustomResourceDefinition", "crd crds", STATUS, namespaced=False
)

BUILT_IN: tuple[ResourceType, ...] = (
    NODE,
    POD,
    NAMESPACE,
    CONFIG_MAP,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    EVENT,
    _core("ResourceQuota", "resourcequotas", "quota", STATUS),
    _core("LimitRange", "limitranges", "limits"),
    _core("Endpoints", "endpoints", "ep"),
    _core("PersistentVolumeClaim", "persistentvolumeclaims", "pvc", STATUS),
    _core("PersistentVolume", "persistentvolumes", "pv", STATUS, namespaced=False),
    DEPLOYMENT,
    STATEFUL_SET,
    DAEMON_SET,
    REPLICA_SET,
    JOB,
    CRON_JOB,
    POD_DISRUPTION_BUDGET,
    LEASE,
    NEW_EVENT,
    PRIORITY_CLASS,
    _grouped(_RBAC, "Role"),
    _grouped(_RBAC, "RoleBinding"),
    _grouped(_RBAC, "ClusterRole", namespaced=False),
    _grouped(_RBAC, "ClusterRoleBinding", namespaced=False),
    CUSTOM_RESOURCE_DEFINITION,
    _grouped(_ADMISSION, "MutatingWebhookConfiguration", namespaced=False),
    _grouped(_ADMISSION, "ValidatingWebhookConfiguration", namespaced=False),
    _grouped(_ADMISSION, "ValidatingAdmissionPolicy", "", STATUS, namespaced=False),
    _grouped(_ADMISSION, "ValidatingAdmissionPolicyBinding", namespaced=False),
    _grouped(_DEVICES, "DeviceClass", namespaced=False),
    _grouped(_DEVICES, "ResourceSlice", namespaced=False),
    _grouped(_DEVICES, "ResourceClaim", "", STATUS),
    _grouped(_DEVICES, "ResourceClaimTemplate"),
    _review("authentication.k8s.io", "TokenReview"),
    _review("authentication.k8s.io", "SelfSubjectReview"),
    _review("authorization.k8s.io", "SubjectAccessReview"),
    _review("authorization.k8s.io", "SelfSubjectAccessReview"),
)

WITHOUT_GENERATION = frozenset(
    {
        "Node",
        "Namespace",
        "ConfigMap",
        "Secret",
        "Service",
        "ServiceAccount",
        "Event",
        "ResourceQuota",
        "LimitRange",
        "Endpoints",
        "PersistentVolumeClaim",
        "PersistentVolume",
        "Lease",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
        "DeviceClass",
        "ResourceClaim",
        "ResourceClaimTemplate",
    }
)
"""Built-in kinds whose objects carry no metadata.generation."""
