"""The command line of exporters: names, options and help. It parses and does nothing else."""

import argparse
from pathlib import Path

SERVICES = {
    "node-conditions": "serve the conditions of all nodes as metrics (one a cluster)",
    "node-agent": "check this node, write its conditions, serve its metrics (one a node)",
    "gpu-monitor": "probe GPUs through scheduled pods (one a cluster)",
}
"""Services and what they do; each takes `--config FILE`."""

HELPERS = {
    "gpu-probe": "use the GPUs of this machine once and say whether they work",
    "read-nvml": "ask NVIDIA's management library once and print the answer as JSON",
}
"""One-off sub-commands; they parse their own arguments."""

_CONFIG_HELP = "the configuration file (YAML)"


def build_parser(version: str) -> argparse.ArgumentParser:
    """The parser; after parsing, `command` is the chosen sub-command."""
    parser = argparse.ArgumentParser(
        prog="exporters",
        description="Node Conditions, node checks and GPU probes as Prometheus metrics and Node Conditions.",
    )
    parser.add_argument("--version", action="version", version=f"exporters {version}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, says in SERVICES.items():
        service = commands.add_parser(name, help=says, description=says)
        service.add_argument(
            "-c", "--config", type=Path, required=True, metavar="FILE", help=_CONFIG_HELP
        )
        if name == "node-conditions":
            service.add_argument(
                "--shard-index",
                type=int,
                metavar="N",
                help="in place of shard.index, for a StatefulSet whose pods share one file",
            )
    for name, says in HELPERS.items():
        commands.add_parser(name, help=says, add_help=False)
    _add_check_config(commands)
    return parser


_Commands = argparse._SubParsersAction  # noqa: SLF001 - argparse gives the type no public name


def _add_check_config(commands: "_Commands[argparse.ArgumentParser]") -> None:
    check = commands.add_parser(
        "check-config",
        help="say what is wrong with a configuration file",
        description="Exit status 0: the file can be used. 2: it cannot; one line a mistake.",
    )
    check.add_argument(
        "service", choices=sorted(SERVICES), metavar="SERVICE", help="whose file it is"
    )
    check.add_argument("file", type=Path, metavar="FILE", help=_CONFIG_HELP)
