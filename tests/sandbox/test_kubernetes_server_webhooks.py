"""Admission webhooks as the sandbox Kubernetes calls them: order, patches, selectors, policies, warnings."""

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sandbox.kubernetes_server import SandboxKubernetes
from tests.chassis.certificates import Authority, an_authority
from tests.sandbox.kubernetes_calls import MAPS, PODS, a_map, a_pod, ask, bare, made

__all__ = ["bare"]  # a fixture, asked for by name
Answer = Callable[[dict[str, Any]], dict[str, Any]]
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
RULE = {
    "operations": ["CREATE", "UPDATE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
}


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


class Hooks:
    """A webhook server: `answers` by path, and the `asked` requests by path."""

    def __init__(self, authority: Authority) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        hooks = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                path = self.path.partition("?")[0]
                hooks.asked.append((path, review["request"]))
                response = {**hooks.answers[path](review["request"])}
                response.setdefault("uid", review["request"]["uid"])
                body = json.dumps({**review, "response": response}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        certificate = authority.issue("webhook")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.bundle = base64.b64encode(authority.file.read_bytes()).decode()

    def client(self, path: str) -> dict[str, str]:
        port = self.server.server_address[1]
        return {"url": f"https://127.0.0.1:{port}{path}", "caBundle": self.bundle}

    def register(
        self, server: SandboxKubernetes, kind: str, name: str, answer: Answer, **more: Any
    ) -> None:
        self.answers[f"/{name}"] = answer
        hook = {
            "name": f"{name}.example.dev",
            "clientConfig": self.client(f"/{name}"),
            "rules": [RULE],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **more,
        }
        path = f"{CONFIGURATIONS}/{kind}webhookconfigurations"
        made(server, path, {"metadata": {"name": name}, "webhooks": [hook]})


@pytest.fixture
def hooks(tmp_path: Path) -> Iterator[Hooks]:
    running = Hooks(an_authority(tmp_path))
    thread = threading.Thread(target=running.server.serve_forever, args=(0.05,))
    thread.start()
    yield running
    running.server.shutdown()
    thread.join()
    running.server.server_close()


def data(server: SandboxKubernetes, name: str) -> dict[str, str]:
    return (server.object("configmaps", name, "default") or {})["data"]


def test_a_mutating_webhook_changes_what_a_validating_one_sees(
    bare: SandboxKubernetes, hooks: Hooks
) -> None:
    add = patch({"op": "add", "path": "/data/added", "value": "yes"})
    hooks.register(bare, "mutating", "adds", lambda _: {**add, "warnings": ["was added"]})
    hooks.register(bare, "validating", "looks", lambda _: {"allowed": True})

    answer = ask(bare, "POST", MAPS, a_map("a", x="1"))

    assert answer.json()["data"] == data(bare, "a") == {"x": "1", "added": "yes"}
    assert answer.headers["Warning"] == '299 - "was added"'
    assert [path for path, _ in hooks.asked] == ["/adds", "/looks"]
    assert hooks.asked[1][1]["object"]["data"]["added"] == "yes"
    assert (hooks.asked[0][1]["operation"], hooks.asked[0][1]["oldObject"]) == ("CREATE", None)


def test_a_refusal_is_told_in_the_webhooks_words(bare: SandboxKubernetes, hooks: Hooks) -> None:
    status = {"code": 403, "reason": "Forbidden", "message": "not today"}
    hooks.register(bare, "validating", "no", lambda _: {"allowed": False, "status": status})

    answer = ask(bare, "POST", MAPS, a_map("a"))

    assert (answer.status_code, bare.objects("configmaps")) == (403, [])
    assert answer.json()["message"] == (
        'admission webhook "no.example.dev" denied the request: not today'
    )


@pytest.mark.parametrize(("policy", "code"), [("Fail", 500), ("Ignore", 201)])
def test_a_webhook_that_answers_nonsense_fails_by_its_policy(
    bare: SandboxKubernetes, hooks: Hooks, policy: str, code: int
) -> None:
    hooks.register(bare, "validating", "bad", lambda _: {"uid": "another"}, failurePolicy=policy)

    assert ask(bare, "POST", MAPS, a_map("a")).status_code == code


@pytest.mark.parametrize(
    ("selectors", "called"),
    [
        ({"objectSelector": {"matchLabels": {"team": "red"}}}, True),
        ({"objectSelector": {"matchLabels": {"team": "blue"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "x"}}}, False),
        ({"rules": [{**RULE, "resources": ["pods"]}]}, False),
        ({"rules": [{**RULE, "operations": ["DELETE"]}]}, False),
    ],
)
def test_only_what_rules_and_selectors_match_is_asked(
    bare: SandboxKubernetes, hooks: Hooks, selectors: dict[str, Any], called: bool
) -> None:
    hooks.register(bare, "validating", "looks", lambda _: {"allowed": True}, **selectors)

    made(bare, MAPS, a_map("a", {"team": "red"}))

    assert bool(hooks.asked) == called


def test_an_earlier_webhook_is_asked_again_after_a_later_one_changed_the_object(
    bare: SandboxKubernetes, hooks: Hooks
) -> None:
    def count(request: dict[str, Any]) -> dict[str, Any]:
        number = str(len(request["object"]["data"]))
        return patch({"op": "add", "path": "/data/count", "value": number})

    hooks.register(bare, "mutating", "a-counts", count, reinvocationPolicy="IfNeeded")
    add = patch({"op": "add", "path": "/data/added", "value": "yes"})
    hooks.register(bare, "mutating", "b-adds", lambda _: add)

    made(bare, MAPS, a_map("a", x="1"))

    assert data(bare, "a") == {"x": "1", "added": "yes", "count": "3"}


def test_a_dry_run_is_said_and_side_effects_forbid_it(
    bare: SandboxKubernetes, hooks: Hooks
) -> None:
    hooks.register(bare, "validating", "looks", lambda _: {"allowed": True})
    assert ask(bare, "POST", MAPS, a_map("a"), dryRun="All").status_code == 201
    assert hooks.asked[0][1]["dryRun"] is True

    hooks.register(bare, "validating", "writes", lambda _: {"allowed": True}, sideEffects="Some")
    assert ask(bare, "POST", MAPS, a_map("a"), dryRun="All").status_code == 400


def test_a_pod_reaches_the_webhook_with_its_priority(bare: SandboxKubernetes, hooks: Hooks) -> None:
    rules = [{**RULE, "resources": ["pods"]}]
    hooks.register(bare, "mutating", "looks", lambda _: {"allowed": True}, rules=rules)
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    bare.put({**head, "metadata": {"name": "high"}, "value": 100})

    made(bare, PODS, a_pod("p", priorityClassName="high"))

    [(_, request)] = hooks.asked
    assert (request["object"]["spec"]["priority"], request["name"]) == (100, "p")
    assert request["userInfo"]["username"] == "system:anonymous"
