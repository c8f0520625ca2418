"""The embedded Kubernetes of bench/remediator.py in a process of its own, with GPU nodes as large as real ones.

`python -m bench._kubernetes_child PORT KUBECONFIG NODES`; ends by SIGTERM.
"""

import signal
import sys
import threading
from pathlib import Path

from bench._exporters import a_node, condition_types
from sandbox.kubernetes_server import SandboxKubernetes

RACKS = 100
CONDITIONS = 20


def template(rack: int) -> dict[str, object]:
    """What the nodes of a rack are like: ready, with GPUs and conditions."""
    node = a_node(rack, condition_types(CONDITIONS))
    for condition in node["status"]["conditions"]:
        condition["status"] = "True" if condition["type"] == "Ready" else "False"
    node["status"]["nodeInfo"]["bootID"] = "11111111-2222-4333-8444-555555555555"
    labels = {**node["metadata"]["labels"], "rack": f"rack-{rack:03d}"}
    del labels["kubernetes.io/hostname"]
    return {"metadata": {"labels": labels}, "status": node["status"]}


def main(port: str, kubeconfig: str, nodes: str) -> None:
    """Serve until told to end."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    server = SandboxKubernetes(port=int(port), scheduler=False)
    wanted = int(nodes)
    for rack in range(RACKS):
        share = wanted // RACKS + (rack < wanted % RACKS)
        server.add_nodes(share, template(rack))
    with server:
        server.kubeconfig(Path(kubeconfig))
        stop.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
