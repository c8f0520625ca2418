"""The faults, pauses and restarts of the sandbox Kubernetes, and the audit log that tells of them."""

import json
import socket
import threading
import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

import pytest
import requests

from sandbox.kubernetes_server import Fault, FaultKind, SandboxKubernetes
from tests.sandbox.kubernetes_calls import MAPS, NODES, Watch, a_map, ask, bare, made, until

__all__ = ["bare"]  # a fixture, asked for by name


def map_names(server: SandboxKubernetes) -> list[str]:
    return [each["metadata"]["name"] for each in server.objects("configmaps")]


@pytest.mark.parametrize(
    ("code", "reason"),
    [(429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable")],
)
def test_the_next_matching_requests_fail_with_the_code(
    bare: SandboxKubernetes, code: int, reason: str
) -> None:
    bare.control.fail(2, code, verbs=["create"], resources=["configmaps"], retry_after=3)

    assert ask(bare, "GET", MAPS).status_code == 200
    answers = [ask(bare, "POST", MAPS, a_map("a")) for _ in range(3)]

    assert [each.status_code for each in answers] == [code, code, 201]
    assert (answers[0].json()["reason"], answers[0].headers["Retry-After"]) == (reason, "3")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_reset_connection_says_nothing_of_whether_the_write_took_effect(
    bare: SandboxKubernetes, after: bool
) -> None:
    bare.control.reset(1, after=after, verbs=["create"])

    with pytest.raises(requests.ConnectionError):
        ask(bare, "POST", MAPS, a_map("a"))

    assert map_names(bare) == (["a"] if after else [])
    [entry] = bare.log(keep=lambda each: each.verb == "create")
    assert (entry.code, entry.took_effect) == (0, after)


def test_a_fault_matches_by_name_namespace_and_subresource(bare: SandboxKubernetes) -> None:
    bare.add_nodes(2)
    fault = Fault(FaultKind.STATUS, code=503, name="1$", subresource="", count=5)
    bare.control.add(fault)

    codes = [ask(bare, "GET", f"{NODES}/node-0000{number}").status_code for number in (0, 1)]

    assert codes == [200, 503]
    bare.control.clear_faults()
    assert ask(bare, "GET", f"{NODES}/node-00001").status_code == 200


def test_a_slow_request_is_answered_all_the_same(bare: SandboxKubernetes) -> None:
    bare.control.slow(0.3, verbs=["list"])
    started = time.monotonic()

    assert ask(bare, "GET", MAPS).status_code == 200
    assert time.monotonic() - started >= 0.3


def test_killed_watches_end_and_others_go_on(bare: SandboxKubernetes) -> None:
    with Watch(bare, MAPS) as killed, Watch(bare, NODES) as other:
        until(lambda: bare.control.open_watches() == 2)
        assert bare.control.kill_watches("configmaps") == 1
        with pytest.raises((StopIteration, requests.RequestException)):
            killed.next()

        bare.add_nodes(1)
        assert other.next()[:2] == ("ADDED", "node-00000")


def test_a_paused_server_answers_once_it_is_resumed(bare: SandboxKubernetes) -> None:
    codes: list[int] = []
    bare.control.pause()
    waiting = threading.Thread(
        target=lambda: codes.append(ask(bare, "POST", MAPS, a_map("a")).status_code)
    )
    waiting.start()
    with pytest.raises(requests.Timeout):
        requests.get(f"{bare.url}/readyz", timeout=0.3)
    assert (codes, map_names(bare)) == ([], [])

    bare.control.resume()
    waiting.join()

    assert (codes, map_names(bare)) == ([201], ["a"])


def test_what_waits_on_a_paused_server_is_lost_when_it_is_killed(bare: SandboxKubernetes) -> None:
    failed: list[type] = []

    def write() -> None:
        try:
            ask(bare, "POST", MAPS, a_map("a"))
        except requests.ConnectionError as error:
            failed.append(type(error))

    bare.control.pause()
    waiting = threading.Thread(target=write)
    waiting.start()
    until(lambda: bare.control.waiting == 1)
    bare.stop()
    waiting.join()
    bare.control.resume()
    bare.start()

    assert (failed, map_names(bare)) == ([requests.ConnectionError], [])


@pytest.mark.parametrize("keep", [True, False], ids=["kept", "lost"])
def test_a_restarted_server_is_on_its_port_with_its_objects_or_without(
    bare: SandboxKubernetes, keep: bool
) -> None:
    made(bare, MAPS, a_map("a"))
    url = bare.url

    bare.stop()
    with pytest.raises(requests.ConnectionError):
        ask(bare, "GET", MAPS)
    bare.start(keep=keep)

    assert bare.url == url
    assert map_names(bare) == (["a"] if keep else [])
    assert ask(bare, "GET", "/api/v1/namespaces/default").status_code == 200


def test_the_audit_log_names_verb_object_user_and_outcome(bare: SandboxKubernetes) -> None:
    token = bare.token("alice", ["admins"])
    before = len(bare.log())

    ask(bare, "POST", MAPS, a_map("a"), token=token)
    ask(bare, "GET", f"{MAPS}/none", token=token)
    ask(bare, "DELETE", f"{MAPS}/a", token=token, dryRun="All")
    ask(bare, "GET", MAPS, token="wrong")

    entries = [
        (each.verb, each.resource, each.namespace, each.name, each.user, each.code)
        for each in bare.log(before)
    ]
    assert entries == [
        ("create", "configmaps", "default", "", "alice", 201),
        ("get", "configmaps", "default", "none", "alice", 404),
        ("delete", "configmaps", "default", "a", "alice", 200),
        ("list", "configmaps", "default", "", "system:anonymous", 401),
    ]
    assert [each.took_effect for each in bare.log(before)] == [True, False, False, False]
    assert bare.log(before)[0].user_agent.startswith("python-requests")


def test_the_control_is_served_over_http_too(bare: SandboxKubernetes) -> None:
    order = {"kind": "status", "code": 503, "verbs": ["list"]}
    assert ask(bare, "POST", "/_sandbox/faults", order).status_code == 200
    assert ask(bare, "GET", MAPS).status_code == 503
    assert ask(bare, "GET", MAPS).status_code == 200

    wrong = ask(bare, "POST", "/_sandbox/faults", {"kind": "earthquake"})
    assert (wrong.status_code, "kind" in wrong.json()["error"]) == (400, True)
    assert ask(bare, "POST", "/_sandbox/nothing").status_code == 404
    assert '"verb":"list"' in ask(bare, "GET", "/_sandbox/log").text


class _Poster(threading.Thread):
    """Makes a config map over a connection that can be ended while the answer is awaited."""

    def __init__(self, server: SandboxKubernetes, name: str) -> None:
        super().__init__(daemon=True)
        address = urlsplit(server.url)
        self._connection = HTTPConnection(address.netloc, timeout=20)
        self._body = json.dumps(a_map(name))
        self._connection.connect()
        self.status = 0
        self.start()

    def run(self) -> None:
        with suppress(OSError, HTTPException):
            self._connection.request("POST", MAPS, self._body)
            answer = self._connection.getresponse()
            answer.read()
            self.status = answer.status

    def end(self) -> None:
        """As a process does that is killed."""
        self._connection.sock.shutdown(socket.SHUT_RDWR)
        self.join()
        self._connection.close()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_request_is_held_up_around_its_effect_until_it_is_let_go(
    bare: SandboxKubernetes, after: bool
) -> None:
    bare.control.hold(after=after, skip=1, verbs=["create"])
    made(bare, MAPS, a_map("spared"))
    poster = _Poster(bare, "a")
    [held] = until(lambda: bare.control.held)

    assert (held.verb, held.resource) == ("create", "configmaps")
    assert map_names(bare) == (["a", "spared"] if after else ["spared"])
    made(bare, MAPS, a_map("b"))
    bare.control.let_go()
    poster.join()
    poster.end()

    assert poster.status == 201
    assert map_names(bare) == ["a", "b", "spared"]
    assert not bare.control.held


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_held_request_whose_client_ends_is_over(bare: SandboxKubernetes, after: bool) -> None:
    bare.control.hold(after=after, verbs=["create"])
    poster = _Poster(bare, "a")
    until(lambda: bare.control.held)

    poster.end()

    until(lambda: not bare.control.held)
    [entry] = until(lambda: bare.log(keep=lambda each: each.verb == "create"))
    assert (entry.code, entry.took_effect) == (0, after)
    assert map_names(bare) == (["a"] if after else [])


def test_changes_are_told_in_the_order_of_their_versions(bare: SandboxKubernetes) -> None:
    told: list[tuple[str, str, int]] = []
    bare.listen(lambda name, event: told.append((name, event.kind, event.version)))

    made(bare, MAPS, a_map("a"))
    ask(bare, "DELETE", f"{MAPS}/a")

    assert [each[:2] for each in told] == [("configmaps", "ADDED"), ("configmaps", "DELETED")]
    assert told == sorted(told, key=lambda each: each[2])
