"""The validating side: pods after all mutation, and the templates of workloads before any pod.

Pure. It never changes anything, so it can fail closed.
"""

from gpu_admission.judging import Denied
from gpu_admission.validation.answers import Allowed, Verdict
from gpu_admission.validation.pods import validate_pod
from gpu_admission.validation.workloads import template_of, validate_workload

__all__ = ["Allowed", "Denied", "Verdict", "template_of", "validate_pod", "validate_workload"]
