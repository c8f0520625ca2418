"""The parts of the catalogue's file: models, back-ends, classes, what namespaces may, CPUs.

They only describe and validate themselves; `whole` checks what holds between them.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from chassis.config import Settings
from gpu_admission.catalogue.fields import (
    ClassName,
    CPUs,
    Glob,
    LabelKey,
    LabelValue,
    ModelID,
    Moment,
    ResourceGlob,
    ResourceName,
    entries,
)

RawGPU = Literal["allow", "warn", "deny"]
AllowOrDeny = Literal["allow", "deny"]
SmallestExcluded = Literal["spill", "deny"]
Text = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]


class TolerationSettings(Settings):
    """A toleration as Kubernetes has it, in this file's style."""

    key: LabelKey | None = None
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None

    @model_validator(mode="after")
    def _as_kubernetes_takes_it(self) -> Self:
        if self.key is None and self.operator == "Equal":
            raise ValueError("without a key, operator must be Exists; that tolerates every taint")
        if self.operator == "Exists" and self.value:
            raise ValueError("operator Exists takes no value; leave it out, or use Equal")
        return self


class VariantSettings(Settings):
    """One size of a model: the nodes that have it, by their labels, and what it costs.

    `vram_gb` is the nominal size in decimal GB, as on the box: 24 for an A10 that reports 23028 MiB.
    """

    vram_gb: Annotated[int, Field(ge=1, le=9999)]
    node_label_values: Annotated[tuple[LabelValue, ...], entries()]
    label_key: LabelKey | None = None
    max_per_node: Count | None = None
    tier: Annotated[int, Field(ge=0)] | None = None
    cost_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    backend: str | None = None


class AliasSettings(Settings):
    """Another name of a model; `deprecated` is told to whoever uses it."""

    name: ModelID
    deprecated: Text | None = None


class ExclusionSettings(Settings):
    """Takes a model out of `any`: only who names it gets it. Ends by itself at `until`."""

    reason: Text
    until: Moment | None = None


class ModelNamespaces(Settings):
    """Which namespaces may have the model: those that `allow` fits and `deny` does not."""

    allow: tuple[Glob, ...] = ("*",)
    deny: tuple[Glob, ...] = ()


class ModelSettings(Settings):
    """A model of GPU, or of another accelerator, and its sizes."""

    id: ModelID
    variants: Annotated[tuple[VariantSettings, ...], entries()]
    aliases: tuple[AliasSettings, ...] = ()
    tolerations: tuple[TolerationSettings, ...] = ()
    exclude_from_any: ExclusionSettings | None = None
    namespaces: ModelNamespaces = ModelNamespaces()


class DevicePlugin(Settings):
    """A back-end whose GPUs are an extended resource of the node, whatever its name."""

    type: Literal["device_plugin"] = "device_plugin"
    resource: ResourceName
    scheduler_name: Text | None = None
    runtime_class_name: Text | None = None


class Defaults(Settings):
    """What holds where a model, variant or namespace says nothing else."""

    label_key: LabelKey = "nvidia.com/gpu.product"
    backend: str = "whole"
    hide_gpus_when_zero: bool = True
    raw_gpu: RawGPU = "warn"
    smallest_excluded: SmallestExcluded = "spill"
    pinning: AllowOrDeny = "deny"
    daemonsets: AllowOrDeny = "deny"
    max_gpus_per_pod: Count | None = None


class ClassSettings(Settings):
    """A class of pods: those of at least this priority that no higher entry takes.

    `smallest`: only GPUs with the least VRAM that satisfies the request. `all`: each that does, the
    cheapest preferred with this weight (0 is no preference).
    """

    name: ClassName
    min_priority: Annotated[int, Field(ge=-(2**31), lt=2**31)] | None = None
    select: Literal["smallest", "all"]
    cheapest_weight: Annotated[int, Field(ge=0, le=100)] = 50


class ClassLevers(Settings):
    """Labels and annotations that choose the class before the priority does.

    A namespace's label may name any class; a pod's own only those in `pods_may_choose`.
    """

    namespace_label: LabelKey | None = None
    pod_label: LabelKey | None = None
    pod_annotation: LabelKey | None = None
    pods_may_choose: tuple[ClassName, ...] = ()


class NamespaceMatch(Settings):
    """Namespaces by name and labels; all that is given must fit."""

    names: tuple[Glob, ...] = ()
    labels: dict[LabelKey, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _not_everything(self) -> Self:
        if not self.names and not self.labels:
            raise ValueError("give names, labels or both; for every namespace, use defaults")
        return self


class NamespaceRules(Settings):
    """What namespaces of this kind may. Of several entries that fit, the first that says it counts."""

    match: NamespaceMatch
    class_: ClassName | None = Field(default=None, alias="class")
    allowed_models: tuple[str, ...] | None = None
    max_gpus_per_pod: Count | None = None
    pinning: AllowOrDeny | None = None
    raw_gpu: RawGPU | None = None
    smallest_excluded: SmallestExcluded | None = None
    daemonsets: AllowOrDeny | None = None


class NodeCapacity(Settings):
    """How many CPUs of nodes with these labels high-priority CPU pods may have."""

    match_labels: dict[LabelKey, str] = Field(default_factory=dict)
    cpus: CPUs


class CPUSettings(Settings):
    """High-priority pods without a GPU carry their CPUs as a resource too, which GPU nodes have little of.

    `classes`: the high ones, by default those that select the smallest. Of `capacity` the first entry
    that fits a node counts. Pods of `exempt_priority` and more (the system's) are left alone, and so are
    those with any of `device_resources` (or of a back-end's): they are no CPU pods.
    """

    resource: ResourceName | None = None
    unit: Literal["milli", "core"] = "milli"
    classes: tuple[ClassName, ...] | None = None
    low_tolerations: tuple[TolerationSettings, ...] = ()
    capacity: tuple[NodeCapacity, ...] = ()
    exempt_priority: int = 2_000_000_000
    device_resources: tuple[ResourceGlob, ...] = (
        "nvidia.com/*",
        "amd.com/*",
        "gpu.intel.com/*",
        "aliyun.com/gpu*",
    )
