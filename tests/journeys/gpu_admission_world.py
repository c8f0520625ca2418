"""gpu_admission on a real Kubernetes API: all of deploy/gpu-admission applied, and its real process behind its Service.

The webhooks stay as they are shipped: the API server calls the Service by its name over TLS, and a doorway leads the calls
to the processes of this machine. Each process has nothing but a token of its own service account.
"""

import json
import ssl
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from sandbox import programs
from tests import kubernetes_api
from tests.gpu_admission.served import Served
from tests.journeys.service import wait_until
from tests.journeys.service_doorway import Doorway, a_doorway
from tests.kubernetes_api import KubernetesAPI, running_kubernetes_api

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy" / "gpu-admission"
NAMESPACE, ACCOUNT = "nodemend", "nodemend-gpu-admission"
NAME = "nodemend-gpu-admission"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
P = "preferred.jp/gpu-"
GPU = "nvidia.com/gpu"
LABEL = "nvidia.com/gpu.product"
CPU_RESOURCE = "preferred.jp/cpu-for-high-priority-cpu-pods"
HIGH, LOW = "research-high", "research-low"
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": [USER]}, {"level": "None"}],
}
"""An audit policy: what gpu_admission does."""
PRODUCTS = {
    "t4": "Tesla-T4",
    "l4": "NVIDIA-L4",
    "a100-40gb": "NVIDIA-A100-SXM4-40GB",
    "a100-80gb": "NVIDIA-A100-SXM4-80GB",
    "h100": "NVIDIA-H100-80GB-HBM3",
}
"""The node labels of the catalogue that is shipped, by model."""

Object = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What the API server answered."""

    code: int
    body: Object
    warnings: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))

    @property
    def spec(self) -> Object:
        assert self.code in {200, 201}, self.message
        spec: Object = self.body["spec"]
        return spec

    @property
    def limits(self) -> Object:
        """Of the first container."""
        limits: Object = self.spec["containers"][0].get("resources", {}).get("limits", {})
        return limits

    def products(self) -> set[str]:
        """The node label's values that the pod's affinity lets it have."""
        terms = self.spec["affinity"]["nodeAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]["nodeSelectorTerms"]
        return set().union(*(_products(each["matchExpressions"]) for each in terms))


def _products(expressions: Iterable[Object]) -> set[str]:
    """What all expressions about the label have in common."""
    named = [set(each["values"]) for each in expressions if each["key"] == LABEL]
    return set.intersection(*named)


@dataclass
class World:
    """The API with everything of `deploy` on it."""

    api: KubernetesAPI
    doorway: Doorway
    folder: Path
    deployed: Path
    replicas: list[Served] = field(default_factory=list)

    # The API.

    def call(self, method: str, path: str, body: Any = None, media: str = "") -> Answer:
        """One request of the administrator's, on a connection of its own: threads may call."""
        context = ssl.create_default_context(cafile=str(self.api.authority.file))
        context.load_cert_chain(
            self.api.folder / "user-admin.crt", self.api.folder / "user-admin.key"
        )
        connection = HTTPSConnection(urlsplit(self.api.url).netloc, context=context, timeout=40)
        try:
            headers = {"Content-Type": media or "application/json", "Accept": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            warnings = tuple(answer.headers.get_all("Warning") or ())
            return Answer(answer.status, json.loads(answer.read()), warnings)
        finally:
            connection.close()

    def create(self, body: Object, *, dry_run: bool = False, namespace: str = "default") -> Answer:
        return self.call("POST", path_of(body, namespace) + ("?dryRun=All" * dry_run), body)

    def made(self, body: Object, namespace: str = "default") -> Object:
        """Create it; fails if it was refused."""
        answer = self.create(body, namespace=namespace)
        assert answer.code == 201, answer.message
        return answer.body

    def replace(self, body: Object, namespace: str = "default") -> Answer:
        return self.call("PUT", f"{path_of(body, namespace)}/{body['metadata']['name']}", body)

    def get(self, kind: str, name: str, namespace: str = "default") -> Answer:
        return self.call("GET", f"{path_of({'kind': kind}, namespace)}/{name}")

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        path = f"{path_of({'kind': kind}, namespace)}/{name}?gracePeriodSeconds=0"
        answer = self.call("DELETE", path)
        assert answer.code in {200, 202, 404}, answer.message

    def items(self, kind: str, namespace: str = "default", selector: str = "") -> list[Object]:
        query = f"?labelSelector={selector}" if selector else ""
        found: list[Object] = self.call("GET", path_of({"kind": kind}, namespace) + query).body[
            "items"
        ]
        return found

    def apply(self, objects: Iterable[Object]) -> None:
        told(
            self.api.kubectl(
                "apply",
                "--server-side",
                "--force-conflicts",
                "-f",
                "-",
                stdin=yaml.safe_dump_all(objects),
            )
        )

    # gpu_admission.

    @property
    def served(self) -> Served:
        return self.replicas[0]

    def a_replica(self, name: str, **changes: Any) -> Served:
        """A process with the configuration that is shipped but for ports, paths and paces; not started."""
        folder = self.folder / name
        folder.mkdir()
        token = told(self.api.kubectl("-n", NAMESPACE, "create", "token", ACCOUNT, "--duration=1h"))
        kubeconfig = _token_kubeconfig(self.api, token.strip(), folder / "kubeconfig")
        shipped = yaml.safe_load((DEPLOY / "base" / "gpu-admission.yaml").read_text("utf-8"))
        del shipped["monitoring"]
        served = Served(folder, kubeconfig)
        config = {
            **yaml.safe_load(served.config_file.read_text("utf-8")),
            **shipped,
            "serving": {"listen": f"127.0.0.1:{served.port}", "drain": "5s"},
            "self_signed": {"directory": str(folder / "tls")},
            **changes,
        }
        if (files := config.pop("tls", None)) is not None:
            config["serving"] = {**config["serving"], "tls": files}
        without_none = {key: value for key, value in config.items() if value is not None}
        served.config_file.write_text(yaml.safe_dump(without_none))
        served.catalogue((DEPLOY / "base" / "catalogue.yaml").read_text("utf-8"))
        self.replicas.append(served)
        return served

    def open_the_doorway(self) -> None:
        """To all replicas; a Service leads to ready pods only."""
        self.doorway.lead_only_to(*(each.port for each in self.replicas))

    def start(self, *replicas: Served, probe: str = "t4") -> None:
        """Start them, and wait until the API server reaches them; `probe` is a spec that they take."""
        for each in replicas:
            each.start(ready=False)
        for each in replicas:
            assert each.program is not None
            each.program.wait_until_ready(f"{each.monitoring}/readyz", 60)
        self.open_the_doorway()
        wait_until("the first call to arrive", lambda: self.answers(probe), 30)

    def answers(self, probe: str = "t4") -> bool:
        """Whether a pod with this GPU spec is changed now."""
        answer = self.create(asking(probe), dry_run=True)
        return answer.code == 201 and GPU in answer.limits

    def reviews(self, endpoint: str = "/mutate-pods") -> float:
        """How many reviews all replicas have answered there."""
        line = f'gpu_admission_reviews_total{{endpoint="{endpoint}"'
        return sum(
            float(each.rpartition(" ")[2])
            for served in self.replicas
            for each in served.get("/metrics")[1].splitlines()
            if each.startswith(line)
        )

    def catalogue(self, content: Mapping[str, Any]) -> None:
        """Another catalogue for all replicas, until each uses it."""
        for each in self.replicas:
            old = _generation(each)
            each.catalogue(content)
            each.hang_up()
            wait_until("the new catalogue", partial(_has_changed, each, old))

    def without_replicas(self) -> None:
        """As before the first was started, with the manifests applied anew."""
        self.doorway.lead_only_to()
        for each in self.replicas:
            each.kill()
        self.replicas.clear()
        self.delete("Secret", "nodemend-gpu-admission-tls", NAMESPACE)
        for each in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
            self.delete(each, NAME)
        self.apply(rendered(self.deployed))

    def clear(self, kind: str, *keep: str) -> None:
        """Delete all of a kind, until they are gone."""
        wait_until(f"no {kind} to be left", lambda: not self._swept(kind, keep), 60)

    def _swept(self, kind: str, keep: Sequence[str]) -> list[str]:
        names = {each["metadata"]["name"] for each in self.items(kind)} - set(keep)
        for name in names:
            self.delete(kind, name)
        return sorted(names)


def _has_changed(served: Served, old: str) -> bool:
    return _generation(served) != old


def _generation(served: Served) -> str:
    lines = served.get("/metrics")[1].splitlines()
    return next((e for e in lines if e.startswith("gpu_admission_catalogue_info{")), "")


_PLACES = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "Node": "/api/v1/nodes",
    "Namespace": "/api/v1/namespaces",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "Event": "/api/v1/namespaces/{}/events",
    "ResourceQuota": "/api/v1/namespaces/{}/resourcequotas",
    "LimitRange": "/api/v1/namespaces/{}/limitranges",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "DaemonSet": "/apis/apps/v1/namespaces/{}/daemonsets",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "CronJob": "/apis/batch/v1/namespaces/{}/cronjobs",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "MutatingWebhookConfiguration": (
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    ),
    "ValidatingWebhookConfiguration": (
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    ),
}


def path_of(body: Mapping[str, Any], namespace: str) -> str:
    space = body.get("metadata", {}).get("namespace", namespace)
    return _PLACES[str(body["kind"])].format(space)


def told(done: "subprocess.CompletedProcess[str]") -> str:
    """What a command said; fails if it did not work."""
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered(folder: Path) -> list[Object]:
    """What `kubectl kustomize` makes of a folder, in our namespace."""
    kubectl = str(kubernetes_api.find("kubectl"))
    text = told(
        subprocess.run(
            [kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False
        )
    )
    objects = [each for each in yaml.safe_load_all(text) if each]
    for each in objects:
        if each["kind"] not in _CLUSTER_WIDE:
            each["metadata"].setdefault("namespace", NAMESPACE)
    return objects


_CLUSTER_WIDE = {
    "ClusterRole",
    "ClusterRoleBinding",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
}


def _token_kubeconfig(api: KubernetesAPI, token: str, path: Path) -> Path:
    cluster = {"server": api.url, "certificate-authority": str(api.authority.file)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "account", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "account"}}],
        "current-context": "test",
    }
    path.write_text(json.dumps(config))
    return path


@contextmanager
def a_world(
    folder: Path,
    deployed: Path = DEPLOY / "base",
    *,
    controllers: bool = False,
    scheduler: bool = False,
    leave_out: Sequence[str] = (),
) -> Iterator[World]:
    """A Kubernetes API with `deployed` applied, and no process of gpu_admission yet.

    Args:
        folder: Takes everything.
        deployed: What kustomize renders.
        controllers: With the controller-manager.
        scheduler: With the scheduler.
        leave_out: Kinds that are not applied, as nothing serves them here.
    """
    wanted = ["etcd", "kube-apiserver", "kubectl"]
    wanted += ["kube-controller-manager"] * controllers + ["kube-scheduler"] * scheduler
    if (why_not := kubernetes_api.missing(*wanted)) is not None:
        pytest.skip(why_not)
    objects = [each for each in rendered(deployed) if each["kind"] not in leave_out]
    with (
        a_doorway() as doorway,
        running_kubernetes_api(
            folder,
            controllers=controllers,
            scheduler=scheduler,
            audit_policy=AUDIT,
            egress=doorway.path,
        ) as api,
    ):
        world = World(api, doorway, folder, deployed)
        world.made({"kind": "Namespace", "metadata": {"name": NAMESPACE}})
        world.apply(objects)
        for name, value in ((HIGH, 1000), (LOW, 0)):
            world.made({"kind": "PriorityClass", "metadata": {"name": name}, "value": value})
        try:
            yield world
        finally:
            for each in world.replicas:
                each.kill()


# What people submit.


def a_container(name: str = "train", **resources: Any) -> Object:
    return {"name": name, "image": "registry.example/train:1", "resources": resources}


def a_pod(
    name: str = "train",
    *containers: Object,
    priority: str | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    whole: Object = {"containers": list(containers) or [a_container()], **spec}
    if priority is not None:
        whole["priorityClassName"] = priority
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **({"labels": dict(labels)} if labels else {})},
        "spec": whole,
    }


def asking(key: str, amount: str = "1", *, name: str = "train", **more: Any) -> Object:
    """A pod with one GPU spec, such as `any-40gb`."""
    return a_pod(name, a_container(limits={P + key: amount}), **more)


def a_workload(kind: str, key: str, *, name: str = "train", **pod: Any) -> Object:
    """A Deployment or its like, whose pods ask for one GPU."""
    labels = {"app": name}
    spec = asking(key, **pod)["spec"]
    template = {"metadata": {"labels": labels}, "spec": spec}
    if kind in {"Job", "CronJob"}:
        spec["restartPolicy"] = "Never"
        job = {"template": {"spec": spec}}
        whole: Object = (
            {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}} if kind == "CronJob" else job
        )
    else:
        whole = {"selector": {"matchLabels": labels}, "template": template}
        if kind == "StatefulSet":
            whole["serviceName"] = name
    group = "batch/v1" if kind in {"Job", "CronJob"} else "apps/v1"
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name}, "spec": whole}


def a_node(name: str, model: str | None = None, *, gpus: int = 0, cpus: str = "16") -> Object:
    """A Node that no kubelet speaks for; ready, without taints once `ready` was called."""
    capacity = {"cpu": cpus, "memory": "64Gi", "pods": "110"}
    if gpus:
        capacity[GPU] = str(gpus)
    labels = {"kubernetes.io/hostname": name}
    if model is not None:
        labels[LABEL] = PRODUCTS[model]
    status = {
        "capacity": capacity,
        "allocatable": dict(capacity),
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
    }
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def add_node(world: World, node: Object, taints: Sequence[Mapping[str, str]] = ()) -> None:
    """Without the taint that admission gives to new nodes, whose controller does not run here."""
    name = world.made(node)["metadata"]["name"]
    patch = {"spec": {"taints": list(taints) or None}}
    answer = world.call("PATCH", f"/api/v1/nodes/{name}", patch, "application/merge-patch+json")
    assert answer.code == 200, answer.message


def node_of(world: World, pod: str, namespace: str = "default") -> str:
    """The node that the scheduler gave to a pod; empty before."""
    return str(world.get("Pod", pod, namespace).body.get("spec", {}).get("nodeName") or "")


def unschedulable(world: World, pod: str, namespace: str = "default") -> str:
    """The scheduler's message when it finds no node; empty before."""
    status = world.get("Pod", pod, namespace).body.get("status", {})
    found = {each["type"]: each for each in status.get("conditions") or ()}
    scheduled = found.get("PodScheduled", {})
    return str(scheduled.get("message", "")) if scheduled.get("status") == "False" else ""


def landed(world: World, pod: str) -> str:
    """The node that a pod gets; a scheduler that has not seen all of the nodes yet tries again."""
    wait_until(f"a node for {pod}", lambda: bool(node_of(world, pod)), 60)
    return node_of(world, pod)


def settled(world: World, pod: str) -> str:
    """The node that the scheduler gave to a pod, or nothing once it has said that none fits."""
    wait_until(
        f"a decision about {pod}",
        lambda: bool(node_of(world, pod) or unschedulable(world, pod)),
        60,
    )
    return node_of(world, pod)


def free_port() -> int:
    return programs.free_port()
