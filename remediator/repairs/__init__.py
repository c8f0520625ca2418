"""The scripts that repair a node, as they are sent to it in a Job.

Package data; `script` reads it. Which repair is run, and where, is decided elsewhere.
"""

from functools import cache
from importlib.resources import files

SCRIPTS = ("reboot", "reboot_now", "remount_nfs", "reset_gpu", "restart_unit")
"""The repairs that are ours. Each is POSIX sh and stands behind the shared beginning."""


@cache
def script(name: str) -> str:
    """The whole text of a repair, to be run with `sh -c`.

    Raises:
        KeyError: There is no such repair.
    """
    if name not in SCRIPTS:
        raise KeyError(name)
    folder = files("remediator.repairs")
    parts = (folder.joinpath(f"{each}.sh").read_text("utf-8") for each in ("common", name))
    return "\n".join(parts)
