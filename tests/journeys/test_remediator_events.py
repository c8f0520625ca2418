"""Whoever describes a node or an operation reads from the running service's Events what happens to it."""

from pathlib import Path
from typing import Any

import pytest

from chassis.kube_client import EVENTS, NODES, KubeClient
from remediator.kube_cluster import NODE_OPERATIONS
from sandbox.kubernetes_server import SandboxKubernetes
from tests.journeys.remediator_world import PLAYBOOK, Remediator, client_of, prepare
from tests.journeys.service import wait_until

pytestmark = pytest.mark.timeout(120)

COMPONENT = "nodemend-remediator"
BY_HAND: dict[str, Any] = {
    **PLAYBOOK,
    "ladder": [{"name": "person", "repair": {"hand_over": {"text": "Replace the board."}}}],
}


def told(client: KubeClient, kind: str) -> list[tuple[str, str, str]]:
    """The Events about objects of a kind: type, reason, action, in the order in which they were written."""
    found = [
        each
        for each in client.list(EVENTS, "default").items
        if each["involvedObject"]["kind"] == kind and each["source"]["component"] == COMPONENT
    ]
    found.sort(key=lambda each: int(each["metadata"]["resourceVersion"]))
    return [(each["type"], each["reason"], each["action"]) for each in found]


STEPS = [
    ("Normal", "Reserved", "GatesOpen"),
    ("Normal", "Isolated", "Tainted"),
    ("Warning", "Escalated", "NoKnownFix"),
]


def test_the_running_service_tells_each_phase_on_the_operation_and_on_the_node(
    tmp_path: Path,
) -> None:
    with SandboxKubernetes(scheduler=False) as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        client = client_of(kubeconfig)
        prepare(client, embedded=True)
        (node,) = server.add_nodes(1)
        remediator = Remediator(tmp_path, kubeconfig, "remediator-0", playbooks=[BY_HAND])
        remediator.start()
        try:
            body = {
                "apiVersion": NODE_OPERATIONS.api_version,
                "kind": NODE_OPERATIONS.kind,
                "metadata": {"name": "by-hand"},
                "spec": {
                    "nodeName": node,
                    "playbook": BY_HAND["name"],
                    "trigger": "Manual",
                    "episode": 1,
                },
            }
            client.create(NODE_OPERATIONS, body)
            wait_until("the Events on the node", lambda: len(told(client, "Node")) >= len(STEPS))
            events = client.list(EVENTS, "default").items
            assert told(client, "Node") == STEPS
            assert told(client, "NodeOperation") == [("Normal", "Gated", "Accepted"), *STEPS]
            about = {each["involvedObject"]["uid"] for each in events}
            assert client.get(NODES, node)["metadata"]["uid"] in about
            assert client.get(NODE_OPERATIONS, "by-hand")["metadata"]["uid"] in about
            assert {each["reportingInstance"] for each in events} == {remediator.name}
            assert remediator.stop() == 0
        finally:
            remediator.kill()
            client.close()
