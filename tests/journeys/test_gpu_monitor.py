"""The real gpu-monitor on the embedded and on the real Kubernetes, with a scheduler and simulated nodes that run its pods."""

import json
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml

from chassis.contracts import (
    OPERATION_TAINT,
    PROBE_OWNER_ANNOTATION,
    PROBE_REQUEST_ANNOTATION,
    PROBE_RESULT_ANNOTATION,
    ProbeResult,
    ProbeVerdict,
)
from chassis.kube_client import (
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SERVICE_ACCOUNTS,
    KubeClient,
    KubeSettings,
    NotFound,
    PatchKind,
)
from sandbox import programs
from sandbox.kubernetes_server import SandboxKubernetes
from sandbox.simulated_nodes import (
    MODELS,
    Answers,
    Behaviour,
    Behaviours,
    CannotBePulled,
    Fault,
    FaultKind,
    NodeSpec,
    Roles,
    Runs,
    SimulatedNode,
    SimulatedNodes,
    Timing,
    probe_gpus,
)
from tests import kubernetes_api
from tests.contracts.simulated_worlds import now
from tests.journeys.service import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

SPACE = "probes"
CLASS = "nodemend-gpu-probe"
CONDITION = "GPURuntimeError"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")


@dataclass
class Api:
    """A Kubernetes with a scheduler, and how to make it silent for a while."""

    name: str
    kubeconfig: Path
    pause: Callable[[], None]
    resume: Callable[[], None]

    def client(self) -> KubeClient:
        return KubeClient(KubeSettings(kubeconfig=self.kubeconfig, qps=0), structlog.get_logger())


@pytest.fixture(scope="module", params=["embedded", "real"])
def api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("api")
    if request.param == "embedded":
        with SandboxKubernetes() as server:
            config = server.kubeconfig(folder / "kubeconfig")
            one = Api("embedded", config, server.control.pause, server.control.resume)
            prepare(one)
            yield one
        return
    if why_not := kubernetes_api.missing(*PROGRAMS):
        pytest.skip(why_not)
    with kubernetes_api.running_kubernetes_api(folder, controllers=True, scheduler=True) as real:
        one = Api("real", real.kubeconfig, real.pause, real.resume)
        prepare(one)
        yield one


def prepare(api: Api) -> None:
    client = api.client()
    client.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
    )
    client.create(
        PRIORITY_CLASSES,
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": CLASS},
            "value": -1000,
            "preemptionPolicy": "Never",
        },
    )
    if api.name == "real":
        for space in (SPACE, "default"):
            wait_until("its account", lambda space=space: exists(client, SERVICE_ACCOUNTS, "default", space))  # type: ignore[misc]  # fmt: skip  # a default binds the loop's name


def exists(client: KubeClient, resource: Any, name: str, namespace: str | None = None) -> bool:
    try:
        client.get(resource, name, namespace)
    except NotFound:
        return False
    return True


class Monitor:
    """`exporters gpu-monitor` as a child process."""

    def __init__(self, folder: Path, kubeconfig: Path, selector: str, **changes: Any) -> None:
        self.port = programs.free_port()
        folder.mkdir(exist_ok=True)
        pod = {"image": "probe:1", "deadline": "50s", **changes.pop("pod", {})}
        settings: dict[str, Any] = {
            "serving": {"listen": f"127.0.0.1:{self.port}", "drain": "1s"},
            "kubernetes": {"kubeconfig": str(kubeconfig), "timeout": "5s", "qps": 0},
            "namespace": SPACE,
            "leader": {"lease_duration": "4s", "renew_deadline": "3s", "retry_period": "1s"},
            "node_selector": selector,
            "period": "30m",
            "pending_timeout": "30s",
            "proof_retry": "1s",
            "pod": pod,
        }
        file = folder / "gpu-monitor.yaml"
        file.write_text(yaml.safe_dump({**settings, **changes}))
        command = [sys.executable, "-m", "exporters", "gpu-monitor", "--config", str(file)]
        self.program = programs.start("gpu-monitor", command, folder)

    def scrape(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    def value(self, series: str) -> float:
        """The value of a series by its whole text; 0 when it is not there."""
        found = [line for line in self.scrape().split("\n") if line.startswith(f"{series} ")]
        return float(found[0].removeprefix(series)) if found else 0.0

    def runs(self, node: str, result: str) -> float:
        return self.value(
            f'nodemend_gpu_probe_runs_total{{node="{node}",probe="cuda",result="{result}"}}'
        )

    @property
    def leads(self) -> bool:
        return self.value("nodemend_gpu_monitor_leader") == 1

    def wait(self) -> "Monitor":
        self.program.wait_until_ready(f"http://127.0.0.1:{self.port}/readyz")
        return self

    def kill(self) -> None:
        self.program.process.kill()
        self.program.process.wait()


class World:
    """One node with four GPUs of this test alone."""

    def __init__(self, api: Api, node: SimulatedNode, behaviours: Behaviours, folder: Path) -> None:
        self.api = api
        self.client = api.client()
        self.sim = node
        self.name = node.name
        self.behaviours = behaviours
        self._folder = folder
        self._monitors: list[Monitor] = []

    def monitor(self, **changes: Any) -> Monitor:
        folder = self._folder / f"monitor-{len(self._monitors)}"
        one = Monitor(folder, self.api.kubeconfig, f"test={self.name}", **changes)
        self._monitors.append(one)
        return one.wait()

    def stop(self) -> None:
        for each in self._monitors:
            each.program.stop()

    def node(self) -> dict[str, Any]:
        return self.client.get(NODES, self.name)

    def condition(self) -> tuple[str, str]:
        found = {each["type"]: each for each in self.node()["status"]["conditions"]}
        one = found.get(CONDITION, {})
        return one.get("status", ""), one.get("reason", "")

    def annotation(self, key: str) -> str:
        return str((self.node()["metadata"].get("annotations") or {}).get(key, ""))

    def annotate(self, values: Mapping[str, str | None]) -> None:
        body = {"metadata": {"annotations": dict(values)}}
        self.client.patch(NODES, self.name, body, kind=PatchKind.MERGE)

    def probes(self) -> list[dict[str, Any]]:
        found = self.client.list(PODS, SPACE).items
        mine = [
            pod for pod in found if pod["metadata"]["annotations"]["nodemend.dev/node"] == self.name
        ]
        assert len(mine) <= 1, "two probe pods for one node"
        return mine

    def ask(self, operation: str) -> ProbeResult:
        """Ask for a proof; the answer."""
        self.annotate({PROBE_REQUEST_ANNOTATION: operation})
        wait_until(f"the answer to {operation}", lambda: self.answer(operation) is not None)
        return self.answer(operation) or pytest.fail("gone")

    def answer(self, operation: str) -> ProbeResult | None:
        found = ProbeResult.parse(self.annotation(PROBE_RESULT_ANNOTATION))
        return found if found is not None and found.operation == operation else None

    def user(self, name: str, gpus: int, *, wait: bool = True) -> None:
        container = {
            "name": "main",
            "image": "train",
            "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
        }
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeSelector": {"test": self.name}, "containers": [container]},
        }
        self.client.create(PODS, body)
        if wait:
            wait_until("the user's pod", lambda: self.user_runs(name))

    def user_runs(self, name: str) -> bool:
        return bool(self.client.get(PODS, name, "default")["status"].get("phase") == "Running")

    def clear(self) -> None:
        for space in (SPACE, "default"):
            for pod in self.client.list(PODS, space).items:
                try:
                    self.client.delete(PODS, pod["metadata"]["name"], space, grace_seconds=0)
                except NotFound:
                    continue
        self.client.delete(NODES, self.name)


@contextmanager
def a_world(
    api: Api, folder: Path, name: str, probe: Behaviour, speed: float = 50
) -> Iterator[World]:
    behaviours = Behaviours({"probe:*": probe, "train": Runs()})
    spec = NodeSpec(name, MODELS["NVIDIA-A30"], 4, labels={"test": name})
    nodes = SimulatedNodes(
        api.client(),
        [spec],
        folder=folder / "nodes",
        log=structlog.get_logger(),
        clock=now,
        timing=Timing(heartbeat=0.5, reboot=30),
        speed=speed,
        behaviours=behaviours,
        roles=Roles(agent=False),
    )
    with nodes:
        wait_until("the node", lambda: nodes.node(name).is_registered)
        world = World(api, nodes.node(name), behaviours, folder)
        try:
            wait_until("no taint", lambda: not world.node()["spec"].get("taints"))
            yield world
        finally:
            world.stop()
            world.clear()


NUMBER = iter(range(1000))


@pytest.fixture
def make(api: Api, tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Makes the world of this test."""
    opened: list[Any] = []

    def one(probe: Behaviour = Answers(probe_gpus), speed: float = 50) -> World:  # noqa: B008  (frozen)
        manager = a_world(api, tmp_path, f"n{next(NUMBER)}", probe, speed)
        opened.append(manager)
        return manager.__enter__()

    yield one
    for each in opened:
        each.__exit__(None, None, None)


def test_each_gpu_is_probed_and_only_then_is_the_node_healthy(
    make: Callable[..., World],
) -> None:
    world = make()
    monitor = world.monitor()

    wait_until("a verdict", lambda: world.condition() == ("False", "Healthy"))
    wait_until("the pod's end", lambda: not world.probes())
    wait_until("the count", lambda: monitor.runs(world.name, "pass") == 1)

    assert world.annotation(PROBE_OWNER_ANNOTATION) == "gpu-monitor"
    passed = [line for line in monitor.scrape().split("\n") if line.startswith("nodemend_gpu_probe_success{")]  # fmt: skip
    assert len(passed) == 4
    assert all(line.endswith(" 1") for line in passed)
    label = f'node="{world.name}",probe="cuda"'
    assert monitor.value(f"nodemend_gpu_probe_gpus_covered{{{label}}}") == 4


def test_a_problem_is_found_proven_and_cleared_by_a_pass(make: Callable[..., World]) -> None:
    world = make()
    world.sim.inject(Fault(FaultKind.GPU_RUNTIME_ERROR, gpu=2))
    world.monitor()
    wait_until("the fault", lambda: world.condition() == ("True", "CudaMemoryFailed"))
    wait_until("the pod's end", lambda: not world.probes())
    taint = {"key": OPERATION_TAINT, "value": "op-1", "effect": "NoSchedule"}
    world.client.patch(NODES, world.name, {"spec": {"taints": [taint]}}, kind=PatchKind.STRATEGIC)

    answer = world.ask("op-1")
    assert answer.result is ProbeVerdict.PROBLEM
    assert answer.gpus[world.sim.gpus[2].uuid] is ProbeVerdict.PROBLEM
    assert sorted(answer.gpus.values()).count(ProbeVerdict.PASSED) == 3

    world.sim.clear()
    answer = world.ask("op-2")
    assert answer.result is ProbeVerdict.PASSED
    assert (answer.boot_id, len(answer.gpus)) == (world.sim.boot_id, 4)
    assert world.condition() == ("False", "Healthy")


def test_the_proof_counts_for_the_boot_that_it_was_made_in(make: Callable[..., World]) -> None:
    world = make()
    world.monitor()
    first = world.ask("op-1")
    world.sim.reboot()

    def answered_anew() -> bool:
        answer = world.answer("op-1")
        return answer is not None and answer.boot_id == world.sim.boot_id != first.boot_id

    wait_until("another answer", answered_anew)
    assert (world.answer("op-1") or first).result is ProbeVerdict.PASSED


def test_a_node_whose_gpus_are_in_use_gets_no_verdict_and_no_fault(
    make: Callable[..., World],
) -> None:
    world = make()
    world.user(f"user-{world.name}", 4)
    monitor = world.monitor()

    wait_until("a busy node", lambda: monitor.runs(world.name, "skipped_busy") == 1)

    assert world.condition() == ("Unknown", "GPUBusy")
    assert world.probes() == []
    assert world.user_runs(f"user-{world.name}")


def test_a_probe_that_finds_no_place_is_withdrawn_in_time(make: Callable[..., World]) -> None:
    """And drives nobody out."""
    world = make()
    world.user(f"user-{world.name}", 4)
    monitor = world.monitor(gpus=1, pending_timeout="3s")

    wait_until("a waiting probe", lambda: len(world.probes()) == 1)
    wait_until("its end", lambda: not world.probes())
    wait_until("the count", lambda: monitor.runs(world.name, "pending") == 1)

    assert world.condition() == ("Unknown", "ProbePending")
    assert world.user_runs(f"user-{world.name}")


def test_a_user_takes_the_place_of_a_probe(make: Callable[..., World]) -> None:
    world = make(Runs(), speed=5)
    monitor = world.monitor(pod={"deadline": "20m", "grace": "5s"})
    wait_until("a running probe", lambda: [p["status"]["phase"] for p in world.probes()] == ["Running"])  # fmt: skip

    world.user(f"user-{world.name}", 4)

    wait_until("the count", lambda: monitor.runs(world.name, "preempted") == 1)
    assert world.condition() == ("Unknown", "ProbePreempted")


NO_VERDICT: dict[str, tuple[Behaviour, str, str]] = {
    "an image that is not there": (CannotBePulled(), "image_pull_failed", "ImagePullFailed"),
    "a probe that hangs": (Runs(), "timeout", "Timeout"),
    "a probe that says nothing": (Runs(seconds=1), "error", "Other"),
    "a probe that crashes": (Runs(seconds=1, exit_code=1, log="Traceback"), "error", "Other"),
}


@pytest.mark.parametrize(("probe", "result", "reason"), NO_VERDICT.values(), ids=NO_VERDICT.keys())
def test_what_is_no_verdict_is_told_and_is_no_fault(
    make: Callable[..., World], probe: Behaviour, result: str, reason: str
) -> None:
    world = make(probe)
    monitor = world.monitor(period="2m")

    wait_until("the count", lambda: monitor.runs(world.name, result) >= 1, 100)

    assert world.condition() == ("Unknown", reason)
    wait_until("its end", lambda: not world.probes())


def test_a_node_of_the_agent_is_left_alone(make: Callable[..., World]) -> None:
    world = make()
    world.annotate({PROBE_OWNER_ANNOTATION: "node-agent", PROBE_REQUEST_ANNOTATION: "op-1"})
    monitor = world.monitor()

    refused = 'nodemend_gpu_monitor_nodes{course="other_owner"}'
    wait_until("the refusal", lambda: monitor.value(refused) == 1)
    wait_until("some rounds", lambda: monitor.value("nodemend_gpu_monitor_rounds_total") > 3)

    assert world.probes() == []
    assert world.condition() == ("", "")
    assert world.annotation(PROBE_RESULT_ANNOTATION) == ""


def test_another_leader_takes_over_the_probe_that_runs(make: Callable[..., World]) -> None:
    """One pod, one verdict, however the first leader ended."""
    release = {"after": time.monotonic() + 3600}

    def slow(context: Any) -> Any:
        while time.monotonic() < release["after"]:
            time.sleep(0.02)
        return probe_gpus(context)

    world = make(Answers(slow), speed=5)
    first, second = (world.monitor(pod={"deadline": "20m"}) for _ in range(2))
    wait_until("the probe", lambda: len(world.probes()) == 1)
    uid = world.probes()[0]["metadata"]["uid"]
    leader, other = (first, second) if first.leads else (second, first)

    leader.kill()
    wait_until("the other", lambda: other.leads)
    assert [pod["metadata"]["uid"] for pod in world.probes()] == [uid]
    release["after"] = 0

    wait_until("the verdict", lambda: world.condition() == ("False", "Healthy"))
    wait_until("the count", lambda: other.runs(world.name, "pass") == 1)
    wait_until("the pod's end", lambda: not world.probes())
    assert json.loads(world.annotation("nodemend.dev/probe-coverage"))["pod"] == uid


def test_what_is_known_outlives_a_restart_and_no_probe_is_made_again(
    make: Callable[..., World],
) -> None:
    world = make()
    first = world.monitor()
    wait_until("a verdict", lambda: world.condition() == ("False", "Healthy"))
    wait_until("the pod's end", lambda: not world.probes())
    before = world.annotation("nodemend.dev/probe-coverage")
    assert first.program.stop() == 0

    second = world.monitor()
    wait_until("some rounds", lambda: second.value("nodemend_gpu_monitor_rounds_total") > 2)

    assert world.condition() == ("False", "Healthy")
    assert world.annotation("nodemend.dev/probe-coverage") == before
    assert world.probes() == []


def test_an_api_that_is_away_changes_nothing(make: Callable[..., World]) -> None:
    world = make()
    monitor = world.monitor()
    wait_until("a verdict", lambda: world.condition() == ("False", "Healthy"))
    wait_until("the pod's end", lambda: not world.probes())

    world.api.pause()
    try:
        wait_until("the end of its term", lambda: not monitor.leads)
    finally:
        world.api.resume()
    wait_until("another term", lambda: monitor.leads)

    assert world.condition() == ("False", "Healthy")
    assert world.ask("op-1").result is ProbeVerdict.PASSED


def test_a_class_that_is_not_below_zero_is_refused(make: Callable[..., World]) -> None:
    world = make()
    name = f"high-{world.name}"
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    value = {"value": 10, "preemptionPolicy": "Never"}
    world.client.create(PRIORITY_CLASSES, {**body, "metadata": {"name": name}, **value})

    monitor = world.monitor(pod={"priority_class": name})

    wait_until("the refusal", lambda: monitor.runs(world.name, "refused") == 1)
    wait_until("the pod's end", lambda: not world.probes())
    assert world.condition()[0] == "Unknown"
