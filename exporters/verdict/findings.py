"""What a check says about one round: three-valued findings, and how they are to be damped.

Pure data. A finding is about a subject (a GPU's UUID, a mount point, a process) or about the node as a whole; it is
never turned into a Node Condition here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

Memory = Mapping[str, Any]
"""What a check wants to know again in its next round: plain JSON data, kept over restarts and boots by the caller."""

NODE = "node"
"""The subject of a finding about the whole node.

An inconclusive finding about it means that the check could not look: subjects that it does not mention are then as
unknown as they were, not gone.
"""


class Result(StrEnum):
    """What one look gave; inconclusive is neither healthy nor faulty."""

    OK = "ok"
    PROBLEM = "problem"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found about one subject. `definite` problems need no second look."""

    subject: str
    result: Result
    reason: str
    message: str = ""
    definite: bool = False


@dataclass(frozen=True, slots=True)
class CheckReport:
    """One completed round of one check. A subject that it had named before and names no more is gone."""

    check: str
    condition: str
    findings: tuple[Finding, ...]
    completed_at: datetime


@dataclass(frozen=True, slots=True)
class Damping:
    """How many rounds in a row it takes: problems to set, oks to clear, inconclusive ones to doubt a False.

    A check that is not `required` may go without a verdict for ever and the condition is False all the same.
    """

    fail: int = 1
    ok: int = 2
    unknown: int = 3
    required: bool = True


@dataclass(frozen=True, slots=True)
class CheckSpec:
    """What a check is called, the condition that it contributes to, and its damping."""

    name: str
    condition: str
    damping: Damping


@dataclass(frozen=True, slots=True)
class ConditionPolicy:
    """How the reports of several checks become one condition.

    `severity` orders reasons, the worst first; others follow in the order of the alphabet. Reasons in `patient` never
    turn False into Unknown: they mean that people work, not that something is wrong. A check that is not required and says nothing but reasons in
    `inapplicable` has no say. `plain_messages` takes the
    findings' messages as they are instead of `subject=reason`, and `message_follows` False leaves the message alone
    while status and reason stay.
    """

    type: str
    checks: Mapping[str, Damping]
    severity: tuple[str, ...] = ()
    patient: frozenset[str] = frozenset({"GPUBusy", "GPUIdle"})
    inapplicable: frozenset[str] = frozenset({"NotSupported"})
    healthy_reason: str = "Healthy"
    healthy_message: str = "no problem found"
    plain_messages: bool = False
    message_follows: bool = True


@dataclass(frozen=True, slots=True)
class Track:
    """What is remembered of one subject of one check.

    `standing` is the damped problem; `oks`, `fails` and `misses` count rounds in a row, where inconclusive ones
    interrupt neither oks nor fails. `judged` is the time of the last conclusive round, None before the first.
    """

    check: str
    subject: str
    standing: bool = False
    reason: str = ""
    message: str = ""
    fails: int = 0
    oks: int = 0
    misses: int = 0
    doubt: str = ""
    judged: datetime | None = None


class Status(StrEnum):
    """The status of a Node Condition, as Kubernetes writes it."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class ConditionState:
    """A condition as it is to be on the node, and what it rests on.

    `adopted` says that its True was found on the node and that no check of ours has yet spoken against it.
    """

    type: str
    status: Status
    reason: str
    message: str
    last_transition: datetime
    tracks: tuple[Track, ...] = field(default=(), repr=False)
    adopted: bool = False
