"""The command line of remediator: names, options and help. It parses and does nothing else."""

import argparse
from pathlib import Path

_CONFIG_HELP = "the configuration file (YAML)"


def build_parser(version: str) -> argparse.ArgumentParser:
    """The parser; after parsing, `command` is the chosen sub-command."""
    parser = argparse.ArgumentParser(
        prog="remediator",
        description="Runs the known fix for a failing node, proves that it worked, and hands over"
        " to a person when it did not.",
    )
    parser.add_argument("--version", action="version", version=f"remediator {version}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _config_option(commands.add_parser("serve", help="run the service"))
    check = commands.add_parser(
        "check-config",
        help="say what is wrong with a configuration file",
        description="Exit status 0: the file can be used. 2: it cannot; one line a mistake.",
    )
    check.add_argument("file", type=Path, metavar="FILE", help=_CONFIG_HELP)
    _add_explain(commands)
    _add_peoples(commands)
    status = commands.add_parser("status", help="what runs, why it waits, what is switched off")
    _config_option(status)
    imported = commands.add_parser(
        "import",
        help="turn node-operation-controller's manifests into playbooks and budgets",
        description="Prints YAML for the configuration file, with comments on what has no"
        " counterpart. Exit status 0: all of it has one. 1: some comments need a person. 2: a file"
        " cannot be read.",
    )
    imported.add_argument("files", type=Path, nargs="+", metavar="FILE", help="manifests (YAML)")
    return parser


_Commands = argparse._SubParsersAction  # noqa: SLF001 - argparse gives the type no public name


def _config_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-c", "--config", type=Path, required=True, metavar="FILE", help=_CONFIG_HELP
    )


def _add_explain(commands: "_Commands[argparse.ArgumentParser]") -> None:
    explain = commands.add_parser(
        "explain",
        help="say what a webhook's alerts would begin: playbook, gates now, steps",
        description="Exit status 0: a playbook takes each alert. 1: some begin nothing. 2: the"
        " webhook, the configuration or the cluster cannot be used. It changes nothing.",
    )
    explain.add_argument(
        "payload", type=Path, metavar="PAYLOAD", help="a webhook's JSON body; - reads it from stdin"
    )
    explain.add_argument(
        "--offline", action="store_true", help="do not ask the cluster: playbook and steps only"
    )
    _config_option(explain)


def _add_peoples(commands: "_Commands[argparse.ArgumentParser]") -> None:
    run = commands.add_parser("run", help="begin an operation by hand")
    run.add_argument("playbook", metavar="PLAYBOOK")
    run.add_argument("node", metavar="NODE")
    run.add_argument("--reason", default="", metavar="TEXT", help="for the operation's timeline")
    approve = commands.add_parser("approve", help="let an operation that waits for it begin")
    approve.add_argument("operation", metavar="OPERATION")
    cancel = commands.add_parser(
        "cancel", help="end an operation; a node that was repaired is proven first"
    )
    cancel.add_argument("operation", metavar="OPERATION")
    release = commands.add_parser(
        "release", help="have an escalated node proven healthy and returned"
    )
    release.add_argument("node", metavar="NODE")
    pause = commands.add_parser("pause", help="let nothing new begin, in the fleet or on a node")
    pause.add_argument("--node", default="", metavar="NODE")
    pause.add_argument("--reason", default="", metavar="TEXT", help="why; people will ask")
    resume = commands.add_parser(
        "resume", help="end a pause; without --node this resets the breaker, too"
    )
    resume.add_argument("--node", default="", metavar="NODE")
    for each in (run, approve, cancel, release, pause, resume):
        _config_option(each)
