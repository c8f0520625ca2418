"""The whole catalogue file, and what holds between its parts."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import ValidationError, model_validator
from pydantic_core import InitErrorDetails

from chassis.config import Settings
from gpu_admission.catalogue.fields import Glob, Prefix, entries
from gpu_admission.catalogue.settings import (
    ClassLevers,
    ClassSettings,
    CPUSettings,
    Defaults,
    DevicePlugin,
    ModelSettings,
    NamespaceRules,
)

Place = tuple[str | int, ...]
Mistake = tuple[Place, str]
_CLASSES = (
    ClassSettings(name="high", min_priority=1000, select="smallest"),
    ClassSettings(name="low", select="all"),
)
_WHOLE = {"whole": DevicePlugin(resource="nvidia.com/gpu")}


class CatalogueSettings(Settings):
    """The GPUs of a cluster, and who gets which. See docs/gpu-admission.md for every key."""

    api_version: Literal["gpu-admission/v1"] = "gpu-admission/v1"
    prefix: Prefix = "preferred.jp"
    defaults: Defaults = Defaults()
    models: Annotated[tuple[ModelSettings, ...], entries()]
    backends: dict[str, DevicePlugin] = _WHOLE
    priority_policy: Annotated[tuple[ClassSettings, ...], entries()] = _CLASSES
    class_levers: ClassLevers = ClassLevers()
    namespace_policy: tuple[NamespaceRules, ...] = ()
    excluded_namespaces: tuple[Glob, ...] = ("kube-system", "kube-public", "kube-node-lease")
    cpu_policy: CPUSettings | None = None

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        mistakes = [
            InitErrorDetails(type="value_error", loc=place, input=None, ctx={"error": text})
            for place, text in _mistakes(self)
        ]
        if mistakes:
            raise ValidationError.from_exception_data(type(self).__name__, mistakes)
        return self


def _mistakes(file: CatalogueSettings) -> Iterator[Mistake]:
    yield from _names_used_twice(file)
    yield from _sizes_used_twice(file)
    yield from _label_values_used_twice(file)
    yield from _unknown_backends(file)
    yield from _resources_in_our_own_name(file)
    yield from _classes(file)
    yield from _class_names(file)
    yield from _unknown_models(file)


def _names_used_twice(file: CatalogueSettings) -> Iterator[Mistake]:
    seen: dict[str, str] = {}
    for index, model in enumerate(file.models):
        names: list[tuple[Place, str]] = [(("models", index, "id"), model.id)]
        names += [
            (("models", index, "aliases", number, "name"), alias.name)
            for number, alias in enumerate(model.aliases)
        ]
        for place, name in names:
            if name in seen:
                yield place, f'"{name}" already names {seen[name]}; give each model its own names'
            seen.setdefault(name, f"the model {model.id}")


def _sizes_used_twice(file: CatalogueSettings) -> Iterator[Mistake]:
    for index, model in enumerate(file.models):
        seen = set()
        for number, variant in enumerate(model.variants):
            if variant.vram_gb in seen:
                yield (
                    ("models", index, "variants", number, "vram_gb"),
                    f"{variant.vram_gb} GB is given twice; put all its node labels into one variant",
                )
            seen.add(variant.vram_gb)


def _label_values_used_twice(file: CatalogueSettings) -> Iterator[Mistake]:
    seen: dict[tuple[str, str], str] = {}
    for index, model in enumerate(file.models):
        for number, variant in enumerate(model.variants):
            key = variant.label_key or file.defaults.label_key
            for position, value in enumerate(variant.node_label_values):
                place = ("models", index, "variants", number, "node_label_values", position)
                if (key, value) in seen:
                    yield place, f"{key}={value} already means {seen[key, value]}; remove one"
                seen.setdefault((key, value), f"{model.id} with {variant.vram_gb} GB")


def _unknown_backends(file: CatalogueSettings) -> Iterator[Mistake]:
    named: list[tuple[Place, str]] = [(("defaults", "backend"), file.defaults.backend)]
    named += [
        (("models", index, "variants", number, "backend"), variant.backend)
        for index, model in enumerate(file.models)
        for number, variant in enumerate(model.variants)
        if variant.backend is not None
    ]
    for place, name in named:
        if name not in file.backends:
            yield place, f"no such back-end; backends has {_listed(file.backends)}"


def _resources_in_our_own_name(file: CatalogueSettings) -> Iterator[Mistake]:
    own = f"{file.prefix}/gpu-"
    text = f"{own}... is how pods ask; the nodes' resource needs another name"
    for name, backend in file.backends.items():
        if backend.resource.startswith(own):
            yield ("backends", name, "resource"), text
    cpus = file.cpu_policy.resource if file.cpu_policy else None
    if cpus is not None and cpus.startswith(own):
        yield ("cpu_policy", "resource"), text
    if cpus is not None and cpus in {each.resource for each in file.backends.values()}:
        yield ("cpu_policy", "resource"), "a back-end has this resource; CPUs need their own"


def _classes(file: CatalogueSettings) -> Iterator[Mistake]:
    if sum(each.min_priority is None for each in file.priority_policy) != 1:
        yield (
            ("priority_policy",),
            "exactly one class must have no min_priority: it takes all other pods",
        )
    names: set[str] = set()
    priorities: set[int | None] = set()
    for index, each in enumerate(file.priority_policy):
        if each.name in names:
            yield (
                ("priority_policy", index, "name"),
                "another class has this name; give each its own",
            )
        if each.min_priority is not None and each.min_priority in priorities:
            yield ("priority_policy", index, "min_priority"), "another class begins here too"
        names.add(each.name)
        priorities.add(each.min_priority)


def _class_names(file: CatalogueSettings) -> Iterator[Mistake]:
    known = [each.name for each in file.priority_policy]
    named: list[tuple[Place, str]] = [
        (("class_levers", "pods_may_choose", index), name)
        for index, name in enumerate(file.class_levers.pods_may_choose)
    ]
    named += [
        (("namespace_policy", index, "class"), rules.class_)
        for index, rules in enumerate(file.namespace_policy)
        if rules.class_ is not None
    ]
    high = file.cpu_policy.classes if file.cpu_policy else None
    named += [(("cpu_policy", "classes", index), name) for index, name in enumerate(high or ())]
    for place, name in named:
        if name not in known:
            yield place, f"no such class; priority_policy has {_listed(known)}"


def _unknown_models(file: CatalogueSettings) -> Iterator[Mistake]:
    known = {model.id for model in file.models}
    for index, rules in enumerate(file.namespace_policy):
        for number, name in enumerate(rules.allowed_models or ()):
            if name not in known:
                yield (
                    ("namespace_policy", index, "allowed_models", number),
                    "no such model; write the id of one in models",
                )


def _listed(names: "dict[str, DevicePlugin] | list[str]") -> str:
    return ", ".join(sorted(names)) or "none"
