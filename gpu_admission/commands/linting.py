"""`gpu-admission catalogue lint`: does the catalogue say what the nodes say?"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TextIO

from gpu_admission.catalogue import Catalogue, Variant, parse_quantity
from gpu_admission.commands.drafting import COUNT, MEMORY, PRODUCT, counted
from gpu_admission.gpu_request.shapes import mapping, text
from gpu_admission.placement import covers

_LESS = 0.90  # a card that reports a tenth less than its nominal size is another card


def lint(catalogue: Catalogue, nodes: Iterable[Mapping[str, Any]], out: TextIO) -> int:
    """Write one line a finding; 0 if there is none, else 1."""
    known = list(nodes)
    found = [*_of_variants(catalogue, known), *_of_nodes(catalogue, known)]
    out.writelines(f"{each}\n" for each in found)
    if not found:
        out.write(f"the catalogue and {counted(len(known))} agree\n")
    return 1 if found else 0


def _labels(node: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(node.get("metadata")).get("labels"))


def _name(node: Mapping[str, Any]) -> str:
    return text(mapping(node.get("metadata")).get("name"))


def _of_variants(catalogue: Catalogue, nodes: list[Mapping[str, Any]]) -> Iterator[str]:
    for variant in catalogue.variants:
        for value in variant.node_label_values:
            having = [each for each in nodes if _labels(each).get(variant.label_key) == value]
            if not having:
                yield f"{variant.text}: no node has {variant.label_key}={value}"
            for node in having:
                yield from _of_pair(variant, node)


def _of_pair(variant: Variant, node: Mapping[str, Any]) -> Iterator[str]:
    labels, name = _labels(node), _name(node)
    # Both labels speak of whole cards, not of a slice with labels of its own.
    whole = labels if variant.label_key == PRODUCT else {}
    mebibytes = parse_quantity(whole.get(MEMORY))
    if mebibytes and mebibytes * 2**20 < variant.vram_gb * 10**9 * _LESS:
        told = int(mebibytes)
        yield f"{name}: {MEMORY} is {told} MiB, and the catalogue says {variant.vram_gb} GB ({variant.text})"
    count = parse_quantity(whole.get(COUNT))
    if variant.max_per_node is not None and count and count > variant.max_per_node:
        yield f"{name}: has {int(count)} GPUs, and max_per_node of {variant.text} is {variant.max_per_node}"
    resource = variant.backend.resource
    capacity = mapping(mapping(node.get("status")).get("capacity"))
    if not parse_quantity(capacity.get(resource)):
        yield f"{name}: is labelled {variant.text} and offers no {resource}; is its device plugin running?"
    for taint in mapping(node.get("spec")).get("taints") or ():
        effect, key = text(taint.get("effect")), text(taint.get("key"))
        ours = key.startswith(
            ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "nodemend.dev/")
        )
        if effect in {"NoSchedule", "NoExecute"} and not ours and not _tolerated(variant, taint):
            yield f"{name}: its taint {key}={text(taint.get('value'))}:{effect} is not among the tolerations of {variant.model}"


def _tolerated(variant: Variant, taint: Mapping[str, Any]) -> bool:
    wanted = {
        "key": text(taint.get("key")),
        "operator": "Equal",
        "value": text(taint.get("value")),
        "effect": text(taint.get("effect")),
    }
    return any(covers(each, wanted) for each in variant.tolerations)


def _of_nodes(catalogue: Catalogue, nodes: list[Mapping[str, Any]]) -> Iterator[str]:
    by_label = {
        (variant.label_key, value): variant
        for variant in catalogue.variants
        for value in variant.node_label_values
    }
    keys = dict.fromkeys(variant.label_key for variant in catalogue.variants)
    for node in nodes:
        labels = _labels(node)
        matching = {
            key: by_label[key, labels[key]] for key in keys if (key, labels.get(key)) in by_label
        }
        # Whole cards and slices of one node are told apart by their resources.
        resources = {variant.backend.resource for variant in matching.values()}
        if len(matching) > len(resources):
            yield f"{_name(node)}: fits variants by {' and '.join(sorted(matching))}"
        unknown = [key for key in keys if key in labels]
        if unknown and not matching:
            yield f"{_name(node)}: {unknown[0]}={labels[unknown[0]]} is in no model of the catalogue"
