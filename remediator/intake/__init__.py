"""Faults come in: alerts, conditions, people. What they mean is decided by `triggers`."""

from remediator.intake.ports import Door
from remediator.intake.taking import Intake, Result, Taken

__all__ = ["Door", "Intake", "Result", "Taken"]
