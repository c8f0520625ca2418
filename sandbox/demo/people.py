"""What the demo's people want of its cluster: a training, a service of high priority, and a GPU that there is not.

Submits it and reads from Kubernetes what became of it; judges nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from chassis.errors import NodemendError
from chassis.kube_client import JOBS, PODS, PRIORITY_CLASSES, KubeClient
from sandbox.demo.admission import PREFIX
from sandbox.kubernetes_server import SandboxKubernetes

TRAINING, SERVICE, MISTAKE = "training", "inference", "mistake"
TRAINING_ASKS, SERVICE_ASKS, MISTAKE_ASKS = "any-40gb", "any-24gb", "a1000"
TRAINING_NEEDS_GB, SERVICE_NEEDS_GB = 40, 24
LABEL = "nvidia.com/gpu.product"
_SPACE = "default"
_HIGH = "production"
_HIGH_VALUE = 1000
_APP = "app"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class People:
    """They use the API as anybody does."""

    def __init__(self, kubernetes: SandboxKubernetes, client: KubeClient) -> None:
        self._kubernetes = kubernetes
        self._client = client

    def submit_training(self) -> None:
        """A job whose one pod asks for a GPU and runs until it is stopped.

        Raises:
            NodemendError: The API does not take it.
        """
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": TRAINING, "namespace": _SPACE},
            "spec": {"template": _pod(TRAINING, TRAINING_ASKS)},
        }
        self._client.create(JOBS, job, _SPACE)

    def submit_service(self) -> None:
        """A pod of high priority.

        Raises:
            NodemendError: The API does not take it.
        """
        high = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": _HIGH},
            "value": _HIGH_VALUE,
        }
        self._client.create(PRIORITY_CLASSES, high)
        self._create_pod(SERVICE, SERVICE_ASKS, priorityClassName=_HIGH)

    def submit_mistake(self) -> str:
        """A pod that asks for what there is not; what the API answers, empty if it takes it."""
        try:
            self._create_pod(MISTAKE, MISTAKE_ASKS)
        except NodemendError as error:
            *_, told = str(error).split(": ", 2)  # after the call and the code
            return told
        return ""

    def _create_pod(self, name: str, asks: str, **spec: str) -> None:
        pod = _pod(name, asks)
        metadata = {**pod["metadata"], "name": name, "namespace": _SPACE}
        whole = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        self._client.create(PODS, {**whole, "spec": {**pod["spec"], **spec}}, _SPACE)

    def pods(self, app: str) -> list[Mapping[str, Any]]:
        """Those that are there, without those that are leaving."""
        return [
            pod
            for pod in self._kubernetes.objects("pods", _SPACE)
            if _app_of(pod) == app and not pod["metadata"].get("deletionTimestamp")
        ]

    def runs_on(self, app: str) -> str:
        """The node on which it runs; empty while it runs nowhere."""
        for pod in self.pods(app):
            if (pod.get("status") or {}).get("phase") == "Running":
                return str(pod["spec"]["nodeName"])
        return ""

    def trains_on(self) -> str:
        """The node on which the training runs; empty while it runs nowhere."""
        return self.runs_on(TRAINING)

    def why_pending(self, app: str) -> str:
        """What the scheduler says of a pod that no node takes; empty if it says nothing."""
        for pod in self.pods(app):
            for each in (pod.get("status") or {}).get("conditions") or ():
                if each["type"] == "PodScheduled" and each["status"] == "False":
                    return str(each.get("message", ""))
        return ""

    def past_pods(self, app: str) -> list[Mapping[str, Any]]:
        """All pods that there have been, oldest first, each as it was last."""
        entries = self._kubernetes.log(keep=lambda each: each.resource == "pods")
        names = dict.fromkeys(each.name for each in entries if each.name)
        found = (self._kubernetes.versions("pods", name, _SPACE) for name in names)
        pods = [versions[-1] for versions in found if versions]
        gone = [pod for pod in pods if _app_of(pod) == app]
        uids = {pod["metadata"]["uid"] for pod in gone}
        return [*gone, *(p for p in self.pods(app) if p["metadata"]["uid"] not in uids)]


def limits_of(pod: Mapping[str, Any]) -> Mapping[str, str]:
    """What the pod's first container asks for."""
    limits: Mapping[str, str] = pod["spec"]["containers"][0]["resources"].get("limits") or {}
    return limits


def products_of(pod: Mapping[str, Any]) -> list[str]:
    """The GPUs, by the label's value, that the pod's required affinity leaves it; none: it leaves all."""
    node_affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (node_affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    return sorted({value for term in terms for value in _values(term)})


def _values(term: Mapping[str, Any]) -> Iterator[str]:
    for each in term.get("matchExpressions") or ():
        if (each["key"], each["operator"]) == (LABEL, "In"):
            yield from each["values"]


def _app_of(pod: Mapping[str, Any]) -> str:
    return str((pod["metadata"].get("labels") or {}).get(_APP, ""))


def _pod(app: str, asks: str) -> dict[str, Any]:
    """A pod of one container that runs until it is stopped."""
    container = {
        "name": "main",
        "image": "endless",
        "resources": {"limits": {f"{PREFIX}{asks}": "1"}},
    }
    return {
        "metadata": {"labels": {_APP: app}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        },
    }
