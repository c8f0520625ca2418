"""The closed words of an operation: who began it, why it is where it is, how a try ended.

Pure. Each value stands in the CRD's enums and in a table of docs/remediator.md; adding one is a change
of the interface.
"""

from enum import StrEnum

from chassis.contracts import TimelinePhase

Phase = TimelinePhase
"""The phases are part of what services say to each other: the timeline tells them."""


class Trigger(StrEnum):
    """Who began an operation."""

    ALERT = "Alert"
    CONDITION = "Condition"
    MANUAL = "Manual"


class Reason(StrEnum):
    """Why an operation is where it is."""

    ACCEPTED = "Accepted"
    GATES_OPEN = "GatesOpen"
    HELD = "Held"
    NO_BUDGET = "NoBudget"
    STALE_DATA = "StaleData"
    GATE_DEADLINE = "GateDeadline"
    DRY_RUN_DONE = "DryRunDone"

    CANNOT_ISOLATE = "CannotIsolate"
    TAINTED = "Tainted"
    WAITS_FOR_CHECKPOINT = "WaitsForCheckpoint"
    EVICTING = "Evicting"
    BLOCKED_BY_DISRUPTION_BUDGET = "BlockedByDisruptionBudget"
    PODS_TERMINATING = "PodsTerminating"
    DRAINED = "Drained"
    DRAIN_DEADLINE = "DrainDeadline"
    POD_CANNOT_GO = "PodCannotGo"

    JOB_CREATED = "JobCreated"
    JOB_RUNNING = "JobRunning"
    JOB_SUCCEEDED = "JobSucceeded"
    JOB_FAILED = "JobFailed"
    JOB_IMAGE_FAILED = "JobImageFailed"
    JOB_LOST = "JobLost"
    JOB_FOREIGN = "JobForeign"
    RUNG_TIMEOUT = "RungTimeout"
    AMBIGUOUS = "Ambiguous"
    PODS_RESTARTED = "PodsRestarted"

    WAITS_FOR_REBOOT = "WaitsForReboot"
    WAITS_FOR_READY = "WaitsForReady"
    RETURNED = "Returned"
    NO_RETURN = "NoReturn"

    SOAKING = "Soaking"
    REBOOTED = "Rebooted"
    WAITS_FOR_CHECKS = "WaitsForChecks"
    WAITS_FOR_PROBE = "WaitsForProbe"
    PROVEN = "Proven"
    NOT_PROVEN = "NotProven"
    CANNOT_PROVE = "CannotProve"
    PROOF_LOST = "ProofLost"

    COOLDOWN = "Cooldown"
    RUNGS_EXHAUSTED = "RungsExhausted"
    TOO_MANY_OPERATIONS = "TooManyOperations"
    NO_KNOWN_FIX = "NoKnownFix"

    CLEARED_BEFORE_ACTION = "ClearedBeforeAction"
    CANCELLED_BY_PERSON = "CancelledByPerson"
    TAINT_REMOVED = "TaintRemoved"
    RELEASE_REQUESTED = "ReleaseRequested"
    PLAYBOOK_GONE = "PlaybookGone"
    NODE_EXCLUDED = "NodeExcluded"
    NODE_REPLACED = "NodeReplaced"
    NODE_DELETED = "NodeDeleted"
    INVALID_OPERATION = "InvalidOperation"
    CANNOT_RELEASE = "CannotRelease"
    HEALED = "Healed"


class CauseKind(StrEnum):
    """What a cause is."""

    ALERT = "alert"
    CONDITION = "condition"
    PERSON = "person"


class IntentAction(StrEnum):
    """The effects that are announced in the status before they happen."""

    ISOLATE = "Isolate"
    DRAIN = "Drain"
    RUN_JOB = "RunJob"
    RESTART_PODS = "RestartPods"
    PROBE = "Probe"
    RELEASE = "Release"


class AttemptOutcome(StrEnum):
    """How an attempt of a rung ended."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    NOT_PROVEN = "not_proven"
    TIMED_OUT = "timed_out"
    AMBIGUOUS = "ambiguous"


class Wish(StrEnum):
    """What a person has asked of a running or escalated operation; kept until it is answered."""

    CANCEL = "cancel"
    RELEASE = "release"
