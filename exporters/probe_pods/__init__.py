"""Probe pods: which to create or withdraw, what they look like, what became of them. Pure.

`planning` decides, `manifest` writes a pod, `reading` understands one. Who calls the API is not known here, nor what
a probe found: reports are read elsewhere and judged elsewhere.
"""

from exporters.probe_pods.manifest import PodRecipe, Probe, pod_body, pod_name
from exporters.probe_pods.model import (
    LABELS,
    SELECTOR,
    Outcome,
    PodStage,
    PodView,
    ProbeNode,
    Purpose,
)
from exporters.probe_pods.planning import (
    Course,
    Decision,
    Plan,
    PlanPolicy,
    WithdrawReason,
    cap_of,
    plan,
    slot_start,
)
from exporters.probe_pods.reading import end_of, gpus_in_use, view_of_pod

__all__ = [
    "LABELS",
    "SELECTOR",
    "Course",
    "Decision",
    "Outcome",
    "Plan",
    "PlanPolicy",
    "PodRecipe",
    "PodStage",
    "PodView",
    "Probe",
    "ProbeNode",
    "Purpose",
    "WithdrawReason",
    "cap_of",
    "end_of",
    "gpus_in_use",
    "plan",
    "pod_body",
    "pod_name",
    "slot_start",
    "view_of_pod",
]
