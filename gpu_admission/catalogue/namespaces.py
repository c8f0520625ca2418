"""Classes of pods, and what a namespace's pods may: of the entries that fit, the first that says it.

A namespace whose labels nobody knows yet fits no entry by labels; whoever decides must ask first
whether the catalogue has such entries.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_admission.catalogue.settings import (
    AllowOrDeny,
    NamespaceRules,
    RawGPU,
    SmallestExcluded,
)


@dataclass(frozen=True, slots=True)
class NamespaceView:
    """A namespace as the cache knows it; `labels` is None while it does not."""

    name: str
    labels: Mapping[str, str] | None = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PriorityClasses:
    """The cluster's PriorityClasses: value by name, and that of the global default."""

    values: Mapping[str, int] = field(default_factory=dict)
    default: int = 0


@dataclass(frozen=True, slots=True)
class GPUClass:
    """A class of pods. `smallest`: only GPUs with the least VRAM that satisfies them."""

    name: str
    min_priority: int | None
    smallest: bool
    cheapest_weight: int


@dataclass(frozen=True, slots=True)
class PodRules:
    """What pods of one namespace may."""

    max_gpus_per_pod: int | None
    pinning: AllowOrDeny
    raw_gpu: RawGPU
    smallest_excluded: SmallestExcluded
    daemonsets: AllowOrDeny
    class_: GPUClass | None = None
    allowed_models: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """One entry of the policy: whom it fits, and what it says."""

    names: re.Pattern[str] | None
    labels: Mapping[str, str]
    says: Mapping[str, Any]

    @classmethod
    def of(
        cls, rules: NamespaceRules, names: re.Pattern[str], classes: Mapping[str, GPUClass]
    ) -> "RuleEntry":
        """The entry as the file has it, without what it leaves open."""
        says = {
            name: getattr(rules, name)
            for name in (
                "max_gpus_per_pod",
                "pinning",
                "raw_gpu",
                "smallest_excluded",
                "daemonsets",
            )
        }
        says["class_"] = classes.get(rules.class_ or "")
        if rules.allowed_models is not None:
            says["allowed_models"] = frozenset(rules.allowed_models)
        return cls(
            names if rules.match.names else None,
            dict(rules.match.labels),
            {name: value for name, value in says.items() if value is not None},
        )

    def fits(self, namespace: NamespaceView) -> bool:
        """Whether it is for this namespace."""
        if self.names is not None and not self.names.match(namespace.name):
            return False
        labels = namespace.labels or {}
        return all(labels.get(key) == value for key, value in self.labels.items())


def rules_from(
    defaults: PodRules, entries: Iterable[RuleEntry], namespace: NamespaceView
) -> PodRules:
    """The defaults with what the entries say; each thing by the first entry that says it."""
    said: dict[str, Any] = {}
    for entry in entries:
        if entry.fits(namespace):
            for name, value in entry.says.items():
                said.setdefault(name, value)
    return replace(defaults, **said) if said else defaults
