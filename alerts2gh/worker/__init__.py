"""The worker: folds what arrived, plans, writes to GitHub, records; one writer a repository, one step at a time."""

from alerts2gh.worker.assigning import Assigner
from alerts2gh.worker.budgets import Budgets
from alerts2gh.worker.clerk import Clerk
from alerts2gh.worker.courtesy import Courtesy
from alerts2gh.worker.desk import Desk, Worked
from alerts2gh.worker.dry_run import NO_LIMITS, DryRun, Taken, known_issue, lift_blocks
from alerts2gh.worker.housekeeping import Housekeeper, longest_window
from alerts2gh.worker.looking import Looker
from alerts2gh.worker.loop import WorkLoop
from alerts2gh.worker.reconciling import AlertSource, Reconciler
from alerts2gh.worker.recording_tracker import Noted, RecordingTracker, is_new
from alerts2gh.worker.remembering import RememberingRenderer

__all__ = [
    "NO_LIMITS",
    "AlertSource",
    "Assigner",
    "Budgets",
    "Clerk",
    "Courtesy",
    "Desk",
    "DryRun",
    "Housekeeper",
    "Looker",
    "Noted",
    "Reconciler",
    "RecordingTracker",
    "RememberingRenderer",
    "Taken",
    "WorkLoop",
    "Worked",
    "is_new",
    "known_issue",
    "lift_blocks",
    "longest_window",
]
