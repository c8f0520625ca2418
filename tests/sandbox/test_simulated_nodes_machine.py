"""The machine under a simulated node: faults, what heals them, reboots, and the files that agents read."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from chassis.contracts import (
    PROBLEM_REASONS,
    ConditionReason,
    ConditionType,
    ProbeResult,
    ProbeVerdict,
)
from sandbox.simulated_nodes import (
    MODELS,
    Fault,
    FaultKind,
    Happening,
    Machine,
    NodeSpec,
    Remedy,
)
from sandbox.simulated_nodes.conditions import agent_conditions, gpu_verdict, probe_result
from sandbox.simulated_nodes.faults import DEFAULT_REMEDIES
from sandbox.simulated_nodes.host_commands import Answer, Host

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
SPEC = NodeSpec("n1", MODELS["NVIDIA-A100-SXM4-80GB"], 8)
OLD = NodeSpec("n2", MODELS["Tesla-V100-SXM2-16GB"], 8)


def a_machine(folder: Path, spec: NodeSpec = SPEC) -> Machine:
    return Machine(spec, folder / "root", lambda: NOW)


def reboot(machine: Machine) -> None:
    machine.switch_off()
    machine.boot()


@pytest.mark.parametrize("kind", list(FaultKind))
@pytest.mark.parametrize("remedy", list(Remedy))
def test_a_remedy_clears_exactly_the_faults_that_it_heals(
    tmp_path: Path, kind: FaultKind, remedy: Remedy
) -> None:
    machine = a_machine(tmp_path)
    machine.inject(Fault(kind))

    machine.apply(remedy)

    assert machine.has(kind) == (remedy not in DEFAULT_REMEDIES.get(kind, ()))


def test_a_fault_that_needs_two_reboots_stays_after_the_first(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    machine.inject(Fault(FaultKind.GPU_LOST, times_needed=2))

    reboot(machine)
    assert machine.has(FaultKind.GPU_LOST)
    reboot(machine)
    assert not machine.has(FaultKind.GPU_LOST)


def test_a_fault_that_nothing_heals_ends_only_when_it_is_cleared(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    machine.inject(Fault(FaultKind.GPU_LOST, healed_by=frozenset()))

    reboot(machine)
    assert machine.has(FaultKind.GPU_LOST)
    machine.clear(FaultKind.GPU_LOST)
    assert machine.faults == ()


def test_a_reset_of_one_gpu_heals_that_gpu_only(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    machine.inject(Fault(FaultKind.PENDING_PAGE, gpu=1))
    machine.inject(Fault(FaultKind.PENDING_PAGE, gpu=2))

    machine.apply(Remedy.GPU_RESET, gpu=2)

    assert [fault.gpu for fault in machine.faults] == [1]


def test_a_gpu_that_the_node_does_not_have_cannot_break(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="node n1 has 8 GPUs, none of index 8"):
        a_machine(tmp_path).inject(Fault(FaultKind.XID, gpu=8))


def test_a_machine_that_keeps_its_boot_id_tells_the_old_one(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    before = machine.boot_id
    machine.inject(Fault(FaultKind.KEEPS_BOOT_ID))

    reboot(machine)

    assert machine.boot_id != before
    assert machine.told_boot_id == before


@given(steps=some.lists(some.sampled_from([*FaultKind, *Remedy, None])))
def test_the_history_counts_each_reboot_and_no_boot_id_comes_twice(
    tmp_path_factory: pytest.TempPathFactory, steps: list[FaultKind | Remedy | None]
) -> None:
    machine = a_machine(tmp_path_factory.mktemp("machine"))
    boot_ids = [machine.boot_id]
    for step in steps:
        if isinstance(step, FaultKind):
            machine.inject(Fault(step))
        elif isinstance(step, Remedy):
            machine.apply(step)
        else:
            reboot(machine)
            boot_ids.append(machine.boot_id)
        assert machine.told_boot_id in boot_ids

    assert machine.history.reboots == steps.count(None) == len(set(boot_ids)) - 1
    boots = machine.history.of(Happening.BOOTED)
    assert [entry.boot_id for entry in boots] == boot_ids[1:]


# Conditions and probes.


@pytest.mark.parametrize(
    ("spec", "fault", "type_", "reason"),
    [
        (SPEC, FaultKind.GPU_RUNTIME_ERROR, "GPURuntimeError", "CudaMemoryFailed"),
        (SPEC, FaultKind.GPU_LOST, "GPUIsLost", "GPUIsLost"),
        (SPEC, FaultKind.PENDING_PAGE, "GPUPendingPage", "RowRemapPending"),
        (OLD, FaultKind.PENDING_PAGE, "GPUPendingPage", "PageRetirementPending"),
        (SPEC, FaultKind.PCIE_WIDTH_REDUCED, "PCIeLinkDegraded", "LinkWidthReduced"),
        (SPEC, FaultKind.XID, "GPUXIDError", "Xid79"),
        (SPEC, FaultKind.NFS_HUNG, "NFSMountStuck", "MountTimeout"),
        (SPEC, FaultKind.D_STATE, "DStateProcess", "ProcessStuck"),
    ],
)
def test_each_fault_shows_in_its_condition_alone(
    tmp_path: Path, spec: NodeSpec, fault: FaultKind, type_: str, reason: str
) -> None:
    told = agent_conditions(a_machine(tmp_path, spec).gpus, [Fault(fault)], NOW, {})

    wrong = [(each["type"], each["reason"]) for each in told if each["status"] == "True"]
    assert wrong == [(type_, reason)]
    known = PROBLEM_REASONS[ConditionType(type_)]
    assert ConditionReason(reason) in known if known else reason == "Xid79"


def test_what_only_a_probe_finds_shows_in_no_condition(tmp_path: Path) -> None:
    told = agent_conditions(a_machine(tmp_path).gpus, [Fault(FaultKind.PROBE_FAILS)], NOW, {})

    assert {each["status"] for each in told} == {"False"}


def test_a_node_without_gpus_has_no_condition_about_them(tmp_path: Path) -> None:
    types = {each["type"] for each in agent_conditions((), [], NOW, {})}

    assert types == {ConditionType.NFS_MOUNT_STUCK, ConditionType.D_STATE_PROCESS}


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        (FaultKind.GPU_RUNTIME_ERROR, "problem"),
        (FaultKind.GPU_LOST, "problem"),
        (FaultKind.PROBE_FAILS, "problem"),
        (FaultKind.PCIE_WIDTH_REDUCED, "pass"),
        (FaultKind.PENDING_PAGE, "pass"),
    ],
)
def test_a_probe_finds_what_keeps_cuda_from_working(fault: FaultKind, verdict: str) -> None:
    assert gpu_verdict([Fault(fault)]) == verdict


def test_the_answer_to_a_probe_names_operation_boot_and_each_gpu() -> None:
    found = ProbeResult.parse(probe_result("op-1", "boot-1", {"GPU-1": "pass"}, NOW))

    assert found is not None
    assert (found.operation, found.boot_id, found.at) == ("op-1", "boot-1", NOW)
    assert found.gpus == {"GPU-1": ProbeVerdict.PASSED}
    assert found.result is ProbeVerdict.PASSED


# The files.


def test_the_root_folder_is_made_only_when_it_is_asked_for(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    machine.inject(Fault(FaultKind.XID))
    reboot(machine)
    assert not (tmp_path / "root").exists()

    assert (machine.root / "proc/sys/kernel/random/boot_id").read_text().strip() == machine.boot_id


def test_a_stuck_process_is_in_proc_until_it_is_gone(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    machine.inject(Fault(FaultKind.D_STATE, command="rm (odd) name"))

    stats = [path.read_text() for path in (machine.root / "proc").glob("*/stat")]
    fields = [text.rpartition(")")[2].split() for text in stats if "(rm (odd) name)" in text]
    assert [(each[0], len(each)) for each in fields] == [("D", 50)]
    assert int(fields[0][19]) > 0  # field 22 of stat: when the process started

    machine.clear()
    assert not any("odd" in path.read_text() for path in machine.root.glob("proc/*/comm"))


def test_a_narrow_link_and_a_lost_gpu_show_in_sysfs(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    devices = machine.root / "sys/bus/pci/devices"
    first, second = machine.gpus[:2]

    machine.inject(Fault(FaultKind.PCIE_WIDTH_REDUCED, gpu=0, width=4))
    machine.inject(Fault(FaultKind.GPU_LOST, gpu=1))

    assert (devices / first.pci_bus_id / "current_link_width").read_text() == "4\n"
    assert (devices / first.pci_bus_id / "max_link_width").read_text() == "16\n"
    assert not (devices / second.pci_bus_id).exists()
    machine.clear()
    assert (devices / first.pci_bus_id / "current_link_width").read_text() == "16\n"
    assert (devices / second.pci_bus_id / "vendor").read_text() == "0x10de\n"


def test_the_kernel_logs_an_xid_once_and_forgets_it_with_the_boot(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    kmsg = machine.root / "dev/kmsg"
    machine.inject(Fault(FaultKind.XID, gpu=2, xid=63))
    machine.inject(Fault(FaultKind.D_STATE))

    heads, texts = zip(*(line.split(";") for line in kmsg.read_text().splitlines()), strict=True)
    assert [head.split(",")[1] for head in heads] == ["0", "1"]
    assert texts[1].startswith("NVRM: Xid (PCI:0000:12:00): 63,")

    reboot(machine)
    assert "Xid" not in kmsg.read_text()


def test_the_mounts_of_the_spec_are_nfs_mounts_of_the_root(tmp_path: Path) -> None:
    root = a_machine(tmp_path).root

    [line] = [e for e in (root / "proc/1/mountinfo").read_text().splitlines() if " nfs4 " in e]
    assert line.split()[4] == "/mnt/data"
    assert (root / "mnt/data").is_dir()


def nfs_mounts(machine: Machine) -> list[str]:
    lines = (machine.root / "proc/1/mountinfo").read_text().splitlines()
    return [line.split()[4] for line in lines if " nfs4 " in line]


def test_whoever_asks_for_a_mount_that_hangs_waits_until_it_is_taken_off(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    host = Host(machine, lambda _by, _now: None)
    assert host.run(["stat", "-f", "--", "/mnt/data"]) == Answer(output='File: "/mnt/data"\n')

    machine.inject(Fault(FaultKind.NFS_HUNG))
    assert host.run(["stat", "-f", "--", "/mnt/data"]) is None
    assert host.run(["stat", "-f", "--", "/mnt/data/below"]) is None
    assert host.run(["umount", "/mnt/data"]) is None
    assert host.run(["mount", "/mnt/data"]) == Answer(
        32, "mount.nfs: /mnt/data is busy or already mounted\n"
    )
    assert nfs_mounts(machine) == ["/mnt/data"]

    assert host.run(["umount", "-f", "-l", "/mnt/data"]) == Answer()
    assert nfs_mounts(machine) == []
    assert host.run(["stat", "-f", "--", "/mnt/data"]) == Answer(output='File: "/mnt/data"\n')
    assert host.run(["umount", "/mnt/data"]) == Answer(32, "umount: /mnt/data: not mounted.\n")

    assert host.run(["mount", "/mnt/data"]) == Answer()
    assert (nfs_mounts(machine), machine.faults) == (["/mnt/data"], ())


def test_a_mount_of_a_server_that_stays_broken_hangs_until_a_reboot_mounts_it(
    tmp_path: Path,
) -> None:
    machine = a_machine(tmp_path)
    host = Host(machine, lambda _by, _now: None)
    machine.inject(Fault(FaultKind.NFS_HUNG, healed_by=frozenset()))
    host.run(["umount", "-f", "-l", "/mnt/data"])

    assert host.run(["mount", "/mnt/data"]) is None
    assert nfs_mounts(machine) == []

    reboot(machine)
    assert nfs_mounts(machine) == ["/mnt/data"]
    assert machine.hangs("/mnt/data")


def test_what_is_not_there_has_no_file_system(tmp_path: Path) -> None:
    host = Host(a_machine(tmp_path), lambda _by, _now: None)

    answer = host.run(["stat", "-f", "--", "/no/such"])
    assert answer is not None
    assert answer.exit_code == 1
