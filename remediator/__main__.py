"""The command `remediator`: reads argv, the clock and the surroundings, and runs what was asked for.

Nothing below knows any of these; it gets what it needs handed in.
"""

import argparse
import gc
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from prometheus_client import CollectorRegistry

from chassis.config import ConfigWatcher, dump_settings
from chassis.errors import ConfigError, NodemendError
from chassis.kube_client import KubeClient
from chassis.telemetry import configure_logging, get_logger, new_registry
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
    config = commands.read_config(arguments.config, sys.stderr)
    if config is None:
        return 2
    configure_logging(level="error")
    try:
        return _for_people(arguments, config)
    except NodemendError as error:
        sys.stderr.write(f"{SERVICE}: {commands.told(error)}\n")
        return 2


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
    configure_logging()
    log = get_logger(SERVICE)
    registry = new_registry(SERVICE, version("nodemend"))
    service: Service | None = None

    def reload(config: Config) -> None:
        if service is not None:
            service.use(config)

    try:
        watcher = ConfigWatcher(
            config_file, Config, on_reload=reload, registry=registry, log=log, service=SERVICE
        )
        configure_logging(level=watcher.current.log_level)
        log.info("starting", version=version("nodemend"), config=dump_settings(watcher.current))
        service = Service(watcher.current, registry, log, clock=utc_now, identity=_identity())
    except ConfigError as error:
        sys.stderr.writelines(f"{mistake}\n" for mistake in error.mistakes)
        return 2
    except NodemendError as error:
        sys.stderr.write(f"{SERVICE}: {error}\n")
        return 2
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    signal.signal(signal.SIGHUP, lambda *_: watcher.request_reload())
    gc.collect()
    gc.freeze()  # the modules stay: collections need not walk over them each time
    try:
        service.run(stop, watcher)
    except NodemendError as error:
        sys.stderr.write(f"{SERVICE}: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
