"""Finds out by computing whether a GPU works: a small job through the CUDA driver API, without any toolkit.

In the child, with few imports: `binding` (ctypes on libcuda), `kernel` (what is computed), `steps`, `child`.
In the parent: `devices` (what is to be probed), `verdict` (what an end means), `running` (one killable child a device),
`command` (`exporters gpu-probe`). Only `binding` calls CUDA, and only in a child, since any call may hang.

This file imports nothing heavy: every child would pay for it.
"""

from collections.abc import Sequence


def gpu_probe_command(argv: Sequence[str]) -> int:
    """`exporters gpu-probe`: 0 all passed, 1 a problem, 2 no verdict for some (or unusable arguments)."""
    from exporters.cuda_probe import command  # noqa: PLC0415 -- see above

    return command.run(argv)
