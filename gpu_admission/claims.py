"""The audit annotation: written when a pod is changed, and never believed when it comes in.

A claim counts only if the pod is exactly what an honest request for the same would have become: the
containers' amounts are those of the nodes' resource, and today's selection for them confines the pod.
Whoever forges such an annotation has only asked in another way.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from gpu_admission.catalogue import Catalogue, Variant
from gpu_admission.gpu_request import (
    ContainerRequest,
    KeyProblem,
    PodRequest,
    SpecAmount,
    parse_amount,
    parse_key,
)
from gpu_admission.gpu_request.shapes import items, mapping, text
from gpu_admission.selection import Selection

_DOMAIN_ENDS_AT = "/"
_MAX_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Claim:
    """What an annotation says: keys and amounts by container, class, variants, generation."""

    requests: Mapping[str, tuple[SpecAmount, ...]]
    class_name: str
    variants: tuple[str, ...]
    generation: str

    def known_variants(self, catalogue: Catalogue) -> tuple[Variant, ...]:
        """Those of its variants that this catalogue has."""
        found = (catalogue.variant(each) for each in self.variants)
        return tuple(each for each in found if each is not None)


def annotation_of(pod: Mapping[str, Any], catalogue: Catalogue) -> object:
    """The annotation's value, None if there is none."""
    return mapping(mapping(pod.get("metadata")).get("annotations")).get(catalogue.annotation)


def claim_text(request: PodRequest, selection: Selection, catalogue: Catalogue) -> str:
    """The annotation for a pod that gets this selection: compact JSON."""
    wanted: dict[str, dict[str, int]] = {}
    for container, each in request.specs():
        wanted.setdefault(container.name, {})[each.spec.selector] = each.amount
    return orjson.dumps(
        {
            "requests": wanted,
            "class": selection.gpu_class.name,
            "models": [variant.id for variant in selection.variants],
            "generation": catalogue.generation,
        }
    ).decode()


def read_claim(pod: Mapping[str, Any], catalogue: Catalogue) -> Claim | None:
    """What the annotation says, None if it is absent or nothing that this catalogue could have made."""
    value = text(annotation_of(pod, catalogue))
    if not value or len(value) > _MAX_BYTES:
        return None
    try:
        said = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    requests = {
        name: _specs(mapping(keys), catalogue)
        for name, keys in mapping(mapping(said).get("requests")).items()
    }
    if not requests or not all(requests.values()):
        return None
    return Claim(
        requests,
        text(said.get("class")),
        tuple(filter(None, map(text, items(said.get("models"))))),
        text(said.get("generation")),
    )


def claimed_request(request: PodRequest, claim: Claim) -> PodRequest | None:
    """The request that the claim stands for, if its amounts are those of the containers, else None.

    Containers that the claim does not name keep what they ask for.
    """
    by_name = {each.name: each for each in request.containers}
    if any(name not in by_name for name in claim.requests):
        return None
    containers = []
    for each in request.containers:
        specs = claim.requests.get(each.name)
        if specs is None or each.specs:
            containers.append(each)
            continue
        used = [amount for amount in each.natives.values() if amount]
        if used != [sum(spec.amount for spec in specs)]:
            return None
        containers.append(replace(each, specs=specs, natives={}))
    return PodRequest(tuple(containers))


def resource_agrees(request: PodRequest, claim: Claim, selection: Selection) -> bool:
    """Whether each claimed container asks for the resource of the back-end that was selected."""
    return all(
        set(_used(each)) == {selection.backend.resource}
        for each in request.containers
        if each.name in claim.requests and not each.specs
    )


def _used(container: ContainerRequest) -> Iterator[str]:
    return (resource for resource, amount in container.natives.items() if amount)


def _specs(keys: Mapping[str, Any], catalogue: Catalogue) -> tuple[SpecAmount, ...]:
    """The keys of one container; empty if any of them means nothing."""
    found = []
    for selector, value in keys.items():
        spec = parse_key(f"{catalogue.prefix}{_DOMAIN_ENDS_AT}{selector}", catalogue)
        amount = parse_amount(value)
        if (
            not selector.startswith("gpu-")
            or isinstance(spec, KeyProblem)
            or not isinstance(amount, int)
            or amount < 1
        ):
            return ()
        found.append(SpecAmount(spec, amount))
    return tuple(found)
