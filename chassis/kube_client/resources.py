"""The resource types that Nodemend speaks of, and where each lies in the API. Pure.

Paths follow the Kubernetes documentation "API concepts: resource URIs".
"""

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource type; `group` is empty for the core one, `plural` is as in the path."""

    group: str
    version: str
    plural: str
    namespaced: bool
    kind: str

    @property
    def api_version(self) -> str:
        """As in an object's `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, name: str | None = None, namespace: str | None = None, subresource: str | None = None
    ) -> str:
        """The URL path, such as `/api/v1/nodes/n1/status`.

        Without a name it is the collection; without a namespace, too, that of all namespaces.

        Raises:
            ValueError: A namespace is missing, or given where there is none.
        """
        if namespace is not None and not self.namespaced:
            raise ValueError(f"{self.plural} have no namespace, yet {namespace!r} was given")
        if name is not None and self.namespaced and namespace is None:
            raise ValueError(f"one of {self.plural} ({name!r}) needs a namespace")
        if subresource is not None and name is None:
            raise ValueError(f"the subresource {subresource!r} of {self.plural} needs a name")
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        steps = [root]
        if namespace is not None:
            steps += ["namespaces", _segment(namespace)]
        steps.append(self.plural)
        if name is not None:
            steps.append(_segment(name))
        if subresource is not None:
            steps.append(subresource)
        return "/".join(steps)


def _segment(name: str) -> str:
    if name in {"", ".", ".."}:  # would change which path is meant
        raise ValueError(f"{name!r} is no name of an object")
    return quote(name, safe="")


NODES = Resource("", "v1", "nodes", namespaced=False, kind="Node")
PODS = Resource("", "v1", "pods", namespaced=True, kind="Pod")
NAMESPACES = Resource("", "v1", "namespaces", namespaced=False, kind="Namespace")
CONFIG_MAPS = Resource("", "v1", "configmaps", namespaced=True, kind="ConfigMap")
SECRETS = Resource("", "v1", "secrets", namespaced=True, kind="Secret")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", namespaced=True, kind="ServiceAccount")
EVENTS = Resource("", "v1", "events", namespaced=True, kind="Event")
JOBS = Resource("batch", "v1", "jobs", namespaced=True, kind="Job")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", namespaced=True, kind="DaemonSet")
DEPLOYMENTS = Resource("apps", "v1", "deployments", namespaced=True, kind="Deployment")
REPLICA_SETS = Resource("apps", "v1", "replicasets", namespaced=True, kind="ReplicaSet")
LEASES = Resource("coordination.k8s.io", "v1", "leases", namespaced=True, kind="Lease")
PDBS = Resource("policy", "v1", "poddisruptionbudgets", namespaced=True, kind="PodDisruptionBudget")
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", namespaced=False, kind="PriorityClass"
)
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    namespaced=False,
    kind="MutatingWebhookConfiguration",
)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    namespaced=False,
    kind="ValidatingWebhookConfiguration",
)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    namespaced=False,
    kind="CustomResourceDefinition",
)
