"""The catalogue as decisions use it: every lookup built once, nothing left to parse or to fail."""

import fnmatch
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpu_admission.catalogue.fields import ALLOCATABLE
from gpu_admission.catalogue.namespaces import (
    GPUClass,
    NamespaceView,
    PodRules,
    RuleEntry,
    rules_from,
)
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
from gpu_admission.catalogue.settings import ModelSettings, TolerationSettings, VariantSettings
from gpu_admission.catalogue.whole import CatalogueSettings

_CPU_RESOURCE = "cpu-for-high-priority-cpu-pods"


@dataclass(frozen=True, slots=True, eq=False)
class Catalogue:
    """What the decisions know. `generation` is a hash of the content, so that replicas agree on it."""

    settings: CatalogueSettings
    generation: str
    prefix: str
    key_prefix: str
    annotation: str
    models: tuple[Model, ...]
    variants: tuple[Variant, ...]
    excluded_models: tuple[Model, ...]
    backends: Mapping[str, Backend]
    default_backend: Backend
    native_resources: frozenset[str]
    classes: tuple[GPUClass, ...]
    default_rules: PodRules
    rule_entries: tuple[RuleEntry, ...]
    needs_namespace_labels: bool
    cpu: CPUPolicy | None
    excluded_namespaces: re.Pattern[str]
    by_name: Mapping[str, Model]
    by_variant: Mapping[str, Variant]
    by_class: Mapping[str, GPUClass]

    def names(self) -> list[str]:
        """Every name that a pod may use, `any` among them, sorted; deprecated aliases are left out."""
        current = {
            name for name, model in self.by_name.items() if not self.deprecation(model, name)
        }
        return sorted(current | {"any"})

    def find(self, name: str) -> Model | None:
        """The model with this id or alias."""
        return self.by_name.get(name)

    def variant(self, variant_id: str) -> Variant | None:
        """The variant with this id, such as `a100-40gb`."""
        return self.by_variant.get(variant_id)

    def deprecation(self, model: Model, name: str) -> str | None:
        """What to tell those who use this name of the model, None if nothing."""
        return model.aliases.get(name)

    def class_for(self, priority: int) -> GPUClass:
        """The highest class that begins at or below this priority."""
        return next(
            each
            for each in self.classes
            if each.min_priority is None or priority >= each.min_priority
        )

    def rules_for(self, namespace: NamespaceView) -> PodRules:
        """What pods of this namespace may; unknown labels fit no entry, see `knows`."""
        return rules_from(self.default_rules, self.rule_entries, namespace)

    def knows(self, namespace: NamespaceView) -> bool:
        """Whether enough is known of the namespace to say what its pods may."""
        return namespace.labels is not None or not self.needs_namespace_labels

    def leaves_alone(self, namespace: str) -> bool:
        """Whether pods of this namespace are never looked at."""
        return bool(self.excluded_namespaces.match(namespace))


def compile_catalogue(settings: CatalogueSettings) -> Catalogue:
    """Build every lookup. Cannot fail: what could be wrong was refused with the file."""
    backends = {
        name: Backend(name, each.type, each.resource, each.scheduler_name, each.runtime_class_name)
        for name, each in settings.backends.items()
    }
    models = tuple(_model(each, settings, backends) for each in settings.models)
    variants = tuple(variant for model in models for variant in model.variants)
    classes = _classes(settings)
    by_class = {each.name: each for each in classes}
    defaults = settings.defaults
    return Catalogue(
        settings=settings,
        generation=_hash(settings),
        prefix=settings.prefix,
        key_prefix=f"{settings.prefix}/gpu-",
        annotation=f"{settings.prefix}/gpu-selection",
        models=models,
        variants=variants,
        excluded_models=tuple(each for each in models if each.exclusion is not None),
        backends=backends,
        default_backend=backends[defaults.backend],
        native_resources=frozenset(each.resource for each in backends.values()),
        classes=classes,
        default_rules=PodRules(
            max_gpus_per_pod=defaults.max_gpus_per_pod,
            pinning=defaults.pinning,
            raw_gpu=defaults.raw_gpu,
            smallest_excluded=defaults.smallest_excluded,
            daemonsets=defaults.daemonsets,
        ),
        rule_entries=tuple(
            RuleEntry.of(each, glob_pattern(each.match.names), by_class)
            for each in settings.namespace_policy
        ),
        needs_namespace_labels=settings.class_levers.namespace_label is not None
        or any(each.match.labels for each in settings.namespace_policy),
        cpu=_cpu_policy(settings),
        excluded_namespaces=glob_pattern(settings.excluded_namespaces),
        by_name={name: model for model in models for name in (model.id, *model.aliases)},
        by_variant={each.id: each for each in variants},
        by_class=by_class,
    )


def glob_pattern(globs: Iterable[str]) -> re.Pattern[str]:
    """One pattern for all of them; of none it fits nothing."""
    return re.compile("|".join(map(fnmatch.translate, globs)) or r"(?!)")


def _hash(settings: CatalogueSettings) -> str:
    content = json.dumps(settings.model_dump(mode="json", by_alias=True), sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def _classes(settings: CatalogueSettings) -> tuple[GPUClass, ...]:
    ordered = sorted(
        settings.priority_policy,
        key=lambda each: (each.min_priority is not None, each.min_priority or 0),
        reverse=True,
    )
    return tuple(
        GPUClass(each.name, each.min_priority, each.select == "smallest", each.cheapest_weight)
        for each in ordered
    )


def _model(
    model: ModelSettings, settings: CatalogueSettings, backends: Mapping[str, Backend]
) -> Model:
    excluded = model.exclude_from_any
    return Model(
        id=model.id,
        variants=tuple(
            _variant(model, each, settings, backends)
            for each in sorted(model.variants, key=lambda each: each.vram_gb)
        ),
        aliases={alias.name: alias.deprecated for alias in model.aliases},
        exclusion=Exclusion(excluded.reason, excluded.until) if excluded else None,
        allow=glob_pattern(model.namespaces.allow),
        deny=glob_pattern(model.namespaces.deny),
        is_for_everyone="*" in model.namespaces.allow and not model.namespaces.deny,
    )


def _variant(
    model: ModelSettings,
    variant: VariantSettings,
    settings: CatalogueSettings,
    backends: Mapping[str, Backend],
) -> Variant:
    return Variant(
        id=f"{model.id}-{variant.vram_gb}gb",
        model=model.id,
        vram_gb=variant.vram_gb,
        label_key=variant.label_key or settings.defaults.label_key,
        node_label_values=tuple(sorted(variant.node_label_values)),
        max_per_node=variant.max_per_node,
        tier=variant.tier,
        cost_per_hour=variant.cost_per_hour,
        backend=backends[variant.backend or settings.defaults.backend],
        tolerations=tuple(map(_toleration, model.tolerations)),
    )


def _toleration(settings: TolerationSettings) -> Toleration:
    fields = {"key": settings.key, "operator": settings.operator, "effect": settings.effect}
    if settings.operator == "Equal":
        fields["value"] = settings.value
    return {name: value for name, value in fields.items() if value is not None}


def _cpu_policy(settings: CatalogueSettings) -> CPUPolicy | None:
    policy = settings.cpu_policy
    if policy is None:
        return None
    high = policy.classes
    if high is None:
        high = tuple(each.name for each in settings.priority_policy if each.select == "smallest")
    return CPUPolicy(
        resource=policy.resource or f"{settings.prefix}/{_CPU_RESOURCE}",
        per_cpu=1000 if policy.unit == "milli" else 1,
        classes=frozenset(high),
        low_tolerations=tuple(map(_toleration, policy.low_tolerations)),
        capacity=tuple(
            NodeShare(
                dict(each.match_labels),
                None if each.cpus == ALLOCATABLE else parse_quantity(each.cpus),
            )
            for each in policy.capacity
        ),
        exempt_priority=policy.exempt_priority,
        device_resources=glob_pattern(policy.device_resources),
    )
