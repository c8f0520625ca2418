"""One simulated node: machine, kubelet and reporter put together, and the handle that tests hold."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from chassis.errors import NodemendError
from sandbox.simulated_nodes.faults import Fault, FaultKind
from sandbox.simulated_nodes.hardware import Gpu, NodeSpec
from sandbox.simulated_nodes.history import Happening, History
from sandbox.simulated_nodes.host_commands import Host
from sandbox.simulated_nodes.kubelet import Kubelet
from sandbox.simulated_nodes.machine import Machine
from sandbox.simulated_nodes.reporter import Reporter
from sandbox.simulated_nodes.shared import Shared

Pods = Callable[[str], Iterable[Mapping[str, Any]]]
"""The pods of a node, as the watch knows them."""


class SimulatedNode:
    """A node whose faults can be switched while it runs. Any thread may call it."""

    def __init__(self, spec: NodeSpec, shared: Shared, pods: Pods) -> None:
        self._shared = shared
        self._pods = pods
        self._machine = Machine(spec, shared.folder / "nodes" / spec.name, shared.clock)
        host = Host(self._machine, self.request_reboot, shared.host_commands)
        self._kubelet = Kubelet(self._machine, host, shared)
        self._reporter = Reporter(self._machine, shared)
        self._was_awake = True
        self._boot_number = 0
        self._machine.tell(lambda: self._do(self._faults_changed))

    # What tests ask.

    @property
    def name(self) -> str:
        return self._machine.spec.name

    @property
    def spec(self) -> NodeSpec:
        return self._machine.spec

    @property
    def boot_id(self) -> str:
        """The true one, whatever the API was told."""
        return self._machine.boot_id

    @property
    def is_on(self) -> bool:
        return self._machine.is_on

    @property
    def root(self) -> Path:
        """The folder that stands for the node's `/`."""
        return self._machine.root

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return self._machine.gpus

    @property
    def faults(self) -> tuple[Fault, ...]:
        return self._machine.faults

    @property
    def history(self) -> History:
        return self._machine.history

    @property
    def devices(self) -> Mapping[str, tuple[str, ...]]:
        """The UUIDs of the GPUs that pods hold, by `namespace/name`."""
        return self._kubelet.devices()

    @property
    def is_registered(self) -> bool:
        return self._reporter.is_registered

    # What tests do.

    def inject(self, fault: Fault | FaultKind) -> None:
        """Break something now; a kind alone means its defaults.

        Raises:
            ValueError: The node has no such GPU.
        """
        self._machine.inject(Fault(fault) if isinstance(fault, FaultKind) else fault)

    def clear(self, kind: FaultKind | None = None) -> None:
        """Mend the faults of this kind, or all."""
        self._machine.clear(kind)

    def reboot(self) -> None:
        """As `systemctl reboot` by somebody at the node."""
        self.request_reboot("by hand", False)  # noqa: FBT003  (as RequestReboot)

    def power_cycle(self) -> None:
        """Off and on by the board's own controller: works whatever hangs, and when the node is off."""
        self._machine.note(Happening.REBOOT_REQUESTED, "power cycle")
        self._do(lambda: self._power_off(comes_back=True))

    def request_reboot(self, source: str, now: bool) -> None:  # noqa: FBT001  (as RequestReboot)
        """Shut down and boot, or reset at once with `now`; the node's faults may spoil it."""
        self._machine.note(Happening.REBOOT_REQUESTED, source)
        if not self._machine.has(FaultKind.REBOOT_IGNORED):
            self._do(lambda: self._shut_down(now=now))

    # Called by SimulatedNodes.

    def start(self, first_beat: float) -> None:
        """Register, and from then on report; the first heartbeat comes after so many seconds."""
        self._do(self._register)
        self._every(self._shared.timing.heartbeat, first_beat, self._beat)
        share = first_beat / self._shared.timing.heartbeat
        for period, report in (
            (self._shared.timing.status_report, self._report),
            (self._shared.timing.agent_report, self._reporter.report_agent),
        ):
            self._every(period, period * share, report)

    def see_pod(self, pod: Mapping[str, Any]) -> None:
        self._do(lambda: self._kubelet.see(pod))

    def see_pod_gone(self, uid: str) -> None:
        self._do(lambda: self._kubelet.see_gone(uid))

    def see_probe_request(self, operation: str) -> None:
        seconds = self._shared.timing.probe
        answer = lambda: self._reporter.answer_probe(operation)  # noqa: E731
        self._shared.timetable.after(seconds, self.name, answer)

    def _do(self, task: Callable[[], None]) -> None:
        self._shared.timetable.now(self.name, task)

    def _after(self, seconds: float, task: Callable[[], None]) -> None:
        self._shared.timetable.after(seconds, self.name, task)

    def _every(self, period: float, first: float, task: Callable[[], None]) -> None:
        def again() -> None:
            self._after(period, again)
            task()

        self._after(first, again)

    # On the lane.

    def _register(self) -> None:
        try:
            self._reporter.register()
        except NodemendError as error:
            self._shared.log.info("simulated_node_not_registered", node=self.name, error=str(error))
            self._after(self._shared.timing.api_retry, self._register)
            return
        self._reporter.report_agent()
        self._kubelet.wake(self._pods(self.name))

    def _beat(self) -> None:
        if self._kubelet.is_awake and self.is_registered:
            self._reporter.beat()

    def _report(self) -> None:
        if self._kubelet.is_awake and self.is_registered:
            self._reporter.report()

    def _faults_changed(self) -> None:
        if not self.is_registered or not self._machine.is_on:
            return
        awake, before = self._kubelet.is_awake, self._was_awake
        self._was_awake = awake
        if awake:
            self._reporter.report()
            if not before:
                self._kubelet.wake(self._pods(self.name))
        elif before:
            self._watch_silence()
        self._reporter.report_agent()

    def _watch_silence(self) -> None:
        boot = self._boot_number

        def still_silent() -> None:
            if not self._kubelet.is_awake and boot == self._boot_number:
                self._reporter.fall_silent()

        self._after(self._shared.timing.monitor_grace, still_silent)

    def _shut_down(self, *, now: bool) -> None:
        if self._reporter.is_shutting_down or not self._machine.is_on:
            return
        if now:
            self._power_off()
            return
        self._reporter.is_shutting_down = True
        self._after(self._shared.timing.shutdown, self._power_off)
        self._report()

    def _power_off(self, *, comes_back: bool = False) -> None:
        if self._machine.is_on:
            self._machine.switch_off()
            self._kubelet.lose_power()
            self._watch_silence()
        elif not comes_back:
            return
        self._reporter.is_shutting_down = False
        if self._machine.has(FaultKind.REBOOT_NEVER_RETURNS) and not comes_back:
            return
        number = self._boot_number
        self._after(self._reboot_seconds(), lambda: self._boot(number))

    def _reboot_seconds(self) -> float:
        slow = [f.seconds for f in self._machine.faults if f.kind is FaultKind.REBOOT_SLOW]
        timing = self._shared.timing
        return max(slow) * timing.scale if slow else timing.reboot

    def _boot(self, number: int) -> None:
        if self._machine.is_on or number != self._boot_number:
            return  # a power cycle was faster
        self._boot_number += 1
        self._was_awake = True
        if self._machine.has(FaultKind.REBOOT_NEVER_READY):
            self._machine.inject(Fault(FaultKind.NOT_READY))
        self._machine.boot()
        if not self.is_registered:
            self._register()
            return
        self._report()
        self._beat()
        self._kubelet.wake(self._pods(self.name))
        self._reporter.report_agent()
