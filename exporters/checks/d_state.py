"""DStateProcess: a process that has waited in the kernel, beyond the reach of signals, for round after round.

Pure. The same process (PID and start time) must be found so in several rounds, with one miss forgiven; being old is no
waiting. Kernel threads do so by nature, so only those of NVIDIA's driver count.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from chassis.contracts import ConditionReason, ConditionType
from exporters.readings import ProcessReading, ProcessSample
from exporters.verdict import NODE, CheckSpec, Damping, Finding, Memory, Result

SPEC = CheckSpec("d_state", ConditionType.D_STATE_PROCESS, Damping(fail=1, ok=1))
_MISSES = 1
_MOST_TOLD = 200  # a node where thousands wait has one fault, not thousands
_WAITING = "D"


@dataclass(frozen=True, slots=True)
class Settings:
    """`samples` in which a process must wait, taken a `period` apart."""

    samples: int = 5
    period: timedelta = timedelta(minutes=1)


def check(
    reading: ProcessReading,
    boot_id: str,
    settings: Settings,
    now: datetime,
    memory: Memory | None,
) -> tuple[tuple[Finding, ...], Memory]:
    """Judge one sample of the processes. One that cannot be read counts as not taken."""
    seen = _recalled(memory, boot_id)
    if reading.unreadable is not None:
        finding = Finding(
            NODE, Result.INCONCLUSIVE, ConditionReason.PROC_UNREADABLE, reading.unreadable
        )
        return (finding,), _remembered(boot_id, seen, _last(memory, now))
    if not _is_due(_last(memory, None), now, settings.period):
        return _findings(seen, settings), _remembered(boot_id, seen, _last(memory, now))
    waiting = {_key(each): each for each in reading.processes if _counts(each)}
    after = {key: _hit(seen.get(key), sample) for key, sample in waiting.items()}
    for key, entry in seen.items():
        if key not in after and (missed := _missed(entry, settings.samples)) is not None:
            after[key] = missed
    return _findings(after, settings), _remembered(boot_id, after, now.isoformat())


def _counts(sample: ProcessSample) -> bool:
    own = not sample.kernel_thread or sample.command.startswith("nvidia")
    return sample.state == _WAITING and own


def _key(sample: ProcessSample) -> str:
    return f"{sample.pid}.{sample.start_ticks}"


_Entry = dict[str, Any]


def _hit(entry: _Entry | None, sample: ProcessSample) -> _Entry:
    gpu = sample.holds_gpu or sample.command.startswith("nvidia")
    return {
        "hits": 1 + (entry["hits"] if entry else 0),
        "misses": entry["misses"] if entry else 0,
        "away": 0,
        "pid": sample.pid,
        "command": sample.command,
        "channel": sample.wait_channel,
        "gpu": gpu or bool(entry and entry["gpu"]),
    }


def _missed(entry: _Entry, samples: int) -> _Entry | None:
    """The entry after a sample without the process; None when it is over."""
    counted = "away" if entry["hits"] >= samples else "misses"
    after = {**entry, counted: entry[counted] + 1}
    return None if after[counted] > _MISSES else after


def _findings(seen: dict[str, _Entry], settings: Settings) -> tuple[Finding, ...]:
    stuck = sorted(
        (entry for entry in seen.values() if entry["hits"] >= settings.samples),
        key=lambda entry: (not entry["gpu"], entry["pid"]),
    )
    if not stuck:
        return (Finding(NODE, Result.OK, ConditionReason.HEALTHY),)
    return tuple(_finding(entry) for entry in stuck[:_MOST_TOLD])


def _finding(entry: _Entry) -> Finding:
    reason = ConditionReason.GPU_PROCESS_STUCK if entry["gpu"] else ConditionReason.PROCESS_STUCK
    text = f"waits in {entry['channel']}" if entry["channel"] else ""
    return Finding(f"{entry['command']}[{entry['pid']}]", Result.PROBLEM, reason, text)


def _is_due(last: str | None, now: datetime, period: timedelta) -> bool:
    """Whether enough time has passed for a sample of its own; a clock that was set back does not matter."""
    if last is None:
        return True
    passed = now - datetime.fromisoformat(last)
    return passed < timedelta(0) or passed >= period / 2


def _last(memory: Memory | None, default: datetime | None) -> Any:
    last = (memory or {}).get("last")
    return last or (default.isoformat() if default else None)


def _recalled(memory: Memory | None, boot_id: str) -> dict[str, _Entry]:
    if memory is None or memory.get("boot_id") != boot_id:
        return {}
    return dict(memory.get("seen", {}))


def _remembered(boot_id: str, seen: dict[str, _Entry], last: Any) -> Memory:
    return {"boot_id": boot_id, "seen": seen, "last": last}
