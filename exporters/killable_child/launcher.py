"""The first program of each child: ties its life to the parent's, then becomes the command that was asked for.

Run by path as `python -I -S launcher.py PARENT_PID COMMAND…`, so it uses the standard library alone. It exists because
the parent must never wait for `exec`: a command on a hung network mount blocks there, and then it is this process that
hangs, which has a deadline. As shells do, it ends with 127 when there is no such command and with 126 when it cannot run.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""From linux/prctl.h. It survives exec, except of a set-user-ID program."""


def main(arguments: list[str]) -> int:
    """Become `arguments[1:]`; comes back only if that is impossible."""
    parent, command = int(arguments[0]), arguments[1:]
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.stderr.write(f"prctl: {os.strerror(ctypes.get_errno())}\n")
        return 126
    if os.getppid() != parent:  # it died before the line above took hold
        return 126
    try:
        os.execvp(command[0], command)  # noqa: S606 -- an argument list, no shell
    except FileNotFoundError:
        sys.stderr.write(f"{command[0]}: no such command\n")
        return 127
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
    return 126


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
