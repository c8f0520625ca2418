"""The sentences for a request that cannot be met, and the warnings for one that can.

Each names what was asked for, why it fails and what would work; lists are capped, since these texts
end up in events.
"""

from collections.abc import Iterable, Sequence

from gpu_admission.catalogue import Catalogue, GPUClass, Variant
from gpu_admission.gpu_request import PodRequest, Reason, Refusal, capped, shortened
from gpu_admission.selection.pins import Pins

_FEW = 5


def no_common_model(request: PodRequest) -> Refusal:
    """Two models by name, or a name that has not the VRAM that another container needs."""
    asked = [
        f'container "{shortened(container.name)}": {each.spec.selector}'
        for container, each in request.specs()
    ]
    return Refusal(
        Reason.NO_COMMON_MODEL,
        f"no single model satisfies {_and(asked)}; all containers of a pod run on one node",
        request.asks,
    )


def not_enough_vram(request: PodRequest, catalogue: Catalogue) -> Refusal:
    """One key alone wants more than there is; or only all of them together do."""
    for container, each in request.specs():
        model, wanted = each.spec.model, each.spec.min_vram_gb
        sizes = catalogue.variants if model is None else model.variants
        if any(variant.vram_gb >= wanted for variant in sizes):
            continue
        largest = max(sizes, key=lambda variant: variant.vram_gb)
        where = f'container "{shortened(container.name)}"'
        if model is None:
            told = f"{where}: no GPU has >= {wanted} GB; largest is {largest.text}"
        else:
            have = capped(str(variant.vram_gb) for variant in sizes)
            told = f'{where}: "{each.spec.name}" has {have} GB; you asked for {wanted}'
        return Refusal(Reason.NOT_ENOUGH_VRAM, told, request.asks)
    return no_common_model(request)


def not_allowed(
    request: PodRequest, wanted: Sequence[Variant], namespace: str, allowed: Sequence[str]
) -> Refusal:
    """The namespace may have none of the models that fit."""
    return Refusal(
        Reason.NOT_ALLOWED,
        f'{_selectors(request)}: {_models(wanted)} not allowed in namespace "{namespace}"; '
        f"allowed there: {capped(allowed) or 'no GPU'}",
        request.asks,
    )


def node_too_small(request: PodRequest, wanted: Sequence[Variant], needed: int) -> Refusal:
    """More GPUs than a node has: the pod would pend for ever."""
    most = max(variant.max_per_node or 0 for variant in wanted)
    models = capped(dict.fromkeys(variant.model for variant in wanted), _FEW)
    return Refusal(
        Reason.NODE_TOO_SMALL,
        f"{_selectors(request)}: {needed} GPUs needed, nodes with {models} have at most {most}",
        request.asks,
    )


def too_many_gpus(request: PodRequest, needed: int, most: int, namespace: str) -> Refusal:
    """More than the policy gives one pod."""
    return Refusal(
        Reason.TOO_MANY_GPUS,
        f'{needed} GPUs needed, a pod in namespace "{namespace}" may have {most}',
        request.asks,
    )


def excluded(request: PodRequest, wanted: Sequence[Variant], catalogue: Catalogue) -> Refusal:
    """All that fits is taken out of `any`."""
    models = dict.fromkeys(variant.model for variant in wanted)
    only = "only " if len(models) == 1 else ""
    fit = "fits and it is" if len(models) == 1 else "fit and they are"
    return Refusal(
        Reason.EXCLUDED_FROM_ANY,
        f'{_selectors(request)}: {only}{_and(list(models))} {fit} excluded from "any" '
        f"{_untils(wanted, catalogue)}; ask for {_explicitly(request, wanted[0].model, catalogue)}",
        request.asks,
    )


def smallest_excluded(
    request: PodRequest, missing: Sequence[Variant], smallest: int, catalogue: Catalogue
) -> Refusal:
    """The smallest is taken out of `any`, and the next is not given instead."""
    small = [variant for variant in missing if variant.vram_gb == smallest]
    return Refusal(
        Reason.SMALLEST_EXCLUDED,
        f"{_selectors(request)}: the smallest GPU that fits, {capped(each.text for each in small)}, "
        f'is excluded from "any" {_untils(small, catalogue)}; '
        f"ask for {_explicitly(request, small[0].model, catalogue)}, or wait",
        request.asks,
    )


def pinned_elsewhere(
    request: PodRequest, pins: Pins, wanted: Sequence[Variant], gpu_class: GPUClass | None
) -> Refusal:
    """The pod's own selector or affinity excludes every GPU that it may have."""
    key = wanted[0].label_key
    values = capped((value for each in wanted for value in each.node_label_values), _FEW)
    smallest = f" for class {gpu_class.name}" if gpu_class and gpu_class.smallest else ""
    said = shortened(pins.on(key))
    pinned = (
        f"the pod itself asks for {key} {said}" if said else "the pod's own affinity fits no node"
    )
    return Refusal(
        Reason.PINNED_ELSEWHERE,
        f"{_selectors(request)} means {key} {values}{smallest}, but {pinned}; remove one of them",
        request.asks,
    )


def deprecations(request: PodRequest, catalogue: Catalogue) -> list[str]:
    """A warning for each deprecated alias that was used."""
    told = []
    for _, each in request.specs():
        if each.spec.model is not None:
            hint = catalogue.deprecation(each.spec.model, each.spec.name)
            if hint:
                told.append(f"{each.spec.selector}: {hint}")
    return list(dict.fromkeys(told))


def left_out_of_any(
    request: PodRequest, missing: Sequence[Variant], catalogue: Catalogue, spilled_to: int | None
) -> list[str]:
    """What `any` does not mean at the moment, and whether a high pod gets more VRAM for it."""
    models = list(dict.fromkeys(variant.model for variant in missing))
    told = [
        f'{_selectors(request)}: {name} is left out of "any" {_until(name, catalogue)}'
        for name in models[:_FEW]
    ]
    if spilled_to is not None:
        told.append(
            f"{_selectors(request)}: the smallest GPU that fits is left out of "
            f'"any"; this pod gets {spilled_to} GB instead'
        )
    return told


def _explicitly(request: PodRequest, model: str, catalogue: Catalogue) -> str:
    """The key of a model by name, with the VRAM that was asked for if not each of its sizes has it."""
    least = max(each.spec.min_vram_gb for _, each in request.specs())
    vram = f"-{least}gb" if catalogue.by_name[model].variants[0].vram_gb < least else ""
    return f"{catalogue.key_prefix}{model}{vram} explicitly"


def _selectors(request: PodRequest) -> str:
    return _and(list(dict.fromkeys(each.spec.selector for _, each in request.specs())))


def _models(variants: Iterable[Variant]) -> str:
    models = list(dict.fromkeys(variant.model for variant in variants))
    return f"{capped((f'{name}' for name in models), _FEW)} {'is' if len(models) == 1 else 'are'}"


def _untils(variants: Iterable[Variant], catalogue: Catalogue) -> str:
    models = dict.fromkeys(variant.model for variant in variants)
    return capped(dict.fromkeys(_until(name, catalogue) for name in models), _FEW)


def _until(model: str, catalogue: Catalogue) -> str:
    exclusion = catalogue.by_name[model].exclusion
    return exclusion.text if exclusion else ""


def _and(parts: list[str]) -> str:
    if len(parts) > _FEW:
        return capped(parts, _FEW)
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)
