"""The command line of gpu-admission: names, options and help. It parses and does nothing else."""

import argparse
from pathlib import Path

_CATALOGUE_HELP = "the catalogue (YAML)"
_Commands = argparse._SubParsersAction  # noqa: SLF001 - argparse gives the type no public name


def build_parser(version: str) -> argparse.ArgumentParser:
    """The parser; after parsing, `command` is the chosen sub-command, `action` that of `catalogue`."""
    parser = argparse.ArgumentParser(
        prog="gpu-admission",
        description="Lets people say in one line which GPU a pod needs, and finds the nodes.",
    )
    parser.add_argument("--version", action="version", version=f"gpu-admission {version}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = commands.add_parser(
        "serve",
        help="run the webhook",
        description="Answers admission reviews until SIGTERM or SIGINT. A changed catalogue is taken"
        " within seconds, and at SIGHUP. Exit status 0: it was stopped. 2: it cannot start, and one line says why.",
    )
    serve.add_argument(
        "-c", "--config", type=Path, required=True, metavar="FILE", help="the configuration (YAML)"
    )
    check = commands.add_parser(
        "check-config",
        help="say what is wrong with a configuration and its catalogue",
        description="Exit status 0: both can be used. 2: one cannot; one line a mistake.",
    )
    check.add_argument("file", type=Path, metavar="FILE", help="the configuration (YAML)")
    _add_explain(commands)
    _add_catalogue(commands)
    return parser


def _cluster_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="how to reach the cluster (default: as kubectl: $KUBECONFIG or ~/.kube/config)",
    )
    parser.add_argument("--context", metavar="NAME", help="a context of the kubeconfig")


def _add_explain(commands: "_Commands[argparse.ArgumentParser]") -> None:
    explain = commands.add_parser(
        "explain",
        help="what the webhook would make of a manifest, and why",
        description="Shows the change as a diff, why these models, and which nodes could take the"
        " pod now. Without --offline it reads nodes, pods, priority classes and namespaces, as who"
        " calls it. Exit status 0: it would be admitted. 1: it would be denied. 2: a file or the"
        " cluster cannot be used. It changes nothing.",
    )
    explain.add_argument(
        "manifest",
        type=Path,
        metavar="MANIFEST",
        help="a pod or a workload (YAML, several documents allowed); - reads it from stdin",
    )
    explain.add_argument(
        "--catalogue", type=Path, required=True, metavar="FILE", help=_CATALOGUE_HELP
    )
    explain.add_argument(
        "--namespace",
        default="",
        metavar="NAME",
        help="for manifests that name none (default: default)",
    )
    explain.add_argument(
        "--offline",
        action="store_true",
        help="do not ask the cluster: priority classes, namespaces' labels and nodes are unknown",
    )
    _cluster_options(explain)


def _add_catalogue(commands: "_Commands[argparse.ArgumentParser]") -> None:
    catalogue = commands.add_parser(
        "catalogue",
        help="draft a catalogue from the cluster's nodes, or compare one with them",
        description="Both only read: they list the nodes.",
    )
    actions = catalogue.add_subparsers(dest="action", required=True, metavar="ACTION")
    draft = actions.add_parser(
        "draft",
        help="print a catalogue for the cluster's GPU nodes",
        description="Made from the labels of GPU feature discovery; what needs a person is a comment."
        " Exit status 0: printed. 1: no node has these labels. 2: the cluster cannot be used.",
    )
    _cluster_options(draft)
    lint = actions.add_parser(
        "lint",
        help="compare a catalogue with the cluster",
        description="Exit status 0: they agree. 1: findings, one line each. 2: the catalogue or the"
        " cluster cannot be used.",
    )
    lint.add_argument("catalogue", type=Path, metavar="CATALOGUE", help=_CATALOGUE_HELP)
    _cluster_options(lint)
