"""The leader's loop: observe, let the lifecycle decide, record, act. Decides nothing itself."""

from remediator.reconcile.agenda import Agenda
from remediator.reconcile.errands import Errands
from remediator.reconcile.leading import Reconciler
from remediator.reconcile.operating import Operating
from remediator.reconcile.ports import LeaderCluster, Stored
from remediator.reconcile.surroundings import Surroundings

__all__ = [
    "Agenda",
    "Errands",
    "LeaderCluster",
    "Operating",
    "Reconciler",
    "Stored",
    "Surroundings",
]
