"""Which models a pod may have, by its request, its class and the catalogue's policies.

Pure: `now` is an argument. How the choice gets into the pod is `placement`'s and `backends`' part.
"""

from gpu_admission.selection.choosing import Circumstances, Selection, Why, select
from gpu_admission.selection.classes import NO_PRIORITY_CLASSES, class_of, priority_of
from gpu_admission.selection.pins import Pins
from gpu_admission.selection.refusing import too_many_gpus

__all__ = [
    "NO_PRIORITY_CLASSES",
    "Circumstances",
    "Pins",
    "Selection",
    "Why",
    "class_of",
    "priority_of",
    "select",
    "too_many_gpus",
]
