"""What the end of a probe means: pass, problem, or no verdict and why. Pure.

A problem needs evidence against the GPU. Whatever another user of the GPU, a driver and a library that do not fit, a
missing permission or our own mistake explains just as well is inconclusive; so is any code that is not listed here.
Nothing but a completed run with right data on the device that was asked for passes.
"""

from dataclasses import dataclass, field

from chassis.contracts import ConditionReason
from exporters.cuda_probe.devices import Target
from exporters.cuda_probe.steps import Outcome, Step
from exporters.killable_child import EndKind
from exporters.readings import DriverReading, DriverStatus, GpuReading, ProbeEnd, ProbeReport

_Reason = ConditionReason

_OUT_OF_MEMORY, _UNAVAILABLE = 2, 46
_NO_DEVICE = frozenset({100, 101})
_SYSTEM_NOT_READY = 802
_FAULTS = frozenset({205, 206, 214, 220, 714, 715, 716, 717, 718, 721, 999})
"""MAP_FAILED, UNMAP_FAILED, ECC_UNCORRECTABLE, NVLINK_UNCORRECTABLE, HARDWARE_STACK_ERROR, ILLEGAL_INSTRUCTION,
MISALIGNED_ADDRESS, INVALID_ADDRESS_SPACE, INVALID_PC, CONTAINED, UNKNOWN: our kernel gives no cause for any of them."""
_FAULTS_ALONE = frozenset({700, 702, 709, 719})
"""ILLEGAL_ADDRESS, LAUNCH_TIMEOUT, CONTEXT_IS_DESTROYED, LAUNCH_FAILED: through MPS another process can cause them."""
_NO_VERDICT = {
    **dict.fromkeys((34, 35, 36, 803, 804), _Reason.DRIVER_MISMATCH),
    **dict.fromkeys((209, 218, 221, 222, 223, 801), _Reason.NOT_SUPPORTED),
    **dict.fromkeys((805, 806, 807, 808, 809), _Reason.GPU_BUSY),
    800: _Reason.NO_PERMISSION,
}
"""Drivers that do not fit, what this driver cannot compile, MPS that takes no more clients, and no permission."""
_NVML_EXPLAINS = {
    4: _Reason.NO_PERMISSION,
    9: _Reason.DRIVER_NOT_LOADED,
    12: _Reason.NVML_LIBRARY_MISSING,
    18: _Reason.VERSION_MISMATCH,
}
"""Errors of NVML that explain why CUDA does not start either."""
_REASONS = {
    Step.INIT: _Reason.CUDA_INIT_FAILED,
    Step.FIND: _Reason.CUDA_INIT_FAILED,
    Step.CONTEXT: _Reason.CUDA_CONTEXT_FAILED,
    Step.ALLOCATE: _Reason.CUDA_MEMORY_FAILED,
    Step.COPY_IN: _Reason.CUDA_MEMORY_FAILED,
    Step.COMPILE: _Reason.CUDA_LAUNCH_FAILED,
    Step.LAUNCH: _Reason.CUDA_LAUNCH_FAILED,
    Step.SYNCHRONIZE: _Reason.CUDA_LAUNCH_FAILED,
    Step.COPY_OUT: _Reason.CUDA_MEMORY_FAILED,
    Step.COMPARE: _Reason.CUDA_RESULT_MISMATCH,
    Step.BANDWIDTH: _Reason.CUDA_MEMORY_FAILED,
    Step.FREE: _Reason.CUDA_MEMORY_FAILED,
}
_NEVER_SLOW = frozenset(
    {
        Step.ALLOCATE,
        Step.COPY_IN,
        Step.LAUNCH,
        Step.SYNCHRONIZE,
        Step.COPY_OUT,
        Step.BANDWIDTH,
        Step.FREE,
    }
)
"""Steps that take milliseconds on an idle GPU. Initialising one without persistence mode, making a context and compiling
may take as long as the whole deadline on a healthy machine with many GPUs or little CPU: there, slow is no evidence."""
_NEEDED_BYTES = 1 << 30
"""Free memory with which "out of memory" is the GPU's own fault: a context and our allocation need less than this."""


@dataclass(frozen=True, slots=True)
class Run:
    """How a child ended: `step` is the last that it announced, `outcome` its own account if it gave one."""

    kind: EndKind
    exit_code: int | None
    step: Step
    outcome: Outcome | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What NVML told: in `driver` before the run, and after it about the same GPU if there seems to be a problem."""

    driver: DriverReading
    before: GpuReading | None = None
    after: GpuReading | None = None

    @property
    def used(self) -> bool | None:
        """Whether others computed on the GPU, before or after; None if that cannot be known."""
        told = [each.processes for each in (self.before, self.after) if each is not None]
        if any(told):
            return True
        return None if self.before is None or self.before.processes is None else False

    @property
    def exclusive(self) -> bool:
        """Whether the GPU takes one process only, or none."""
        return any(each.exclusive_process for each in (self.before, self.after) if each is not None)

    @property
    def free_bytes(self) -> int | None:
        """The least that was free; None if NVML does not tell."""
        free = [
            each.memory_total_bytes - each.memory_used_bytes
            for each in (self.before, self.after)
            if each is not None
            and each.memory_total_bytes is not None
            and each.memory_used_bytes is not None
        ]
        return min(free, default=None)


@dataclass(frozen=True, slots=True)
class Judgement:
    """An end, its reason, and what a person should read besides."""

    end: ProbeEnd
    reason: ConditionReason
    message: str = field(default="")


def judge(target: Target, run: Run, around: Surroundings) -> ProbeReport:
    """The report on one device."""
    found = _judge_run(target, run, around)
    outcome = run.outcome or Outcome(run.step)
    return ProbeReport(
        uuid=target.uuid,
        model=target.model or outcome.model,
        end=found.end,
        reason=found.reason,
        step=outcome.step,
        error_code=outcome.error_code,
        error_name=outcome.error_name,
        seconds=round(run.seconds, 3),
        message=found.message,
        link=outcome.link,
        bandwidth_bytes_per_second=outcome.bandwidth,
    )


def _judge_run(target: Target, run: Run, around: Surroundings) -> Judgement:
    if run.kind is EndKind.STUCK:
        return _problem(_Reason.CUDA_TIMEOUT, f"hangs in {run.step} and cannot be killed")
    if run.kind is EndKind.BUSY:
        return _unclear(_Reason.TIMEOUT, "an earlier probe of this device has not ended")
    if run.kind is EndKind.KILLED:
        return _judge_timeout(run.step, around)
    if run.outcome is None:
        return _unclear(_Reason.OTHER, f"the probe ended with {run.exit_code} in {run.step}")
    return _judge_outcome(target, run.outcome, around)


def _judge_timeout(step: Step, around: Surroundings) -> Judgement:
    message = f"no answer in {step}"
    if around.used:
        return _unclear(_Reason.GPU_BUSY, f"{message}, and other processes use the GPU")
    if around.used is None or step not in _NEVER_SLOW:
        return _unclear(_Reason.TIMEOUT, message)
    return _problem(_Reason.CUDA_TIMEOUT, f"{message}, though no other process uses the GPU")


def _judge_outcome(target: Target, outcome: Outcome, around: Surroundings) -> Judgement:
    if outcome.missing:
        absent = outcome.step is Step.LOAD_LIBRARY
        reason = _Reason.DRIVER_NOT_LOADED if absent else _Reason.NOT_SUPPORTED
        return _unclear(reason, f"missing: {outcome.missing}")
    if outcome.error_code is not None:
        return judge_code(outcome.error_code, outcome.step, around, listed=target.gpu is not None)
    if outcome.uuid is not None and not _same_device(target.uuid, outcome.uuid):
        return _unclear(_Reason.OTHER, f"CUDA gave another device, {outcome.uuid}")
    if outcome.wrong_words:
        where = f"first at word {outcome.first_wrong}"
        return _problem(_Reason.CUDA_RESULT_MISMATCH, f"{outcome.wrong_words} wrong words, {where}")
    if outcome.step is Step.DONE:
        return Judgement(ProbeEnd.PASSED, _Reason.HEALTHY)
    return _unclear(_Reason.OTHER, f"the probe ended in {outcome.step}")


def judge_code(code: int, step: Step, around: Surroundings, *, listed: bool) -> Judgement:
    """What an error code of CUDA means in a step. `listed` tells whether NVML lists the device."""
    if step in {Step.INIT, Step.FIND} and (explained := _explained_by_nvml(around.driver)):
        return _unclear(explained, "NVML has an error that explains it")
    if code in _NO_DEVICE:
        return _judge_no_device(around, listed=listed)
    if code in {_OUT_OF_MEMORY, _UNAVAILABLE}:
        return _judge_refusal(code, step, around)
    if code == _SYSTEM_NOT_READY:
        return _problem(_Reason.SYSTEM_NOT_READY)
    return _judge_fault(code, step, around)


def _judge_fault(code: int, step: Step, around: Surroundings) -> Judgement:
    if code in _FAULTS_ALONE and around.used is not False:
        return _unclear(_Reason.GPU_BUSY, "other processes may be the cause")
    if code in _FAULTS or code in _FAULTS_ALONE:
        return _problem(_REASONS.get(step, _Reason.CUDA_INIT_FAILED))
    return _unclear(_NO_VERDICT.get(code, _Reason.OTHER))


def _explained_by_nvml(driver: DriverReading) -> ConditionReason | None:
    if driver.status is DriverStatus.NOT_INSTALLED:
        return _Reason.NOT_SUPPORTED
    if driver.status is not DriverStatus.FAILED or driver.error is None:
        return None
    return _NVML_EXPLAINS.get(driver.error.code)


def _judge_no_device(around: Surroundings, *, listed: bool) -> Judgement:
    if around.exclusive:
        return _unclear(_Reason.GPU_BUSY, "the GPU's compute mode lets no other process in")
    if listed:
        return _problem(_Reason.CUDA_INIT_FAILED, "NVML lists the GPU, CUDA does not")
    return _unclear(_Reason.OTHER, "neither NVML nor CUDA lists it")


def _judge_refusal(code: int, step: Step, around: Surroundings) -> Judgement:
    """Out of memory or unavailable: the GPU's fault only if nobody else has the memory or the GPU."""
    reason = _Reason.OUT_OF_MEMORY if code == _OUT_OF_MEMORY else _Reason.GPU_BUSY
    if around.used is not False or around.exclusive:
        return _unclear(reason, "other processes may be the cause")
    free = around.free_bytes
    if code == _OUT_OF_MEMORY and (free is None or free < _NEEDED_BYTES):
        return _unclear(reason, "the memory is used, or how much is not told")
    return _problem(_REASONS.get(step, _Reason.CUDA_MEMORY_FAILED), "no other process uses the GPU")


def _same_device(uuid: str, got: str) -> bool:
    """Whether CUDA's bare UUID is that of `GPU-…` or `MIG-…`. An older MIG name (MIG-GPU-…/1/0) cannot be compared."""
    kind, _, bare = uuid.partition("-")
    return kind not in {"GPU", "MIG"} or "/" in bare or bare.lower() == got.lower()


def _problem(reason: ConditionReason, message: str = "") -> Judgement:
    return Judgement(ProbeEnd.PROBLEM, reason, message)


def _unclear(reason: ConditionReason, message: str = "") -> Judgement:
    return Judgement(ProbeEnd.INCONCLUSIVE, reason, message)
