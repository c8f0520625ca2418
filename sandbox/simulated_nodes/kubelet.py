"""Runs the pods of one simulated node: admission, containers in order, restarts, deletion with grace.

All methods but the constructor are called on the node's lane of the timetable, so that nothing here needs a lock.
Statuses are written by PodWriter.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sandbox.simulated_nodes.behaviours import Answers, CannotBePulled, Ended, Executes, Runs
from sandbox.simulated_nodes.containers import Execution, Starter
from sandbox.simulated_nodes.faults import FaultKind
from sandbox.simulated_nodes.history import Happening
from sandbox.simulated_nodes.host_commands import Host
from sandbox.simulated_nodes.machine import Machine
from sandbox.simulated_nodes.pod_objects import (
    ContainerRun,
    PodRun,
    Running,
    Terminated,
    Waiting,
    containers_of,
    gpus_wanted,
    restarts_after,
)
from sandbox.simulated_nodes.pod_writer import PodWriter
from sandbox.simulated_nodes.shared import Shared

_OVER = ("Succeeded", "Failed")
_REMEMBERED = 1000
_LOST = Ended(137, "", "the machine went down while the container ran")


class Kubelet:
    """The pods of one node."""

    def __init__(self, machine: Machine, host: Host, shared: Shared) -> None:
        self._machine = machine
        self._shared = shared
        self._lane = machine.spec.name
        self._starter = Starter(machine, host, shared)
        self._writer = PodWriter(machine, shared, self._forget)
        self._runs: dict[str, PodRun] = {}
        self._executions: dict[tuple[str, str], tuple[object, Execution | None]] = {}
        self._gone: deque[str] = deque(maxlen=_REMEMBERED)
        self._next_ip = 0

    @property
    def is_awake(self) -> bool:
        return self._machine.is_on and not self._machine.has(FaultKind.KUBELET_SILENT)

    def devices(self) -> dict[str, tuple[str, ...]]:
        """The GPUs that pods hold, by `namespace/name`."""
        return {run.key: run.devices for run in self._holders() if run.devices}

    def _holders(self) -> list[PodRun]:
        return [r for r in list(self._runs.values()) if not (r.has_ended and r.is_quiet)]

    # What the watch tells.

    def see(self, pod: Mapping[str, Any]) -> None:
        """A pod of this node is there or has changed."""
        if not self.is_awake:
            return  # it will be seen when the kubelet is back
        uid = pod["metadata"]["uid"]
        run = self._runs.get(uid)
        if run is None:
            if uid not in self._gone:  # the watch may lag behind a deletion that we finished
                self._take(pod)
            return
        run.pod = pod
        if pod["metadata"].get("deletionTimestamp"):
            self._stop(run)

    def see_gone(self, uid: str) -> None:
        """A pod has left the API; a silent kubelet hears of it later."""
        if self.is_awake and (run := self._runs.get(uid)) is not None:
            self._end_all(run)
            self._writer.was_removed(run)

    def lose_power(self) -> None:
        """Everything that runs is gone at once; the API hears of it when the kubelet is back."""
        executions, self._executions = self._executions, {}
        for _, execution in executions.values():
            if execution is not None:
                execution.kill()

    def wake(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """The kubelet is back: look at what is there now, and at what became of what ran."""
        there = {pod["metadata"]["uid"]: pod for pod in pods}
        for run in list(self._runs.values()):
            self._find_lost(run)
            if run.uid not in there:
                self.see_gone(run.uid)
                continue
            self._writer.write(run)
            self._start_anew(run)
        for pod in there.values():
            self.see(pod)

    def _find_lost(self, run: PodRun) -> None:
        for container in run.containers:
            at = (run.uid, container.name)
            if isinstance(container.state, Running) and at not in self._executions:
                self._settle(run, container, _LOST)

    def _start_anew(self, run: PodRun) -> None:
        for container in run.containers:
            if _is_backing_off(container):
                container.state = Waiting("ContainerCreating")
        self._advance(run)

    # A pod's way.

    def _take(self, pod: Mapping[str, Any]) -> None:
        phase = (pod.get("status") or {}).get("phase")
        deleting = bool(pod["metadata"].get("deletionTimestamp"))
        if phase in _OVER and not deleting:
            return
        run = self._new_run(pod)
        self._runs[run.uid] = run
        if deleting:  # nothing of it runs here
            run.is_deleting = True
        elif not self._give_devices(run):
            self._machine.note(Happening.POD_REFUSED, run.key)
        else:
            self._later(self._shared.timing.container_start, run, self._advance)
            if (deadline := pod["spec"].get("activeDeadlineSeconds")) is not None:
                self._later(deadline * self._shared.timing.scale, run, self._run_out_of_time)
        self._writer.write(run)

    def _new_run(self, pod: Mapping[str, Any]) -> PodRun:
        self._next_ip += 1
        host_ip = self._machine.spec.address
        low, high = self._next_ip % 254 + 1, self._next_ip // 254 % 64
        ip = host_ip if pod["spec"].get("hostNetwork") else f"100.{64 + high}.0.{low}"
        written = dict(pod.get("status") or {})
        return PodRun(pod, containers_of(pod), self._shared.clock(), ip, host_ip, written=written)

    def _give_devices(self, run: PodRun) -> bool:
        wanted = gpus_wanted(run.pod)
        taken = {uuid for each in self._holders() for uuid in each.devices}
        free = [gpu.uuid for gpu in self._machine.healthy_gpus() if gpu.uuid not in taken]
        if wanted > len(free):
            run.failure = (
                "UnexpectedAdmissionError",
                f"Allocate failed: {wanted} devices of nvidia.com/gpu requested, {len(free)} left",
            )
            return False
        run.devices = tuple(free[:wanted])
        return True

    def _later(self, seconds: float, run: PodRun, step: Callable[[PodRun], None]) -> None:
        def still_there() -> None:
            if self._runs.get(run.uid) is run:
                step(run)

        self._shared.timetable.after(seconds, self._lane, still_there)

    def _advance(self, run: PodRun) -> None:
        """Start what is next: the init containers one by one, then all others."""
        if run.is_deleting or run.has_ended or not self._machine.is_on:
            return
        for container in run.containers:
            if container.is_init:
                if isinstance(container.state, Terminated) and container.state.exit_code == 0:
                    continue
                if isinstance(container.state, Waiting) and not _is_backing_off(container):
                    self._start(run, container)
                return
            if isinstance(container.state, Waiting) and not _is_backing_off(container):
                self._start(run, container)

    def _start(self, run: PodRun, container: ContainerRun) -> None:
        if run.is_deleting or run.has_ended or not self._machine.is_on:
            return
        if not isinstance(container.state, Waiting):
            return  # started since this was put off
        behaviour = self._starter.behaviour(run, container)
        if isinstance(behaviour, CannotBePulled):
            reason = "ImagePullBackOff" if _is_backing_off(container) else "ErrImagePull"
            container.state = Waiting(reason, f"no image {container.image}")
            self._again(self._shared.timing.pull_retry, run, container)
        else:
            self._run(run, container, behaviour)

    def _run(
        self, run: PodRun, container: ContainerRun, behaviour: Runs | Executes | Answers
    ) -> None:
        token = object()
        container.state = Running(self._shared.clock())
        self._executions[run.uid, container.name] = (token, None)
        self._machine.note(Happening.CONTAINER_STARTED, f"{run.key}/{container.name}")

        def ended(how: Ended) -> None:
            step = lambda: self._ended(run, container, token, how)  # noqa: E731
            self._shared.timetable.now(self._lane, step)

        execution = self._starter.start(run, container, behaviour, ended)
        self._executions[run.uid, container.name] = (token, execution)
        delay = behaviour.ready_after if isinstance(behaviour, Runs) else 0
        if delay:
            self._later(
                delay * self._shared.timing.scale, run, lambda r: self._ready(r, container, token)
            )
        container.ready = not delay and not container.is_init
        self._writer.write(run)

    def _again(self, seconds: float, run: PodRun, container: ContainerRun) -> None:
        self._later(seconds, run, lambda r: self._start(r, container))
        self._writer.write(run)

    def _ready(self, run: PodRun, container: ContainerRun, token: object) -> None:
        if self._executions.get((run.uid, container.name), (None,))[0] is token:
            container.ready = not container.is_init
            self._writer.write(run)

    def _ended(self, run: PodRun, container: ContainerRun, token: object, how: Ended) -> None:
        at = (run.uid, container.name)
        if self._executions.get(at, (None,))[0] is not token:
            return  # the machine went down meanwhile
        del self._executions[at]
        self._settle(run, container, how)
        self._writer.write(run)

    def _settle(self, run: PodRun, container: ContainerRun, how: Ended) -> None:
        """Write down how a container ended, and go on with its pod."""
        name = f"{run.key}/{container.name}"
        self._machine.note(Happening.CONTAINER_ENDED, f"{name} exit {how.exit_code}")
        self._shared.keep_log(run.key, container.name, how.log)
        started = container.state
        now = self._shared.clock()
        end = Terminated(
            how.exit_code,
            "Completed" if how.exit_code == 0 else "Error",
            started.started_at if isinstance(started, Running) else now,
            now,
            how.message,
        )
        container.state, container.ready = end, False
        if run.is_deleting or run.failure:
            return
        if restarts_after(run.pod, how.exit_code, is_init=container.is_init):
            container.last, container.restarts = end, container.restarts + 1
            container.state = Waiting("CrashLoopBackOff", "back-off before the restart")
            self._again(self._shared.timing.crash_retry, run, container)
        else:
            self._advance(run)

    # Its end.

    def _run_out_of_time(self, run: PodRun) -> None:
        if not run.has_ended:
            run.failure = ("DeadlineExceeded", "the pod was active longer than allowed")
            self._end_all(run)
            self._writer.write(run)

    def _stop(self, run: PodRun) -> None:
        """Its deletion was asked for, or is wanted sooner than before."""
        run.is_deleting = True
        grace = run.pod["metadata"].get("deletionGracePeriodSeconds") or 0
        if grace == run.grace:
            return
        run.grace = grace
        if not self._machine.has_match(FaultKind.IGNORES_SIGTERM, run.key.partition("/")[2]):
            for execution in self._executions_of(run):
                execution.terminate()
        if run.is_quiet:
            self._writer.write(run)
        elif grace:
            self._later(grace * self._shared.timing.scale, run, self._end_all)
        else:
            self._end_all(run)

    def _end_all(self, run: PodRun) -> None:
        for execution in self._executions_of(run):
            execution.kill()

    def _executions_of(self, run: PodRun) -> list[Execution]:
        found = (self._executions.get((run.uid, each.name)) for each in run.containers)
        return [each[1] for each in found if each is not None and each[1] is not None]

    def _forget(self, run: PodRun) -> bool:
        """Whether it was there to be forgotten."""
        if self._runs.pop(run.uid, None) is None:
            return False
        self._gone.append(run.uid)
        self._machine.note(Happening.POD_GONE, run.key)
        return True


def _is_backing_off(container: ContainerRun) -> bool:
    return isinstance(container.state, Waiting) and container.state.reason in {
        "ErrImagePull",
        "ImagePullBackOff",
        "CrashLoopBackOff",
    }
