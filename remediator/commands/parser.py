"""The command line of remediator: names, options and help. It parses and does nothing else."""

import argparse
from pathlib import Path

_CONFIG_HELP = "the configuration file (YAML)"
_REFUSED = "2: it was not done, and one line says why."


def build_parser(version: str) -> argparse.ArgumentParser:
    """The parser; after parsing, `command` is the chosen sub-command."""
    parser = argparse.ArgumentParser(
        prog="remediator",
        description="Runs the known fix for a failing node, proves that it worked, and hands over"
        " to a person when it did not.",
    )
    parser.add_argument("--version", action="version", version=f"remediator {version}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = commands.add_parser(
        "serve",
        help="run the service",
        description="Takes webhooks and runs operations until SIGTERM or SIGINT; SIGHUP reloads the"
        " file. Exit status 0: it was stopped. 2: it cannot start, and one line says why.",
    )
    _config_option(serve)
    check = commands.add_parser(
        "check-config",
        help="say what is wrong with a configuration file",
        description="Exit status 0: the file can be used. 2: it cannot; one line a mistake.",
    )
    check.add_argument("file", type=Path, metavar="FILE", help=_CONFIG_HELP)
    _add_explain(commands)
    _add_peoples(commands)
    status = commands.add_parser(
        "status",
        help="what runs, why it waits, what is switched off",
        description="Exit status 0: told. 2: the configuration or the cluster cannot be used.",
    )
    _cluster_options(status)
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


def _cluster_options(parser: argparse.ArgumentParser, *, needs_file: bool = False) -> None:
    """By which configuration and as whom the API is asked."""
    parser.set_defaults(offline=False)
    without = "" if needs_file else "; without it, the defaults hold"
    parser.add_argument(
        "-c",
        "--config",
        type=Path,
        required=needs_file,
        metavar="FILE",
        help=f"{_CONFIG_HELP}, for where things are{without}",
    )
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="default: that of the configuration, else $KUBECONFIG or ~/.kube/config",
    )
    parser.add_argument("--context", metavar="NAME", help="a context of the kubeconfig")


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
    _cluster_options(explain, needs_file=True)


def _add_peoples(commands: "_Commands[argparse.ArgumentParser]") -> None:
    run = commands.add_parser(
        "run",
        help="begin an operation by hand",
        description="All gates hold it back as any other; a playbook in dry run only says what it"
        f" would do. Exit status 0: it begins. 1: the node has an operation already. {_REFUSED}",
    )
    run.add_argument("playbook", metavar="PLAYBOOK", help="the name of a playbook")
    run.add_argument("node", metavar="NODE", help="the name of a node")
    run.add_argument("--reason", default="", metavar="TEXT", help="for the operation's timeline")
    words = {
        "approve": "let an operation that waits for it begin",
        "cancel": "end an operation; a node that was repaired is proven first",
    }
    told = [run]
    for name, text in words.items():
        told.append(_told(commands, name, text))
        told[-1].add_argument(
            "operation", metavar="OPERATION", help="its name, as `status` shows it"
        )
    release = _told(commands, "release", "have an escalated node proven healthy and returned")
    release.add_argument("node", metavar="NODE", help="the name of the node")
    pause = _told(commands, "pause", "let nothing new begin, in the fleet or on a node")
    pause.add_argument("--reason", default="", metavar="TEXT", help="why; people will ask")
    resume = _told(commands, "resume", "end a pause; without --node this resets the breaker, too")
    for each in (pause, resume):
        each.add_argument(
            "--node", default="", metavar="NODE", help="only this node, not the fleet"
        )
    for each in (*told, release, pause, resume):
        _cluster_options(each)


def _told(
    commands: "_Commands[argparse.ArgumentParser]", name: str, text: str
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}. Your name, as the API knows it, is kept."
        f" Exit status 0: it is written. {_REFUSED}",
    )
