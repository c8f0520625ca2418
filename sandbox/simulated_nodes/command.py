"""The command `nodemend-sandbox nodes`: a mixed fleet of simulated nodes on whatever cluster a kubeconfig names.

Handed its arguments and the clock by the command line's module; it removes none of the Nodes unless told to.
"""

import argparse
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from chassis.errors import ConfigError
from chassis.kube_client import NODES, KubeClient, KubeSettings, NotFound
from sandbox.simulated_nodes.behaviours import Answers, Behaviours, Executes, Runs, probe_gpus
from sandbox.simulated_nodes.hardware import mixed_fleet
from sandbox.simulated_nodes.nodes import SimulatedNodes
from sandbox.simulated_nodes.shared import Roles


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("--kubeconfig", type=Path, required=True, metavar="FILE")
    parser.add_argument("--nodes", type=int, default=20, metavar="N", help="default %(default)s")
    parser.add_argument("--prefix", default="sim", help="of the nodes' names (default %(default)s)")
    parser.add_argument(
        "--heartbeat", type=float, default=10, metavar="SECONDS", help="default %(default)s"
    )
    parser.add_argument(
        "--speed",
        type=float,
        default=1,
        metavar="TIMES",
        help="how much faster than real reboots and grace periods are (default %(default)s)",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        metavar="DIR",
        help="the nodes' root folders (default: a temporary one)",
    )
    parser.add_argument(
        "--agent",
        action="store_true",
        help="also write the conditions and probe results of a node agent",
    )
    parser.add_argument(
        "--no-node-controller",
        action="store_true",
        help="leave silent nodes and their taints to the cluster's own controller",
    )
    parser.add_argument(
        "--execute",
        action="store_true",
        help="really run the commands of Jobs' pods, as you, on this machine (else they just succeed)",
    )
    parser.add_argument(
        "--remove", action="store_true", help="delete the simulated nodes from the API at the end"
    )


def run(arguments: argparse.Namespace, clock: Callable[[], datetime]) -> int:
    """Simulate until SIGINT or SIGTERM; 0 at the end.

    Raises:
        ConfigError: Arguments that make no sense.
        NodemendError: The kubeconfig cannot be used.
    """
    _check(arguments)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    log = structlog.get_logger()
    client = KubeClient(KubeSettings(kubeconfig=arguments.kubeconfig, qps=0), log)
    with tempfile.TemporaryDirectory(prefix="simulated-nodes-") as temporary:
        nodes = SimulatedNodes(
            client,
            mixed_fleet(arguments.nodes, prefix=arguments.prefix),
            folder=arguments.folder or Path(temporary),
            log=log,
            clock=clock,
            heartbeat=timedelta(seconds=arguments.heartbeat),
            speed=arguments.speed,
            behaviours=_behaviours(execute=arguments.execute),
            roles=Roles(agent=arguments.agent, node_controller=not arguments.no_node_controller),
        )
        with nodes:
            _tell(nodes, client.url, stop)
            stop.wait()
        if arguments.remove:
            _remove(client, nodes)
    client.close()
    return 0


def _check(arguments: argparse.Namespace) -> None:
    mistakes = [
        f"--{name}: {value} must be more than 0"
        for name in ("nodes", "heartbeat", "speed")
        if (value := getattr(arguments, name)) <= 0
    ]
    if mistakes:
        raise ConfigError(mistakes)


def _behaviours(*, execute: bool) -> Behaviours:
    probe = Answers(probe_gpus)
    return Behaviours({"*gpu-probe*": probe}, job=Executes() if execute else Runs(seconds=1))


def _tell(nodes: SimulatedNodes, url: str, stop: threading.Event) -> None:
    while not all(node.is_registered for node in nodes.nodes):
        if stop.wait(0.2):
            return
    sys.stdout.write(f"{len(nodes.nodes)} simulated nodes are registered at {url}\n")
    sys.stdout.flush()


def _remove(client: KubeClient, nodes: SimulatedNodes) -> None:
    for node in nodes.nodes:
        with suppress(NotFound):
            client.delete(NODES, node.name)
