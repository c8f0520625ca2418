"""Simulated nodes behave the same on the embedded Kubernetes and on the real one; their history tells what happened."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chassis.contracts import PROBE_REQUEST_ANNOTATION, PROBE_RESULT_ANNOTATION
from chassis.kube_client import LEASES, NODES, PODS, KubeClient, PatchKind
from sandbox.simulated_nodes import (
    MODELS,
    Answers,
    Behaviours,
    CannotBePulled,
    Executes,
    Fault,
    FaultKind,
    Happening,
    NodeSpec,
    Runs,
    SimulatedNodes,
    Timing,
    probe_gpus,
)
from tests.contracts.kubernetes_peers import KubernetesPeer
from tests.contracts.simulated_worlds import (
    LOG,
    SPEED,
    World,
    Worlds,
    now,
    until,
)


@pytest.fixture
def worlds(kube: KubeClient, tmp_path: Path) -> Worlds:
    return Worlds(kube, tmp_path)


@pytest.fixture
def world(worlds: Worlds) -> Iterator[World]:
    behaviours = Behaviours(
        {
            "ends": Runs(seconds=1, log="all done"),
            "fails": Runs(seconds=1, exit_code=3),
            "absent": CannotBePulled(),
            "stubborn": Runs(ignores_sigterm=True),
            "late": Runs(ready_after=20),
            "gpu-probe": Answers(probe_gpus),
        },
        job=Executes(),
    )
    with worlds.world(behaviours=behaviours) as made:
        yield made


def taints(world: World) -> set[str]:
    return {taint["key"] for taint in world.seen()["spec"].get("taints") or ()}


# The node itself.


def test_a_node_registers_with_its_gpus_and_is_ready(world: World) -> None:
    node = world.seen()

    assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-A30"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    assert node["status"]["nodeInfo"]["bootID"] == world.node.boot_id
    assert world.condition("Ready") == ("True", "KubeletReady")
    until(lambda: not taints(world))


def test_the_lease_is_renewed_while_the_kubelet_speaks_and_only_then(world: World) -> None:
    def renewed() -> str:
        return str(world.client.get(LEASES, "n1", "kube-node-lease")["spec"]["renewTime"])

    first = renewed()
    until(lambda: renewed() > first)

    world.node.inject(FaultKind.KUBELET_SILENT)
    until(lambda: world.condition("Ready")[0] == "Unknown")
    last = renewed()
    until(lambda: taints(world) == {"node.kubernetes.io/unreachable"})

    world.node.clear()
    until(lambda: renewed() > last)
    until(lambda: world.condition("Ready")[0] == "True")
    until(lambda: not taints(world))


def test_a_node_that_was_there_before_is_taken_over_with_what_others_wrote(worlds: Worlds) -> None:
    with worlds.world() as first:
        body = {"metadata": {"labels": {"mine": "kept"}}}
        first.client.patch(NODES, "n1", body, kind=PatchKind.MERGE)
        first.nodes.stop()
        spec = NodeSpec("n1", MODELS["NVIDIA-A30"], 4)
        with SimulatedNodes(
            first.client, [spec], folder=first.node.root / "b", log=LOG, clock=now, speed=SPEED
        ) as second:
            until(lambda: second.node("n1").is_registered)

            assert first.seen()["metadata"]["labels"]["mine"] == "kept"
            assert first.seen()["status"]["nodeInfo"]["bootID"] == second.node("n1").boot_id


@pytest.mark.parametrize(
    ("kind", "type_", "reason"),
    [
        (FaultKind.GPU_RUNTIME_ERROR, "GPURuntimeError", "CudaMemoryFailed"),
        (FaultKind.NFS_HUNG, "NFSMountStuck", "MountTimeout"),
    ],
)
def test_a_fault_shows_as_a_condition_until_it_is_cleared(
    world: World, kind: FaultKind, type_: str, reason: str
) -> None:
    until(lambda: world.condition(type_) == ("False", "Healthy"))
    world.node.inject(kind)
    until(lambda: world.condition(type_) == ("True", reason))
    world.node.clear(kind)
    until(lambda: world.condition(type_) == ("False", "Healthy"))


def test_a_node_that_lies_says_healthy_whatever_is_broken(world: World) -> None:
    world.node.inject(FaultKind.CLAIMS_HEALTH)
    world.node.inject(FaultKind.GPU_RUNTIME_ERROR)
    ask_for_probe(world, "op-1")

    assert set(probe_answer(world, "op-1")["gpus"].values()) == {"pass"}
    assert world.condition("GPURuntimeError")[0] == "False"


def test_a_lost_gpu_cannot_be_allocated(world: World) -> None:
    world.node.inject(Fault(FaultKind.GPU_LOST, gpu=3))

    until(lambda: world.seen()["status"]["allocatable"]["nvidia.com/gpu"] == "3")
    assert world.seen()["status"]["capacity"]["nvidia.com/gpu"] == "4"


# Reboots.


def test_a_reboot_brings_a_new_boot_id_ends_the_pods_and_heals(world: World) -> None:
    before = world.node.boot_id
    world.node.inject(FaultKind.GPU_RUNTIME_ERROR)
    world.create("keeps-running")
    world.create("never-again", restartPolicy="Never")
    world.until_phase("keeps-running", "Running")
    world.until_phase("never-again", "Running")

    world.node.reboot()

    until(lambda: world.condition("Ready")[0] == "False")
    until(lambda: world.seen()["status"]["nodeInfo"]["bootID"] != before)
    until(lambda: world.condition("Ready")[0] == "True")
    world.until_phase("never-again", "Failed")
    until(
        lambda: (world.pod("keeps-running") or {})["status"]["containerStatuses"][0]["restartCount"]
    )
    until(lambda: world.condition("GPURuntimeError")[0] == "False")
    assert world.node.history.reboots == 1
    assert world.seen()["status"]["nodeInfo"]["bootID"] == world.node.boot_id


def test_two_requests_at_once_are_one_reboot(world: World) -> None:
    world.node.reboot()
    world.node.reboot()

    until(lambda: world.node.history.count(Happening.BOOTED))
    assert world.node.history.count(Happening.REBOOT_REQUESTED) == 2
    assert world.node.history.reboots == 1


@pytest.mark.parametrize(
    ("kind", "boots", "ready"),
    [
        (FaultKind.REBOOT_NEVER_READY, 1, "False"),
        (FaultKind.REBOOT_NEVER_RETURNS, 0, "Unknown"),
    ],
)
def test_a_reboot_that_goes_wrong_leaves_the_node_not_ready(
    world: World, kind: FaultKind, boots: int, ready: str
) -> None:
    world.node.inject(kind)
    world.node.reboot()

    until(lambda: world.node.history.reboots == 1)
    until(lambda: world.node.history.count(Happening.BOOTED) == boots)
    until(lambda: world.condition("Ready")[0] == ready)


def test_a_power_cycle_brings_back_a_node_that_stayed_off(world: World) -> None:
    world.node.inject(FaultKind.REBOOT_NEVER_RETURNS)
    world.node.reboot()
    until(lambda: not world.node.is_on)

    world.node.power_cycle()

    until(lambda: world.node.is_on)
    until(lambda: world.condition("Ready")[0] == "True")


def test_a_node_may_reboot_and_tell_the_old_boot_id(world: World) -> None:
    before = world.node.boot_id
    world.node.inject(FaultKind.KEEPS_BOOT_ID)
    world.node.reboot()

    until(lambda: world.node.history.count(Happening.BOOTED))
    until(lambda: world.condition("Ready")[0] == "True")
    assert world.seen()["status"]["nodeInfo"]["bootID"] == before != world.node.boot_id


def test_a_reboot_that_is_ignored_is_asked_for_and_does_not_happen(world: World) -> None:
    world.node.inject(FaultKind.REBOOT_IGNORED)
    world.node.reboot()

    assert world.node.history.count(Happening.REBOOT_REQUESTED) == 1
    world.create("later", image="ends", restartPolicy="Never")
    world.until_phase("later", "Succeeded")
    assert world.node.history.reboots == 0


# Pods.


@pytest.mark.parametrize(
    ("image", "phase", "code"), [("ends", "Succeeded", 0), ("fails", "Failed", 3)]
)
def test_a_pod_ends_as_its_containers_do(world: World, image: str, phase: str, code: int) -> None:
    world.create("p", image=image, restartPolicy="Never")

    world.until_phase("p", phase)
    assert world.state("p")["terminated"]["exitCode"] == code
    assert world.nodes.log_of("default/p", "main") == ("all done" if code == 0 else "")


def test_a_container_that_fails_is_started_again_where_the_pod_says_so(world: World) -> None:
    world.create("p", image="fails", restartPolicy="OnFailure")

    until(
        lambda: (
            ((world.pod("p") or {})["status"].get("containerStatuses") or [{}])[0].get(
                "restartCount", 0
            )
            > 1
        )
    )
    assert world.phase("p") == "Running"


def test_the_main_container_waits_for_the_init_containers(world: World) -> None:
    inits = [{"name": each, "image": "ends"} for each in ("one", "two")]
    world.create("p", initContainers=inits)

    world.until_phase("p", "Running")
    assert world.node.history.commands_run == (
        "default/p/one",
        "default/p/two",
        "default/p/main",
    )


def test_a_failed_init_container_fails_its_pod(world: World) -> None:
    world.create("p", restartPolicy="Never", initContainers=[{"name": "one", "image": "fails"}])

    world.until_phase("p", "Failed")
    assert "default/p/main" not in world.node.history.commands_run


def test_a_pod_is_ready_when_its_container_is(world: World) -> None:
    world.create("p", image="late")
    running = world.until_phase("p", "Running")

    assert {c["type"]: c["status"] for c in running["status"]["conditions"]}["Ready"] == "False"
    until(lambda: (world.pod("p") or {})["status"]["containerStatuses"][0]["ready"])


def test_an_image_that_cannot_be_pulled_is_tried_until_it_can(world: World) -> None:
    world.node.inject(Fault(FaultKind.IMAGE_PULL_FAILS, match="app*"))
    world.create("p", image="app:1")

    until(lambda: world.state("p").get("waiting", {}).get("reason") == "ImagePullBackOff")
    assert world.phase("p") == "Pending"
    world.node.clear()
    world.until_phase("p", "Running")


def test_no_gpu_is_given_twice_and_one_too_many_is_refused(world: World) -> None:
    for number in range(2):
        world.create(f"p{number}", resources=world.gpus(2))
        world.until_phase(f"p{number}", "Running")
    world.create("late", resources=world.gpus(1))

    refused = world.until_phase("late", "Failed")
    assert refused["status"]["reason"] == "UnexpectedAdmissionError"
    given = [uuid for uuids in world.node.devices.values() for uuid in uuids]
    assert sorted(given) == sorted(gpu.uuid for gpu in world.node.gpus)


def test_the_gpus_of_a_pod_that_is_gone_can_be_given_again(world: World) -> None:
    world.create("p", resources=world.gpus(4))
    world.until_phase("p", "Running")
    world.client.delete(PODS, "p", "default")
    until(lambda: world.phase("p") == "gone")

    world.create("q", resources=world.gpus(4))
    world.until_phase("q", "Running")


def test_a_pod_may_run_no_longer_than_its_deadline(world: World) -> None:
    world.create("p", activeDeadlineSeconds=5)

    failed = world.until_phase("p", "Failed")
    assert failed["status"]["reason"] == "DeadlineExceeded"


@pytest.mark.parametrize("image", ["app", "stubborn"])
def test_a_deleted_pod_has_its_grace_period_and_is_gone_after_it(world: World, image: str) -> None:
    world.create("p", image=image, terminationGracePeriodSeconds=25)
    world.until_phase("p", "Running")
    started = time.monotonic()

    world.client.delete(PODS, "p", "default")
    until(lambda: world.phase("p") == "gone")

    assert (time.monotonic() - started >= 25 / SPEED) == (image == "stubborn")
    until(lambda: world.node.history.count(Happening.POD_GONE) == 1)


def test_a_pod_that_ignores_sigterm_goes_at_once_when_forced(world: World) -> None:
    world.node.inject(Fault(FaultKind.IGNORES_SIGTERM, match="p*"))
    world.create("p", resources=world.gpus(4), terminationGracePeriodSeconds=6000)
    world.until_phase("p", "Running")
    world.client.delete(PODS, "p", "default")
    assert (world.pod("p") or {})["metadata"]["deletionTimestamp"]

    world.client.delete(PODS, "p", "default", grace_seconds=0)

    until(lambda: world.phase("p") == "gone")
    until(lambda: not world.node.devices)


def test_a_pod_of_a_silent_node_stays_terminating(world: World) -> None:
    world.create("p", terminationGracePeriodSeconds=1)
    world.until_phase("p", "Running")
    world.node.inject(FaultKind.KUBELET_SILENT)
    world.client.delete(PODS, "p", "default")

    until(lambda: world.condition("Ready")[0] == "Unknown")
    assert world.phase("p") == "Running"
    world.node.clear()
    until(lambda: world.phase("p") == "gone")


def test_a_pod_of_a_statefulset_is_born_again_under_its_name(world: World) -> None:
    world.node.inject(Fault(FaultKind.PODS_REBORN, match="db-0"))
    world.create("db-0")
    first = world.until_phase("db-0", "Running")["metadata"]["uid"]

    world.client.evict("db-0", "default")

    until(lambda: (world.pod("db-0") or {"metadata": {"uid": first}})["metadata"]["uid"] != first)
    world.until_phase("db-0", "Running")
    until(lambda: world.node.history.count(Happening.POD_GONE) == 1)


# Scripts.


def test_a_jobs_command_is_really_run_on_its_node(world: World) -> None:
    world.create(
        "j",
        of_job=True,
        restartPolicy="Never",
        env=[
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "TEXT", "value": "hello from $(NODE)"},
        ],
        resources=world.gpus(1),
        command=[
            "sh",
            "-c",
            (
                'echo "$TEXT"; cat "$NODEMEND_ROOT/proc/sys/kernel/random/boot_id";'
                ' echo "$NVIDIA_VISIBLE_DEVICES"; printf said >"$NODEMEND_TERMINATION_LOG"; exit 4'
            ),
        ],
    )

    world.until_phase("j", "Failed")
    ended = world.state("j")["terminated"]
    assert (ended["exitCode"], ended["message"]) == (4, "said")
    lines = world.nodes.log_of("default/j", "main").splitlines()
    assert lines == ["hello from n1", world.node.boot_id, world.node.gpus[0].uuid]


@pytest.mark.parametrize(
    ("script", "end"),
    [("exit 0", "Complete"), ("exit 1", "Failed"), ("reboot; sleep 60", "Failed")],
)
def test_a_job_ends_as_its_script_does(world: World, script: str, end: str) -> None:
    world.create_job("repair", "sh", "-c", script)

    assert until(lambda: world.job_ended("repair")) == end
    assert len(world.node.history.commands_run) == 1
    assert world.node.history.reboots == ("reboot" in script)


REBOOT = "nsenter -t 1 -m -- systemctl reboot && sleep 60"
SYSRQ = 'echo b >"$NODEMEND_ROOT/proc/sysrq-trigger"; sleep 60'


@pytest.mark.parametrize("script", [REBOOT, SYSRQ], ids=["systemctl", "sysrq"])
def test_a_script_can_reboot_its_node_and_dies_with_it(world: World, script: str) -> None:
    before = world.node.boot_id
    world.create("j", of_job=True, restartPolicy="Never", command=["sh", "-c", script])

    until(lambda: world.seen()["status"]["nodeInfo"]["bootID"] != before)
    world.until_phase("j", "Failed")
    assert world.node.history.reboots == 1
    assert world.node.history.commands_run == ("default/j/main",)


def test_a_script_learns_that_a_reboot_was_refused(world: World) -> None:
    world.node.inject(FaultKind.REBOOT_REFUSED)
    world.create("j", of_job=True, restartPolicy="Never", command=["systemctl", "reboot"])

    world.until_phase("j", "Failed")
    assert "refusal" in world.nodes.log_of("default/j", "main")
    assert world.node.history.reboots == 0


def test_a_hanging_node_takes_a_job_and_never_ends_it(world: World) -> None:
    world.node.inject(FaultKind.JOBS_HANG)
    world.create("j", of_job=True, restartPolicy="Never", command=["true"])
    world.create("p", image="ends", restartPolicy="Never")

    world.until_phase("p", "Succeeded")
    world.until_phase("j", "Running")


@pytest.mark.parametrize(
    ("script", "healed"),
    [("umount -f -l /mnt/data && mount /mnt/data", True), ("mount /mnt/other", False)],
)
def test_a_remount_heals_the_mount_that_it_names(world: World, script: str, healed: bool) -> None:
    world.node.inject(FaultKind.NFS_HUNG)
    world.create("j", of_job=True, restartPolicy="Never", command=["sh", "-c", script])

    world.until_phase("j", "Succeeded")
    assert world.node.faults == (() if healed else (Fault(FaultKind.NFS_HUNG),))


def test_an_unmount_that_is_not_lazy_hangs_with_its_mount(world: World) -> None:
    world.node.inject(FaultKind.NFS_HUNG)
    world.create(
        "j",
        of_job=True,
        restartPolicy="Never",
        activeDeadlineSeconds=30,
        command=["umount", "/mnt/data"],
    )

    assert world.until_phase("j", "Failed")["status"]["reason"] == "DeadlineExceeded"


# Probes.


def ask_for_probe(world: World, operation: str) -> None:
    body = {"metadata": {"annotations": {PROBE_REQUEST_ANNOTATION: operation}}}
    world.client.patch(NODES, world.name, body, kind=PatchKind.MERGE)


def probe_answer(world: World, operation: str) -> dict[str, Any]:
    def answer() -> dict[str, Any] | None:
        annotations = world.seen()["metadata"].get("annotations") or {}
        found = json.loads(annotations.get(PROBE_RESULT_ANNOTATION, "{}"))
        return found if found.get("operation") == operation else None

    found: dict[str, Any] = until(answer)
    return found


def test_a_probe_is_answered_for_each_gpu_of_this_boot(world: World) -> None:
    world.node.inject(Fault(FaultKind.GPU_RUNTIME_ERROR, gpu=1))
    ask_for_probe(world, "op-1")

    answer = probe_answer(world, "op-1")

    verdicts = [answer["gpus"][gpu.uuid] for gpu in world.node.gpus]
    assert verdicts == ["pass", "problem", "pass", "pass"]
    assert answer["bootID"] == world.node.boot_id
    until(lambda: world.node.history.count(Happening.PROBE_ANSWERED, "op-1") == 1)


def test_a_probe_is_answered_anew_after_a_reboot_and_when_its_answer_is_taken_away(
    world: World,
) -> None:
    world.node.inject(Fault(FaultKind.GPU_RUNTIME_ERROR))
    ask_for_probe(world, "op-1")
    first = probe_answer(world, "op-1")

    world.node.reboot()
    until(lambda: probe_answer(world, "op-1")["bootID"] == world.node.boot_id != first["bootID"])
    assert set(probe_answer(world, "op-1")["gpus"].values()) == {"pass"}

    world.node.inject(FaultKind.PROBE_FAILS)
    body = {"metadata": {"annotations": {PROBE_RESULT_ANNOTATION: None}}}
    world.client.patch(NODES, world.name, body, kind=PatchKind.MERGE)

    assert "problem" in probe_answer(world, "op-1")["gpus"].values()
    # The API shows an answer a moment before the node has noted that it gave it.
    until(lambda: world.node.history.count(Happening.PROBE_ANSWERED, "op-1") == 3)


def test_a_probe_pod_reports_the_gpus_that_it_was_given(world: World) -> None:
    world.node.inject(Fault(FaultKind.GPU_RUNTIME_ERROR, gpu=0))
    world.create("probe", image="gpu-probe", restartPolicy="Never", resources=world.gpus(1))

    world.until_phase("probe", "Failed")
    ended = world.state("probe")["terminated"]
    assert ended["exitCode"] == 1
    assert world.node.gpus[0].uuid in ended["message"]


# Outages.


def test_what_happens_while_the_api_is_away_is_told_when_it_is_back(
    kubernetes_peer: KubernetesPeer, worlds: Worlds
) -> None:
    behaviours = Behaviours(job=Executes())
    with worlds.world(behaviours=behaviours, timing=Timing(heartbeat=0.2, api_retry=10)) as world:
        world.create("j", of_job=True, restartPolicy="Never", command=["sh", "-c", "sleep 0.5"])
        world.until_phase("j", "Running")

        kubernetes_peer.kill()
        until(lambda: world.node.history.count(Happening.CONTAINER_ENDED) == 1)
        kubernetes_peer.restart()

        world.until_phase("j", "Succeeded")
        assert world.node.history.commands_run == ("default/j/main",)


def test_a_script_that_cannot_be_started_fails_its_container(world: World) -> None:
    world.create("j", of_job=True, restartPolicy="Never", command=["/no/such/program"])

    world.until_phase("j", "Failed")
    assert world.state("j")["terminated"]["exitCode"] == 128
