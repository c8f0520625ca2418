"""`exporters node-conditions`: one watch of the Nodes of a cluster, and their conditions as metrics.

Serves what it last knew while the API is away, and says how long ago that was.
"""

from exporters.node_condition_exporter.service import NodeConditionsService

__all__ = ["NodeConditionsService"]
