"""Where a pod may run: the chosen variants as node affinity and tolerations, in patch operations.

Pure. Never replaces what the pod says, never widens it.
"""

from gpu_admission.placement.affinity import affinity_operations, expressions_for, is_confined
from gpu_admission.placement.tolerations import covers, toleration_operations

__all__ = [
    "affinity_operations",
    "covers",
    "expressions_for",
    "is_confined",
    "toleration_operations",
]
