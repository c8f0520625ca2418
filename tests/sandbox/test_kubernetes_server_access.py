"""Who may do what on the sandbox Kubernetes: tokens, roles, TokenRequest, reviews."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sandbox.kubernetes_server import SandboxKubernetes
from tests.sandbox.kubernetes_calls import MAPS, MERGE, NODES, PODS, a_map, a_pod, ask, made

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


class Clock:
    now = datetime(2026, 11, 30, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def guarded(clock: Clock) -> Iterator[SandboxKubernetes]:
    with SandboxKubernetes(
        controllers=False, scheduler=False, rbac=True, tls=False, clock=clock
    ) as running:
        yield running


def allow(server: SandboxKubernetes, who: dict[str, str], rule: dict[str, Any]) -> None:
    """A ClusterRole `reader` with this rule, bound to `who`."""
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "reader"}}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}
    server.put({**head, "kind": "ClusterRole", "rules": [rule]})
    server.put({**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [who]})


def service_account_token(server: SandboxKubernetes, spec: dict[str, Any] | None = None) -> str:
    admin = server.client_settings()["token"]
    answer = ask(server, "POST", f"{ACCOUNTS}/default/token", {"spec": spec or {}}, token=admin)
    assert answer.status_code == 201, answer.text
    token: str = answer.json()["status"]["token"]
    return token


def test_only_what_a_role_allows_is_done(guarded: SandboxKubernetes) -> None:
    guarded.add_nodes(1)
    token = guarded.token("alice")
    allow(
        guarded,
        {"kind": "User", "name": "alice"},
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    )
    body = {"status": {"phase": "x"}}

    on_status = ask(guarded, "PATCH", f"{NODES}/node-00000/status", body, token=token, kind=MERGE)
    on_node = ask(guarded, "PATCH", f"{NODES}/node-00000", body, token=token, kind=MERGE)

    assert (on_status.status_code, on_node.status_code) == (200, 403)
    assert on_node.json()["message"] == (
        'nodes "node-00000" is forbidden: User "alice" cannot patch resource "nodes" in API group ""'
        " at the cluster scope"
    )


def test_a_role_binding_counts_in_its_namespace_only(guarded: SandboxKubernetes) -> None:
    token = service_account_token(guarded)
    head = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    here = {"name": "maps", "namespace": "default"}
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "verbs": ["get"],
        "resourceNames": ["a"],
    }
    guarded.put({**head, "kind": "Role", "metadata": here, "rules": [rule]})
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maps"}
    guarded.put(
        {
            **head,
            "kind": "RoleBinding",
            "metadata": here,
            "roleRef": reference,
            "subjects": [subject],
        }
    )
    admin = guarded.client_settings()["token"]
    ask(guarded, "POST", MAPS, a_map("a"), token=admin)

    codes = [
        ask(guarded, "GET", path, token=token).status_code
        for path in (f"{MAPS}/a", f"{MAPS}/b", MAPS, "/api/v1/namespaces/kube-system/configmaps/a")
    ]

    assert codes == [200, 403, 403, 403]


def test_nobody_and_a_wrong_token_get_nowhere(guarded: SandboxKubernetes) -> None:
    assert ask(guarded, "GET", MAPS).status_code == 401
    assert ask(guarded, "GET", MAPS, token="wrong").status_code == 401
    assert ask(guarded, "GET", "/readyz").status_code == 200


def test_a_token_ends_with_its_time(guarded: SandboxKubernetes, clock: Clock) -> None:
    token = service_account_token(guarded, {"expirationSeconds": 600})
    assert ask(guarded, "GET", MAPS, token=token).status_code == 403

    clock.now += timedelta(seconds=601)

    assert ask(guarded, "GET", MAPS, token=token).status_code == 401


def test_a_token_bound_to_a_node_names_it_and_ends_with_it(guarded: SandboxKubernetes) -> None:
    guarded.add_nodes(1)
    admin = guarded.client_settings()["token"]
    token = service_account_token(
        guarded, {"boundObjectRef": {"kind": "Node", "apiVersion": "v1", "name": "node-00000"}}
    )
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

    who = ask(guarded, "POST", path, {}, token=token).json()["status"]["userInfo"]
    assert who["username"] == "system:serviceaccount:default:default"
    assert who["extra"]["authentication.kubernetes.io/node-name"] == ["node-00000"]

    ask(guarded, "DELETE", f"{NODES}/node-00000", token=admin)
    assert ask(guarded, "POST", path, {}, token=token).status_code == 401


def test_a_review_says_what_a_request_would(guarded: SandboxKubernetes) -> None:
    allow(
        guarded,
        {"kind": "Group", "name": "ops"},
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get"]},
    )
    token = guarded.token("alice", ["ops"])
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

    def may(verb: str) -> bool:
        spec = {"resourceAttributes": {"verb": verb, "resource": "nodes"}}
        answer: bool = ask(guarded, "POST", path, {"spec": spec}, token=token).json()["status"][
            "allowed"
        ]
        return answer

    assert (may("get"), may("delete")) == (True, False)


def test_without_rbac_everybody_may_and_is_named(guarded: SandboxKubernetes) -> None:
    with SandboxKubernetes(controllers=False, scheduler=False) as free:
        made(free, PODS, a_pod("p"))
        assert ask(free, "GET", MAPS, token=free.token("bob")).status_code == 200
        assert [each.user for each in free.log()] == ["system:anonymous", "bob"]
