"""What an idle node agent costs: CPU and memory over ten minutes (or AGENT_MINUTES), children included, default intervals.

On a simulated machine with eight GPUs of the fake driver and the embedded API: NVML's own cost is not in it.
"""

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench._alerts2gh import load_average, say
from sandbox.fake_driver import build, compiler
from sandbox.kubernetes_server import SandboxKubernetes
from tests.exporters.agent_peers import Agent, Host, OwnNode, a_host
from tests.journeys.service import wait_until

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_GPUS = 8
_USUAL = {"heartbeat": "5m"}


@dataclass(frozen=True, slots=True)
class Use:
    """What a process and its ended children have used: CPU seconds, and bytes in memory now."""

    own: float
    children: float
    memory: int

    @classmethod
    def of(cls, pid: int) -> "Use":
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        own, children = (sum(map(int, fields[at : at + 2])) / _TICKS for at in (11, 13))
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return cls(own, children, pages * _PAGE)


def run() -> str:
    """A table of CPU and memory."""
    if compiler() is None:
        return "Not measured: no C compiler for the fake driver.\n"
    minutes = float(os.environ.get("AGENT_MINUTES", "10"))
    with tempfile.TemporaryDirectory() as name, SandboxKubernetes(controllers=False) as cluster:
        folder = Path(name)
        kubeconfig = cluster.kubeconfig(folder / "kubeconfig")
        node = OwnNode(kubeconfig)
        node.create()
        with a_host(folder, build(folder / "driver"), gpus=_GPUS) as host:
            agent = _usual_agent(host, kubeconfig)
            try:
                return _measure(agent, cluster, minutes)
            finally:
                agent.kill()
                node.close()


def _usual_agent(host: Host, kubeconfig: Path) -> Agent:
    """An agent at the intervals that it has out of the box."""
    agent = Agent(host, kubeconfig, **_USUAL)
    for key in ("intervals", "gpus"):
        del agent.settings[key]
    agent.settings["probe"] = {"pod_resources_socket": str(host.kubelet.socket)}
    agent.write()
    agent.start()
    return agent


def _measure(agent: Agent, cluster: SandboxKubernetes, minutes: float) -> str:
    check = {"check": "gpu_lost", "state": "ok"}
    wait_until("the first rounds", lambda: agent.value("node_check_state", **check) == 1)
    time.sleep(10)
    before, started, loaded = Use.of(agent.pid), time.monotonic(), load_average()
    patches = len(cluster.log(keep=lambda entry: entry.verb == "patch"))
    say(f"watching an idle agent for {minutes:g} minutes")
    most = before.memory
    while time.monotonic() - started < minutes * 60:
        time.sleep(1)
        most = max(most, Use.of(agent.pid).memory)
    after, seconds = Use.of(agent.pid), time.monotonic() - started
    patches = len(cluster.log(keep=lambda entry: entry.verb == "patch")) - patches
    probes = agent.value("gpu_probe_runs_total", result="pass") or 0
    return (
        "| minutes | CPU of the agent | CPU of its children | memory, MB | at most | patches | probes passed |\n"
        "|---:|---:|---:|---:|---:|---:|---:|\n"
        f"| {seconds / 60:.1f} | {_percent(after.own - before.own, seconds)}"
        f" | {_percent(after.children - before.children, seconds)}"
        f" | {after.memory / 1e6:.0f} | {most / 1e6:.0f} | {patches} | {probes:.0f} |\n\n"
        f"Percent of one CPU. Load average before {loaded}, after {load_average()}.\n"
    )


def _percent(used: float, seconds: float) -> str:
    return f"{100 * used / seconds:.2f} %"
