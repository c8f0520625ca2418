"""The leader's loop: observe, let the lifecycle decide, record, act. Decides nothing itself."""

from remediator.reconcile.agenda import Agenda
from remediator.reconcile.leading import Reconciler
from remediator.reconcile.operating import Operating, Surroundings
from remediator.reconcile.ports import LeaderCluster, Stored

__all__ = ["Agenda", "LeaderCluster", "Operating", "Reconciler", "Stored", "Surroundings"]
