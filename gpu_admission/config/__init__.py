"""The service's own configuration; the catalogue is a file of its own, so that it can change on its own.

Must not read the catalogue, nor talk to the cluster.
"""

from gpu_admission.config.settings import (
    AdmissionConfig,
    CapacitySettings,
    DemandSettings,
    LeaderSettings,
    SelfSignedSettings,
)

__all__ = [
    "AdmissionConfig",
    "CapacitySettings",
    "DemandSettings",
    "LeaderSettings",
    "SelfSignedSettings",
]
