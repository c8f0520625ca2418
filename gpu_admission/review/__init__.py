"""The API server's side: AdmissionReview in and out, and JSON Patch.

Pure. Knows nothing of GPUs.
"""

from gpu_admission.review.codec import Answer, Malformed, Review, answer, read, read_answer
from gpu_admission.review.patches import (
    Operation,
    added,
    apply_patch,
    escaped,
    removed,
    replaced,
)

__all__ = [
    "Answer",
    "Malformed",
    "Operation",
    "Review",
    "added",
    "answer",
    "apply_patch",
    "escaped",
    "read",
    "read_answer",
    "removed",
    "replaced",
]
