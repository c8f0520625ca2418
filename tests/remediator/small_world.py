"""A cluster of one node in memory: it carries out effects, and its own log is what tests judge by.

Not a twin of the real adapter: it has no API, only what an effect means for a machine. Faults are
scripted: how each Job ends, whether the fix helps, where the remediator is killed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from remediator.cluster import (
    AskProbe,
    CreateJob,
    DeleteJob,
    DeletePod,
    Effect,
    EvictPod,
    ForgetWish,
    Isolate,
    JobState,
    JobView,
    NodeView,
    Observation,
    PodView,
    ProbeState,
    ProbeView,
    Release,
)
from remediator.config import Config
from remediator.lifecycle import Act, Policy, Record, Step, Wait, next_step
from remediator.operation import (
    NodeOperation,
    Phase,
    Reason,
    may_follow,
    read,
    status_json,
    to_json,
)
from tests.remediator.building import NOW, SECOND, condition_of, fleet_of, node_of

ENDINGS = ("works", "reports_failure", "vanishes", "no_image", "hangs", "deleted", "never_begins")
REPEATS = 400


@dataclass
class World:
    """One node with one fault and one operation; `endings` are of the Jobs in their order."""

    config: Config
    operation: NodeOperation
    endings: list[str]
    heals: bool = True
    kills: list[bool] = field(default_factory=list)
    node: NodeView = field(default_factory=node_of)
    there: bool = True
    fault: bool = True
    pods: list[PodView] = field(default_factory=list)
    now: datetime = NOW
    jobs: dict[str, JobView] = field(default_factory=dict)
    created: list[str] = field(default_factory=list)
    reboots: list[str] = field(default_factory=list)
    """The boot ids that ended by a repair."""
    log: list[tuple[datetime, Phase, Effect]] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    probe: ProbeView = field(default_factory=ProbeView)
    steps: int = 0
    same: int = 0
    last: Reason | None = None

    def observation(self) -> Observation:
        """Everything, read now."""
        status = "True" if self.fault else "False"
        node = replace(
            self.node, conditions={"GPUIsLost": condition_of(status, heartbeat=self.now)}
        )
        intent = self.operation.status.intent
        job = None
        if intent is not None and intent.job:
            job = self.jobs.get(intent.job, JobView(intent.job, JobState.MISSING))
        return Observation(
            self.now, node if self.there else None, tuple(self.pods), job, probe=self.probe
        )

    def step(self) -> Step:
        """One pass of a remediator, which may be killed after the decision or after the effect."""
        self.steps += 1
        observation = self.observation()
        fleet = replace(fleet_of(*([observation.node] if observation.node else [])), as_of=self.now)
        step = next_step(self.operation, observation, Policy(self.config), fleet, (), self.now)
        killed = self.kills.pop() if self.kills else False
        if isinstance(step, Record):
            assert may_follow(self.operation.status.phase, step.status.phase)
            if not killed:
                self._store(step)
        elif isinstance(step, Act):
            for effect in step.effects:
                if not killed:
                    self._apply(effect)
            self.now += SECOND
        return step

    def run(self, passes: int = REPEATS) -> Iterator[Step]:
        """Passes until the operation rests, with time going on as each wait asks for."""
        for _ in range(passes):
            step = self.step()
            yield step
            if isinstance(step, Wait):
                if step.until is None and not self.operation.running:
                    return
                self.now = max(step.until or self.now, self.now + self._patience(step))
            self._go_on()
        raise AssertionError(f"no end: {self.phases[-20:]} {self.operation.status}")

    def _patience(self, step: Wait) -> timedelta:
        """A wait without news is looked at less and less often: it is the same each time."""
        self.same = self.same + 1 if step.reason is self.last else 0
        self.last = step.reason
        return SECOND * int(min(300, 2**self.same))

    def finish(self) -> "World":
        """Run to the end."""
        for _ in self.run():
            pass
        return self

    def _store(self, record: Record) -> None:
        if record.status.phase is not self.operation.status.phase:
            self.phases.append(record.status.phase)
        stored = replace(self.operation, status=record.status)
        # What a restarted remediator reads is what was written, and nothing else.
        self.operation = read(to_json(stored))
        assert status_json(self.operation.status) == status_json(record.status)

    def _apply(self, effect: Effect) -> None:
        self.log.append((self.now, self.operation.status.phase, effect))
        if isinstance(effect, EvictPod | DeletePod):
            self.pods = [each for each in self.pods if each.uid != effect.pod.uid]
        elif isinstance(effect, CreateJob):
            self._create(effect)
        elif isinstance(effect, DeleteJob):
            self.jobs.pop(effect.name, None)
        elif isinstance(effect, ForgetWish):
            left = {k: v for k, v in self.operation.annotations.items() if k != effect.annotation}
            self.operation = replace(self.operation, annotations=left)
        else:
            self._mark(effect)

    def _mark(self, effect: Effect) -> None:
        if isinstance(effect, Isolate):
            assert self.node.operation_taint in {None, effect.operation}
            self.node = replace(self.node, operation_taint=effect.operation)
        elif isinstance(effect, Release):
            if self.node.operation_taint == effect.operation:
                self.node = replace(self.node, operation_taint=None)
        elif isinstance(effect, AskProbe):
            state = ProbeState.FAILED if self.fault else ProbeState.PASSED
            self.probe = ProbeView(state, self.node.boot_id, self.now)

    def _create(self, effect: CreateJob) -> None:
        if effect.name in self.jobs:
            return
        self.created.append(effect.name)
        self.jobs[effect.name] = JobView(effect.name, JobState.ACTIVE)

    def _go_on(self) -> None:
        """What the node does by itself in between: the Jobs come to their scripted ends."""
        for name, job in list(self.jobs.items()):
            if job.state is JobState.ACTIVE:
                self._end(name, job)

    def _end(self, name: str, job: JobView) -> None:
        position = sorted(set(self.created), key=self.created.index).index(name)
        ending = self.endings[position] if position < len(self.endings) else "works"
        began = replace(job, began=True)
        if ending == "works":
            self._reboot()
            self.jobs[name] = replace(began, state=JobState.FAILED)
        elif ending == "reports_failure":
            self.jobs[name] = replace(began, state=JobState.FAILED, exit_code=1)
        elif ending == "vanishes":
            self.jobs[name] = replace(began, state=JobState.FAILED)
        elif ending == "no_image":
            self.jobs[name] = replace(job, image_failed=True)
        elif ending == "hangs":
            self.jobs[name] = began
        elif ending == "deleted" and self._job_was_seen():
            del self.jobs[name]

    def _job_was_seen(self) -> bool:
        intent = self.operation.status.intent
        return intent is not None and intent.job_seen

    def _reboot(self) -> None:
        self.reboots.append(self.node.boot_id)
        self.node = replace(self.node, boot_id=f"boot-{len(self.reboots) + 1}")
        self.fault = self.fault and not self.heals

    def effects(self, *kinds: type) -> list[Effect]:
        """The effects of these kinds that reached the node, in order."""
        return [effect for _, _, effect in self.log if isinstance(effect, kinds)]


def later(moment: datetime, **parts: float) -> datetime:
    """A moment that long after another."""
    return moment + timedelta(**parts)
