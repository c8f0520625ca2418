"""PCIeLinkDegraded by generation: a GPU whose link stays slow while data is being copied.

Pure. An idle link lowers its generation to save power, so only what the GPU probe read within its copy loop counts. A
GPU without such a sample is GPUIdle: no verdict, and no doubt either, so the condition does not turn Unknown because
people are working or because nobody probes; widths alone then carry a False.
"""

from chassis.contracts import ConditionReason, ConditionType
from exporters.driver_answers import completed
from exporters.readings import DriverReading, ProbeReport
from exporters.verdict import CheckSpec, Damping, Finding, Memory, Result

SPEC = CheckSpec(
    "pcie_speed", ConditionType.PCIE_LINK_DEGRADED, Damping(fail=3, ok=2, required=False)
)


def check(
    reading: DriverReading, probes: tuple[ProbeReport, ...], boot_id: str, memory: Memory | None
) -> tuple[tuple[Finding, ...], Memory]:
    """Judge the probes that have ended since the last round."""
    judged = {probe.uuid: finding for probe in probes if (finding := _finding(probe)) is not None}
    idle = [
        Finding(gpu.uuid, Result.INCONCLUSIVE, ConditionReason.GPU_IDLE, "not measured under load")
        for gpu in reading.gpus
        if gpu.uuid not in judged
    ]
    return completed([*judged.values(), *idle], reading, boot_id, memory, "no GPU to measure")


def _finding(probe: ProbeReport) -> Finding | None:
    link = probe.link
    if link is None or not link.generation or not link.generation_max:
        return None
    if link.generation < link.generation_max:
        text = f"generation {link.generation} of {link.generation_max} under load"
        reason = ConditionReason.LINK_SPEED_REDUCED
        return Finding(probe.uuid, Result.PROBLEM, reason, text)
    return Finding(probe.uuid, Result.OK, ConditionReason.HEALTHY)
