"""The command that simulates a fleet on the cluster of a kubeconfig."""

import argparse
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chassis.errors import ConfigError
from sandbox.kubernetes_server import SandboxKubernetes
from sandbox.kubernetes_server.running import utc_now
from sandbox.simulated_nodes import command

ROOT = Path(__file__).parents[2]
PROGRAM = """
import argparse
from sandbox.kubernetes_server.running import utc_now
from sandbox.simulated_nodes import command
parser = argparse.ArgumentParser()
command.add_arguments(parser)
raise SystemExit(command.run(parser.parse_args(), utc_now))
"""


def test_the_fleet_is_there_until_ctrl_c_and_removed_if_asked(tmp_path: Path) -> None:
    with SandboxKubernetes() as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        arguments = ["--kubeconfig", str(kubeconfig), "--nodes", "3", "--remove"]
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            assert process.stdout
            assert process.stdout.readline().startswith("3 simulated nodes are registered at http")
            assert len(server.objects("nodes")) == 3
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        assert server.objects("nodes") == []


@pytest.mark.parametrize("option", ["nodes", "heartbeat", "speed"])
def test_a_number_that_makes_no_sense_is_named(option: str) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    arguments = parser.parse_args(["--kubeconfig", "x", f"--{option}", "0"])

    with pytest.raises(ConfigError, match=rf"--{option}: 0(\.0)? must be more than 0"):
        command.run(arguments, utc_now)
