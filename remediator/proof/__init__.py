"""Whether a node is proven healthy after a repair.

Pure. Only what was seen after the repair counts; what is unknown, stale or missing never proves anything.
"""

from remediator.proof.judging import judge, nothing_to_prove_by, settings_for

__all__ = ["judge", "nothing_to_prove_by", "settings_for"]
