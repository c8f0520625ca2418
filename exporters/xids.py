"""XIDs: the error codes that NVIDIA's driver writes to the kernel log, and what each asks for.

Pure. What a code asks for is data (see `exporters.xid_catalogue`); reading a line and classing a code is here.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from exporters.readings import KernelMessage


class XidAction(StrEnum):
    """What NVIDIA's catalogue tells to do at once when a code appears."""

    IGNORE = "ignore"
    INFORMATIONAL = "informational"
    NO_ACTION = "no_action"
    RESTART_APP = "restart_app"
    WORKFLOW_XID_45 = "workflow_xid_45"
    """Clean-up after another error, or of an application: never a fault by itself."""
    WORKFLOW_NVLINK = "workflow_nvlink"
    """Its text tells whether it is fatal."""
    CHECK_UVM = "check_uvm"
    UPDATE_SOFTWARE = "update_software"
    WORKFLOW_XID_48 = "workflow_xid_48"
    """A double-bit error; asks for a reset unless it was contained."""
    RESET_GPU = "reset_gpu"
    RESTART_VM = "restart_vm"
    RESTART_NODE = "restart_node"
    CHECK_MECHANICALS = "check_mechanicals"
    CONTACT_SUPPORT = "contact_support"


_MILDEST_FIRST = tuple(XidAction)
FALLEN_OFF_BUS = 79
RECOVERY_ACTION_CHANGED = 154
DOUBLE_BIT_ERROR = 48
CONTAINED = 94
UNCONTAINED = 95


@dataclass(frozen=True, slots=True)
class XidCatalogue:
    """What each code asks for, and its name. A code that nobody knows asks for `no_action`."""

    actions: Mapping[int, XidAction]
    names: Mapping[int, str]

    def action(self, code: int) -> XidAction:
        """What the code asks for."""
        return self.actions.get(code, XidAction.NO_ACTION)

    def overridden(self, actions: Mapping[int, XidAction]) -> "XidCatalogue":
        """This catalogue with other actions for some codes."""
        return XidCatalogue({**self.actions, **actions}, self.names)


@dataclass(frozen=True, slots=True)
class XidEvent:
    """One XID of the kernel log. `bus_id` as sysfs writes it; `recovery_action` is that of code 154 alone."""

    code: int
    bus_id: str
    sequence: int
    at: datetime
    text: str
    recovery_action: int | None = None


_BUS = r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?"
_XID = re.compile(rf"NVRM: Xid \((?:PCI:)?{_BUS}[^)]*\)(?: \[[^\]]*\])?: ([0-9]{{1,5}})\b")
_RECOVERY = re.compile(r"changed from 0x[0-9a-fA-F]+.*? to 0x([0-9a-fA-F]+)", re.DOTALL)
_OFF_BUS = re.compile(r"NVRM:.*fallen off the bus", re.DOTALL)
_NAMED_GPU = re.compile(rf"NVRM:.*?\bGPU (?:at )?(?:PCI:)?{_BUS}", re.DOTALL)
_ENUMERATED = re.compile(rf"\bpci {_BUS}: \[10de:[0-9a-f]{{4}}\]")


def bus_id(text: str) -> str:
    """A PCI address in the form of sysfs, 0000:3b:00.0; the driver leaves out the function. "" if it is none."""
    found = re.fullmatch(_BUS, text)
    return "" if found is None else _joined(found.groups())


def xid_events(messages: Iterable[KernelMessage]) -> tuple[XidEvent, ...]:
    """The XIDs among the kernel's messages, in their order."""
    found = ((message, _XID.search(message.text)) for message in messages)
    return tuple(_event(message, match) for message, match in found if match)


def _event(message: KernelMessage, match: re.Match[str]) -> XidEvent:
    code = int(match[5])
    change = _RECOVERY.search(message.text) if code == RECOVERY_ACTION_CHANGED else None
    return XidEvent(
        code,
        _joined(match.groups()[:4]),
        message.sequence,
        message.at,
        message.text,
        int(change[1], 16) if change else None,
    )


def fallen_off_bus(messages: Iterable[KernelMessage]) -> tuple[tuple[str, int], ...]:
    """Bus id ("" where it is not told) and sequence of each line that says a GPU has fallen off the bus.

    One form of it names the GPU a line earlier.
    """
    found: list[tuple[str, int]] = []
    named = ""
    for message in messages:
        xid = _XID.search(message.text)
        if gpu := _NAMED_GPU.search(message.text):
            named = _joined(gpu.groups())
        if xid and int(xid[5]) == FALLEN_OFF_BUS:
            found.append((_joined(xid.groups()[:4]), message.sequence))
        elif not xid and _OFF_BUS.search(message.text):
            found.append((named, message.sequence))
    return tuple(found)


def enumerated(messages: Iterable[KernelMessage]) -> tuple[tuple[str, int], ...]:
    """Bus id and sequence of each NVIDIA device that the PCI bus has found: at boot, or after a bus reset."""
    found = ((message, _ENUMERATED.search(message.text)) for message in messages)
    return tuple((_joined(match.groups()), message.sequence) for message, match in found if match)


def _joined(groups: Iterable[str | None]) -> str:
    domain, bus, device, function = (group or "0" for group in groups)
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower()


def asks_for(event: XidEvent, catalogue: XidCatalogue) -> XidAction:
    """What one event asks for; of NVLink codes the text tells whether it is fatal."""
    action = catalogue.action(event.code)
    if action is XidAction.WORKFLOW_NVLINK:
        fatal = re.search(r"\bFatal\b", event.text) is not None
        return XidAction.RESET_GPU if fatal else XidAction.WORKFLOW_NVLINK
    return action


def severity(action: XidAction) -> int:
    """Where an action stands: the higher, the worse."""
    return _MILDEST_FIRST.index(action)


def is_fault(action: XidAction) -> bool:
    """Whether the GPU cannot be trusted until something was done to it: a reset, or more."""
    return severity(action) >= severity(XidAction.WORKFLOW_XID_48)
