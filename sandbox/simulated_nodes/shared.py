"""What all nodes of a simulation share. Nothing here acts by itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from chassis.kube_client import KubeClient
from sandbox.simulated_nodes.behaviours import Behaviours
from sandbox.simulated_nodes.children import Children
from sandbox.simulated_nodes.host_commands import HostCommand
from sandbox.simulated_nodes.timetable import Timetable
from sandbox.simulated_nodes.timing import Timing

KeepLog = Callable[[str, str, str], None]
"""Gets `namespace/pod`, container and text."""


@dataclass(frozen=True, slots=True)
class Roles:
    """Which parts of a cluster the simulated nodes play beside the kubelet.

    `agent`: write the conditions that Nodemend's node-agent writes, and answer its probe requests. `node_controller`:
    call silent nodes Unknown and keep the taints for it, as kube-controller-manager does where it runs.
    """

    agent: bool = False
    node_controller: bool = True


@dataclass(frozen=True, slots=True)
class Shared:
    """Handed to each node."""

    client: KubeClient
    timetable: Timetable
    children: Children
    behaviours: Behaviours
    timing: Timing
    roles: Roles
    folder: Path
    clock: Callable[[], datetime]
    log: FilteringBoundLogger
    keep_log: KeepLog
    host_commands: Mapping[str, HostCommand] = field(default_factory=dict)
