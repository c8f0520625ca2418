"""The parts of a compiled catalogue: back-ends, models and their variants, the CPU policy."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

Toleration = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Backend:
    """How a container asks a node for a GPU. `type` is `device_plugin`: an extended resource."""

    name: str
    type: str
    resource: str
    scheduler_name: str | None
    runtime_class_name: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """One size of a model. `vram_gb` is decimal and nominal; `tolerations` are as in a pod."""

    id: str
    model: str
    vram_gb: int
    label_key: str
    node_label_values: tuple[str, ...]
    max_per_node: int | None
    tier: int | None
    cost_per_hour: float | None
    backend: Backend
    tolerations: tuple[Toleration, ...]

    @property
    def text(self) -> str:
        """For people: `a100 (40 GB)`."""
        return f"{self.model} ({self.vram_gb} GB)"


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Why a model is left out of `any`, and until when; None has no end."""

    reason: str
    until: datetime | None

    def holds(self, now: datetime) -> bool:
        """Whether it still counts."""
        return self.until is None or now < self.until

    @property
    def text(self) -> str:
        """For people: `until 2026-12-10 (maintenance INC-12)`."""
        if self.until is None:
            return f"({self.reason})"
        midnight = (self.until.hour, self.until.minute, self.until.second) == (0, 0, 0)
        until = f"{self.until:%Y-%m-%d}" if midnight else f"{self.until:%Y-%m-%dT%H:%M:%S%z}"
        return f"until {until} ({self.reason})"


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A model with its sizes in ascending order."""

    id: str
    variants: tuple[Variant, ...]
    aliases: Mapping[str, str | None]
    exclusion: Exclusion | None
    allow: re.Pattern[str]
    deny: re.Pattern[str]
    is_for_everyone: bool

    def allowed_in(self, namespace: str) -> bool:
        """Whether the model's own lists let this namespace have it."""
        if self.is_for_everyone:
            return True
        return bool(self.allow.match(namespace)) and not self.deny.match(namespace)


@dataclass(frozen=True, slots=True)
class NodeShare:
    """Nodes by their labels, and the CPUs set aside there; None is all that the node has."""

    match_labels: Mapping[str, str]
    cpus: Fraction | None


@dataclass(frozen=True, slots=True, eq=False)
class CPUPolicy:
    """The resource that high-priority CPU pods carry, in units of `per_cpu` a CPU (1 or 1000)."""

    resource: str
    per_cpu: int
    classes: frozenset[str]
    low_tolerations: tuple[Toleration, ...]
    capacity: tuple[NodeShare, ...]
    exempt_priority: int
    device_resources: re.Pattern[str]
