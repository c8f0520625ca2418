"""Repair Jobs really run at a simulated node, through the embedded and the real Kubernetes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chassis.contracts import ConditionType
from chassis.kube_client import JOBS, PODS, KubeClient
from remediator.cluster import EXIT_OTHER_BOOT
from remediator.config import JobSettings
from remediator.operation import Intent, IntentAction, job_name
from remediator.repair_jobs import RepairEnd, is_ours, job_for, parse_end
from sandbox.simulated_nodes import Executes, Fault, FaultKind, Happening, Timing
from sandbox.simulated_nodes.behaviours import Behaviours
from tests.contracts.kubernetes_peers import kube, kubernetes_peer
from tests.contracts.simulated_worlds import World, Worlds, until
from tests.remediator.repair_inputs import START, UID, a_node, a_rung, an_alert, an_operation

__all__ = ["kube", "kubernetes_peer"]  # fixtures that are made elsewhere

JOBS_HERE = JobSettings(namespace="default", image="nodemend", service_account="default")


@pytest.fixture
def world(kube: KubeClient, tmp_path: Path) -> Iterator[World]:
    options = {
        "behaviours": Behaviours(job=Executes()),
        "timing": Timing(heartbeat=0.2, reboot=30, shutdown=5),
    }
    with Worlds(kube, tmp_path).world(**options) as made:
        yield made


def repair(
    world: World,
    kind: str,
    arguments: dict[str, Any] | None = None,
    *,
    boot_id: str = "",
    attempt: int = 1,
    **labels: str,
) -> str:
    """Create the Job of an attempt; its name."""
    name = job_name(UID, 0, attempt)
    intent = Intent(IntentAction.RUN_JOB, START, boot_id or world.node.boot_id, name)
    operation = an_operation(an_alert(**labels), intent=intent, attempt=attempt)
    made = job_for(operation, a_rung(kind, arguments), a_node(), JOBS_HERE, {})
    del made["metadata"]["ownerReferences"]  # there is no such operation on this API
    world.client.create(JOBS, made)
    assert is_ours(world.client.get(JOBS, name, "default")["metadata"]["labels"], operation)
    return name


def end_of(world: World, job: str) -> tuple[str, int, RepairEnd | None]:
    """How the Job ended: its condition, the exit code, and the line."""
    condition = until(lambda: world.job_ended(job), 40)
    pods = world.client.list(PODS, "default", label_selector=f"job-name={job}").items
    (pod,) = pods
    end = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return condition, end["exitCode"], parse_end(end.get("message", ""))


def rebooted(world: World, before: str) -> None:
    until(lambda: world.seen()["status"]["nodeInfo"]["bootID"] != before, 40)


@pytest.mark.parametrize("kind", ["reboot", "reboot_now"])
def test_a_reboot_happens_once_and_its_job_is_not_begun_again(world: World, kind: str) -> None:
    """rem-N15"""
    before = world.node.boot_id
    job = repair(world, kind)
    rebooted(world, before)
    until(lambda: world.job_ended(job), 40)

    assert world.node.history.reboots == 1
    assert len(world.node.history.commands_run) == 1


def test_a_job_that_comes_too_late_finds_another_boot_and_does_nothing(world: World) -> None:
    first = world.node.boot_id
    world.node.reboot()
    rebooted(world, first)
    condition, code, end = end_of(world, repair(world, "reboot", boot_id=first))

    assert (condition, code) == ("Failed", EXIT_OTHER_BOOT)
    assert end is not None
    assert (end.result, end.boot_id) == ("other_boot", world.node.boot_id)
    assert world.node.history.reboots == 1


def test_a_refused_reboot_says_that_nothing_was_done(world: World) -> None:
    world.node.inject(FaultKind.REBOOT_REFUSED)
    condition, code, end = end_of(world, repair(world, "reboot"))

    assert (condition, code) == ("Failed", 76)
    assert end is not None
    assert "simulated refusal" in end.detail
    assert world.node.history.reboots == 0


HEALED = {
    "a GPU is reset by its UUID": (
        "reset_gpu",
        {},
        Fault(FaultKind.PENDING_PAGE, gpu=1),
        ConditionType.GPU_PENDING_PAGE,
    ),
    "a mount is mounted again": (
        "remount_nfs",
        {},
        Fault(FaultKind.NFS_HUNG, mount_point="/mnt/data"),
        ConditionType.NFS_MOUNT_STUCK,
    ),
}


@pytest.mark.parametrize(("kind", "arguments", "fault", "type_"), HEALED.values(), ids=HEALED)
def test_a_repair_heals(
    world: World, kind: str, arguments: dict[str, Any], fault: Fault, type_: str
) -> None:
    world.node.inject(fault)
    until(lambda: world.condition(type_)[0] == "True")
    gpu = world.node.gpus[1].uuid
    labels = {"uuid": gpu} if kind == "reset_gpu" else {"mountpoint": "/mnt/data"}
    condition, code, end = end_of(world, repair(world, kind, arguments, **labels))

    assert end is not None
    assert (condition, code, end.result) == ("Complete", 0, "done"), end.detail
    until(lambda: world.condition(type_)[0] == "False")
    assert world.node.history.reboots == 0
    if kind == "remount_nfs":
        asked = [
            each.detail for each in world.node.history.entries if each.detail.startswith("stat -f")
        ]
        assert asked == ["stat -f -- /mnt/data"] * 2  # hung, and again once it was mounted
        assert world.node.history.count(Happening.HOST_COMMAND, "umount -f -l /mnt/data") == 1
    if kind == "reset_gpu":
        assert world.node.history.count(Happening.HOST_COMMAND, f"--gpu-reset -i {gpu}") == 1


def test_a_unit_is_restarted(world: World) -> None:
    condition, _, end = end_of(world, repair(world, "restart_unit", {"unit": "containerd.service"}))

    assert condition == "Complete"
    assert end is not None
    assert end.detail == "containerd.service was restarted and is active"
    assert world.node.history.count(Happening.HOST_COMMAND, "restart containerd.service") == 1
