"""From a driver that fails to a proven node, with the real agent on the simulated node: its conditions, its probe."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.fake_driver import FakeDriver, build
from sandbox.kubernetes_server import SandboxKubernetes
from sandbox.simulated_nodes import Machine
from tests.exporters.agent_peers import NODE_NAME, Agent, Host, an_agent
from tests.exporters.driver_peers import needs_compiler, shared_folder
from tests.exporters.kubelet_peer import Kubelet
from tests.journeys.remediator_world import (
    CONDITION,
    PLAYBOOK,
    Remediator,
    Start,
    World,
    a_world,
    client_of,
    prepare,
)
from tests.journeys.service import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), needs_compiler]

PROOF: dict[str, Any] = {**PLAYBOOK["proof"], "probe": True, "deadline": "90s"}


class NodesHost(Host):
    """The host of an agent on a machine that a simulated kubelet boots."""

    def __init__(self, folder: Path, driver: FakeDriver, machine: Machine) -> None:
        """Without the machine and the boots of an ordinary host."""
        self.folder = folder
        self.machine = machine
        self.root = machine.root
        (self.root / "sys/bus/pci/devices").mkdir(parents=True, exist_ok=True)
        self._fake = driver
        self._scenario = folder / "scenario"
        self._gpus = len(machine.gpus)
        self._tell_boot_time()
        self.set_driver()
        self.kubelet = Kubelet(folder / "kubelet.sock")
        self.kubelet.__enter__()

    def booted(self) -> None:
        """The machine came up by itself."""
        self._tell_boot_time()


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> FakeDriver:
    return build(shared_folder(tmp_path_factory))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with SandboxKubernetes(scheduler=False) as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        client = client_of(kubeconfig)
        prepare(client, embedded=True)
        client.close()
        with a_world(kubeconfig, tmp_path, [NODE_NAME], agent=False) as one:
            yield one


@pytest.fixture
def host(world: World, driver: FakeDriver, tmp_path: Path) -> Iterator[NodesHost]:
    folder = tmp_path / "host"
    folder.mkdir()
    one = NodesHost(folder, driver, world.sim(NODE_NAME)._machine)
    yield one
    one.close()


@pytest.fixture
def agent(world: World, host: NodesHost) -> Iterator[Agent]:
    with an_agent(host, world.kubeconfig) as one:
        wait_until("a verdict", lambda: status(world, CONDITION) == "False")
        yield one


@pytest.fixture
def start(world: World, tmp_path: Path) -> Iterator[Start]:
    """Starts a remediator with this playbook, and ends it at the end."""
    started: list[Remediator] = []

    def one(**playbook: Any) -> Remediator:
        started.append(Remediator(tmp_path, world.kubeconfig, "remediator-0", playbooks=[playbook]))
        return started[-1].start()

    yield one
    for each in started:
        each.kill()


def status(world: World, kind: str) -> str:
    found = world.node(NODE_NAME)["status"]["conditions"]
    return next((each["status"] for each in found if each["type"] == kind), "")


def reboot_follows(world: World, host: NodesHost, agent: Agent, **scenario: object) -> None:
    """The agent goes down with its machine, and comes up with it and with this driver."""
    sim = world.sim(NODE_NAME)
    wait_until("the machine to go down", lambda: sim.history.reboots == 1)
    agent.kill()
    wait_until("its boot", lambda: sim.is_on)
    host.set_driver(**scenario)
    host.booted()
    agent.start()


def test_a_gpu_that_computes_wrong_is_found_repaired_and_proven_by_the_real_agent(
    world: World, host: NodesHost, agent: Agent, start: Start
) -> None:
    start(**{**PLAYBOOK, "proof": PROOF})
    host.set_driver(wrong_word_at_0=1)

    reboot_follows(world, host, agent)

    operation = world.wait_for(NODE_NAME, "Succeeded", "Escalated", seconds=120)
    assert operation["status"]["phase"] == "Succeeded", operation["status"]
    assert [each["kind"] for each in operation["spec"]["causes"]] == ["condition"]
    assert world.sim(NODE_NAME).history.reboots == 1
    assert world.taint(NODE_NAME) is None
    assert verdicts(agent, operation) == ["pass"]


def verdicts(agent: Agent, operation: dict[str, Any]) -> list[str]:
    """What the agent answered to an operation, without the times when it could not tell."""
    said = agent.said("probe_answered")
    assert {each["operation"] for each in said} == {operation["metadata"]["uid"]}
    return [each["result"] for each in said if each["result"] != "inconclusive"]


def test_what_the_probe_still_finds_keeps_the_node_isolated_until_it_is_mended_and_probed_anew(
    world: World, host: NodesHost, agent: Agent, start: Start
) -> None:
    """By hand, with the probe as the only proof."""
    by_probe = {key: value for key, value in PLAYBOOK.items() if key != "conditions"}
    remediator = start(**{**by_probe, "proof": {**PROOF, "conditions": []}})
    begun = remediator.call("run", PLAYBOOK["name"], NODE_NAME)
    assert begun.returncode == 0, begun.stderr

    reboot_follows(world, host, agent, wrong_word_at_0=1)

    operation = world.wait_for(NODE_NAME, "Succeeded", "Escalated", seconds=120)
    assert operation["status"]["phase"] == "Escalated", operation["status"]
    assert "the probe found a problem" in operation["status"]["message"]
    assert world.taint(NODE_NAME) == operation["metadata"]["name"]

    host.set_driver()
    released = remediator.call("release", NODE_NAME)
    assert released.returncode == 0, released.stderr

    world.wait_for(NODE_NAME, "Succeeded", seconds=120)
    assert world.taint(NODE_NAME) is None
    assert world.sim(NODE_NAME).history.reboots == 1
    assert verdicts(agent, operation) == ["problem", "pass"]
