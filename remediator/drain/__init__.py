"""How a node is emptied before a repair: which pod goes now, how, and what the rest waits for.

Pure and without memory: what was tried before stands in the pods' views. It asks nothing of the API.
"""

from remediator.drain.decision import next_drain
from remediator.drain.pods import PodPlan, Way, plan_of

__all__ = ["PodPlan", "Way", "next_drain", "plan_of"]
