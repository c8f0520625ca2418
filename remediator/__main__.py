"""The command `remediator`: reads argv, the clock and the surroundings, and runs what was asked for.

Nothing below knows any of these; it gets what it needs handed in.
"""

import argparse
import os
import secrets
import socket
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

from prometheus_client import CollectorRegistry

from chassis.errors import NodemendError
from chassis.kube_client import KubeClient
from chassis.running import Program, run_service
from chassis.telemetry import configure_logging, get_logger
from remediator import commands
from remediator.config import Config
from remediator.intake import Intake
from remediator.kube_cluster import KubeCluster, KubeDoor
from remediator.metrics import IntakeMetrics
from remediator.service import SERVICE, Identity, Service


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 0, 1 (a finding) or 2 (unusable input)."""
    arguments = commands.build_parser(version("nodemend")).parse_args(argv)
    if arguments.command == "serve":
        return serve(arguments.config)
    if arguments.command == "check-config":
        return commands.check_config(arguments.file, sys.stdout, sys.stderr)
    if arguments.command == "import":
        return commands.import_manifests(arguments.files, sys.stdout, sys.stderr)
    config = commands.config_of(arguments, _kubeconfig_of_the_caller(), sys.stderr)
    if config is None:
        return 2
    configure_logging(level="error")
    try:
        return _for_people(arguments, config)
    except NodemendError as error:
        sys.stderr.write(f"{SERVICE}: {commands.told(error)}\n")
        return 2


def _kubeconfig_of_the_caller() -> Path | None:
    """Where kubectl looks, too; None in a pod, which has its service account."""
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return None
    return Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")


def _for_people(arguments: argparse.Namespace, config: Config) -> int:
    """The commands that talk to the cluster as the person who calls them."""
    log = get_logger(SERVICE)
    if arguments.command == "explain":
        alerts = commands.read_payload(arguments.payload, sys.stdin.buffer)
        desk = None if arguments.offline else _desk(config)
        return commands.explain(alerts, config, desk, sys.stdout, log)
    desk = _desk(config)
    verbs: dict[str, Callable[[], int]] = {
        "run": lambda: commands.run(desk, arguments.playbook, arguments.node, arguments.reason),
        "approve": lambda: commands.approve(desk, arguments.operation),
        "cancel": lambda: commands.cancel(desk, arguments.operation),
        "release": lambda: commands.release(desk, arguments.node),
        "pause": lambda: commands.pause(desk, arguments.node, arguments.reason),
        "resume": lambda: commands.resume(desk, arguments.node),
        "status": lambda: commands.status(desk),
    }
    return verbs[arguments.command]()


def _desk(config: Config) -> commands.Desk:
    log = get_logger(SERVICE)
    client = KubeClient(config.kubernetes, log, user_agent=f"remediator/{version('nodemend')}")
    cluster = KubeCluster(client, config, clock=utc_now, log=log)
    intake = Intake(
        KubeDoor(cluster, watched=False),
        lambda: config,
        clock=utc_now,
        metrics=IntakeMetrics(CollectorRegistry()),
        log=log,
    )
    return commands.Desk(client, cluster, intake, config, utc_now, sys.stdout)


def utc_now() -> datetime:
    return datetime.now(UTC)


def _identity() -> Identity:
    """A pod's name and node come from its manifest; elsewhere each process is another one.

    A container that is started again in its pod has the same name, and leads again at once.
    """
    host = socket.gethostname()
    name = os.environ.get("POD_NAME") or f"{host}-{os.getpid()}-{secrets.token_hex(4)}"
    return Identity(name, os.environ.get("NODE_NAME", ""), version("nodemend"))


def serve(config_file: Path) -> int:
    """Run the service until SIGTERM or SIGINT; SIGHUP reloads the configuration."""
    make = partial(Service, clock=utc_now, identity=_identity())
    program = Program(SERVICE, SERVICE, version("nodemend"), sys.stderr)
    return run_service(config_file, Config, make, program)


if __name__ == "__main__":
    sys.exit(main())
