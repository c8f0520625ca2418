"""Which variants a pod may have: every stage narrows them, and can say whom it left out and why.

One pod runs on one node, so what all its containers ask for must be one variant.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from gpu_admission.catalogue import Backend, Catalogue, GPUClass, Model, PodRules, Variant
from gpu_admission.gpu_request import PodRequest, Refusal
from gpu_admission.selection import refusing
from gpu_admission.selection.pins import Pins


class Why(StrEnum):
    """Why a variant of a model that was asked for is left out."""

    TOO_LITTLE_VRAM = "too_little_vram"
    """It has less VRAM than was asked for."""
    NOT_ALLOWED = "not_allowed"
    """The namespace may not have the model."""
    NODE_TOO_SMALL = "node_too_small"
    """Its nodes have fewer GPUs than the pod needs."""
    OTHER_BACKEND = "other_backend"
    """It is asked for by another resource than the default's, which has GPUs that fit."""
    EXCLUDED_FROM_ANY = "excluded_from_any"
    """The model is taken out of `any` for now."""
    NOT_SMALLEST = "not_smallest"
    """The pod's class gets the least VRAM that will do, and another has less."""
    PINNED_ELSEWHERE = "pinned_elsewhere"
    """The pod's own node selector or affinity excludes its nodes."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The variants a pod may have, in catalogue order, all of one back-end; never empty.

    `left_out`: the other variants of the names that were asked for, by id.
    """

    variants: tuple[Variant, ...]
    backend: Backend
    gpu_class: GPUClass
    left_out: Mapping[str, Why]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Everything besides the request that a choice depends on."""

    namespace: str
    rules: PodRules
    gpu_class: GPUClass
    catalogue: Catalogue
    now: datetime


class _Narrowing:
    """The variants that are left, and why each other one is not."""

    def __init__(self, variants: Iterable[Variant]) -> None:
        self.left = list(variants)
        self.left_out: dict[str, Why] = {}

    def keep(self, why: Why, fits: Callable[[Variant], bool]) -> bool:
        """Leave out those that do not fit; False if none is left."""
        kept = []
        for variant in self.left:
            if fits(variant):
                kept.append(variant)
            else:
                self.left_out[variant.id] = why
        self.left = kept
        return bool(kept)

    @property
    def smallest(self) -> int:
        """The least VRAM among those left; there must be some."""
        return min(variant.vram_gb for variant in self.left)


def select(
    request: PodRequest, spec: Mapping[str, Any], given: Circumstances
) -> Selection | Refusal:
    """What a request with at least one key of ours above zero may have.

    Args:
        request: What the pod asks for.
        spec: Its PodSpec, for the labels it pins itself to.
        given: Namespace, rules, class, catalogue, now.
    """
    named, minimum = _asked(request)
    if len(named) > 1:
        return refusing.no_common_model(request)
    models = list(named.values()) or given.catalogue.models
    narrowing = _Narrowing(variant for model in models for variant in model.variants)
    if not narrowing.keep(Why.TOO_LITTLE_VRAM, lambda each: each.vram_gb >= minimum):
        return refusing.not_enough_vram(request, given.catalogue)
    in_question = list(narrowing.left)
    if not narrowing.keep(Why.NOT_ALLOWED, lambda each: _allowed(each, given)):
        return refusing.not_allowed(request, in_question, given.namespace, _allowed_models(given))
    in_question = list(narrowing.left)
    needed = request.needed
    if not narrowing.keep(
        Why.NODE_TOO_SMALL, lambda each: each.max_per_node is None or each.max_per_node >= needed
    ):
        return refusing.node_too_small(request, in_question, needed)
    return _settled(request, Pins.of(spec), narrowing, given, by_name=bool(named))


def _asked(request: PodRequest) -> tuple[dict[str, Model], int]:
    """The models asked for by name, and the most VRAM that any key asks for."""
    named: dict[str, Model] = {}
    minimum = 0
    for _, each in request.specs():
        minimum = max(minimum, each.spec.min_vram_gb)
        if each.spec.model is not None:
            named[each.spec.model.id] = each.spec.model
    return named, minimum


def _settled(
    request: PodRequest,
    pins: Pins,
    narrowing: _Narrowing,
    given: Circumstances,
    *,
    by_name: bool,
) -> Selection | Refusal:
    """The stages that depend on policy: `any`'s exclusions, one back-end, the class, the pins."""
    warnings = refusing.deprecations(request, given.catalogue)
    backend = _one_backend(narrowing, given.catalogue)
    if not by_name:
        refusal = _without_excluded(request, narrowing, given, warnings)
        if refusal is not None:
            return refusal
    refusal = _smallest_and_pinned(request, pins, narrowing, given)
    if refusal is not None:
        return refusal
    return Selection(
        tuple(narrowing.left), backend, given.gpu_class, narrowing.left_out, tuple(warnings)
    )


def _without_excluded(
    request: PodRequest, narrowing: _Narrowing, given: Circumstances, warnings: list[str]
) -> Refusal | None:
    held = {
        model.id
        for model in given.catalogue.excluded_models
        if model.exclusion is not None and model.exclusion.holds(given.now)
    }
    if not held:
        return None
    before = list(narrowing.left)
    smallest = narrowing.smallest
    if not narrowing.keep(Why.EXCLUDED_FROM_ANY, lambda each: each.model not in held):
        return refusing.excluded(request, before, given.catalogue)
    missing = [each for each in before if each.model in held]
    spilled = given.gpu_class.smallest and narrowing.smallest > smallest
    if spilled and given.rules.smallest_excluded == "deny":
        return refusing.smallest_excluded(request, missing, smallest, given.catalogue)
    if missing:
        taken = narrowing.smallest if spilled else None
        warnings += refusing.left_out_of_any(request, missing, given.catalogue, taken)
    return None


def _one_backend(narrowing: _Narrowing, catalogue: Catalogue) -> Backend:
    """A container asks for one resource, so `any` stays with the default back-end if that has one.

    This comes before the exclusions: taking models out of `any` moves nobody to another vendor's.
    """
    present = {variant.backend.name: variant.backend for variant in narrowing.left}
    if len(present) == 1:
        return next(iter(present.values()))
    backend = present.get(catalogue.default_backend.name) or next(iter(present.values()))
    narrowing.keep(Why.OTHER_BACKEND, lambda each: each.backend is backend)
    return backend


def _smallest_and_pinned(
    request: PodRequest, pins: Pins, narrowing: _Narrowing, given: Circumstances
) -> Refusal | None:
    """The class's choice and the pod's own pins; only if policy says so do pins come first.

    Otherwise a pod could have more VRAM than its class gives by pinning itself to a bigger card.
    """
    may_raise = given.rules.pinning == "allow"
    if may_raise and not narrowing.keep(Why.PINNED_ELSEWHERE, pins.leave):
        return refusing.pinned_elsewhere(request, pins, _out(narrowing, given), None)
    if given.gpu_class.smallest:
        smallest = narrowing.smallest
        narrowing.keep(Why.NOT_SMALLEST, lambda each: each.vram_gb == smallest)
    if may_raise:
        return None
    candidates = list(narrowing.left)
    if narrowing.keep(Why.PINNED_ELSEWHERE, pins.leave):
        return None
    return refusing.pinned_elsewhere(request, pins, candidates, given.gpu_class)


def _out(narrowing: _Narrowing, given: Circumstances) -> list[Variant]:
    return [
        variant
        for variant in given.catalogue.variants
        if narrowing.left_out.get(variant.id) is Why.PINNED_ELSEWHERE
    ]


def _allowed(variant: Variant, given: Circumstances) -> bool:
    allowed = given.rules.allowed_models
    if allowed is not None and variant.model not in allowed:
        return False
    return given.catalogue.by_name[variant.model].allowed_in(given.namespace)


def _allowed_models(given: Circumstances) -> list[str]:
    allowed = given.rules.allowed_models
    return sorted(
        model.id
        for model in given.catalogue.models
        if (allowed is None or model.id in allowed) and model.allowed_in(given.namespace)
    )
