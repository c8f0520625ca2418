"""The admission endpoints: bytes in, a decision, bytes out. No API call happens in here."""

from gpu_admission.webhook.application import AdmissionApplication
from gpu_admission.webhook.desk import Desk, State

__all__ = ["AdmissionApplication", "Desk", "State"]
