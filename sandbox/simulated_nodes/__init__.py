"""Simulated nodes: kubelets, machines and their faults, for any Kubernetes API.

For the demo, the tests and the benchmarks. Speaks to the API only as a client, through chassis, and imports no service.
"""

from sandbox.simulated_nodes.behaviours import (
    Answers,
    Behaviour,
    Behaviours,
    CannotBePulled,
    ContainerContext,
    Ended,
    Executes,
    Runs,
    probe_gpus,
)
from sandbox.simulated_nodes.faults import Fault, FaultKind, Remedy
from sandbox.simulated_nodes.hardware import (
    MODELS,
    FleetPart,
    Gpu,
    GpuModel,
    NfsMount,
    NodeSpec,
    mixed_fleet,
)
from sandbox.simulated_nodes.history import Entry, Happening, History
from sandbox.simulated_nodes.host_commands import Answer, HostCommand
from sandbox.simulated_nodes.machine import Machine
from sandbox.simulated_nodes.node import SimulatedNode
from sandbox.simulated_nodes.nodes import SimulatedNodes
from sandbox.simulated_nodes.shared import Roles
from sandbox.simulated_nodes.timing import Timing

__all__ = [
    "MODELS",
    "Answer",
    "Answers",
    "Behaviour",
    "Behaviours",
    "CannotBePulled",
    "ContainerContext",
    "Ended",
    "Entry",
    "Executes",
    "Fault",
    "FaultKind",
    "FleetPart",
    "Gpu",
    "GpuModel",
    "Happening",
    "History",
    "HostCommand",
    "Machine",
    "NfsMount",
    "NodeSpec",
    "Remedy",
    "Roles",
    "Runs",
    "SimulatedNode",
    "SimulatedNodes",
    "Timing",
    "mixed_fleet",
    "probe_gpus",
]
