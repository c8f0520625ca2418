"""The metrics of gpu-monitor, but for those of single nodes and GPUs. Nothing here decides anything."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

from exporters.commands.running import PREFIX
from exporters.probe_pods import Course, Plan, Purpose

PATCH_RESULTS = ("ok", "conflict", "gone", "failed")


class MonitorMetrics:
    """Made once a process. A replica that does not lead shows zeros."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.leader = Gauge(
            f"{PREFIX}_gpu_monitor_leader", "Whether this replica leads.", registry=registry
        )
        self.pods = Gauge(
            f"{PREFIX}_gpu_monitor_pods",
            "Probe pods that there are, ended ones included until they are gone.",
            ("purpose",),
            registry=registry,
        )
        self.cap = Gauge(
            f"{PREFIX}_gpu_monitor_pods_limit",
            "How many periodic probes may be in flight.",
            registry=registry,
        )
        self.nodes = Gauge(
            f"{PREFIX}_gpu_monitor_nodes",
            "Nodes with GPUs, by why they get a probe now or do not.",
            ("course",),
            registry=registry,
        )
        self.round_seconds = Gauge(
            f"{PREFIX}_gpu_monitor_round_seconds",
            "How long the last round took.",
            registry=registry,
        )
        self.rounds = Counter(
            f"{PREFIX}_gpu_monitor_rounds", "Rounds that this replica has led.", registry=registry
        )
        self.api_failures = Counter(
            f"{PREFIX}_gpu_monitor_api_failures",
            "Calls of the Kubernetes API that failed; what they were for is tried again.",
            ("verb",),
            registry=registry,
        )
        self.patches = Counter(
            f"{PREFIX}_condition_patches",
            "Patches of nodes' status, by how they ended.",
            ("result",),
            registry=registry,
        )
        for result in PATCH_RESULTS:
            self.patches.labels(result)
        for verb in ("create", "delete", "log", "list", "patch"):
            self.api_failures.labels(verb)
        self.clear()

    def show(self, plan: Plan, pods: Mapping[Purpose, int]) -> None:
        """What a round has found."""
        self.cap.set(plan.cap)
        for purpose in Purpose:
            self.pods.labels(purpose.value).set(pods.get(purpose, 0))
        courses = list(plan.courses.values())
        for course in Course:
            self.nodes.labels(course.value).set(courses.count(course))

    def clear(self) -> None:
        """This replica does not lead."""
        self.leader.set(0)
        self.cap.set(0)
        for purpose in Purpose:
            self.pods.labels(purpose.value).set(0)
        for course in Course:
            self.nodes.labels(course.value).set(0)
