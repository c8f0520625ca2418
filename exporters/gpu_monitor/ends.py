"""From a probe pod and what it printed to how the probe ended. Pure."""

from collections.abc import Sequence

from exporters.cuda_probe.lines import exit_status
from exporters.gpu_monitor.record import Run
from exporters.probe_pods import Outcome, PodView, end_of
from exporters.readings import ProbeEnd, ProbeReport


def run_of(pod: PodView, reports: Sequence[ProbeReport], because: Outcome | None = None) -> Run:
    """How a probe ended that is over, has gone or is withdrawn.

    Args:
        pod: As it was last seen.
        reports: All that it has printed.
        because: Why it was withdrawn; None to go by the pod.
    """
    outcome = because or end_of(pod, reported=len(reports)) or _completed(pod, reports)
    told = tuple(reports) if outcome.is_completed else ()
    return Run(outcome, told, pod.uid, pod.boot_id, pod.detail)


def says_all(pod: PodView, reports: Sequence[ProbeReport]) -> bool:
    """Whether there is a report on each GPU that the pod has asked for, and none seems to be cut off."""
    return len(reports) >= max(1, pod.gpus) and _agrees(pod, reports)


def _completed(pod: PodView, reports: Sequence[ProbeReport]) -> Outcome:
    if not _agrees(pod, reports):
        return Outcome.ERROR
    ends = {each.end for each in reports}
    if ProbeEnd.PROBLEM in ends:
        return Outcome.FAIL
    passed = ends == {ProbeEnd.PASSED} and len(reports) >= pod.gpus
    return Outcome.PASSED if passed else Outcome.INCONCLUSIVE


def _agrees(pod: PodView, reports: Sequence[ProbeReport]) -> bool:
    """Whether the exit status is the one of these reports; a container that was killed has none of its own."""
    if pod.trouble is not None or pod.exit_code is None:
        return True
    return pod.exit_code == exit_status(reports)
