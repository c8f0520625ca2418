"""Which devices are to be probed, of what NVML or CUDA listed. Pure.

A GPU in MIG mode is no device for CUDA: its slices are, each seen by a process of its own.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from chassis.contracts import ConditionReason
from exporters.readings import DriverReading, DriverStatus, GpuReading, ProbeEnd, ProbeReport

DEFINITE = frozenset({15, 16})
"""NVML_ERROR_GPU_IS_LOST and NVML_ERROR_RESET_REQUIRED: NVML knows the device and says that it does not work."""


@dataclass(frozen=True, slots=True)
class Target:
    """A device for one child. `visible` is what CUDA_VISIBLE_DEVICES takes; `gpu` its (whole) GPU as NVML told of it."""

    visible: str
    uuid: str
    model: str = ""
    gpu: GpuReading | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to probe, and what can be said of devices that cannot be."""

    targets: tuple[Target, ...]
    reports: tuple[ProbeReport, ...] = ()


def plan_probes(reading: DriverReading, wanted: Collection[str] = ()) -> Plan:
    """The devices that NVML lists; of these only `wanted`, if any are (a GPU's UUID stands for its slices, too).

    A wanted device that NVML does not list is tried all the same: CUDA has the last word.
    """
    targets = [target for gpu in reading.gpus for target in _targets_of(gpu)]
    reports = [*map(_without_slices, _empty_mig(reading.gpus)), *_unreachable(reading)]
    if not wanted:
        return Plan(tuple(targets), tuple(reports))
    chosen = [each for each in targets if _is_wanted(each, wanted)]
    known = {each.uuid for each in reports} | {
        name for each in chosen for name in (each.uuid, each.gpu.uuid if each.gpu else "")
    }
    unlisted = [Target(uuid, uuid) for uuid in sorted(set(wanted) - known)]
    return Plan(
        tuple(chosen + unlisted), tuple(each for each in reports if each.uuid in set(wanted))
    )


def cuda_targets(records: Iterable[dict[str, object]]) -> tuple[Target, ...]:
    """The devices of a child's `--list`, for a node where NVML could not be asked."""
    found = []
    for record in records:
        if isinstance(ordinal := record.get("device"), int):
            uuid = record.get("uuid")
            name = f"GPU-{uuid}" if isinstance(uuid, str) else f"ordinal:{ordinal}"
            found.append(Target(str(ordinal), name, str(record.get("model") or "")))
    return tuple(found)


def _targets_of(gpu: GpuReading) -> Iterator[Target]:
    if not gpu.mig_enabled:
        yield Target(gpu.uuid, gpu.uuid, gpu.model, gpu)
    for part in gpu.mig_devices:
        yield Target(part.uuid, part.uuid, f"{gpu.model} MIG {part.profile}".rstrip(), gpu)


def _is_wanted(target: Target, wanted: Collection[str]) -> bool:
    return target.uuid in wanted or (target.gpu is not None and target.gpu.uuid in wanted)


def _empty_mig(gpus: Iterable[GpuReading]) -> Iterator[GpuReading]:
    return (gpu for gpu in gpus if gpu.mig_enabled and not gpu.mig_devices)


def _without_slices(gpu: GpuReading) -> ProbeReport:
    return no_probe(
        gpu.uuid,
        gpu.model,
        ConditionReason.NOT_SUPPORTED,
        "MIG is on and no slice exists, so nothing can compute",
    )


def _unreachable(reading: DriverReading) -> Iterator[ProbeReport]:
    """Devices that NVML counts and gives no handle or name for; without a UUID, they are told by their index."""
    if reading.status is not DriverStatus.READ:
        return
    for index, error in reading.errors:
        definite = error.code in DEFINITE
        yield no_probe(
            f"index:{index}",
            "",
            ConditionReason.CUDA_INIT_FAILED if definite else ConditionReason.OTHER,
            f"NVML error {error.code} in {error.call} for the GPU with index {index}",
            end=ProbeEnd.PROBLEM if definite else ProbeEnd.INCONCLUSIVE,
        )


def no_probe(
    uuid: str,
    model: str,
    reason: ConditionReason,
    message: str,
    *,
    end: ProbeEnd = ProbeEnd.INCONCLUSIVE,
) -> ProbeReport:
    """A report about a device that no child was started for."""
    return ProbeReport(uuid, model, end, reason, "enumerate", None, "", 0.0, message)
