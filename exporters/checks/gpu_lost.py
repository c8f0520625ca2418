"""GPUIsLost: a GPU that the driver no longer reaches, or that is missing from the inventory.

Pure. A loss stays until a full enumeration in a new boot, or after the PCI bus found the device anew: a GPU that came
back by itself is not to be trusted. What a GPU cannot tell, or a driver that does not answer, is no loss.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from chassis.contracts import ConditionReason, ConditionType
from exporters.driver_answers import fault_of, no_verdict, told, unread_driver, worst_fault
from exporters.readings import DriverReading, DriverStatus, GpuReading, KernelMessage, NvmlError
from exporters.verdict import NODE, CheckSpec, Damping, Finding, Memory, Result
from exporters.xids import enumerated, fallen_off_bus

SPEC = CheckSpec("gpu_lost", ConditionType.GPU_IS_LOST, Damping(fail=3, ok=2))
_UNTIL_BOOT = 1 << 62  # a sequence that no kernel message comes after


@dataclass(frozen=True, slots=True)
class Settings:
    """`expected` GPUs of this node, None for as many as were seen; `rounds` until a gap is a loss."""

    expected: int | None = None
    rounds: int = SPEC.damping.fail


@dataclass(slots=True)
class _Known:
    """The memory, unpacked.

    inventory {uuid: bus id}, gaps {subject: rounds}, lost {subject: (reason, sequence of the kernel log at that time)}.
    """

    boot_id: str
    inventory: dict[str, str] = field(default_factory=dict)
    gaps: dict[str, int] = field(default_factory=dict)
    lost: dict[str, tuple[str, int]] = field(default_factory=dict)
    sequence: int = -1


def check(
    reading: DriverReading,
    kernel: tuple[KernelMessage, ...],
    boot_id: str,
    settings: Settings,
    memory: Memory | None,
) -> tuple[tuple[Finding, ...], Memory]:
    """Judge one reading of the driver and the kernel messages since the last.

    The memory holds the inventory over boots; without it, the GPUs of the first good reading are the inventory.
    """
    known = _recalled(memory, boot_id)
    _note_kernel(known, kernel)
    if reading.status is DriverStatus.READ:
        others = _judge(reading, settings, known)
    else:
        others = _unread(reading, settings, known)
    lost = _standing(known)
    named = {finding.subject for finding in lost}
    return (*lost, *(each for each in others if each.subject not in named)), _remembered(known)


def forget(memory: Memory | None) -> Memory | None:
    """The memory without losses and inventory: a person has looked at the node and says so."""
    return None if memory is None else {"boot_id": memory.get("boot_id", "")}


def hold(memory: Memory | None, reason: str, boot_id: str) -> Memory:
    """A memory that has lost a GPU in this boot: for a True of this boot found on the node without a state file."""
    known = _recalled(memory, boot_id)
    if not known.lost:
        known.lost[NODE] = (reason, _UNTIL_BOOT)
    return _remembered(known)


def _recalled(memory: Memory | None, boot_id: str) -> _Known:
    if memory is None:
        return _Known(boot_id)
    inventory = dict(memory.get("inventory", {}))
    if memory.get("boot_id") != boot_id:
        return _Known(boot_id, inventory)
    lost = {subject: (each[0], int(each[1])) for subject, each in memory.get("lost", {}).items()}
    return _Known(
        boot_id, inventory, dict(memory.get("gaps", {})), lost, memory.get("sequence", -1)
    )


def _remembered(known: _Known) -> dict[str, Any]:
    return {
        "boot_id": known.boot_id,
        "inventory": known.inventory,
        "gaps": known.gaps,
        "lost": {subject: list(each) for subject, each in known.lost.items()},
        "sequence": known.sequence,
    }


def _note_kernel(known: _Known, kernel: tuple[KernelMessage, ...]) -> None:
    """Losses that the kernel tells of, unless the bus has found the device again since."""
    uuids = {bus: uuid for uuid, bus in known.inventory.items()}
    for bus, sequence in fallen_off_bus(kernel):
        known.lost[uuids.get(bus, bus) or NODE] = (ConditionReason.GPU_FALLEN_OFF_BUS, sequence)
    for bus, sequence in enumerated(kernel):
        for subject in {bus, uuids.get(bus, bus), NODE} & known.lost.keys():
            if known.lost[subject][1] < sequence:
                del known.lost[subject]
    known.sequence = max([known.sequence, *(message.sequence for message in kernel)])


def _unread(reading: DriverReading, settings: Settings, known: _Known) -> list[Finding]:
    fault = fault_of(reading.error)
    if fault is not None:
        known.lost[NODE] = (fault, known.sequence)
        return []
    finding = unread_driver(reading)
    if finding is None:
        return []
    had_gpus = bool(known.inventory or settings.expected)
    if reading.status is DriverStatus.NOT_INSTALLED and had_gpus:
        reason = ConditionReason.DRIVER_NOT_LOADED
        finding = replace(finding, reason=reason, message="no driver, but GPUs are expected here")
    return [finding]


def _judge(reading: DriverReading, settings: Settings, known: _Known) -> list[Finding]:
    _note_faults(reading, known)
    wanted = len(known.inventory) if settings.expected is None else settings.expected
    seen = {_subject(gpu, known): gpu.pci_bus_id for gpu in reading.gpus}
    if not known.lost and not reading.errors and len(seen) >= wanted:
        # Full, so it is the inventory from now on: hardware may have been exchanged.
        known.inventory = seen
    gaps = _gaps(reading, wanted, settings.rounds, known)
    answered = [Finding(subject, Result.OK, ConditionReason.HEALTHY) for subject in sorted(seen)]
    return [*gaps, *answered, *_no_verdicts(reading, wanted)]


def _subject(gpu: GpuReading, known: _Known) -> str:
    uuids = {bus: uuid for uuid, bus in known.inventory.items()}
    return gpu.uuid or uuids.get(gpu.pci_bus_id, gpu.pci_bus_id)


def _note_faults(reading: DriverReading, known: _Known) -> None:
    """Remember the GPUs whose own answer is that they are lost or need a reset."""
    faults: dict[str, NvmlError] = {}
    for gpu in reading.gpus:
        if (error := worst_fault(gpu.errors)) is not None:
            faults[_subject(gpu, known)] = error
    seen = {_subject(gpu, known) for gpu in reading.gpus}
    unseen = [uuid for uuid in known.inventory if uuid not in seen]
    for index, error in reading.errors:
        if fault_of(error) is not None:
            # Without a handle there is no UUID: it is told only when one alone is missing.
            faults[unseen[0] if len(unseen) == 1 else f"gpu-{index}"] = error
    for subject, error in faults.items():
        known.lost[subject] = (fault_of(error) or ConditionReason.OTHER, known.sequence)


def _gaps(reading: DriverReading, wanted: int, rounds: int, known: _Known) -> list[Finding]:
    """GPUs that should be there and are not, counted until the gap is a loss. Failed handles are no gap."""
    seen = {_subject(gpu, known) for gpu in reading.gpus}
    count = wanted - len(seen) - len(reading.errors)
    missing = sorted(known.inventory.keys() - seen)
    subjects = [] if count <= 0 else missing if len(missing) == count else [NODE]
    known.gaps = {subject: known.gaps.get(subject, 0) + 1 for subject in subjects}
    for subject, seen_for in known.gaps.items():
        if seen_for >= rounds and subject not in known.lost:
            known.lost[subject] = (ConditionReason.GPU_COUNT_MISMATCH, known.sequence)
    text = f"{len(seen)} of {wanted} GPUs are there"
    reason = ConditionReason.GPU_COUNT_MISMATCH
    return [Finding(subject, Result.PROBLEM, reason, text) for subject in subjects]


def _standing(known: _Known) -> tuple[Finding, ...]:
    return tuple(
        Finding(subject, Result.PROBLEM, reason, "until a new boot or a bus reset", definite=True)
        for subject, (reason, _) in sorted(known.lost.items())
    )


def _no_verdicts(reading: DriverReading, wanted: int) -> list[Finding]:
    """Handles that could not be had for no fault of a GPU, or no GPU at all."""
    errors = [error for _, error in reading.errors if fault_of(error) is None]
    if errors:
        return [Finding(NODE, Result.INCONCLUSIVE, no_verdict(errors[0]), told(errors[0]))]
    if not reading.gpus and not reading.errors and not wanted:
        text = "the driver knows of no GPU"
        return [Finding(NODE, Result.INCONCLUSIVE, ConditionReason.NOT_SUPPORTED, text)]
    return []
