"""Starts what stands for a container, as its image's behaviour says, and ends it. It must not touch the API."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from sandbox.simulated_nodes.behaviours import (
    Answers,
    Behaviour,
    CannotBePulled,
    ContainerContext,
    Ended,
    Executes,
    Runs,
)
from sandbox.simulated_nodes.children import Child
from sandbox.simulated_nodes.faults import FaultKind
from sandbox.simulated_nodes.host_commands import Host
from sandbox.simulated_nodes.machine import Machine
from sandbox.simulated_nodes.pod_objects import ContainerRun, PodRun, owner_kinds
from sandbox.simulated_nodes.shared import Shared

_TERMINATED, _KILLED = 143, 137
OnEnd = Callable[[Ended], None]


class Execution(Protocol):
    """Something that runs in a container's place."""

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it."""


class TimedRun:
    """Does nothing until its time is over or it is stopped; ends once."""

    def __init__(self, behaviour: Runs, ended: OnEnd) -> None:
        self._behaviour = behaviour
        self._ended: OnEnd | None = ended

    def finish(self) -> None:
        self._end(Ended(self._behaviour.exit_code, self._behaviour.log))

    def terminate(self) -> None:
        if not self._behaviour.ignores_sigterm:
            self._end(Ended(_TERMINATED, self._behaviour.log))

    def kill(self) -> None:
        self._end(Ended(_KILLED, self._behaviour.log))

    def _end(self, how: Ended) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(how)


class Starter:
    """Starts the containers of one machine."""

    def __init__(self, machine: Machine, host: Host, shared: Shared) -> None:
        self._machine = machine
        self._host = host
        self._shared = shared
        self._number = 0

    def behaviour(self, run: PodRun, container: ContainerRun) -> Behaviour:
        """What the container would do now on this machine."""
        if self._machine.has_match(FaultKind.IMAGE_PULL_FAILS, container.image):
            return CannotBePulled()
        if self._machine.has(FaultKind.JOBS_HANG) and "Job" in owner_kinds(run.pod):
            return Runs()
        return self._shared.behaviours.of(run.pod, container.image)

    def start(
        self, run: PodRun, container: ContainerRun, behaviour: Behaviour, ended: OnEnd
    ) -> Execution:
        """Start it; `ended` is called once, from any thread, perhaps before this returns."""
        match behaviour:
            case Executes():
                return self._execute(run, container, ended)
            case Answers():
                ended(behaviour.function(self._context(run, container)))
                return TimedRun(Runs(), _nothing)
            case Runs():
                timed = TimedRun(behaviour, ended)
                if behaviour.seconds is not None:
                    seconds = behaviour.seconds * self._shared.timing.scale
                    self._shared.timetable.after(seconds, self._machine.spec.name, timed.finish)
                return timed
        raise ValueError(f"image {container.image} cannot be pulled")

    def _context(self, run: PodRun, container: ContainerRun) -> ContainerContext:
        gpus = tuple(gpu for gpu in self._machine.gpus if gpu.uuid in run.devices)
        return ContainerContext(run.pod, container.spec, self._machine, gpus)

    def _execute(self, run: PodRun, container: ContainerRun, ended: OnEnd) -> Execution:
        env = environment(run, container.spec)
        argv = [
            _expanded(str(each), env)
            for key in ("command", "args")
            for each in container.spec.get(key) or ()
        ]
        if not argv:
            ended(Ended(127, "", f"{container.image}: no command; an image's own is not simulated"))
            return TimedRun(Runs(), _nothing)
        self._number += 1
        root = self._machine.root
        folder = self._shared.folder / "containers" / self._machine.spec.name
        child: Child | None = self._shared.children.run(
            argv,
            env=env,
            folder=folder / f"{run.uid}-{container.name}-{self._number}",
            root=root,
            host=self._host,
            ended=ended,
        )
        return child or TimedRun(Runs(), _nothing)


def _nothing(_: Ended) -> None:
    """For what has ended before it could be stopped."""


def environment(run: PodRun, container: Mapping[str, Any]) -> dict[str, str]:
    """The container's variables: plain values and those from the pod's own fields, and the GPUs it was given."""
    env = {"NVIDIA_VISIBLE_DEVICES": ",".join(run.devices) or "void"}
    for entry in container.get("env") or ():
        path = ((entry.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath")
        env[entry["name"]] = (
            _field(run, path) if path else _expanded(str(entry.get("value", "")), env)
        )
    return env


def _field(run: PodRun, path: str) -> str:
    if path == "status.podIP":
        return run.ip
    if path == "status.hostIP":
        return run.host_ip
    if found := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
        return str((run.pod["metadata"].get(found[1]) or {}).get(found[2], ""))
    value: Any = run.pod
    for key in path.split("."):
        value = value.get(key, "") if isinstance(value, Mapping) else ""
    return str(value)


def _expanded(text: str, env: Mapping[str, str]) -> str:
    """`$(NAME)` is replaced as Kubernetes does; an unknown name stays as it is."""
    return re.sub(r"\$\(([A-Za-z_]\w*)\)", lambda found: env.get(found[1], found[0]), text)
