"""What the containers of an image do on a simulated node.

The table of behaviours may change while nodes run. Nothing here starts anything.
"""

import fnmatch
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.simulated_nodes.conditions import gpu_verdict
from sandbox.simulated_nodes.hardware import Gpu
from sandbox.simulated_nodes.machine import Machine
from sandbox.simulated_nodes.pod_objects import owner_kinds


@dataclass(frozen=True, slots=True)
class Ended:
    """How a container ended; `message` goes into its status, `log` is kept by the node."""

    exit_code: int
    log: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class ContainerContext:
    """What a container can see: its pod, its entry in it, the machine, the GPUs that it was given."""

    pod: Mapping[str, Any]
    container: Mapping[str, Any]
    machine: Machine
    gpus: tuple[Gpu, ...]


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs for some seconds, None: until it is stopped. Ready after `ready_after` seconds."""

    seconds: float | None = None
    exit_code: int = 0
    log: str = ""
    ignores_sigterm: bool = False
    ready_after: float = 0


@dataclass(frozen=True, slots=True)
class Executes:
    """Really runs the container's command, as this user, in a child process on this machine."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Ends at once with what a function says."""

    function: Callable[[ContainerContext], Ended]


@dataclass(frozen=True, slots=True)
class CannotBePulled:
    """The image is not to be had."""


Behaviour = Runs | Executes | Answers | CannotBePulled


class Behaviours:
    """Image patterns (as of the shell) and what such containers do; a later entry wins over an earlier one.

    What matches nothing runs as `job` when its pod belongs to a Job, else as `other`.
    """

    def __init__(
        self,
        by_image: Mapping[str, Behaviour] | None = None,
        *,
        job: Behaviour = Runs(seconds=1),
        other: Behaviour = Runs(),
    ) -> None:
        self._lock = threading.Lock()
        self._by_image = dict(by_image or {})
        self._job = job
        self._other = other

    def set(self, pattern: str, behaviour: Behaviour) -> None:
        """From now on, for containers that start or are tried again."""
        with self._lock:
            self._by_image.pop(pattern, None)
            self._by_image[pattern] = behaviour

    def of(self, pod: Mapping[str, Any], image: str) -> Behaviour:
        with self._lock:
            entries = list(self._by_image.items())
        for pattern, behaviour in reversed(entries):
            if fnmatch.fnmatchcase(image, pattern):
                return behaviour
        return self._job if "Job" in owner_kinds(pod) else self._other


def probe_gpus(context: ContainerContext) -> Ended:
    """Answers as a pod with the GPU probe would: one JSON line a GPU; exit 0 pass, 1 problem, 2 nothing probed."""
    lines = [_probe_line(context.machine, gpu) for gpu in context.gpus]
    log = "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines)
    if not lines:
        return Ended(2, "", "no GPU was given to this pod")
    return Ended(int(any(line["end"] == "problem" for line in lines)), log, log)


def _probe_line(machine: Machine, gpu: Gpu) -> dict[str, Any]:
    failed = gpu_verdict(machine.faults_of(gpu)) == "problem"
    return {
        "uuid": gpu.uuid,
        "model": gpu.model.product,
        "end": "problem" if failed else "pass",
        "reason": "CudaMemoryFailed" if failed else "Healthy",
        "step": "allocate" if failed else "compare",
        "error_code": 2 if failed else None,
        "error_name": "CUDA_ERROR_OUT_OF_MEMORY" if failed else "",
        "seconds": 0.5,
    }
