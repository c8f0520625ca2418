"""The demo: pods get their GPUs, one breaks, an issue opens, the node is repaired and must prove it, the issue closes.

The services run for real, as child processes; so do Prometheus and Alertmanager when they are installed, else a small
feed stands in for them. Only GitHub, Kubernetes and the nodes are the sandbox's.
"""

from sandbox.demo.run import run

__all__ = ["run"]
