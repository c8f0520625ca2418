"""The command `alerts2gh`: reads argv, the clock and the surroundings, and runs what was asked for.

Nothing below knows any of these; it gets what it needs handed in.
"""

import argparse
import gc
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from alerts2gh import commands
from alerts2gh.config import Config
from alerts2gh.ports import Tracker
from alerts2gh.service import SERVICE, Service
from alerts2gh.store import open_copy, open_store
from alerts2gh.worker import NO_LIMITS, DryRun, RecordingTracker, known_issue, lift_blocks
from chassis.errors import NodemendError
from chassis.running import Program, run_service
from chassis.telemetry import configure_logging, get_logger, new_registry

_THREAD_TURN = timedelta(microseconds=500)
"""How long a thread computes while others wait for it: a webhook must not wait long for the worker, nor a small one for a
large one. Python's own 5 ms are paid several times in one request."""

_GARBAGE = (20_000, 10, 20)
"""Thresholds of Python's garbage collector. By its own it would look through a large webhook a dozen times while that is
read, and take as long as the reading."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 0, 1 (a finding) or 2 (unusable input)."""
    arguments = commands.build_parser(version("nodemend")).parse_args(argv)
    out, err = sys.stdout, sys.stderr
    if arguments.command == "serve":
        return serve(arguments.config)
    if arguments.command == "check-config":
        return commands.check_config(arguments.file, out, err)
    if arguments.command == "route":
        return commands.route(
            arguments.payload,
            arguments.config,
            query=arguments.query,
            now=utc_now(),
            stdin=sys.stdin.buffer,
            out=out,
            err=err,
        )
    config = commands.read_config(arguments.config, err)
    return 2 if config is None else _beside_the_service(arguments, config)


def _beside_the_service(arguments: argparse.Namespace, config: Config) -> int:
    """The commands that ask the running service."""
    out, err = sys.stdout, sys.stderr
    if arguments.command == "replay":
        return _replay(arguments, config)
    finder = commands.Finder(
        remote=lambda: commands.remote_for(config, _given(arguments)),
        open_store=lambda: open_store(config.database, now=utc_now),
        credentials=tuple(config.credentials),
        now=utc_now(),
        version=version("nodemend"),
        only_service=arguments.url is not None,
    )
    if arguments.command == "report":
        return commands.report(finder, arguments.days, arguments.format, out, err)
    if arguments.command == "status":
        return commands.status(finder, out, err)
    if arguments.letters == "list":
        return commands.list_dead_letters(finder, out, err)
    ids = None if arguments.all else arguments.ids
    return commands.requeue_dead_letters(finder, ids, out, err)


def _given(arguments: argparse.Namespace) -> commands.Given:
    return commands.Given(
        url=arguments.url,
        ca_file=arguments.ca_file,
        bearer_token_file=arguments.bearer_token_file,
        client_cert_file=arguments.client_cert_file,
        client_key_file=arguments.client_key_file,
    )


def utc_now() -> datetime:
    return datetime.now(UTC)


def serve(config_file: Path) -> int:
    """Run the service until SIGTERM or SIGINT; SIGHUP reloads the configuration."""
    sys.setswitchinterval(_THREAD_TURN.total_seconds())
    gc.set_threshold(*_GARBAGE)
    program = Program(SERVICE, SERVICE, version("nodemend"), sys.stderr)
    return run_service(config_file, Config, _service, program)


def _service(config: Config, registry: CollectorRegistry, log: FilteringBoundLogger) -> Service:
    store = open_store(config.database, now=utc_now)
    try:
        return Service(
            config,
            registry,
            log,
            store=store,
            owner=f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}",
            clock=utc_now,
            version=version("nodemend"),
        )
    except NodemendError:
        store.close()
        raise


def _replay(arguments: argparse.Namespace, config: Config) -> int:
    if not arguments.dry_run:
        return commands.replay(
            lambda: commands.remote_for(config, _given(arguments)),
            arguments.paths,
            sys.stdout,
            sys.stderr,
        )
    configure_logging(level="error")
    with ExitStack() as held:
        return commands.rehearse(
            lambda: _rehearsal(config, held), arguments.paths, sys.stdout, sys.stderr
        )


def _rehearsal(config: Config, held: ExitStack) -> commands.Rehearsal:
    """A service on a copy of the store, its clock stopped, its writes to GitHub only noted."""
    now = utc_now()
    folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="alerts2gh-dry-run-")))
    store = open_copy(config.database, folder, now=lambda: now)
    held.callback(store.close)
    blocked = lift_blocks(store, tuple(config.credentials), now)
    trackers: list[RecordingTracker] = []

    def wrap(tracker: Tracker) -> Tracker:
        trackers.append(RecordingTracker(tracker, known_issue(store), lambda: now))
        return trackers[-1]

    service = Service(
        config.model_copy(update={"limits": NO_LIMITS}),
        new_registry(SERVICE, version("nodemend")),
        get_logger(SERVICE),
        store=store,
        owner="dry-run",
        clock=lambda: now,
        version=version("nodemend"),
        wrap=wrap,
    )
    held.callback(service.close)
    run = DryRun(store, service.clerk, trackers, "dry-run", now)

    def notes() -> Iterator[str]:
        for name, until in blocked.items():
            yield f"GitHub wants silence from credential {name} until {until:%Y-%m-%d %H:%M:%S UTC}"
        for tracker in trackers:
            if tracker.unreached is not None:
                yield f"GitHub could not be asked ({tracker.unreached}); its issues are taken as stored"

    return commands.Rehearsal(lambda body: service.intake.take(body, {}), run.settle, notes)


if __name__ == "__main__":
    sys.exit(main())
