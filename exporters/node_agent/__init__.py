"""`exporters node-agent`: checks one node, probes its idle GPUs, writes its conditions and serves its metrics.

Checks and verdicts are elsewhere and pure; here is what reads, keeps, schedules and tells.
"""

from exporters.node_agent.service import NodeAgentService, Surroundings

__all__ = ["NodeAgentService", "Surroundings"]
