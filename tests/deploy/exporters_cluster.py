"""The manifests of deploy/exporters, applied to a real API server; tokens as the kubelet's, and what was done with them."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from tests.journeys.service import wait_until
from tests.kubernetes_api import KubernetesAPI

ROOT = Path(__file__).parents[2]
EXPORTERS = ROOT / "deploy" / "exporters"
BASES = ("node-conditions", "node-agent", "gpu-monitor")
NAMESPACE = "nodemend"

Object: TypeAlias = dict[str, Any]
Deed: TypeAlias = tuple[str, str, str, str]
"""Namespace (empty: all of them, or none has it), API group, resource with subresource, verb."""


def build(kubectl: str, folder: Path) -> str:
    done = subprocess.run(
        [kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def built(kubectl: str, base: str, folder: Path) -> list[Object]:
    """What kustomize makes of a base in our namespace; `folder` is for the kustomization."""
    (folder / base).symlink_to(EXPORTERS / base)
    kustomization = {"namespace": NAMESPACE, "resources": [base]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return [each for each in yaml.safe_load_all(build(kubectl, folder)) if each]


def of_kind(objects: Iterable[Object], kind: str) -> list[Object]:
    return [each for each in objects if each["kind"] == kind]


def pod_of(objects: Iterable[Object]) -> Object:
    """The pod's spec in the one workload among them."""
    (workload,) = [each for each in objects if each["kind"] in {"Deployment", "DaemonSet"}]
    spec: Object = workload["spec"]["template"]["spec"]
    return spec


def told(done: "subprocess.CompletedProcess[str]") -> str:
    """What a command said; fails if it did not work."""
    assert done.returncode == 0, done.stderr
    return done.stdout


def apply(api: KubernetesAPI, objects: Iterable[Object]) -> None:
    told(api.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects)))


def namespace_exists(api: KubernetesAPI) -> None:
    apply(api, [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])


def a_node(name: str, **more: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, **more}


def token(api: KubernetesAPI, account: str, node: str | None = None) -> str:
    """A token of a service account; with `node`, bound to a pod there, as the kubelet's projected ones are."""
    arguments = ["-n", NAMESPACE, "create", "token", account, "--duration=1h"]
    if node is not None:
        pod = f"{account}-{node}"
        spec = {"serviceAccountName": account, "nodeName": node, "containers": [_PAUSE]}
        metadata = {"name": pod, "namespace": NAMESPACE}
        apply(api, [{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}])
        uid = told(
            api.kubectl("-n", NAMESPACE, "get", "pod", pod, "-o", "jsonpath={.metadata.uid}")
        )
        arguments += ["--bound-object-kind=Pod", f"--bound-object-name={pod}"]
        arguments += [f"--bound-object-uid={uid}"]
    return told(api.kubectl(*arguments)).strip()


_PAUSE = {"name": "pause", "image": "registry.example/pause"}


def token_kubeconfig(api: KubernetesAPI, token: str, path: Path) -> Path:
    """A kubeconfig that has nothing but the token."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "test",
                "cluster": {"server": api.url, "certificate-authority": str(api.authority.file)},
            }
        ],
        "users": [{"name": "account", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "account"}}],
        "current-context": "test",
    }
    path.write_text(json.dumps(config))
    return path


class Audit:
    """What a service account does from now on, by the API server's log."""

    def __init__(self, api: KubernetesAPI, account: str) -> None:
        self._api = api
        self._user = f"system:serviceaccount:{NAMESPACE}:{account}"
        self._skip = len(api.audited())

    def _events(self) -> Iterable[Mapping[str, Any]]:
        for event in self._api.audited()[self._skip :]:
            if event["user"]["username"] == self._user:
                yield event

    def deeds(self) -> set[Deed]:
        """What it did, or tried."""
        return {_deed(event) for event in self._events() if event.get("objectRef")}

    def refusals(self) -> list[str]:
        """What it tried and RBAC did not allow."""
        return [
            f"{event['verb']} {event['requestURI']}"
            for event in self._events()
            if event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
        ]


def _deed(event: Mapping[str, Any]) -> Deed:
    what = event["objectRef"]
    resource = "/".join(filter(None, (what["resource"], what.get("subresource"))))
    return (what.get("namespace", ""), what.get("apiGroup", ""), resource, event["verb"])


def allowed(objects: Iterable[Object]) -> set[Deed]:
    """What the roles among them allow."""
    return {
        (role["metadata"].get("namespace", ""), group, resource, verb)
        for role in objects
        if role["kind"] in {"Role", "ClusterRole"}
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def wait_for_rights(api: KubernetesAPI, account: str, rights: Iterable[Deed]) -> None:
    """Roles count a moment after they were written."""
    reviews = yaml.safe_dump_all(_review(account, each) for each in rights)

    def all_allowed() -> bool:
        answers = api.kubectl("create", "-f", "-", f"--output=jsonpath={_ALLOWED}", stdin=reviews)
        return "false" not in told(answers)

    wait_until(f"the rights of {account}", all_allowed)


_ALLOWED = "{.status.allowed}"


def _review(account: str, deed: Deed) -> Object:
    namespace, group, whole, verb = deed
    resource, _, subresource = whole.partition("/")
    attributes = {
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "verb": verb,
        "namespace": namespace,
    }
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{NAMESPACE}:{account}",
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}"],
            "resourceAttributes": attributes,
        },
    }
