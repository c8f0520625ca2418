"""NFSMountStuck: a mount of the host whose server does not answer, or has forgotten it.

Pure. Rounds are counted by the damping: one time-out is no fault. What the kernel says of a server only names the
reason of a mount that does not answer, or speaks for one that could not be asked; a mount that answers is well,
whatever was said. A mount that is gone is over.
"""

import re
from collections.abc import Iterable, Mapping

from chassis.contracts import ConditionReason, ConditionType
from exporters.readings import (
    KernelLogReading,
    KernelMessage,
    MountAnswer,
    MountReading,
    MountSample,
)
from exporters.verdict import NODE, CheckSpec, Damping, Finding, Memory, Result

SPEC = CheckSpec("nfs", ConditionType.NFS_MOUNT_STUCK, Damping(fail=3, ok=2))
_SERVER = re.compile(r"nfs: server (\S+) (not responding|OK)\b")
_MOST_SERVERS = 1000


def check(
    reading: MountReading, kernel: KernelLogReading, memory: Memory | None
) -> tuple[tuple[Finding, ...], Memory]:
    """Judge how the mounts answered, and the kernel messages since the last round."""
    silent = _silent_servers(kernel, memory)
    after = {"boot_id": kernel.boot_id, "silent": sorted(silent)[:_MOST_SERVERS]}
    if reading.unreadable is not None:
        reason = ConditionReason.MOUNT_INFO_UNREADABLE
        return (Finding(NODE, Result.INCONCLUSIVE, reason, reading.unreadable),), after
    if not reading.mounts:
        return (Finding(NODE, Result.OK, ConditionReason.HEALTHY, "no such mount"),), after
    return tuple(_finding(mount, silent) for mount in reading.mounts), after


def _silent_servers(kernel: KernelLogReading, memory: Memory | None) -> set[str]:
    """Servers of which "not responding" was said and "OK" not since."""
    same_boot = memory is not None and memory.get("boot_id") == kernel.boot_id
    silent = set((memory or {}).get("silent", ())) if same_boot else set()
    for name, word in _said(kernel.messages):
        (silent.discard if word == "OK" else silent.add)(name)
    return silent


def _said(messages: Iterable[KernelMessage]) -> Iterable[tuple[str, str]]:
    for message in messages:
        found = _SERVER.search(message.text)
        if found:
            yield found[1], found[2]


_TIMED_OUT = frozenset({MountAnswer.TIMED_OUT, MountAnswer.STILL_WAITING})
_ENDS: Mapping[MountAnswer, tuple[Result, ConditionReason]] = {
    MountAnswer.ANSWERED: (Result.OK, ConditionReason.HEALTHY),
    MountAnswer.TIMED_OUT: (Result.PROBLEM, ConditionReason.MOUNT_TIMEOUT),
    MountAnswer.STILL_WAITING: (Result.PROBLEM, ConditionReason.MOUNT_TIMEOUT),
    MountAnswer.STALE: (Result.PROBLEM, ConditionReason.STALE_HANDLE),
    MountAnswer.FAILED: (Result.INCONCLUSIVE, ConditionReason.OTHER),
    MountAnswer.NOT_ASKED: (Result.INCONCLUSIVE, ConditionReason.CHILD_LIMIT),
}


def _finding(mount: MountSample, silent: set[str]) -> Finding:
    result, reason = _ENDS[mount.answer]
    waits = mount.answer in _TIMED_OUT or mount.answer is MountAnswer.NOT_ASKED
    if waits and _server(mount.source) in silent:
        result, reason = Result.PROBLEM, ConditionReason.SERVER_NOT_RESPONDING
    text = "; ".join(part for part in (mount.source, mount.detail) if part)
    return Finding(mount.mount_point, result, reason, text)


def _server(source: str) -> str:
    """The server in `server:/path`; an IPv6 address stands in brackets."""
    bracketed = re.match(r"\[([^\]]+)\]:", source)
    return bracketed[1] if bracketed else source.partition(":")[0]
