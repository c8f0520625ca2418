"""The sub-commands of `remediator`; `__main__` hands them all they need of the surroundings."""

from remediator.commands.checking import check_config, config_of
from remediator.commands.importing import import_manifests
from remediator.commands.parser import build_parser
from remediator.commands.people import Desk, approve, cancel, pause, release, resume, run
from remediator.commands.telling import explain, read_payload, status, told

__all__ = [
    "Desk",
    "approve",
    "build_parser",
    "cancel",
    "check_config",
    "config_of",
    "explain",
    "import_manifests",
    "pause",
    "read_payload",
    "release",
    "resume",
    "run",
    "status",
    "told",
]
