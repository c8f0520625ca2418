"""The catalogue: which GPUs the cluster has, under which names, and who gets which.

`CatalogueSettings` is the file, `compile_catalogue` makes of it what the decisions use. Pure: which
file, and when it is read again, is decided elsewhere.
"""

from gpu_admission.catalogue.compiled import Catalogue, compile_catalogue
from gpu_admission.catalogue.fields import UNKNOWN
from gpu_admission.catalogue.namespaces import GPUClass, NamespaceView, PodRules, PriorityClasses
from gpu_admission.catalogue.parts import (
    Backend,
    CPUPolicy,
    Exclusion,
    Model,
    NodeShare,
    Toleration,
    Variant,
)
from gpu_admission.catalogue.quantities import parse_quantity
from gpu_admission.catalogue.whole import CatalogueSettings

__all__ = [
    "UNKNOWN",
    "Backend",
    "CPUPolicy",
    "Catalogue",
    "CatalogueSettings",
    "Exclusion",
    "GPUClass",
    "Model",
    "NamespaceView",
    "NodeShare",
    "PodRules",
    "PriorityClasses",
    "Toleration",
    "Variant",
    "compile_catalogue",
    "parse_quantity",
]
