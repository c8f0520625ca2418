"""The configuration of remediator: what an admin may write, and what each key means.

It only describes and validates; the frozen settings are what the pure decisions take as policy.
"""

from remediator.config.common import NodeShare, Peer, Share
from remediator.config.draining import (
    Checkpoint,
    DrainRule,
    DrainSettings,
    DrainStrategy,
    EmptyDirPolicy,
    OnDeadline,
    UnmanagedPolicy,
)
from remediator.config.holding import (
    DAYS,
    Breaker,
    BudgetSettings,
    GateSettings,
    OperationsLimit,
    RateLimit,
    Window,
)
from remediator.config.playbooks import (
    ConditionTrigger,
    ConditionTriggers,
    NodeName,
    Playbook,
    Rung,
)
from remediator.config.proving import ProofSettings, Query
from remediator.config.repairs import (
    KINDS,
    RESTARTABLE_UNITS,
    HandOver,
    JobTemplate,
    PowerCycle,
    Reboot,
    RebootNow,
    RemountNFS,
    Repair,
    RepairKind,
    ResetGPU,
    RestartPods,
    RestartUnit,
    RunJob,
)
from remediator.config.whole import (
    Config,
    FreshnessSettings,
    JobSettings,
    LeaderSettings,
    TimelinePeer,
)

__all__ = [
    "DAYS",
    "KINDS",
    "RESTARTABLE_UNITS",
    "Breaker",
    "BudgetSettings",
    "Checkpoint",
    "ConditionTrigger",
    "ConditionTriggers",
    "Config",
    "DrainRule",
    "DrainSettings",
    "DrainStrategy",
    "EmptyDirPolicy",
    "FreshnessSettings",
    "GateSettings",
    "HandOver",
    "JobSettings",
    "JobTemplate",
    "LeaderSettings",
    "NodeName",
    "NodeShare",
    "OnDeadline",
    "OperationsLimit",
    "Peer",
    "Playbook",
    "PowerCycle",
    "ProofSettings",
    "Query",
    "RateLimit",
    "Reboot",
    "RebootNow",
    "RemountNFS",
    "Repair",
    "RepairKind",
    "ResetGPU",
    "RestartPods",
    "RestartUnit",
    "RunJob",
    "Rung",
    "Share",
    "TimelinePeer",
    "UnmanagedPolicy",
    "Window",
]
