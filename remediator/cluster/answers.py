"""What the smaller decisions answer to the lifecycle: draining, proof, gates.

Pure data, here so that those who decide and the one who asks agree without knowing each other.
"""

from dataclasses import dataclass
from datetime import datetime

from remediator.cluster.effects import Effect
from remediator.operation import HeldBy, Reason


@dataclass(frozen=True, slots=True)
class PodWait:
    """A pod that is still there, and why."""

    pod: str
    reason: Reason
    text: str


@dataclass(frozen=True, slots=True)
class DrainStep:
    """What to do now to empty a node.

    `effects` are AskCheckpoint, EvictPod, DeletePod. `waiting` names each pod that must still go.
    `done`: nothing more must go. `stuck`: the deadline has passed and the policy is to escalate, or
    a pod can never go. `wake_at`: when to look again if nothing changes.
    """

    effects: tuple[Effect, ...] = ()
    waiting: tuple[PodWait, ...] = ()
    done: bool = False
    stuck: Reason | None = None
    text: str = ""
    wake_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Proven:
    """The node is healthy for all that the playbook asks, for the whole soak time."""

    text: str
    clear_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class NotYet:
    """It may still be proven. `clear_since` starts (or, None, restarts) the soak.

    `ask_probe`: everything else holds, so the active probe is worth its time now.
    """

    reason: Reason
    text: str
    clear_since: datetime | None = None
    wake_at: datetime | None = None
    ask_probe: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """It is certain, or the deadline has passed: not proven.

    `reason` is NOT_PROVEN when something is seen to be wrong, CANNOT_PROVE when nothing could be
    seen (no data, stale, no checks).
    """

    reason: Reason
    text: str


Judgement = Proven | NotYet | Failed


@dataclass(frozen=True, slots=True)
class Open:
    """Nothing holds the operation back."""


Verdict = Open | HeldBy
