"""The command `gpu-admission`: reads argv, the clock and the surroundings, and runs what was asked for.

Nothing below knows any of these; it gets what it needs handed in.
"""

import argparse
import os
import secrets
import socket
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from chassis.errors import NodemendError, PermanentError
from chassis.kube_client import KubeClient
from chassis.running import Program, run_service
from chassis.telemetry import configure_logging, get_logger
from gpu_admission import commands
from gpu_admission.config import AdmissionConfig
from gpu_admission.metrics import PREFIX
from gpu_admission.service import AdmissionService


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 0, 1 (a finding) or 2 (unusable input)."""
    arguments = commands.build_parser(version("nodemend")).parse_args(argv)
    if arguments.command == "serve":
        return serve(arguments.config)
    if arguments.command == "check-config":
        return commands.check_config(arguments.file, sys.stdout, sys.stderr)
    configure_logging(level="error")
    try:
        status = _explain(arguments) if arguments.command == "explain" else _catalogue(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # who reads us, like `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except NodemendError as error:
        sys.stderr.write(f"gpu-admission: {error}\n")
        return 2
    return status


def _explain(arguments: argparse.Namespace) -> int:
    catalogue = commands.read_catalogue(arguments.catalogue, sys.stderr)
    if catalogue is None:
        return 2
    asked = commands.questions(_text(arguments.manifest), arguments.namespace)
    facts = commands.ClusterFacts()
    if not arguments.offline:
        with closing(_client(arguments)) as client:
            facts = commands.facts(client, frozenset(each.namespace for each in asked))
    return commands.explain(asked, catalogue, facts, utc_now(), sys.stdout)


def _catalogue(arguments: argparse.Namespace) -> int:
    if arguments.action == "draft":
        with closing(_client(arguments)) as client:
            return commands.draft(commands.nodes_of(client), sys.stdout)
    catalogue = commands.read_catalogue(arguments.catalogue, sys.stderr)
    if catalogue is None:
        return 2
    with closing(_client(arguments)) as client:
        return commands.lint(catalogue, commands.nodes_of(client), sys.stdout)


def _text(file: Path) -> str:
    if str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise PermanentError(f"{file}: {reason}; name a manifest, or - for stdin") from error


def _client(arguments: argparse.Namespace) -> KubeClient:
    named = arguments.kubeconfig or _kubeconfig_of_the_caller(arguments.context)
    return commands.connect(
        named, arguments.context, get_logger("gpu-admission"), version("nodemend")
    )


def _kubeconfig_of_the_caller(context: str | None) -> Path | None:
    """Where kubectl looks, too; None in a pod, which has its service account and no contexts."""
    if named := os.environ.get("KUBECONFIG"):
        return Path(named)
    in_a_pod = "KUBERNETES_SERVICE_HOST" in os.environ
    return None if in_a_pod and context is None else Path.home() / ".kube" / "config"


def utc_now() -> datetime:
    return datetime.now(UTC)


def _identity() -> str:
    """A pod's name comes from its manifest; elsewhere each process is another one."""
    host = socket.gethostname()
    return os.environ.get("POD_NAME") or f"{host}-{os.getpid()}-{secrets.token_hex(4)}"


def serve(config_file: Path) -> int:
    """Run the webhook until SIGTERM or SIGINT; SIGHUP reads configuration and catalogue again."""

    def make(
        config: AdmissionConfig, registry: CollectorRegistry, log: FilteringBoundLogger
    ) -> AdmissionService:
        return AdmissionService(
            config, registry, log, clock=utc_now, version=version("nodemend"), identity=_identity()
        )

    program = Program("gpu-admission", PREFIX, version("nodemend"), sys.stderr)
    return run_service(config_file, AdmissionConfig, make, program)


if __name__ == "__main__":
    sys.exit(main())
