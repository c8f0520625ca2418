"""Asks NVIDIA's management library (NVML) about all GPUs, in a killable child, because any of its calls may hang.

`child` runs in the child and is all that imports pynvml; `reading` starts it and turns its line into a DriverReading;
`pcie` reads what sysfs says of the same devices. Nothing here judges: an error is handed on as it is.

This file imports nothing heavy: the child pays for it once a minute on every node.
"""

import sys
from collections.abc import Sequence


def read_nvml_command(argv: Sequence[str]) -> int:
    """`exporters read-nvml`: ask in this process and print one JSON line. The exit status is 2 without pynvml."""
    try:
        from exporters.nvml_reader import child  # noqa: PLC0415 -- see above
    except ModuleNotFoundError as error:
        if error.name != "pynvml":
            raise
        sys.stderr.write("read-nvml needs the package nvidia-ml-py: pip install 'nodemend[gpu]'\n")
        return 2
    return child.main(argv)
