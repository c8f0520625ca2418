"""GPUXIDError: an XID of this boot after which a GPU is not to be trusted until it was reset.

Pure. What a code asks for comes from the catalogue. A fault ends with a new boot, or when a probe passes after a reset
of the GPU; never because nothing more was said. XID 45 alone is never a fault, and 154 tells of the driver's own
verdict: it is information, and its "none" is the trace of a reset.
"""

from dataclasses import dataclass, field
from typing import Any

from chassis.contracts import ConditionReason, ConditionType, xid_reason
from exporters.readings import DriverReading, KernelLogReading, KernelMessage, ProbeEnd, ProbeReport
from exporters.verdict import NODE, CheckSpec, Damping, Finding, Memory, Result
from exporters.xids import (
    CONTAINED,
    DOUBLE_BIT_ERROR,
    RECOVERY_ACTION_CHANGED,
    UNCONTAINED,
    XidAction,
    XidCatalogue,
    XidEvent,
    asks_for,
    enumerated,
    is_fault,
    severity,
    xid_events,
)

SPEC = CheckSpec("xid", ConditionType.GPU_XID_ERROR, Damping(fail=1, ok=1))
_MANY = 16  # faults remembered of one GPU: distinct codes, so it is enough


@dataclass(slots=True)
class _Known:
    """The memory, unpacked: faults {bus id: {code: (sequence, severity)}}, resets {bus id: sequence}, uuids {bus id: uuid}.

    `contained` {bus id: sequence} of the last contained error without an uncontained one.
    """

    boot_id: str
    faults: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)
    resets: dict[str, int] = field(default_factory=dict)
    contained: dict[str, int] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    uuids: dict[str, str] = field(default_factory=dict)
    sequence: int = -1


def check(
    kernel: KernelLogReading,
    reading: DriverReading,
    probes: tuple[ProbeReport, ...],
    catalogue: XidCatalogue,
    memory: Memory | None,
) -> tuple[tuple[Finding, ...], Memory]:
    """Judge the kernel messages since the last round, and the probes that have ended since.

    A reset is known by the bus having found the GPU again, by XID 154 telling of no action, or by the recovery action
    that the driver tells going back to none.
    """
    known = _recalled(memory, kernel.boot_id)
    known.uuids.update({gpu.pci_bus_id: gpu.uuid for gpu in reading.gpus})
    # A probe of this round may have run before a reset of this round: only earlier resets count.
    resets = dict(known.resets)
    for event in xid_events(kernel.messages):
        _note(known, event, catalogue)
    _note_resets(known, kernel.messages, reading)
    for probe in probes:
        if probe.end is ProbeEnd.PASSED:
            _clear(known, probe.uuid, resets)
    found = _standing(known)
    about_node = any(finding.subject == NODE for finding in found)
    return (*found, *([] if about_node else _about_log(kernel))), _remembered(known)


def hold(memory: Memory | None, code: int, boot_id: str) -> Memory:
    """A memory with that fault in this boot: for a True of this boot found on the node without a state file."""
    known = _recalled(memory, boot_id)
    if not known.faults:
        known.faults[""] = {code: (-1, severity(XidAction.RESET_GPU))}
    return _remembered(known)


def _recalled(memory: Memory | None, boot_id: str) -> _Known:
    if memory is None or memory.get("boot_id") != boot_id:
        return _Known(boot_id)
    faults = {
        bus: {int(code): (int(each[0]), int(each[1])) for code, each in codes.items()}
        for bus, codes in memory.get("faults", {}).items()
    }
    known = _Known(boot_id, faults, sequence=memory.get("sequence", -1))
    known.resets.update(memory.get("resets", {}))
    known.contained.update(memory.get("contained", {}))
    known.asked.update(memory.get("asked", {}))
    known.uuids.update(memory.get("uuids", {}))
    return known


def _remembered(known: _Known) -> dict[str, Any]:
    faults = {
        bus: {str(code): list(each) for code, each in codes.items()}
        for bus, codes in known.faults.items()
    }
    return {
        "boot_id": known.boot_id,
        "faults": faults,
        "resets": known.resets,
        "contained": known.contained,
        "asked": known.asked,
        "uuids": known.uuids,
        "sequence": known.sequence,
    }


def _note(known: _Known, event: XidEvent, catalogue: XidCatalogue) -> None:
    action = asks_for(event, catalogue)
    codes = known.faults.get(event.bus_id, {})
    if event.code == CONTAINED:
        known.contained[event.bus_id] = event.sequence
    elif event.code == UNCONTAINED:
        known.contained.pop(event.bus_id, None)
    elif event.code == RECOVERY_ACTION_CHANGED and event.recovery_action == 0:
        known.resets[event.bus_id] = event.sequence
    if is_fault(action) and (event.code in codes or len(codes) < _MANY):
        codes[event.code] = (event.sequence, severity(action))
        known.faults[event.bus_id] = codes


def _note_resets(
    known: _Known, messages: tuple[KernelMessage, ...], reading: DriverReading
) -> None:
    for bus, sequence in enumerated(messages):
        known.resets[bus] = max(sequence, known.resets.get(bus, -1))
    known.sequence = max([known.sequence, *(message.sequence for message in messages)])
    for gpu in reading.gpus:
        if gpu.recovery_action is None:
            continue
        if known.asked.get(gpu.pci_bus_id) and gpu.recovery_action == 0:
            known.resets[gpu.pci_bus_id] = known.sequence + 1
        known.asked[gpu.pci_bus_id] = gpu.recovery_action


def _clear(known: _Known, uuid: str, resets: dict[str, int]) -> None:
    """Faults of this GPU that came before its last reset are over: it has been reset and has just worked."""
    for bus in [bus for bus, each in known.uuids.items() if each == uuid]:
        reset = resets.get(bus, -1)
        left = {code: each for code, each in known.faults.get(bus, {}).items() if each[0] >= reset}
        known.faults.pop(bus, None)
        if left:
            known.faults[bus] = left


def _standing(known: _Known) -> list[Finding]:
    found = []
    for bus, codes in sorted(known.faults.items()):
        faults = [code for code in codes if not _superseded(known, bus, code)]
        if faults:
            worst = max(faults, key=lambda code: (codes[code][1], code))
            text = f"{bus}: XID " + ", ".join(str(code) for code in sorted(faults))
            subject = known.uuids.get(bus, bus) or NODE
            found.append(Finding(subject, Result.PROBLEM, xid_reason(worst), text, definite=True))
    return found


def _superseded(known: _Known, bus: str, code: int) -> bool:
    """Whether a double-bit error turned out to be contained: the application ended, the GPU goes on."""
    contained = bus in known.contained and UNCONTAINED not in known.faults.get(bus, {})
    return code == DOUBLE_BIT_ERROR and contained


def _about_log(kernel: KernelLogReading) -> list[Finding]:
    if kernel.unreadable is not None:
        reason = ConditionReason.KMSG_UNREADABLE
        return [Finding(NODE, Result.INCONCLUSIVE, reason, kernel.unreadable)]
    if kernel.lost:
        text = "kernel messages were overwritten before they were read"
        return [Finding(NODE, Result.INCONCLUSIVE, ConditionReason.KMSG_OVERRUN, text)]
    return [Finding(NODE, Result.OK, ConditionReason.HEALTHY)]
