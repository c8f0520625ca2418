"""The configuration of `exporters gpu-monitor`: which nodes are probed how often, and what a probe pod looks like."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from chassis.config import Duration, Settings
from chassis.kube_client import KubeSettings
from chassis.kube_lease import LeaseSettings
from chassis.serving import ServingSettings

LogLevel = Literal["debug", "info", "warning", "error"]

_DNS_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_KEY = re.compile(
    r"(?:(?=.{1,253}/)[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
)
ALL_FREE = "all_free"
"""In place of a number of GPUs: as many as no pod on the node holds."""
_MOST_GPUS = 1024
_SHORTEST_PERIOD = timedelta(minutes=1)
_SHORTEST_WAIT = timedelta(seconds=1)
_LONGEST_DEADLINE = timedelta(hours=1)


def _dns_label(name: str) -> str:
    if not _DNS_LABEL.fullmatch(name):
        raise ValueError("not a name that Kubernetes takes; use a-z, 0-9 and -, at most 63")
    return name


def _key(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise ValueError("not the key of a Kubernetes label or resource, like nvidia.com/gpu")
    return key


def _not_empty(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty; leave the key out if nothing is meant")
    return text


def _long_enough(value: timedelta) -> timedelta:
    if value < _SHORTEST_WAIT:
        raise ValueError("must be at least 1s")
    return value


def _gpu_count(value: Any) -> int | str:
    if value == ALL_FREE:
        return ALL_FREE
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST_GPUS:
        return value
    raise ValueError(f"write {ALL_FREE}, or a number from 1 to {_MOST_GPUS}")


GpuCount = Annotated[int | str, PlainValidator(_gpu_count, json_schema_input_type=int | str)]
Name = Annotated[str, AfterValidator(_dns_label)]
Key = Annotated[str, AfterValidator(_key)]
Text = Annotated[str, AfterValidator(_not_empty)]
Wait = Annotated[Duration, AfterValidator(_long_enough)]


class LeaderSettings(LeaseSettings):
    """The Lease by which one of several replicas leads; it lies in the namespace of the probe pods."""

    lease: Name = "gpu-monitor"


class PodSettings(Settings):
    """What a probe pod looks like. `args` follow `exporters gpu-probe`."""

    image: Text
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_secrets: tuple[Text, ...] = ()
    command: tuple[Text, ...] = ("exporters", "gpu-probe")
    args: tuple[str, ...] = ()
    priority_class: Text = "nodemend-gpu-probe"
    runtime_class: Text | None = None
    service_account: Text | None = None
    labels: Mapping[Key, str] = {}
    deadline: Wait = timedelta(seconds=120)
    grace: Duration = timedelta(seconds=5)
    cpu: Text = "100m"
    memory: Text = "512Mi"
    security_context: Mapping[str, Any] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }

    @model_validator(mode="after")
    def _ends(self) -> "PodSettings":
        if self.deadline > _LONGEST_DEADLINE:
            raise ValueError("deadline must be at most 1h: a probe that hangs holds its GPUs")
        if self.grace > timedelta(seconds=30):
            raise ValueError("grace must be at most 30s: a user's pod waits for it")
        return self


class GpuMonitorSettings(Settings):
    """The whole file. `enabled: false` withdraws the probes and leaves all conditions as they are."""

    serving: ServingSettings = ServingSettings()
    kubernetes: KubeSettings = KubeSettings()
    log_level: LogLevel = "info"
    namespace: Name
    leader: LeaderSettings = LeaderSettings()
    enabled: bool = True
    node_selector: Text | None = None
    resource: Key = "nvidia.com/gpu"
    period: Duration = timedelta(hours=1)
    gpus: GpuCount = ALL_FREE
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.05
    pending_timeout: Wait = timedelta(seconds=60)
    proof_retry: Wait = timedelta(seconds=60)
    heartbeat: Wait = timedelta(minutes=5)
    pod: PodSettings

    @model_validator(mode="after")
    def _fits(self) -> "GpuMonitorSettings":
        if self.period < _SHORTEST_PERIOD:
            raise ValueError("period must be at least 1m; to probe nothing, write enabled: false")
        if self.pod.deadline + self.pending_timeout > self.period:
            raise ValueError("period must be longer than pod.deadline and pending_timeout together")
        return self
