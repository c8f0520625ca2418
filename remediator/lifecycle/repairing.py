"""Executing and AwaitingReturn: one announced repair, done once, judged by what is seen of it. Pure.

The Job's name and the boot id stand in the intent. Creating the Job again meets the first one, and a
repair that wakes in another boot refuses; so a step may be repeated, and the repair is not.
"""

from dataclasses import replace

from chassis.alertmanager import all_match
from chassis.errors import PermanentError
from remediator import repair_jobs
from remediator.cluster import (
    CreateJob,
    DeleteJob,
    DeletePod,
    JobState,
    JobView,
    PodRef,
    PodView,
)
from remediator.config import RestartPods
from remediator.gates import before_harm
from remediator.lifecycle.common import REMOVAL, without_its_job
from remediator.lifecycle.ending import called_off, closed, failed, prove
from remediator.lifecycle.step import Case, Step, act, escalate, go, stay
from remediator.operation import AttemptOutcome, Intent, IntentAction, Phase, Reason
from remediator.repair_jobs import Ending, ending_of


def executing(case: Case) -> Step:
    """Do what the intent says, or find out how it ended."""
    intent = case.status.intent
    if intent is None:
        return escalate(case, Reason.INVALID_OPERATION, "status.intent is missing while Executing")
    if intent.action is IntentAction.RESTART_PODS and case.rung.repair.restart_pods is not None:
        return _restart_pods(case, intent, case.rung.repair.restart_pods)
    if intent.action is not IntentAction.RUN_JOB or case.rung.repair.restart_pods is not None:
        text = "the rung is another repair than was announced"
        end = escalate(case, Reason.PLAYBOOK_GONE, text)
        return without_its_job(case.operation, case.observation, case.config, case.now, end)
    return _run_job(case, intent)


def _run_job(case: Case, intent: Intent) -> Step:
    job = case.observation.job
    if job is None or job.state is JobState.UNKNOWN or job.name != intent.job:
        return stay(case, case.status.reason, "the Job has not been read")
    if intent.giving_up:
        return _give_up(case, job)
    if has_rebooted(case, intent.boot_id):
        return _rebooted(case, job)
    if case.status.wish is not None and _not_yet(intent, job):
        return _call_off(case, job)
    return _by_state(case, intent, job)


def has_rebooted(case: Case, before: str) -> bool:
    """Whether the node shows another boot than before; an empty boot id shows nothing."""
    return bool(before) and bool(case.node.boot_id) and case.node.boot_id != before


def _by_state(case: Case, intent: Intent, job: JobView) -> Step:
    if job.state is JobState.MISSING:
        return _lost(case) if intent.job_seen else _create(case, intent)
    if job.state is JobState.FOREIGN:
        text = f"a Job {job.name} that is not ours stands in the way"
        return failed(case, Reason.JOB_FOREIGN, text, AttemptOutcome.FAILED)
    if job.state is JobState.ACTIVE:
        return _active(case, intent, job)
    if job.state is JobState.SUCCEEDED:
        return _await_return(
            case, Reason.JOB_SUCCEEDED, "the repair has ended", AttemptOutcome.DONE
        )
    return _job_failed(case, job)


def _rebooted(case: Case, job: JobView) -> Step:
    if job.state is JobState.ACTIVE and not job.began:
        return _abandon(case, "the node has rebooted before the Job began")
    text = "the node has a new boot id"
    return _await_return(case, Reason.RETURNED, text, AttemptOutcome.DONE)


def _not_yet(intent: Intent, job: JobView) -> bool:
    """Whether the Job has certainly not begun; of one that was there and is gone nobody knows."""
    never_made = job.state is JobState.MISSING and not intent.job_seen
    return never_made or (job.state is JobState.ACTIVE and not job.began)


def _call_off(case: Case, job: JobView) -> Step:
    """What a person has ended does not begin any more."""
    if job.state is JobState.MISSING:
        return called_off(case)
    text = f"called off by {case.status.wish_by} before the Job began"
    return _abandon(case, text, Reason.RELEASE_REQUESTED)


def _create(case: Case, intent: Intent) -> Step:
    if (waits := _held_back(case)) is not None:
        return waits
    if case.overdue:
        text = "the Job could not be created in time"
        return failed(case, Reason.RUNG_TIMEOUT, text, AttemptOutcome.TIMED_OUT)
    try:
        manifest = repair_jobs.job_for(
            case.operation, case.rung, case.node, case.config.jobs, case.config.job_templates
        )
    except PermanentError as error:
        return escalate(case, Reason.INVALID_OPERATION, f"no Job can be made: {error}")
    namespace = case.config.jobs.namespace
    return act(case, CreateJob(intent.job, namespace, manifest, intent.destructive))


def _held_back(case: Case) -> Step | None:
    """A pause or an open breaker: the time that it takes is not the repair's, but it has an end."""
    held = before_harm(case.for_gates())
    if held:
        text = "; ".join(each.text for each in held)
        if case.now >= (case.status.since or case.now) + case.playbook.gates.max_wait:
            return escalate(case, Reason.GATE_DEADLINE, f"held back for too long: {text}")
        return stay(case, Reason.HELD, text, held_by=held)
    if not case.status.held_by:
        return None
    return go(
        case,
        Phase.EXECUTING,
        Reason.GATES_OPEN,
        "nothing holds the repair back any more",
        intent=case.status.intent,
        deadline=case.now + case.rung.timeout,
    )


def _active(case: Case, intent: Intent, job: JobView) -> Step:
    if not intent.job_seen:
        seen = replace(intent, job_seen=True)
        return stay(case, Reason.JOB_CREATED, f"Job {job.name}", intent=seen)
    if job.image_failed and not job.began:
        return _abandon(case, f"the Job's image cannot be had: {job.text}", Reason.JOB_IMAGE_FAILED)
    return _late(case, job) if case.overdue else _on_its_way(case, job)


def _on_its_way(case: Case, job: JobView) -> Step:
    if job.began:
        return stay(case, Reason.JOB_RUNNING, job.text or "the repair runs")
    text = f"Job {job.name} has not begun: {job.text or 'no pod runs'}"
    return stay(case, Reason.JOB_CREATED, text)


def _late(case: Case, job: JobView) -> Step:
    if job.began and case.rung.repair.reboots:
        text = "the reboot was asked for and the Job has not ended"
        return _await_return(case, Reason.RUNG_TIMEOUT, text, AttemptOutcome.TIMED_OUT)
    if job.began:
        reason = Reason.AMBIGUOUS if case.rung.repair.destructive else Reason.RUNG_TIMEOUT
        return _abandon(case, "the Job runs for too long", reason)
    return _abandon(case, "the Job has not begun in time")


def _abandon(case: Case, text: str, reason: Reason = Reason.RUNG_TIMEOUT) -> Step:
    """Announce that the Job goes before anything else is tried: it must not begin later.

    The reason AMBIGUOUS remembers that it had begun something that must not be done twice.
    """
    intent = case.status.intent
    assert intent is not None  # noqa: S101 - `executing` has looked
    gone = replace(intent, giving_up=True, job_seen=True)
    deadline = case.now + REMOVAL
    return go(case, Phase.EXECUTING, reason, text, intent=gone, deadline=deadline)


def _give_up(case: Case, job: JobView) -> Step:
    if job.state in {JobState.ACTIVE, JobState.SUCCEEDED, JobState.FAILED}:
        return _remove(case, job)
    intent, reason = case.status.intent, case.status.reason
    if intent is not None and has_rebooted(case, intent.boot_id):
        return _await_return(case, Reason.RETURNED, case.status.message, AttemptOutcome.TIMED_OUT)
    if reason is Reason.AMBIGUOUS:
        return failed(case, reason, case.status.message, AttemptOutcome.AMBIGUOUS)
    if reason is Reason.RELEASE_REQUESTED:
        return called_off(case)
    again = not case.rung.repair.destructive or reason is Reason.JOB_IMAGE_FAILED
    return failed(case, reason, case.status.message, AttemptOutcome.TIMED_OUT, again=again)


def _remove(case: Case, job: JobView) -> Step:
    began = job.began and not job.did_nothing and case.rung.repair.destructive
    if began and case.status.reason is not Reason.AMBIGUOUS:
        return _abandon(case, "the Job began while it was being removed", Reason.AMBIGUOUS)
    if case.overdue:
        text = f"{case.status.message}; Job {job.name} cannot be deleted"
        return escalate(case, case.status.reason, text)
    return act(case, DeleteJob(job.name, case.config.jobs.namespace))


def _lost(case: Case) -> Step:
    text = "the Job was deleted by somebody while it was awaited"
    if case.rung.repair.reboots:
        return _await_return(case, Reason.JOB_LOST, text, AttemptOutcome.AMBIGUOUS)
    outcome = AttemptOutcome.AMBIGUOUS if case.rung.repair.destructive else AttemptOutcome.FAILED
    return failed(case, Reason.JOB_LOST, text, outcome)


def _job_failed(case: Case, job: JobView) -> Step:
    repair, ending = case.rung.repair, ending_of(job, case.rung.repair)
    if ending is Ending.OTHER_BOOT:
        text = "the repair found another boot and did nothing"
        return _await_return(case, Reason.WAITS_FOR_REBOOT, text, AttemptOutcome.AMBIGUOUS)
    if ending is Ending.NOTHING_DONE:
        reason = Reason.JOB_IMAGE_FAILED if job.image_failed else Reason.JOB_FAILED
        return failed(case, reason, f"nothing was done: {job.text}", AttemptOutcome.FAILED)
    unknown = ending is Ending.UNKNOWN
    if repair.reboots:
        # The reboot ends the pod that asked for it: only the boot id tells. One that comes late meets, on the node,
        # a script that refuses in another boot; of a power cycle from elsewhere nobody knows.
        blind = unknown and not repair.on_node
        outcome = AttemptOutcome.AMBIGUOUS if blind else AttemptOutcome.TIMED_OUT
        return _await_return(case, Reason.JOB_FAILED, f"the Job has ended: {job.text}", outcome)
    blind = unknown and repair.destructive
    outcome = AttemptOutcome.AMBIGUOUS if blind else AttemptOutcome.FAILED
    return failed(case, Reason.JOB_FAILED, f"the repair failed: {job.text}", outcome)


def _restart_pods(case: Case, intent: Intent, repair: RestartPods) -> Step:
    if case.observation.pods is None:
        return stay(case, case.status.reason, "the node's pods have not been read")
    former = [each for each in case.observation.pods if _is_former(each, intent, repair)]
    if not former:
        text = "the pods were deleted; their owner makes new ones"
        return _await_return(case, Reason.PODS_RESTARTED, text, AttemptOutcome.DONE)
    waits = _held_back(case) if case.status.wish is None else called_off(case)
    if waits is not None:
        return waits
    if case.overdue:
        text = f"{former[0].key} does not go"
        return failed(case, Reason.RUNG_TIMEOUT, text, AttemptOutcome.TIMED_OUT)
    standing = [each for each in former if each.terminating_since is None]
    if standing:
        refs = [PodRef(each.namespace, each.name, each.uid) for each in standing]
        return act(case, *(DeletePod(each) for each in refs))
    return stay(case, Reason.PODS_TERMINATING, f"{former[0].key} terminates")


def _is_former(pod: PodView, intent: Intent, repair: RestartPods) -> bool:
    fits = pod.namespace == repair.namespace and all_match(repair.selector, pod.labels)
    return fits and (pod.created_at is None or pod.created_at <= intent.at)


def _await_return(case: Case, reason: Reason, text: str, outcome: AttemptOutcome) -> Step:
    return go(
        case,
        Phase.AWAITING_RETURN,
        reason,
        text,
        attempts=closed(case, outcome, text),
        deadline=case.now + case.rung.return_within,
    )


def awaiting_return(case: Case) -> Step:
    """A reboot is proven by a new boot id, everything else needs a node that is Ready."""
    rebooted = has_rebooted(case, case.status.boot_id)
    if (rebooted or not _needs_reboot(case)) and case.node.is_ready:
        text = "the node is back" + (" with a new boot id" if rebooted else "")
        return prove(case, Reason.RETURNED, text)
    if not case.overdue:
        reason = Reason.WAITS_FOR_READY if rebooted else Reason.WAITS_FOR_REBOOT
        waits = reason if _needs_reboot(case) else Reason.WAITS_FOR_READY
        return stay(case, waits, "waits for the node to come back")
    last = case.status.attempts[-1].outcome if case.status.attempts else AttemptOutcome.TIMED_OUT
    unknown = last is AttemptOutcome.AMBIGUOUS and not rebooted
    outcome = AttemptOutcome.AMBIGUOUS if unknown else AttemptOutcome.TIMED_OUT
    missing = "is not Ready" if rebooted or not _needs_reboot(case) else "shows no new boot id"
    text = f"the node {missing} in time"
    return failed(case, Reason.NO_RETURN, text, outcome, again=not case.rung.repair.destructive)


def _needs_reboot(case: Case) -> bool:
    return case.rung.repair.reboots
