"""The demo: a GPU breaks, an issue opens with an assignee; it heals, the issue closes; it breaks again, it reopens.

Everything runs for real: the services as child processes, Prometheus and Alertmanager when they are installed. Only
GitHub, Kubernetes and the nodes are the sandbox's. Without Prometheus and Alertmanager there is no cluster: recorded
webhooks take its place.
"""

from sandbox.demo.run import run

__all__ = ["run"]
