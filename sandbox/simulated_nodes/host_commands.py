"""What a simulated machine answers to the commands of repair scripts: systemctl, mount, nvidia-smi and the like.

Scripts reach it through small shell programs that come first in their PATH; each puts its arguments into a file and
waits for the answer. A command that hangs is never answered.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.simulated_nodes.faults import FaultKind, Remedy
from sandbox.simulated_nodes.history import Happening
from sandbox.simulated_nodes.machine import Machine

ANSWERED = (
    "systemctl",
    "reboot",
    "shutdown",
    "mount",
    "umount",
    "stat",
    "nvidia-smi",
    "modprobe",
    "rmmod",
)
"""The programs that the machine answers."""

_ASK = """#!/bin/sh
# Hands this command to the simulated machine and waits for its answer.
set -u
at="$NODEMEND_HOST_COMMANDS/$$"
{ basename "$0"; for each in "$@"; do printf '%s\\n' "$each"; done; } >"$at.part"
mv "$at.part" "$at.request"
while [ ! -e "$at.answer" ]; do sleep 0.02; done
cat "$at.output"
exit "$(cat "$at.answer")"
"""
_NSENTER = """#!/bin/sh
# The simulated host is already around us: drop the options of nsenter and run the rest.
while [ $# -gt 0 ]; do
    case "$1" in
        --) shift; break ;;
        -t|-S|-G) shift 2 ;;
        -*) shift ;;
        *) break ;;
    esac
done
program=$(basename "$1"); shift
exec "$program" "$@"
"""
_CHROOT = """#!/bin/sh
# The simulated host is already around us: drop the new root and run the rest.
shift
program=$(basename "$1"); shift
exec "$program" "$@"
"""


@dataclass(frozen=True, slots=True)
class Answer:
    exit_code: int = 0
    output: str = ""


HostCommand = Callable[[Machine, Sequence[str]], Answer | None]
"""Gets the whole argument list; None: it hangs."""

RequestReboot = Callable[[str, bool], None]
"""By whom, and whether at once, without a shutdown."""


def write_programs(folder: Path) -> Path:
    """Make the folder of the small shell programs."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = dict.fromkeys(ANSWERED, _ASK) | {"nsenter": _NSENTER, "chroot": _CHROOT}
    for name, text in texts.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    return folder


class Host:
    """Answers the commands that scripts run on one machine."""

    def __init__(
        self,
        machine: Machine,
        request_reboot: RequestReboot,
        more: Mapping[str, HostCommand] | None = None,
    ) -> None:
        """`more` are commands of a test's own; they win over those that are here."""
        self._machine = machine
        self._request_reboot = request_reboot
        self._more = dict(more or {})

    def run(self, argv: Sequence[str]) -> Answer | None:
        """The answer to a command; None: it hangs."""
        self._machine.note(Happening.HOST_COMMAND, " ".join(argv))
        program, *rest = argv
        if program in self._more:
            return self._more[program](self._machine, argv)
        match program, *rest:
            case ("systemctl", "reboot", *_) | ("reboot", *_) | ("shutdown", "-r", *_):
                now = "--force" in rest or "-f" in rest or "-ff" in rest
                return self._reboot(" ".join(argv), now)
            case ("systemctl", "restart", unit):
                self._machine.apply(Remedy.RESTART_UNIT)
                return Answer(output=f"restarted {unit}\n")
            case "mount" | "umount" | "stat", *options:
                return self._file_system(program, _path_of(options), options)
            case "nvidia-smi", *options:
                return self._nvidia_smi(options)
        return Answer()

    def sysrq(self, letters: str) -> None:
        """What the kernel does when letters are written to /proc/sysrq-trigger."""
        self._machine.note(Happening.HOST_COMMAND, f"sysrq {letters}")
        if "b" in letters:
            self._reboot("sysrq b", now=True)

    def _reboot(self, source: str, now: bool) -> Answer:  # noqa: FBT001  (as RequestReboot)
        if self._machine.has(FaultKind.REBOOT_REFUSED):
            return Answer(1, "Failed to reboot: simulated refusal\n")
        self._request_reboot(source, now)
        return Answer()

    def _file_system(self, program: str, path: str, options: Sequence[str]) -> Answer | None:
        if program == "stat":
            return self._stat(path)
        if program == "umount":
            lazy = any(each.startswith("-") and "l" in each for each in options)
            return self._unmount(path, lazy=lazy)
        if self._machine.is_mounted(path):
            return Answer(32, f"mount.nfs: {path} is busy or already mounted\n")
        return Answer() if self._machine.mount(path) else None

    def _unmount(self, path: str, *, lazy: bool) -> Answer | None:
        if not lazy and self._machine.hangs(path):
            return None
        if not self._machine.unmount(path):
            return Answer(32, f"umount: {path}: not mounted.\n")
        return Answer()

    def _stat(self, path: str) -> Answer | None:
        """Whoever asks for a file system that hangs waits with it; one that was taken off hangs nobody."""
        if self._machine.hangs(path):
            return None
        if not (self._machine.root / path.lstrip("/")).exists():
            return Answer(1, f"stat: cannot stat '{path}': No such file or directory\n")
        return Answer(output=f'File: "{path}"\n')

    def _nvidia_smi(self, options: Sequence[str]) -> Answer:
        gpus = self._machine.healthy_gpus()
        if "--gpu-reset" in options or "-r" in options:
            wanted = [gpu for gpu in gpus if {gpu.uuid, str(gpu.index)} & set(options)]
            for gpu in wanted or gpus:
                self._machine.apply(Remedy.GPU_RESET, gpu=gpu.index)
            return Answer(output="all done\n")
        lines = [f"GPU {gpu.index}: {gpu.model.product} (UUID: {gpu.uuid})\n" for gpu in gpus]
        return Answer(output="".join(lines))


def _path_of(options: Sequence[str]) -> str:
    paths = [each for each in options if each.startswith("/")]
    return paths[-1] if paths else ""
