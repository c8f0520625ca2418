"""The command line of alerts2gh: names, options and help. It parses and does nothing else."""

import argparse
from pathlib import Path

from alerts2gh.commands.stored import REPORT_FORMATS
from alerts2gh.overview import MAX_DAYS

_CONFIG_HELP = "the configuration file (YAML)"


def build_parser(version: str) -> argparse.ArgumentParser:
    """The parser; after parsing, `command` is the chosen sub-command (and `letters` its own)."""
    parser = argparse.ArgumentParser(
        prog="alerts2gh",
        description="Turns Alertmanager's webhooks into GitHub issues that open, close and reopen"
        " by themselves.",
    )
    parser.add_argument("--version", action="version", version=f"alerts2gh {version}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="run the service")
    _config_option(serve)
    _add_check_config(commands)
    _add_route(commands)
    _add_replay(commands)
    _add_dead_letters(commands)
    status = commands.add_parser("status", help="what is open, waiting, refused and given up")
    _config_option(status)
    _service_options(status)
    _add_report(commands)
    return parser


_Commands = argparse._SubParsersAction  # noqa: SLF001 - argparse gives the type no public name


def _config_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-c", "--config", type=Path, required=True, metavar="FILE", help=_CONFIG_HELP
    )


def _add_check_config(commands: "_Commands[argparse.ArgumentParser]") -> None:
    check = commands.add_parser(
        "check-config",
        help="say what is wrong with a configuration file",
        description="Exit status 0: the file can be used. 2: it cannot; one line a mistake.",
    )
    check.add_argument("file", type=Path, metavar="FILE", help=_CONFIG_HELP)


def _add_route(commands: "_Commands[argparse.ArgumentParser]") -> None:
    route = commands.add_parser(
        "route",
        help="say where a webhook's alerts would be filed, and why",
        description="Exit status 0: every alert has a place. 1: some have none. 2: the webhook or"
        " the configuration cannot be used.",
    )
    route.add_argument(
        "payload", type=Path, metavar="PAYLOAD", help="a webhook's JSON body; - reads it from stdin"
    )
    _config_option(route)
    route.add_argument(
        "--query",
        default="",
        metavar="TEXT",
        help="query parameters of the webhook's URL, like 'owner=example-org&repo=ops'",
    )


def _add_replay(commands: "_Commands[argparse.ArgumentParser]") -> None:
    replay = commands.add_parser(
        "replay",
        help="send recorded webhooks to a running alerts2gh, or say what they would do",
    )
    replay.add_argument(
        "paths", type=Path, nargs="+", metavar="FILE|DIR", help="webhook bodies; *.json of a folder"
    )
    _config_option(replay)
    replay.add_argument(
        "--dry-run", action="store_true", help="write nothing; say what would be done to GitHub now"
    )
    _service_options(replay)


def _service_options(parser: argparse.ArgumentParser) -> None:
    """How to reach the running service, where its configuration does not say it."""
    parser.add_argument(
        "--url", help="the address of the running alerts2gh (default: by serving.listen)"
    )
    parser.add_argument(
        "--bearer-token-file",
        type=Path,
        metavar="FILE",
        help="holds the token to send with it (default: by auth)",
    )
    parser.add_argument(
        "--ca-file",
        type=Path,
        metavar="FILE",
        help="certificate authorities to trust (default: the certificate in serving.tls itself;"
        " with --url the system's)",
    )
    parser.add_argument(
        "--client-cert-file", type=Path, metavar="FILE", help="a client certificate to show"
    )
    parser.add_argument("--client-key-file", type=Path, metavar="FILE", help="and its key")


def _add_dead_letters(commands: "_Commands[argparse.ArgumentParser]") -> None:
    letters = commands.add_parser(
        "dead-letters", help="list what was given up, or bring it back to work"
    )
    actions = letters.add_subparsers(dest="letters", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="what was given up, when and why")
    _config_option(listing)
    _service_options(listing)
    requeue = actions.add_parser("requeue", help="try again, once the cause is mended")
    _config_option(requeue)
    _service_options(requeue)
    which = requeue.add_mutually_exclusive_group(required=True)
    which.add_argument("ids", type=int, nargs="*", default=[], metavar="ID", help="from the list")
    which.add_argument("--all", action="store_true", help="every dead letter")


def _add_report(commands: "_Commands[argparse.ArgumentParser]") -> None:
    report = commands.add_parser(
        "report", help="which alerts keep coming, how they ended, what to automate next"
    )
    _config_option(report)
    report.add_argument(
        "--days", type=_days, default=30, metavar="N", help="how far back (default: %(default)s)"
    )
    report.add_argument(
        "--format", choices=sorted(REPORT_FORMATS), default="markdown", help="(default: markdown)"
    )
    _service_options(report)


def _days(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MAX_DAYS:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {MAX_DAYS}")
    return int(text)
