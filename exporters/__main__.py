"""The command `exporters`: reads argv, the environment and the clock, and runs what was asked for.

Nothing below knows any of these; it gets what it needs handed in. Each sub-command's code is imported only when it is
asked for: the children of the agent are sub-commands, too, and there is one agent on every node.
"""

import importlib
import os
import socket
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import cast
from uuid import uuid4

_HELPERS = {
    "read-nvml": ("exporters.nvml_reader", "read_nvml_command"),
    "gpu-probe": ("exporters.cuda_probe", "gpu_probe_command"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 0, or 2 for unusable input, or the helper's own."""
    given = sys.argv[1:] if argv is None else list(argv)
    if given and given[0] in _HELPERS:
        module, name = _HELPERS[given[0]]
        return cast("int", getattr(importlib.import_module(module), name)(given[1:]))
    return _service(given)


def _service(given: Sequence[str]) -> int:
    from exporters import commands  # noqa: PLC0415 - the helpers above start without it

    arguments = commands.build_parser(version("nodemend")).parse_args(given)
    if arguments.command == "check-config":
        return commands.check_config(arguments.service, arguments.file, sys.stdout, sys.stderr)
    return _SERVICES[arguments.command](arguments)


def utc_now() -> datetime:
    return datetime.now(UTC)


def _node_conditions(arguments: Namespace) -> int:
    from exporters.commands import run_service  # noqa: PLC0415 - see above
    from exporters.config.node_conditions import NodeConditionsSettings  # noqa: PLC0415
    from exporters.node_condition_exporter import NodeConditionsService  # noqa: PLC0415

    make = partial(
        NodeConditionsService,
        clock=utc_now,
        version=version("nodemend"),
        shard_index=arguments.shard_index,
    )
    return run_service(
        "node-conditions",
        arguments.config,
        NodeConditionsSettings,
        make,
        version=version("nodemend"),
        err=sys.stderr,
    )


def _node_agent(arguments: Namespace) -> int:
    from exporters.commands import run_service  # noqa: PLC0415 - see above
    from exporters.config.node_agent import NodeAgentSettings  # noqa: PLC0415
    from exporters.node_agent import NodeAgentService, Surroundings  # noqa: PLC0415

    around = Surroundings(
        os.environ.get("NODE_NAME", ""), dict(os.environ), utc_now, version("nodemend")
    )
    return run_service(
        "node-agent",
        arguments.config,
        NodeAgentSettings,
        partial(NodeAgentService, around=around),
        version=version("nodemend"),
        err=sys.stderr,
    )


def _gpu_monitor(arguments: Namespace) -> int:
    from exporters.commands import run_service  # noqa: PLC0415 - see above
    from exporters.config.gpu_monitor import GpuMonitorSettings  # noqa: PLC0415
    from exporters.gpu_monitor import GpuMonitorService  # noqa: PLC0415

    make = partial(
        GpuMonitorService,
        clock=utc_now,
        version=version("nodemend"),
        identity=f"{socket.gethostname()}_{os.getpid()}_{uuid4().hex[:8]}",
    )
    return run_service(
        "gpu-monitor",
        arguments.config,
        GpuMonitorSettings,
        make,
        version=version("nodemend"),
        err=sys.stderr,
    )


_SERVICES: Mapping[str, Callable[[Namespace], int]] = {
    "node-conditions": _node_conditions,
    "node-agent": _node_agent,
    "gpu-monitor": _gpu_monitor,
}


if __name__ == "__main__":
    sys.exit(main())
