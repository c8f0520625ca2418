"""The command line of the sandbox: what it serves until it is told to stop, and what it says of wrong use."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import structlog

from chassis.kube_client import NODES, KubeClient, KubeSettings
from sandbox.__main__ import main

ROOT = Path(__file__).parents[2]


class Commands:
    """Runs commands of the sandbox as a shell would; all are ended at the end."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def start(self, *words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "sandbox", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        self._stack.enter_context(process)
        self._stack.callback(process.kill)
        return process

    def stop(self) -> None:
        self._stack.close()


@pytest.fixture
def commands() -> Iterator[Commands]:
    running = Commands()
    yield running
    running.stop()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline()


def test_nodes_are_simulated_on_the_cluster_of_the_other_command(
    commands: Commands, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    where = ("--listen", "127.0.0.1:0", "--kubeconfig", str(kubeconfig))
    kubernetes = commands.start("kubernetes", *where)
    assert first_line(kubernetes).startswith("sandbox Kubernetes: http://127.0.0.1:")
    fleet = ("--kubeconfig", str(kubeconfig), "--nodes", "3", "--prefix", "lab", "--agent")
    nodes = commands.start("nodes", *fleet)
    assert first_line(nodes).startswith("3 simulated nodes are registered at http://127.0.0.1:")

    client = KubeClient(KubeSettings(kubeconfig=kubeconfig), structlog.get_logger())
    found = client.list(NODES).items
    client.close()
    assert [node["metadata"]["name"] for node in found] == ["lab-0000", "lab-0001", "lab-0002"]
    for process in (nodes, kubernetes):
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["nodes", "--kubeconfig", "absent", "--nodes", "0"], 2, "--nodes: 0 must be more than 0"),
        (["nodes", "--kubeconfig", "absent"], 1, "cannot use the kubeconfig absent"),
        (["kubernetes", "--nodes", "-1"], 2, "--nodes: -1 is below 0; write 0 or more"),
        (["kubernetes", "--listen", "everywhere"], 2, "'everywhere' is not HOST:PORT"),
    ],
)
def test_what_makes_no_sense_is_said_in_a_line(
    words: list[str], status: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == status
    said = capsys.readouterr().err
    assert said.startswith("nodemend-sandbox: ")
    assert told in said
    assert "Traceback" not in said


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    said = capsys.readouterr().out
    assert all(f" {name} " in said.replace("\n", " ") for name in ("github", "kubernetes", "nodes"))
