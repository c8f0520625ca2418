"""What is known of a node's GPUs, how a probe changes it, and how it is kept. Pure.

It lies in an annotation of the node, written by the same patch as the condition: so the two agree whatever fails, and
any replica can go on from there. A verdict is about one boot; only a problem outlives a reboot.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from pydantic import TypeAdapter, ValidationError

from chassis.contracts import (
    DOMAIN,
    ConditionReason,
    ConditionType,
    ProbeResult,
    ProbeVerdict,
)
from exporters.condition_writer import NodeView
from exporters.probe_pods import Outcome
from exporters.readings import ProbeEnd, ProbeReport
from exporters.verdict import (
    NODE,
    CheckReport,
    ConditionPolicy,
    ConditionState,
    Damping,
    Finding,
    Result,
    Status,
    adopt,
    step,
    unchecked,
)

COVERAGE_ANNOTATION = f"{DOMAIN}/probe-coverage"
"""On a Node: the record, as JSON. Nobody but gpu-monitor reads it."""
CHECK = "gpu_probe"
_TYPE = ConditionType.GPU_RUNTIME_ERROR
_Reason = ConditionReason
POLICY = ConditionPolicy(
    type=_TYPE,
    checks={CHECK: Damping(fail=1, ok=1, unknown=3)},
    severity=(
        _Reason.CUDA_RESULT_MISMATCH,
        _Reason.CUDA_TIMEOUT,
        _Reason.SYSTEM_NOT_READY,
        _Reason.CUDA_INIT_FAILED,
        _Reason.CUDA_CONTEXT_FAILED,
        _Reason.CUDA_MEMORY_FAILED,
        _Reason.CUDA_LAUNCH_FAILED,
    ),
    patient=frozenset({_Reason.GPU_BUSY, _Reason.PROBE_PENDING, _Reason.PROBE_PREEMPTED}),
    healthy_message="every GPU has passed its last probe",
)
_WHY_NONE: Mapping[Outcome, ConditionReason] = {
    Outcome.SKIPPED_BUSY: _Reason.GPU_BUSY,
    Outcome.PENDING: _Reason.PROBE_PENDING,
    Outcome.PREEMPTED: _Reason.PROBE_PREEMPTED,
    Outcome.EVICTED: _Reason.PROBE_PREEMPTED,
    Outcome.IMAGE_PULL_FAILED: _Reason.IMAGE_PULL_FAILED,
    Outcome.TIMEOUT: _Reason.TIMEOUT,
    Outcome.INTERRUPTED: _Reason.PROBE_PREEMPTED,
    Outcome.REFUSED: _Reason.OTHER,
    Outcome.ERROR: _Reason.OTHER,
}
_RESULTS = {
    ProbeEnd.PASSED: Result.OK,
    ProbeEnd.PROBLEM: Result.PROBLEM,
    ProbeEnd.INCONCLUSIVE: Result.INCONCLUSIVE,
}
_VERDICTS = {
    ProbeEnd.PASSED: ProbeVerdict.PASSED,
    ProbeEnd.PROBLEM: ProbeVerdict.PROBLEM,
    ProbeEnd.INCONCLUSIVE: ProbeVerdict.INCONCLUSIVE,
}


@dataclass(frozen=True, slots=True)
class Coverage:
    """When a GPU was last probed, its last verdict, and when it last passed. `here`: reported on in the record's boot."""

    ran: datetime
    end: ProbeEnd
    passed: datetime | None = None
    here: bool = True


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """What is known of one node. `probed`: when a probe last ended in this boot, however; `pod`: the last one counted."""

    boot_id: str
    state: ConditionState
    gpus: Mapping[str, Coverage] = field(default_factory=dict)
    probed: datetime | None = None
    pod: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """How one probe ended. Without a completed probe there are no reports."""

    outcome: Outcome
    reports: Sequence[ProbeReport] = ()
    pod: str = ""
    boot_id: str = ""
    detail: str = ""


_RECORD = TypeAdapter(NodeRecord)


def dump_record(record: NodeRecord) -> str:
    """The annotation's value."""
    return _RECORD.dump_json(record, exclude_defaults=True).decode()


def load_record(text: str) -> NodeRecord | None:
    """The record in an annotation; None if there is none that makes sense."""
    if not text:
        return None
    try:
        record = _RECORD.validate_json(text)
    except ValidationError:
        return None
    times = [record.state.last_transition, record.probed]
    times += [each for gpu in record.gpus.values() for each in (gpu.ran, gpu.passed)]
    times += [track.judged for track in record.state.tracks]
    sound = record.state.type == _TYPE and all(each is None or each.tzinfo for each in times)
    return record if sound else None


def current_record(
    record: NodeRecord | None, view: NodeView, boot_id: str, now: datetime
) -> NodeRecord:
    """The record to go on from: the node's own, moved to its boot, or else what its condition says.

    A True found without a record stays until every GPU has passed; a False found so counts for nothing, as nobody
    knows which boot it was about.
    """
    if record is None:
        found = view.conditions.get(_TYPE)
        heartbeat = view.heartbeats.get(_TYPE)
        return NodeRecord(boot_id, adopt(found, heartbeat, now, POLICY, now))
    return record if record.boot_id == boot_id else _in_new_boot(record, boot_id, now)


def _in_new_boot(record: NodeRecord, boot_id: str, now: datetime) -> NodeRecord:
    """Problems stand until they are disproved; all else must be found out anew."""
    before = record.state
    tracks = tuple(
        replace(each, oks=0, misses=0, doubt="") for each in before.tracks if each.standing
    )
    if before.status is Status.TRUE:
        state = replace(before, tracks=tracks)
    else:
        state = replace(unchecked(_TYPE, now), tracks=tracks)
        if before.status is Status.UNKNOWN:
            state = replace(state, last_transition=before.last_transition)
    gpus = {uuid: replace(each, here=False) for uuid, each in record.gpus.items()}
    return NodeRecord(boot_id, state, gpus)


def fold(record: NodeRecord, run: Run, expected: int, now: datetime) -> NodeRecord:
    """The record after a probe. `expected` is how many GPUs the node has.

    A GPU that was not reported on keeps its verdict. One that was known before the node rebooted is given up once as
    many GPUs as there are were seen in this boot.
    """
    if not run.outcome.is_completed:
        reason = _WHY_NONE[run.outcome]
        findings: tuple[Finding, ...] = (Finding(NODE, Result.INCONCLUSIVE, reason, run.detail),)
        gpus = dict(record.gpus)
    else:
        gpus = _covered(record.gpus, run, expected, now)
        findings = _findings(record.state, gpus, run, expected)
    state = step(record.state, CheckReport(CHECK, _TYPE, findings, now), POLICY, now)
    return NodeRecord(record.boot_id, state, gpus, now, run.pod)


def _covered(
    before: Mapping[str, Coverage], run: Run, expected: int, now: datetime
) -> dict[str, Coverage]:
    gpus = dict(before)
    for report in run.reports:
        if not report.uuid:
            continue
        old = gpus.get(report.uuid)
        passed = now if report.end is ProbeEnd.PASSED else old.passed if old else None
        keeps = old is not None and report.end is ProbeEnd.INCONCLUSIVE
        gpus[report.uuid] = Coverage(now, old.end if old and keeps else report.end, passed)
    if sum(each.here for each in gpus.values()) >= expected:
        gpus = {uuid: each for uuid, each in gpus.items() if each.here}
    return gpus


def _findings(
    state: ConditionState, gpus: Mapping[str, Coverage], run: Run, expected: int
) -> tuple[Finding, ...]:
    told = tuple(
        Finding(
            report.uuid or NODE,
            _RESULTS[report.end],
            report.reason,
            report.message,
            definite=True,
        )
        for report in run.reports
    )
    named = {each.subject for each in told}
    judged = {track.subject for track in state.tracks if track.judged and track.subject in gpus}
    judged |= {each.subject for each in told if each.result is not Result.INCONCLUSIVE} - {NODE}
    known = {track.subject for track in state.tracks if track.subject in gpus} | gpus.keys()
    kept = [Finding(uuid, Result.INCONCLUSIVE, _Reason.GPU_BUSY) for uuid in sorted(known - named)]
    blamed = any(track.subject == NODE and track.standing for track in state.tracks)
    all_passed = run.outcome is Outcome.PASSED
    if NODE not in named and (len(judged) < expected or (blamed and not all_passed)):
        kept.append(
            Finding(NODE, Result.INCONCLUSIVE, _Reason.GPU_BUSY, "not every GPU was probed")
        )
    return (*told, *kept)


def proof(run: Run, operation: str, boot_id: str, expected: int, now: datetime) -> ProbeResult:
    """The answer to a probe request. It passes only if as many GPUs as the node has took part, and all passed."""
    verdicts = {each.uuid: _VERDICTS[each.end] for each in run.reports if each.uuid}
    for each in run.reports:
        if not each.uuid and each.end is ProbeEnd.PROBLEM:
            verdicts[NODE] = ProbeVerdict.PROBLEM
    in_time = run.boot_id == boot_id and run.outcome.is_completed
    complete = in_time and len(verdicts) >= max(1, expected)
    return ProbeResult.of(operation, boot_id, now, verdicts if in_time else {}, complete=complete)
