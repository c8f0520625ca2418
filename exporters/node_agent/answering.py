"""What the agent answers to a probe request: the verdicts of all GPUs that should be here, put together. Pure.

The form of the answer is `ProbeResult` of chassis.contracts.
"""

from collections.abc import Collection, Iterable
from datetime import datetime

from chassis.contracts import ProbeResult, ProbeVerdict
from exporters.readings import ProbeReport

_WORST_FIRST = (ProbeVerdict.PROBLEM, ProbeVerdict.INCONCLUSIVE, ProbeVerdict.PASSED)


def answer_to(
    operation: str,
    boot_id: str,
    at: datetime,
    reports: Iterable[ProbeReport],
    *,
    missing: Collection[str] = (),
    lost: Collection[str] = (),
) -> ProbeResult:
    """The answer that these reports give.

    Args:
        operation: Who asked.
        boot_id: Of the boot in which all of them ran.
        at: When the last of them ended.
        reports: One a device.
        missing: GPUs of this node that were not seen: no verdict.
        lost: GPUs that are known to be lost: a problem.
    """
    gpus = dict.fromkeys(missing, ProbeVerdict.INCONCLUSIVE)
    gpus |= dict.fromkeys(lost, ProbeVerdict.PROBLEM)
    for report in reports:
        if report.uuid:
            told = (ProbeVerdict(report.end.value), gpus.get(report.uuid, ProbeVerdict.PASSED))
            gpus[report.uuid] = min(told, key=_WORST_FIRST.index)
    # Complete, as what is missing has a verdict of its own.
    moment = at.replace(microsecond=0)
    return ProbeResult.of(operation, boot_id, moment, dict(sorted(gpus.items())), complete=True)


def is_final(answer: ProbeResult) -> bool:
    """Whether asking again would be of no use: each GPU has passed or has a problem."""
    return bool(answer.gpus) and ProbeVerdict.INCONCLUSIVE not in answer.gpus.values()
