"""Executing and AwaitingReturn: one announced repair, done once, judged by what is seen of it. Pure.

The Job's name and the boot id stand in the intent. Creating the Job again meets the first one, and a
repair that wakes in another boot refuses; so a step may be repeated, and the repair is not.
"""

from dataclasses import replace

from chassis.alertmanager import all_match
from chassis.errors import PermanentError
from remediator import repair_jobs
from remediator.cluster import (
    EXIT_OTHER_BOOT,
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
from remediator.lifecycle.ending import closed, failed, prove
from remediator.lifecycle.step import Case, Step, act, escalate, go, stay
from remediator.operation import AttemptOutcome, Intent, IntentAction, Phase, Reason


def executing(case: Case) -> Step:
    """Do what the intent says, or find out how it ended."""
    intent = case.status.intent
    if intent is None:
        return escalate(case, Reason.INVALID_OPERATION, "status.intent is missing while Executing")
    if intent.action is IntentAction.RESTART_PODS and case.rung.repair.restart_pods is not None:
        return _restart_pods(case, intent, case.rung.repair.restart_pods)
    if intent.action is not IntentAction.RUN_JOB or case.rung.repair.restart_pods is not None:
        return escalate(case, Reason.PLAYBOOK_GONE, "the rung is another repair than was announced")
    return _run_job(case, intent)


def _run_job(case: Case, intent: Intent) -> Step:
    job = case.observation.job
    if job is None or job.state is JobState.UNKNOWN or job.name != intent.job:
        return stay(case, case.status.reason, "the Job has not been read")
    if intent.giving_up:
        return _give_up(case, job)
    if has_rebooted(case, intent.boot_id):
        return _rebooted(case, job)
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


def _create(case: Case, intent: Intent) -> Step:
    if case.overdue:
        text = "the Job could not be created in time"
        return failed(case, Reason.RUNG_TIMEOUT, text, AttemptOutcome.TIMED_OUT)
    held = before_harm(case.for_gates())
    if held:
        text = "; ".join(each.text for each in held)
        return stay(case, Reason.HELD, text, held_by=held)
    try:
        manifest = repair_jobs.job_for(
            case.operation, case.rung, case.node, case.config.jobs, case.config.job_templates
        )
    except PermanentError as error:
        return escalate(case, Reason.INVALID_OPERATION, f"no Job can be made: {error}")
    namespace = case.config.jobs.namespace
    return act(case, CreateJob(intent.job, namespace, manifest, intent.destructive))


def _active(case: Case, intent: Intent, job: JobView) -> Step:
    if not intent.job_seen:
        seen = replace(intent, job_seen=True)
        return stay(case, Reason.JOB_CREATED, f"Job {job.name}", intent=seen)
    if job.image_failed and not job.began:
        return _abandon(case, f"the Job's image cannot be had: {job.text}", Reason.JOB_IMAGE_FAILED)
    if not case.overdue:
        return stay(case, Reason.JOB_RUNNING, job.text or "the repair runs")
    if job.began and case.rung.repair.reboots:
        text = "the reboot was asked for and the Job has not ended"
        return _await_return(case, Reason.RUNG_TIMEOUT, text, AttemptOutcome.TIMED_OUT)
    did = "runs for too long" if job.began else "has not begun in time"
    return _abandon(case, f"the Job {did}")


def _abandon(case: Case, text: str, reason: Reason = Reason.RUNG_TIMEOUT) -> Step:
    """Announce that the Job goes before anything else is tried: it must not begin later."""
    intent = case.status.intent
    assert intent is not None  # noqa: S101 - `executing` has looked
    gone = replace(intent, giving_up=True, job_seen=True)
    return go(case, Phase.EXECUTING, reason, text, intent=gone, deadline=case.status.deadline)


def _give_up(case: Case, job: JobView) -> Step:
    if job.state in {JobState.ACTIVE, JobState.SUCCEEDED, JobState.FAILED}:
        return act(case, DeleteJob(job.name, case.config.jobs.namespace))
    intent = case.status.intent
    if intent is not None and has_rebooted(case, intent.boot_id):
        return _await_return(case, Reason.RETURNED, case.status.message, AttemptOutcome.TIMED_OUT)
    return failed(
        case,
        case.status.reason,
        case.status.message,
        AttemptOutcome.TIMED_OUT,
        again=not case.rung.repair.destructive or case.status.reason is Reason.JOB_IMAGE_FAILED,
    )


def _lost(case: Case) -> Step:
    text = "the Job was deleted by somebody while it was awaited"
    if case.rung.repair.reboots:
        return _await_return(case, Reason.JOB_LOST, text, AttemptOutcome.AMBIGUOUS)
    outcome = AttemptOutcome.AMBIGUOUS if case.rung.repair.destructive else AttemptOutcome.FAILED
    return failed(case, Reason.JOB_LOST, text, outcome)


def _job_failed(case: Case, job: JobView) -> Step:
    repair = case.rung.repair
    if job.exit_code == EXIT_OTHER_BOOT:
        text = "the repair found another boot and did nothing"
        return _await_return(case, Reason.WAITS_FOR_REBOOT, text, AttemptOutcome.AMBIGUOUS)
    if job.did_nothing:
        reason = Reason.JOB_IMAGE_FAILED if job.image_failed else Reason.JOB_FAILED
        return failed(case, reason, f"nothing was done: {job.text}", AttemptOutcome.FAILED)
    if repair.reboots:
        # The reboot ends the pod that asked for it: only the boot id tells.
        known = repair.on_node or job.exit_code is not None
        outcome = AttemptOutcome.TIMED_OUT if known else AttemptOutcome.AMBIGUOUS
        return _await_return(case, Reason.JOB_FAILED, f"the Job has ended: {job.text}", outcome)
    known = job.exit_code is not None or not repair.destructive
    outcome = AttemptOutcome.FAILED if known else AttemptOutcome.AMBIGUOUS
    return failed(case, Reason.JOB_FAILED, f"the repair failed: {job.text}", outcome)


def _restart_pods(case: Case, intent: Intent, repair: RestartPods) -> Step:
    if case.observation.pods is None:
        return stay(case, case.status.reason, "the node's pods have not been read")
    former = [each for each in case.observation.pods if _is_former(each, intent, repair)]
    if not former:
        text = "the pods were deleted; their owner makes new ones"
        return _await_return(case, Reason.PODS_RESTARTED, text, AttemptOutcome.DONE)
    if case.overdue:
        text = f"{former[0].key} does not go"
        return failed(case, Reason.RUNG_TIMEOUT, text, AttemptOutcome.TIMED_OUT)
    standing = [each for each in former if each.terminating_since is None]
    held = before_harm(case.for_gates())
    if held:
        text = "; ".join(each.text for each in held)
        return stay(case, Reason.HELD, text, held_by=held)
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
