"""From a rung of the ladder to the Job that carries it out.

Pure. A Job comes from the configuration alone: an operation names a playbook and never brings a command of its own.
"""

from remediator.repair_jobs.jobs import is_ours, job_for
from remediator.repair_jobs.outcome import Ending, RepairEnd, ending_of, parse_end

__all__ = ["Ending", "RepairEnd", "ending_of", "is_ours", "job_for", "parse_end"]
