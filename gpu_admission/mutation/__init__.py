"""The decision about one pod: admit as it is, change, or deny.

Pure: the webhook brings the review, the namespace and the time, and sends the answer.
"""

from gpu_admission.judging import Denied
from gpu_admission.mutation.deciding import mutate
from gpu_admission.mutation.decisions import (
    Decision,
    Mutated,
    Unchanged,
    UnchangedReason,
)

__all__ = ["Decision", "Denied", "Mutated", "Unchanged", "UnchangedReason", "mutate"]
