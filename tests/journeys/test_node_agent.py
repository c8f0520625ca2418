"""The real agent on a simulated machine with the fake driver, a kubelet's socket and a Kubernetes API."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from chassis.contracts import ProbeResult, ProbeVerdict
from sandbox.fake_driver import FakeDriver, build
from sandbox.kubernetes_server import SandboxKubernetes
from sandbox.simulated_nodes import Fault, FaultKind
from tests import kubernetes_api
from tests.exporters.agent_peers import (
    GPU_TYPES,
    HOST_TYPES,
    NODE_NAME,
    Agent,
    Host,
    OwnNode,
    a_host,
    an_agent,
)
from tests.exporters.driver_peers import gpu_uuid, needs_compiler, shared_folder
from tests.exporters.hanging_mount import cannot_hang, hanging_mount
from tests.exporters.kubelet_peer import GPU
from tests.journeys.service import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240), needs_compiler]

HEALTHY = ("False", "Healthy")
FIRST, SECOND = gpu_uuid(0), gpu_uuid(1)


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> FakeDriver:
    return build(shared_folder(tmp_path_factory))


@pytest.fixture
def cluster() -> Iterator[SandboxKubernetes]:
    with SandboxKubernetes(controllers=False, scheduler=False) as running:
        yield running


@pytest.fixture
def kubeconfig(cluster: SandboxKubernetes, tmp_path: Path) -> Path:
    return cluster.kubeconfig(tmp_path / "kubeconfig")


@pytest.fixture
def node(kubeconfig: Path) -> Iterator[OwnNode]:
    own = OwnNode(kubeconfig)
    yield own
    own.close()


@pytest.fixture
def host(tmp_path: Path, driver: FakeDriver) -> Iterator[Host]:
    with a_host(tmp_path, driver) as running:
        yield running


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def a_true(kind: str, reason: str, since: str | None = None) -> dict[str, str]:
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": "from before",
        "lastHeartbeatTime": since or now(),
        "lastTransitionTime": since or now(),
    }


def all_healthy(node: OwnNode) -> bool:
    found = {kind: node.told(kind) for kind in GPU_TYPES | HOST_TYPES}
    return set(found.values()) == {HEALTHY}


def becomes(node: OwnNode, kind: str, told: tuple[str, str], seconds: float = 30) -> None:
    wait_until(f"{kind} to be {told}", lambda: node.told(kind) == told, seconds)


FAULTS: dict[str, tuple[Callable[[Host], None], str, str]] = {
    "a GPU whose handle is lost": (
        lambda host: host.set_driver(nvmlDeviceGetHandleByIndex_v2_at_1=15),
        "GPUIsLost",
        "GPUIsLost",
    ),
    "a GPU that is not counted any more": (
        lambda host: host.set_driver(gpus=1),
        "GPUIsLost",
        "GPUCountMismatch",
    ),
    "an XID that asks for a reset": (
        lambda host: host.say("NVRM: Xid (PCI:0000:11:00): 95, pid=1, name=python"),
        "GPUXIDError",
        "Xid95",
    ),
    "a GPU that fell off the bus": (
        lambda host: host.say("NVRM: Xid (PCI:0000:11:00): 79, GPU has fallen off the bus."),
        "GPUIsLost",
        "GPUFallenOffBus",
    ),
    "a driver that asks for a reset": (
        lambda host: host.set_driver(recovery_action_at_0=1),
        "GPUIsLost",
        "ResetRequired",
    ),
    "rows that wait for a remap": (
        lambda host: host.set_driver(remap_pending_at_1=1),
        "GPUPendingPage",
        "RowRemapPending",
    ),
    "a link with half its lanes": (
        lambda host: host.set_driver(link_width_at_0=8),
        "PCIeLinkDegraded",
        "LinkWidthReduced",
    ),
    "a process that waits in the kernel": (
        lambda host: host.machine.inject(Fault(FaultKind.D_STATE)),
        "DStateProcess",
        "ProcessStuck",
    ),
    "a GPU that computes wrong": (
        lambda host: host.set_driver(wrong_word_at_1=1),
        "GPURuntimeError",
        "CudaResultMismatch",
    ),
    "a GPU whose launch fails": (
        lambda host: host.set_driver(cuLaunchKernel_at_0=719),
        "GPURuntimeError",
        "CudaLaunchFailed",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_becomes_its_condition_and_outlives_restarts_and_kills(
    fault: str, host: Host, node: OwnNode, kubeconfig: Path
) -> None:
    cause, kind, reason = FAULTS[fault]
    node.create()
    with an_agent(host, kubeconfig) as agent:
        wait_until("all to be healthy", lambda: all_healthy(node))
        cause(host)
        becomes(node, kind, ("True", reason))
        since = node.conditions()[kind]["lastTransitionTime"]

        for end in (agent.terminate, agent.kill):
            end()
            agent.start()
            rounds_end(agent, kind)
            found = node.conditions()[kind]
            assert (found["status"], found["lastTransitionTime"]) == ("True", since)


def rounds_end(agent: Agent, kind: str) -> None:
    """Wait until the new process has judged a few rounds by itself; probes take longer."""
    check = {
        "GPUIsLost": "gpu_lost",
        "GPUXIDError": "xid",
        "GPUPendingPage": "gpu_pages",
        "PCIeLinkDegraded": "pcie_width",
        "DStateProcess": "d_state",
        "GPURuntimeError": "gpu_probe",
    }[kind]
    times: set[float] = set()
    enough = 2 if check == "gpu_probe" else 3

    def done() -> bool:
        found = agent.value("node_check_last_completed_timestamp_seconds", check=check)
        times.update({found} if found else ())
        return len(times) >= enough

    wait_until(f"{enough} rounds of {check}", done)


def test_a_lost_gpu_costs_no_other_its_verdict_and_is_counted(
    host: Host, node: OwnNode, kubeconfig: Path
) -> None:
    node.create()
    with an_agent(host, kubeconfig) as agent:
        wait_until("both GPUs", lambda: agent.value("gpus_seen") == 2)
        host.set_driver(nvmlDeviceGetHandleByIndex_v2_at_1=15)
        wait_until("the loss", lambda: agent.value("gpus_seen") == 1)

        assert agent.value("gpus_expected") == 2
        assert agent.value("gpu_pcie_link_width", gpu_uuid=FIRST) == 16
        assert agent.value("gpu_pcie_link_width", gpu_uuid=SECOND) is None
        becomes(node, "GPUIsLost", ("True", "GPUIsLost"))
        assert node.told("GPUPendingPage") != ("True", "RowRemapPending")


def test_a_state_file_that_is_lost_or_broken_does_not_lose_a_fault_of_this_boot(
    host: Host, node: OwnNode, kubeconfig: Path
) -> None:
    """A second enumeration of one GPU less would else be the inventory."""
    node.create()
    with an_agent(host, kubeconfig) as agent:
        wait_until("all to be healthy", lambda: all_healthy(node))
        host.set_driver(gpus=1)
        becomes(node, "GPUIsLost", ("True", "GPUCountMismatch"))
        agent.terminate()
        (host.folder / "state/agent.json").write_text('{"schema": 1, "half')
        agent.start()
        rounds_end(agent, "GPUIsLost")

        assert node.told("GPUIsLost") == ("True", "GPUCountMismatch")
        assert agent.said("state_file_unusable")

        agent.kill()
        host.reboot()
        host.set_driver()
        agent.start()
        becomes(node, "GPUIsLost", HEALTHY)


def test_a_person_can_have_findings_forgotten(host: Host, node: OwnNode, kubeconfig: Path) -> None:
    node.create()
    with an_agent(host, kubeconfig) as agent:
        wait_until("all to be healthy", lambda: all_healthy(node))
        host.say("NVRM: Xid (PCI:0000:11:00): 48, pid=1, DBE")
        becomes(node, "GPUXIDError", ("True", "Xid48"))

        node.annotate(forget_findings="GPUXIDError")

        becomes(node, "GPUXIDError", HEALTHY)
        wait_until("the request's end", lambda: node.annotation("forget_findings") is None)
        assert agent.said("findings_forgotten")[0]["conditions"] == ["GPUXIDError"]


def test_conditions_of_a_check_that_is_switched_off_go_and_no_others(
    host: Host, node: OwnNode, kubeconfig: Path
) -> None:
    node.create(a_true("KernelDeadlock", "Theirs"), a_true("DiskPressure", "Kubelets"))
    with an_agent(host, kubeconfig) as agent:
        wait_until("all to be healthy", lambda: all_healthy(node))
        agent.write(disabled_checks=["nfs", "gpu_pages"])
        agent.hang_up()
        wait_until("NFSMountStuck to go", lambda: node.told("NFSMountStuck") is None)
        wait_until("GPUPendingPage to go", lambda: node.told("GPUPendingPage") is None)
        assert agent.value("node_check_state", check="nfs") is None

        agent.terminate()
        agent.write(disabled_checks=["nfs"])
        agent.start()
        becomes(node, "GPUPendingPage", HEALTHY)

    assert node.told("NFSMountStuck") is None
    assert node.told("KernelDeadlock") == ("True", "Theirs")
    assert node.told("DiskPressure") == ("True", "Kubelets")
    assert node.told("GPUIsLost") == HEALTHY


def test_what_others_change_in_our_conditions_is_mended_with_the_next_heartbeat(
    host: Host, node: OwnNode, kubeconfig: Path
) -> None:
    node.create()
    with an_agent(host, kubeconfig):
        wait_until("all to be healthy", lambda: all_healthy(node))
        node.set(a_true("GPUIsLost", "FakeReason"))
        becomes(node, "GPUIsLost", HEALTHY)


def test_without_the_api_it_checks_and_serves_and_then_takes_over_what_the_node_says(
    cluster: SandboxKubernetes, host: Host, node: OwnNode, kubeconfig: Path
) -> None:
    """DStateProcess is found anew; GPUXIDError of this boot has no other witness than the node."""
    node.create(a_true("GPUXIDError", "Xid95"), a_true("NFSMountStuck", "MountTimeout"))
    cluster.stop()
    with an_agent(host, kubeconfig) as agent:
        passed: Callable[[], float] = lambda: agent.value("gpu_probe_runs_total", result="pass") or 0  # fmt: skip  # noqa: E731
        wait_until("a probe without the API", lambda: passed() > 0)
        wait_until("a check", lambda: agent.value("node_check_state", check="nfs", state="ok") == 1)
        cluster.start()
        becomes(node, "NFSMountStuck", HEALTHY)
        becomes(node, "GPUIsLost", HEALTHY)

        assert node.told("GPUXIDError") == ("True", "Xid95")


def test_a_node_that_was_made_anew_gets_its_conditions_again(
    host: Host, node: OwnNode, kubeconfig: Path
) -> None:
    node.create()
    with an_agent(host, kubeconfig):
        wait_until("all to be healthy", lambda: all_healthy(node))
        host.set_driver(remap_pending_at_1=1)
        becomes(node, "GPUPendingPage", ("True", "RowRemapPending"))

        node.remove()
        node.create()

        becomes(node, "GPUPendingPage", ("True", "RowRemapPending"))
        becomes(node, "GPUIsLost", HEALTHY)


def test_a_node_without_gpus_says_so_once_and_has_the_conditions_of_its_host(
    tmp_path: Path, driver: FakeDriver, node: OwnNode, kubeconfig: Path
) -> None:
    node.create(a_true("GPUIsLost", "Old"), owned_conditions="GPUIsLost,Ready")
    with a_host(tmp_path, driver, gpus=0) as host, an_agent(host, kubeconfig) as agent:
        wait_until("the host's", lambda: node.conditions().keys() == HOST_TYPES)
        rounds_end(agent, "DStateProcess")

        assert agent.value("gpu_checks_supported") == 0
        assert agent.value("node_check_state", check="gpu_lost") is None
        assert len(agent.said("gpu_checks_not_supported")) == 1
        assert node.annotation("probe_owner") is None


# Probes.


def test_a_gpu_that_a_pod_has_is_never_touched_and_makes_nothing_unknown(
    host: Host, node: OwnNode, kubeconfig: Path
) -> None:
    node.create()
    host.kubelet.allocatable = {GPU: [FIRST, SECOND]}
    host.kubelet.pods = {GPU: [SECOND]}
    with an_agent(host, kubeconfig) as agent:
        skipped: Callable[[], float] = lambda: agent.value("gpu_probe_runs_total", result="skipped_busy") or 0  # fmt: skip  # noqa: E731
        wait_until("several rounds", lambda: skipped() >= 4, 60)

        assert agent.value("gpu_probe_success", gpu_uuid=FIRST) == 1
        assert agent.value("gpu_probe_success", gpu_uuid=SECOND) is None
        assert node.told("GPURuntimeError") == ("Unknown", "GPUBusy")

        host.kubelet.pods = {}
        becomes(node, "GPURuntimeError", HEALTHY)
        host.kubelet.pods = {GPU: [FIRST, SECOND]}
        before = skipped()
        wait_until("busy rounds", lambda: skipped() >= before + 8, 60)
        assert node.told("GPURuntimeError") == HEALTHY


@pytest.mark.parametrize(
    ("name", "arrange"),
    [
        ("the kubelet does not answer", lambda host: host.close()),
        ("an id tells no GPU", lambda host: setattr(host.kubelet, "allocatable", {GPU: ["gpu-x"]})),
        ("a process computes", lambda host: host.set_driver(processes="4242")),
        ("compute mode is exclusive", lambda host: host.set_driver(compute_mode=3)),
        ("memory is used", lambda host: host.set_driver(memory_used=8 << 30)),
    ],
)
def test_what_cannot_be_told_for_sure_counts_as_used(
    name: str, arrange: Callable[[Host], None], host: Host, node: OwnNode, kubeconfig: Path
) -> None:
    """CUDA would fail on each of these GPUs: no such verdict may come."""
    node.create()
    host.set_driver(cuInit=999)
    arrange(host)
    if host._scenario.read_text().find("cuInit") < 0:
        with host._scenario.open("a") as file:
            file.write("cuInit=999\n")
    with an_agent(host, kubeconfig) as agent:
        none = ("skipped_busy", "error")
        wait_until(
            f"two rounds while {name}",
            lambda: (
                sum(agent.value("gpu_probe_runs_total", result=each) or 0 for each in none) >= 4
            ),
        )
        assert agent.value("gpu_probe_last_run_timestamp_seconds") is None
        found = node.told("GPURuntimeError")
        assert found is not None
        assert found[0] == "Unknown"


def test_a_probe_that_fails_while_a_pod_gets_the_gpu_is_no_verdict(
    host: Host, node: OwnNode, kubeconfig: Path
) -> None:
    """The kubelet gives the GPUs away between the first question and the last."""
    node.create()
    host.set_driver(cuLaunchKernel=719)
    original = host.kubelet._list

    def given_later(request: bytes, context: object) -> bytes:
        answer = original(request, context)
        asked = sum(each == "List" for each in host.kubelet.calls)
        host.kubelet.pods = {GPU: [FIRST, SECOND]} if asked % 2 else {}
        return answer

    host.kubelet.answer_list = given_later
    with an_agent(host, kubeconfig) as agent:
        errors: Callable[[], float] = lambda: agent.value("gpu_probe_runs_total", result="error") or 0  # fmt: skip  # noqa: E731
        wait_until("failed probes", lambda: errors() >= 3, 60)

        assert agent.value("gpu_probe_runs_total", result="fail") == 0
        assert (node.told("GPURuntimeError") or ("",))[0] == "Unknown"


def test_where_gpu_monitor_owns_the_probe_the_agent_keeps_off(
    host: Host, node: OwnNode, kubeconfig: Path
) -> None:
    node.create(a_true("GPURuntimeError", "CudaTimeout"), probe_owner="gpu-monitor")
    with an_agent(host, kubeconfig) as agent:
        becomes(node, "GPUIsLost", HEALTHY)
        rounds_end(agent, "GPUIsLost")

        assert node.told("GPURuntimeError") == ("True", "CudaTimeout")
        assert agent.value("gpu_probe_refused") == 1
        assert agent.value("gpu_probe_runs_total", result="pass") == 0
        assert agent.said("gpu_probe_refused")[0]["owner"] == "gpu-monitor"

        node.annotate(probe_owner=None)
        becomes(node, "GPURuntimeError", HEALTHY)
        assert agent.value("gpu_probe_refused") == 0


def answer(node: OwnNode) -> ProbeResult | None:
    return ProbeResult.parse(node.annotation("probe_result") or "")


def test_a_request_is_answered_for_all_gpus_once_nobody_has_one(
    host: Host, node: OwnNode, kubeconfig: Path
) -> None:
    node.create()
    host.kubelet.allocatable = {GPU: [FIRST, SECOND]}
    host.kubelet.pods = {GPU: [SECOND]}
    with an_agent(host, kubeconfig, probe={"period": "10m"}):
        node.annotate(probe_request="op-1")
        wait_until("a first answer", lambda: answer(node) is not None)
        found = answer(node)
        assert found is not None
        assert found.gpus == {FIRST: ProbeVerdict.PASSED, SECOND: ProbeVerdict.INCONCLUSIVE}
        assert found.result is ProbeVerdict.INCONCLUSIVE

        host.kubelet.pods = {}
        wait_until("the last answer", lambda: (answer(node) or found).result is ProbeVerdict.PASSED)
        last = answer(node)
        assert last is not None
        assert (last.operation, last.boot_id) == ("op-1", host.machine.boot_id)

        host.set_driver(wrong_word_at_0=1)
        node.annotate(probe_request="op-2")
        wait_until("the next", lambda: (answer(node) or last).operation == "op-2")
        assert (answer(node) or last).gpus == {
            FIRST: ProbeVerdict.PROBLEM,
            SECOND: ProbeVerdict.PASSED,
        }


def test_a_request_whose_answer_is_taken_away_is_answered_by_another_probe(
    host: Host, node: OwnNode, kubeconfig: Path
) -> None:
    """So an operation asks again once a person has mended the node."""
    node.create()
    host.set_driver(wrong_word_at_0=1)
    with an_agent(host, kubeconfig, probe={"period": "10m"}):
        node.annotate(probe_request="op-1")
        wait_until("the answer", lambda: answer(node) is not None)
        first = answer(node)
        assert first is not None
        assert first.result is ProbeVerdict.PROBLEM

        host.set_driver()
        node.annotate(probe_result=None)

        wait_until("another", lambda: (answer(node) or first).result is ProbeVerdict.PASSED)
        assert (answer(node) or first).operation == "op-1"


def test_a_gpu_that_is_missing_lets_no_request_pass(
    host: Host, node: OwnNode, kubeconfig: Path
) -> None:
    node.create()
    with an_agent(host, kubeconfig):
        wait_until("all to be healthy", lambda: all_healthy(node))
        host.set_driver(gpus=1)
        becomes(node, "GPUIsLost", ("True", "GPUCountMismatch"))

        node.annotate(probe_request="op-1")
        wait_until("the answer", lambda: answer(node) is not None)

        assert (answer(node) or pytest.fail("none")).gpus == {
            FIRST: ProbeVerdict.PASSED,
            SECOND: ProbeVerdict.PROBLEM,
        }


# Hanging.


def children_of(host: Host) -> list[int]:
    """Processes of the agent and all that it started: whoever knows of this host's driver."""
    mark = f"NODEMEND_FAKE_DRIVER={host._scenario}".encode()
    found = []
    for each in (path for path in Path("/proc").iterdir() if path.name.isdigit()):
        try:
            environment = (each / "environ").read_bytes()
        except OSError:
            continue
        if mark in environment.split(b"\0"):
            found.append(int(each.name))
    return found


def test_a_driver_that_hangs_holds_up_no_other_check_and_leaves_no_child_behind(
    host: Host, node: OwnNode, kubeconfig: Path
) -> None:
    node.create()
    with an_agent(host, kubeconfig, gpus={"driver_deadline": "2s"}) as agent:
        wait_until("all to be healthy", lambda: all_healthy(node))
        host.set_driver(nvmlDeviceGetMemoryInfo="hang")
        wait_until("doubt", lambda: (node.told("GPUIsLost") or ("",)) == ("Unknown", "Timeout"))
        done = agent.value("node_check_last_completed_timestamp_seconds", check="gpu_lost")
        host.say("NVRM: Xid (PCI:0000:11:00): 119, Timeout waiting for RPC from GSP!")
        host.machine.inject(Fault(FaultKind.D_STATE))
        becomes(node, "GPUXIDError", ("True", "Xid119"))
        becomes(node, "DStateProcess", ("True", "ProcessStuck"))
        assert agent.value("node_check_last_completed_timestamp_seconds", check="gpu_lost") == done

        assert len(children_of(host)) >= 1
        agent.kill()
        wait_until("the end of all children", lambda: children_of(host) == [], 10)


def test_it_ends_soon_when_it_is_asked_to_even_if_the_driver_hangs(
    host: Host, node: OwnNode, kubeconfig: Path
) -> None:
    node.create()
    host.set_driver(nvmlInitWithFlags="hang")
    with an_agent(host, kubeconfig, gpus={"driver_deadline": "1m"}) as agent:
        wait_until("a check", lambda: agent.value("node_check_state", check="nfs", state="ok") == 1)
        started = datetime.now(UTC)

        assert agent.terminate() == 0

        assert (datetime.now(UTC) - started).total_seconds() < 8
        wait_until("the end of all children", lambda: children_of(host) == [], 10)


def test_a_mount_that_hangs_costs_one_child_and_no_other_check(
    host: Host, node: OwnNode, kubeconfig: Path
) -> None:
    """A real one, beyond SIGKILL: the child that asks stays, alone, until the mount answers or goes."""
    if (why_not := cannot_hang()) is not None:
        pytest.skip(why_not)
    node.create()
    point = host.folder / "hanging"
    with hanging_mount(point, "nfs"):
        line = f"77 21 0:99 / {point} rw shared:9 - fuse.nfs nas:/hanging rw\n"
        (host.root / "proc/1/mountinfo").write_text(line)
        mounts = {"file_systems": ["fuse.nfs"], "deadline": "1s"}
        host_is = {"root": str(host.root), "mounts_below": "/"}
        with an_agent(host, kubeconfig, mounts=mounts, host=host_is) as agent:
            becomes(node, "NFSMountStuck", ("True", "MountTimeout"))
            rounds_end(agent, "GPUIsLost")
            rounds_end(agent, "DStateProcess")
            assert agent.value("node_check_stuck_workers") == 1
            assert agent.value("node_check_stuck_workers") == 1


def test_a_rule_of_the_users_own_makes_a_condition_that_goes_with_the_rule(
    host: Host, node: OwnNode, kubeconfig: Path
) -> None:
    """In node-problem-detector's format; one rule hangs, and gives no verdict."""
    flag = host.folder / "down"
    script = host.folder / "ntp.sh"
    script.write_text(f"#!/bin/sh\necho ntp says; test ! -e {flag}\n")
    slow = host.folder / "slow.sh"
    slow.write_text("#!/bin/sh\nsleep 600\n")
    for each in (script, slow):
        each.chmod(0o755)
    monitor = host.folder / "ntp.json"
    monitor.write_text(
        json.dumps(
            {
                "plugin": "custom",
                "pluginConfig": {"invoke_interval": "1s", "timeout": "1s"},
                "source": "ntp",
                "conditions": [
                    {"type": "NTPProblem", "reason": "NTPIsUp", "message": "ntp is up"},
                    {"type": "SlowProblem", "reason": "NotSlow", "message": ""},
                ],
                "rules": [
                    {"type": "permanent", "condition": "NTPProblem", "reason": "NTPIsDown", "path": str(script)},
                    {"type": "permanent", "condition": "SlowProblem", "reason": "IsSlow", "path": str(slow)},
                    {"type": "temporary", "reason": "NTPHiccup", "path": "/bin/false"},
                ],
            }
        )
    )  # fmt: skip
    node.create()
    with an_agent(host, kubeconfig, custom={"monitors": [str(monitor)]}) as agent:
        becomes(node, "NTPProblem", ("False", "NTPIsUp"))
        flag.touch()
        becomes(node, "NTPProblem", ("True", "NTPIsDown"))
        assert node.conditions()["NTPProblem"]["message"] == "ntp says"
        becomes(node, "SlowProblem", ("Unknown", "Timeout"))
        hiccups: Callable[[], float] = lambda: agent.value("custom_problems_total", reason="NTPHiccup") or 0  # fmt: skip  # noqa: E731
        wait_until("temporary problems", lambda: hiccups() >= 2)

        agent.write(custom={"monitors": []})
        agent.hang_up()
        wait_until("the end of both", lambda: not {"NTPProblem", "SlowProblem"} & node.conditions().keys())  # fmt: skip


# On the real API server.


def test_the_real_api_server_takes_all_of_it(
    tmp_path_factory: pytest.TempPathFactory, host: Host
) -> None:
    why_not = kubernetes_api.missing("etcd", "kube-apiserver", "kubectl")
    if why_not:
        pytest.skip(why_not)
    with kubernetes_api.running_kubernetes_api(tmp_path_factory.mktemp("api")) as api:
        node = OwnNode(api.kubeconfig)
        node.create(a_true("KernelDeadlock", "Theirs"), a_true("Gone", "Ours"), owned_conditions="Gone")  # fmt: skip
        with an_agent(host, api.kubeconfig) as agent:
            wait_until("all to be healthy", lambda: all_healthy(node))
            assert node.told("Gone") is None
            host.set_driver(gpus=1)
            becomes(node, "GPUIsLost", ("True", "GPUCountMismatch"))
            node.annotate(probe_request="op-1")
            wait_until("the answer", lambda: answer(node) is not None)

            api.kill()
            host.machine.inject(Fault(FaultKind.D_STATE))
            wait_until("failures", lambda: (agent.value("condition_patches_total", result="unavailable") or 0) > 0)  # fmt: skip
            api.start_api()
            becomes(node, "DStateProcess", ("True", "ProcessStuck"), 60)

            node.remove()
            node.create()
            becomes(node, "GPUIsLost", ("True", "GPUCountMismatch"), 60)
            assert NODE_NAME in agent.scrape()
        node.close()
