"""Both sides of the comparison: a real kube-apiserver, and the embedded Kubernetes' rules asked in the same way.

Times, UIDs and versions differ between the two, null and absent are one, and of a message that renders a Go struct only
its field and reason are compared.
"""

import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from sandbox.kubernetes_rules import defaults, objects, resources, validation
from sandbox.kubernetes_rules.patching import apply_patch
from sandbox.kubernetes_rules.resources import ResourceType
from sandbox.kubernetes_rules.statuses import Refusal, invalid
from tests import kubernetes_api
from tests.kubernetes_api import running_kubernetes_api

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACE = "default"
BY_KIND = {each.kind: each for each in reversed(resources.BUILT_IN)}

Answer = tuple[int, dict[str, Any]]


@dataclass(frozen=True)
class RealServer:
    """One connection, kept open: a handshake a request would be most of the time."""

    connection: HTTPSConnection

    def call(self, method: str, path: str, body: Any = None, media: str = "") -> Answer:
        text = None if body is None else json.dumps(body)
        headers = {"Content-Type": media or "application/json", "Accept": "application/json"}
        self.connection.request(method, path, text, headers)
        answer = self.connection.getresponse()
        read = answer.read()
        told = answer.headers.get_content_type() == "application/json"  # not so a bare 404
        return answer.status, json.loads(read) if told else {}


@contextmanager
def a_real_server(folder: Path) -> Iterator[RealServer]:
    """Skips the test when the programs are not here."""
    why_not = kubernetes_api.missing("etcd", "kube-apiserver", "kubectl")
    if why_not is not None:
        pytest.skip(why_not)
    with running_kubernetes_api(folder) as api:
        context = ssl.create_default_context(cafile=str(api.authority.file))
        context.load_cert_chain(folder / "user-admin.crt", folder / "user-admin.key")
        with closing(HTTPSConnection(urlsplit(api.url).netloc, context=context)) as connection:
            yield RealServer(connection)


def path_of(kind: ResourceType, name: str = "") -> str:
    root = f"/apis/{kind.group}" if kind.group else "/api"
    where = f"/namespaces/{NAMESPACE}" if kind.namespaced else ""
    return f"{root}/{kind.version}{where}/{kind.plural}" + (f"/{name}" if name else "")


def answered(code: int, work: Callable[[], dict[str, Any]]) -> Answer:
    try:
        return code, work()
    except Refusal as refusal:
        return refusal.code, refusal.status


def embedded_create(obj: dict[str, Any], kind: ResourceType) -> dict[str, Any]:
    namespace = NAMESPACE if kind.namespaced else None
    fresh = objects.prepare_create(
        obj, kind, now=NOW, uid="made-here", random_suffix="abcde", namespace=namespace
    )
    if kind.kind == "Pod":
        fresh = defaults.with_priority(fresh, [], kind)
    causes = validation.check_create(fresh, kind)
    if causes:
        raise invalid(kind, fresh["metadata"].get("name") or "", causes)
    return fresh


def embedded_patch(
    current: dict[str, Any], patch: Any, media: str, kind: ResourceType, part: str | None = None
) -> dict[str, Any]:
    patched = apply_patch(media, current, patch, kind=kind)
    fresh = objects.prepare_update(current, patched, kind, subresource=part)
    causes = validation.check_update(current, fresh, kind, subresource=part)
    if causes:
        raise invalid(kind, fresh["metadata"]["name"], causes)
    return fresh


def comparable(answer: Answer, name: str = "") -> Any:
    code, body = answer
    if body.get("kind") != "Status":
        return code, plain(body, name)
    causes = (body.get("details") or {}).get("causes")
    if not causes:
        return code, body.get("reason") or "", body.get("message")
    told = sorted({(e.get("field"), e.get("reason"), worded(e["message"])) for e in causes})
    return code, body["reason"], told


def worded(message: str) -> str:
    """Without what Go's rendering of a struct, or the diff of one, adds."""
    message = message.partition("\n")[0]
    return "(a struct)" if "{" in message else message


SERVERS_OWN = {"uid", "creationTimestamp", "resourceVersion", "managedFields", "deletionTimestamp"}


def plain(value: Any, name: str = "") -> Any:
    """Null, "", [] and {} are absent; what only the server knows is left out."""
    if isinstance(value, list):
        return [plain(each, name) for each in value]
    if not isinstance(value, dict):
        return value.replace("made-here", "(uid)") if isinstance(value, str) else value
    kept = {k: plain(v, name) for k, v in value.items() if k not in SERVERS_OWN}
    return {k: v for k, v in kept.items() if v not in (None, "", [], {})}


C: dict[str, Any] = {"name": "c", "image": "i"}


def pod(**spec: Any) -> dict[str, Any]:
    return {"kind": "Pod", "spec": {"containers": [C], **spec}}


def limited(**resources_: Any) -> dict[str, Any]:
    return pod(containers=[{**C, "resources": resources_}])


def required_affinity(*terms: Any) -> dict[str, Any]:
    needed = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return pod(affinity={"nodeAffinity": needed})


def a_node(**parts: Any) -> dict[str, Any]:
    return {"kind": "Node", **parts}


def job(spec: dict[str, Any] | None = None, **pod_spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [C], "restartPolicy": "Never", **pod_spec}}
    return {"kind": "Job", "spec": {"template": template, **(spec or {})}}


def budget(**spec: Any) -> dict[str, Any]:
    return {"kind": "PodDisruptionBudget", "spec": spec}


def taint(key: str, effect: str = "NoSchedule", **more: str) -> dict[str, Any]:
    return {"key": key, "effect": effect, **more}
