"""The arguments of our own repairs: from the configuration, and from the labels of the causes.

Pure. Labels come from outside: they are checked here and handed over as arguments, never as a part of a script.
"""

import re
from collections.abc import Callable, Iterator

from chassis.errors import PermanentError
from remediator.config import Repair
from remediator.operation import NodeOperation

_GPU = re.compile(r"GPU-[0-9A-Fa-f][0-9A-Fa-f-]{0,63}", re.ASCII)
_LONGEST_PATH = 4095
Check = Callable[[str], str]
"""What is wrong with a value, or nothing."""


def arguments_of(operation: NodeOperation, repair: Repair) -> tuple[str, ...]:
    """What the repair's script gets.

    Raises:
        PermanentError: A cause names something that cannot be a mount point or a GPU.
    """
    if repair.remount_nfs is not None:
        return tuple(_checked(operation, repair.remount_nfs.mount_label, _mount_point))
    if repair.reset_gpu is not None:
        return tuple(_checked(operation, repair.reset_gpu.uuid_label, _gpu))
    if repair.restart_unit is not None:
        return (repair.restart_unit.unit,)
    return ()


def _checked(operation: NodeOperation, label: str, check: Check) -> Iterator[str]:
    named = {cause.labels[label]: cause for cause in operation.spec.causes if label in cause.labels}
    for value, cause in sorted(named.items()):
        if not value:
            continue
        if mistake := check(value):
            raise PermanentError(f"alert {cause.name}: label {label}={value!r} {mistake}")
        yield value


def _mount_point(value: str) -> str:
    if not value.startswith("/") or len(value) > _LONGEST_PATH:
        return "is no mount point; it must be an absolute path"
    if "\0" in value or "\n" in value:
        return "is no mount point that can be handed over"
    return ""


def _gpu(value: str) -> str:
    if value.startswith("MIG-"):
        return "is a part of a GPU; only whole ones can be reset"
    return "" if _GPU.fullmatch(value) else "is no UUID of a GPU, like GPU-8f6c…"
