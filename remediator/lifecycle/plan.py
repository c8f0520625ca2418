"""What an operation would do from here, in words: for dry runs and for `explain`. Pure."""

from remediator.config import DrainStrategy, Playbook, Rung
from remediator.lifecycle.step import Case
from remediator.operation import OPERATION_UID_LABEL

_NAMED = 10


def plan_text(case: Case) -> str:
    """The steps for one operation, with the pods that are on its node now."""
    pods = case.observation.pods or ()
    moving = [
        each.key
        for each in pods
        if not (
            each.mirror or each.daemon_set or each.finished or OPERATION_UID_LABEL in each.labels
        )
    ]
    shown = ", ".join(moving[:_NAMED]) + (
        f" and {len(moving) - _NAMED} more" if len(moving) > _NAMED else ""
    )
    return " -> ".join(steps(case.playbook, f" ({shown})" if shown else ""))


def steps(playbook: Playbook, pods: str = "") -> list[str]:
    """The steps of a playbook, one text each."""
    only = playbook.ladder[0].repair.hand_over
    found = [] if only is not None and not only.isolate else ["isolate the node"]
    for index, rung in enumerate(playbook.ladder):
        found += _rung_steps(rung, pods if index == 0 else "", first=index == 0)
    return found


def _rung_steps(rung: Rung, pods: str, *, first: bool) -> list[str]:
    start = "" if first else "if that does not help: "
    if rung.repair.hand_over is not None:
        return [f"{start}hand over to a person"]
    found = []
    if rung.drain.strategy is not DrainStrategy.NONE:
        found.append(f"{start}drain it by {rung.drain.strategy.value}{pods}")
        start = ""
    times = f", up to {rung.attempts} times" if rung.attempts > 1 else ""
    return [*found, f"{start}{rung.repair.kind}{times}", "prove it healthy and release it"]
