"""Subresources that are not a part of the object: pods/eviction, pods/binding, pods/log, scale, tokens; and the reviews."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import orjson

from sandbox.kubernetes_rules import disruption, statuses
from sandbox.kubernetes_rules.objects import rfc3339
from sandbox.kubernetes_rules.resources import POD, POD_DISRUPTION_BUDGET, SERVICE_ACCOUNT
from sandbox.kubernetes_rules.statuses import bad_request, method_not_allowed
from sandbox.kubernetes_server import access, reading
from sandbox.kubernetes_server.access import AUTHENTICATED, Attributes, Token, User
from sandbox.kubernetes_server.calls import Call
from sandbox.kubernetes_server.cluster import Cluster
from sandbox.kubernetes_server.storage import Body
from sandbox.kubernetes_server.wire import Response

LOG_ANNOTATION = "sandbox.nodemend.dev/log"
"""On a pod: what `pods/log` answers when nothing was set by the control; there is no kubelet to ask."""

_CREATED = 201
_DEFAULT_TOKEN_SECONDS = 3600
_SHORTEST_TOKEN_SECONDS = 600
_Answer = Callable[[Cluster, Call], Response]


def answer(cluster: Cluster, verb: str, call: Call) -> Response:
    """Do it.

    Raises:
        Refusal: It cannot be done, or there is no such verb here.
    """
    sub = call.target.subresource
    found = _TABLE.get((call.kind.plural, sub, verb)) or _TABLE.get(("*", sub, verb))
    if found is None:
        raise method_not_allowed()
    return found(cluster, call)


# Pods.


def _evict(cluster: Cluster, call: Call) -> Response:
    """The Eviction API: refused (429) while a PodDisruptionBudget forbids it."""
    options = call.body().get("deleteOptions")
    actor = call.deleting(options)
    namespace, name = call.target.namespace, call.target.name
    with cluster.store.lock:  # two evictions must not spend the same allowance
        pod = reading.get(cluster.store, POD, namespace, name)
        budgets = cluster.store.collection(POD_DISRUPTION_BUDGET.qualified_plural)
        decision = disruption.eviction(
            pod.body, [each.body for each in budgets.records(namespace)], cluster.objects.now()
        )
        if decision.refusal is not None:
            raise decision.refusal
        if decision.budget is not None and not actor.dry_run:
            _keep_budget(cluster, call, decision.budget)
    cluster.objects.delete(POD, namespace, name, actor, options)
    return Response(_CREATED, orjson.dumps(statuses.evicted()))


def _keep_budget(cluster: Cluster, call: Call, budget: Body) -> None:
    metadata = budget["metadata"]
    cluster.objects.update(
        POD_DISRUPTION_BUDGET,
        metadata["namespace"],
        metadata["name"],
        lambda current: {**current, "status": budget["status"]},
        call.actor,
        "status",
    )


def _bind(cluster: Cluster, call: Call) -> Response:
    """Puts a pod on a node, once."""
    body = call.body()
    node = (body.get("target") or {}).get("name")
    if not node:
        raise bad_request("target.name: Required value")

    def bind(pod: Body) -> Body:
        if pod["spec"].get("nodeName"):
            raise statuses.conflict(
                POD,
                pod["metadata"]["name"],
                f'pod {pod["metadata"]["name"]} is already assigned to node "{pod["spec"]["nodeName"]}"',
                word="pods/binding",
            )
        return bound(pod, node, rfc3339(cluster.objects.now()))

    cluster.objects.update(
        POD, call.target.namespace, call.target.name, bind, call.actor, "binding"
    )
    return Response(_CREATED, orjson.dumps({**statuses.evicted()}))


def bound(pod: Body, node: str, now: str) -> Body:
    """The pod as it is once a scheduler has put it on a node."""
    status = dict(pod.get("status") or {})
    others = [each for each in status.get("conditions") or () if each["type"] != "PodScheduled"]
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    status["conditions"] = [*others, scheduled]
    return {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status}


def _log(cluster: Cluster, call: Call) -> Response:
    pod = reading.get(cluster.store, POD, call.target.namespace, call.target.name).body
    names = [each["name"] for each in pod["spec"].get("containers") or ()]
    container = call.params.text("container") or (names[0] if len(names) == 1 else "")
    if not container:
        raise bad_request(
            f"a container name must be specified for pod {call.target.name}, choose one of: {names}"
        )
    text = cluster.control.pod_log(call.target.namespace, call.target.name, container)
    if text is None:
        text = (pod["metadata"].get("annotations") or {}).get(LOG_ANNOTATION, "")
    lines = text.splitlines(keepends=True)
    tail = call.number("tailLines")
    shown = lines if tail is None else lines[len(lines) - min(tail, len(lines)) :]
    data = "".join(shown).encode()
    limit = call.number("limitBytes")
    return Response(200, data if limit is None else data[:limit], "text/plain")


# Scale.


def _get_scale(cluster: Cluster, call: Call) -> Response:
    record = reading.get(cluster.store, call.kind, call.target.namespace, call.target.name)
    return Response(200, orjson.dumps(_scale(record.body)))


def _put_scale(cluster: Cluster, call: Call) -> Response:
    wanted = (call.body().get("spec") or {}).get("replicas", 0)
    return _scaled(cluster, call, lambda _: int(wanted))


def _patch_scale(cluster: Cluster, call: Call) -> Response:
    patch = call.body()
    return _scaled(cluster, call, lambda old: int((patch.get("spec") or {}).get("replicas", old)))


def _scaled(cluster: Cluster, call: Call, replicas: Callable[[int], int]) -> Response:
    def change(body: Body) -> Body:
        old = int(body["spec"].get("replicas", 1))
        return {**body, "spec": {**body["spec"], "replicas": replicas(old)}}

    record = cluster.objects.update(
        call.kind, call.target.namespace, call.target.name, change, call.actor
    )
    return Response(200, orjson.dumps(_scale(record.body)))


def _scale(body: Mapping[str, Any]) -> Body:
    keep = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: body["metadata"][name] for name in keep if name in body["metadata"]},
        "spec": {"replicas": body["spec"].get("replicas", 1)},
        "status": {"replicas": (body.get("status") or {}).get("replicas", 0)},
    }


# Tokens and reviews.


def _token(cluster: Cluster, call: Call) -> Response:
    """TokenRequest: a token of the service account, bound to what the request names."""
    body = call.body()
    spec = body.get("spec") or {}
    namespace, name = call.target.namespace, call.target.name
    account = reading.get(cluster.store, SERVICE_ACCOUNT, namespace, name).body
    seconds = int(spec.get("expirationSeconds") or _DEFAULT_TOKEN_SECONDS)
    if seconds < _SHORTEST_TOKEN_SECONDS:
        raise bad_request("spec.expirationSeconds: may not specify a duration less than 10 minutes")
    bound_to = [(SERVICE_ACCOUNT.plural, namespace, name, account["metadata"]["uid"])]
    extra: dict[str, tuple[str, ...]] = {}
    reference = spec.get("boundObjectRef")
    if reference:
        bound_to.append(_bound_object(cluster, namespace, reference))
        extra = _bound_extra(reference, bound_to[-1])
    expires = cluster.objects.now() + timedelta(seconds=seconds)
    user = service_account_user(namespace, name, account["metadata"]["uid"], extra)
    text = cluster.tokens.issue(Token(user, expires, tuple(bound_to)))
    status = {"token": text, "expirationTimestamp": rfc3339(expires)}
    head = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"}
    metadata = {"name": name, "namespace": namespace}
    answer_body = {**head, "metadata": metadata, "spec": spec, "status": status}
    return Response(_CREATED, orjson.dumps(answer_body))


def service_account_user(
    namespace: str, name: str, uid: str = "", extra: Mapping[str, tuple[str, ...]] | None = None
) -> User:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"system:serviceaccount:{namespace}:{name}", groups, uid, extra or {})


def _bound_object(
    cluster: Cluster, namespace: str, reference: Mapping[str, Any]
) -> tuple[str, str, str, str]:
    plural = {"Node": "nodes", "Pod": "pods", "Secret": "secrets"}.get(reference.get("kind", ""))
    if plural is None:
        raise bad_request("spec.boundObjectRef.kind: supported values: Node, Pod, Secret")
    kind = cluster.catalogue.find("", "v1", plural)
    if kind is None:
        raise bad_request(f"{plural} are not served")
    where = namespace if kind.namespaced else ""
    found = reading.get(cluster.store, kind, where, str(reference.get("name", "")))
    uid = found.body["metadata"]["uid"]
    if reference.get("uid") not in {None, "", uid}:
        raise statuses.conflict(kind, found.key[1], "the UID in the bound object reference differs")
    return plural, where, found.key[1], uid


def _bound_extra(
    reference: Mapping[str, Any], bound_to: tuple[str, str, str, str]
) -> dict[str, tuple[str, ...]]:
    prefix = f"authentication.kubernetes.io/{reference['kind'].lower()}"
    _, _, name, uid = bound_to
    return {f"{prefix}-name": (name,), f"{prefix}-uid": (uid,)}


def _token_review(cluster: Cluster, call: Call) -> Response:
    body = call.body()
    token = str((body.get("spec") or {}).get("token", ""))
    user = cluster.tokens.user(token, cluster.store, cluster.objects.now())
    status: dict[str, Any] = {"authenticated": user is not None}
    if user is not None:
        status["user"] = _user_info(user)
    return Response(_CREATED, orjson.dumps({**body, "status": status}))


def _self_review(_: Cluster, call: Call) -> Response:
    status = {"userInfo": _user_info(call.actor.user)}
    return Response(_CREATED, orjson.dumps({**call.body(), "status": status}))


def _access_review(cluster: Cluster, call: Call) -> Response:
    spec = call.body().get("spec") or {}
    user = call.actor.user
    if call.kind.plural == "subjectaccessreviews":
        user = User(str(spec.get("user", "")), tuple(spec.get("groups") or ()))
    allowed = not cluster.rbac or access.allowed(cluster.store, user, _attributes(spec))
    return Response(_CREATED, orjson.dumps({**call.body(), "status": {"allowed": allowed}}))


def _attributes(spec: Mapping[str, Any]) -> Attributes:
    other = spec.get("nonResourceAttributes")
    if other:
        return Attributes(str(other.get("verb", "")), path=str(other.get("path", "")))
    asked = spec.get("resourceAttributes") or {}
    names = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attributes(*(str(asked.get(name, "")) for name in names))


def _user_info(user: User) -> dict[str, Any]:
    extra = {name: list(values) for name, values in user.extra.items()}
    return {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}


_TABLE: Mapping[tuple[str, str, str], _Answer] = {
    ("pods", "eviction", "create"): _evict,
    ("pods", "binding", "create"): _bind,
    ("pods", "log", "get"): _log,
    ("serviceaccounts", "token", "create"): _token,
    ("*", "scale", "get"): _get_scale,
    ("*", "scale", "update"): _put_scale,
    ("*", "scale", "patch"): _patch_scale,
    ("tokenreviews", "", "create"): _token_review,
    ("selfsubjectreviews", "", "create"): _self_review,
    ("subjectaccessreviews", "", "create"): _access_review,
    ("selfsubjectaccessreviews", "", "create"): _access_review,
}
