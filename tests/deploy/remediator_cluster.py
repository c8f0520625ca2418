"""The manifests of deploy/remediator on a real API server, and clients for whoever speaks to it."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

import yaml

from chassis.kube_client import KubeClient, KubeSettings
from chassis.telemetry import get_logger
from remediator.kube_cluster import NODE_OPERATIONS
from tests.deploy.exporters_cluster import (
    ROOT,
    Object,
    apply,
    build,
    token,
    token_kubeconfig,
    told,
)
from tests.journeys.service import wait_until
from tests.kubernetes_api import KubernetesAPI

REMEDIATOR = ROOT / "deploy" / "remediator"
NAMESPACE, REPAIRS = "nodemend", "nodemend-repairs"
ACCOUNT = "nodemend-remediator"
SERVICE_USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
STATE = "nodemend-remediator-state"
OPERATOR = "nodemend-remediator-operator"


def objects_of(kubectl: str) -> list[Object]:
    """What kustomize makes of deploy/remediator."""
    return [each for each in yaml.safe_load_all(build(kubectl, REMEDIATOR)) if each]


def install(api: KubernetesAPI) -> None:
    """As docs/deploying.md says: the namespace, then everything at once; until operations are served."""
    apply(api, [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
    told(api.kubectl("apply", "-k", str(REMEDIATOR)))
    wait_until("operations to be served", lambda: _served(api))


def _served(api: KubernetesAPI) -> bool:
    return api.kubectl("get", NODE_OPERATIONS.plural + "." + NODE_OPERATIONS.group).returncode == 0


def bind(api: KubernetesAPI, user: str, roles: Iterable[Object]) -> None:
    """Give a user roles: cluster-wide, or in the namespace of the role."""
    apply(api, [_binding(user, role) for role in roles])


def _binding(user: str, role: Object) -> Object:
    group = "rbac.authorization.k8s.io"
    name = role["metadata"]["name"]
    metadata = {"name": f"test-{user}-{name}"}
    kind = "ClusterRoleBinding"
    if "namespace" in role["metadata"]:
        kind, metadata["namespace"] = "RoleBinding", role["metadata"]["namespace"]
    return {
        "apiVersion": f"{group}/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": role["kind"], "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }


def client(kubeconfig: Path) -> KubeClient:
    return KubeClient(KubeSettings(kubeconfig=kubeconfig, qps=0), get_logger("test"))


def service_kubeconfig(api: KubernetesAPI, folder: Path) -> Path:
    """With nothing but a token of the remediator's account."""
    return token_kubeconfig(api, token(api, ACCOUNT), folder / "remediator.kubeconfig")


def command(
    program: str, *arguments: str | Path, folder: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        cwd=folder,
    )
