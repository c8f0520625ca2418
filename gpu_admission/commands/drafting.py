"""`gpu-admission catalogue draft`: a first catalogue from the labels that GPU feature discovery puts on nodes.

Prints what the nodes say, with a comment wherever a person must decide. MIG slices are told apart by
their strategy: `single` puts the slice into the product's name, `mixed` has labels of its own.
Source of the labels: https://github.com/NVIDIA/k8s-device-plugin/tree/main/docs/gpu-feature-discovery
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from gpu_admission.gpu_request.shapes import mapping, text

PRODUCT, MEMORY, COUNT = "nvidia.com/gpu.product", "nvidia.com/gpu.memory", "nvidia.com/gpu.count"
STRATEGY = "nvidia.com/mig.strategy"
_MIG_IN_PRODUCT = re.compile(r"-MIG-\d+g\.\d+gb", re.IGNORECASE)
_MIXED = re.compile(r"nvidia\.com/mig-(?P<profile>\d+g\.\d+gb)\.count")
_SHARED = "-SHARED"
_NOMINAL = (2, 4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 128, 141, 180, 192, 288)
_ROUNDED = 0.05
_NOISE = frozenset({"nvidia", "tesla", "geforce", "quadro", "sxm", "sxm2", "sxm3", "sxm4", "sxm5", "pcie", "hbm2", "hbm2e", "hbm3", "hbm3e", "generation", "ada", "lovelace"})  # fmt: skip
_SIZE = re.compile(r"(?P<gb>\d+)gb", re.IGNORECASE)
_NOT_ID = re.compile(r"[^a-z0-9]+")


@dataclass(slots=True)
class _Product:
    """All nodes with one value of the product label."""

    value: str
    nodes: int = 0
    most: int = 0
    mebibytes: set[int] = field(default_factory=set)
    taints: set[tuple[str, str, str]] = field(default_factory=set)
    strategies: set[str] = field(default_factory=set)


def draft(nodes: Iterable[Mapping[str, Any]], out: TextIO) -> int:
    """Write a catalogue; 0, or 1 if no node has the labels."""
    products, mixed, bare = _products(nodes)
    if not products:
        out.write("# no node carries nvidia.com/gpu.product; is GPU feature discovery running?\n")
        out.writelines(f"# {name} has GPUs, and no such label\n" for name in bare)
        return 1
    models: dict[str, dict[int, list[_Product]]] = defaultdict(lambda: defaultdict(list))
    for product in products.values():
        if not _MIG_IN_PRODUCT.search(product.value) and not product.value.endswith(_SHARED):
            models[model_id(product.value)][nominal_gb(product)].append(product)
    out.write(
        "# A draft: check names and VRAM, add cost_per_hour. `gpu-admission catalogue lint`\n"
    )
    out.write("# compares the file with the cluster whenever either changes.\n")
    out.write("models:\n")
    for name in sorted(models):
        out.writelines(_model(name, models[name]))
    out.writelines(_left_out(products.values(), mixed, bare))
    return 0


def _products(
    nodes: Iterable[Mapping[str, Any]],
) -> tuple[dict[str, _Product], dict[str, int], list[str]]:
    products: dict[str, _Product] = {}
    mixed: dict[str, int] = defaultdict(int)
    bare = []
    for node in nodes:
        labels = mapping(mapping(node.get("metadata")).get("labels"))
        value = text(labels.get(PRODUCT))
        if not value:
            if mapping(mapping(node.get("status")).get("capacity")).get("nvidia.com/gpu"):
                bare.append(text(mapping(node.get("metadata")).get("name")))
            continue
        _take(products.setdefault(value, _Product(value)), node, labels)
        for key in labels:
            if found := _MIXED.fullmatch(key):
                mixed[found["profile"]] += 1
    return products, mixed, bare


def _take(product: _Product, node: Mapping[str, Any], labels: Mapping[str, Any]) -> None:
    product.nodes += 1
    product.most = max(product.most, _number(labels.get(COUNT)))
    if mebibytes := _number(labels.get(MEMORY)):
        product.mebibytes.add(mebibytes)
    product.strategies.add(text(labels.get(STRATEGY)))
    for taint in mapping(node.get("spec")).get("taints") or ():
        key, effect = text(taint.get("key")), text(taint.get("effect"))
        if not key.startswith("node.") and not key.startswith("nodemend.dev/"):
            product.taints.add((key, text(taint.get("value")), effect))


def _number(value: object) -> int:
    return int(value) if isinstance(value, str) and value.isdigit() else 0


def model_id(product: str) -> str:
    """A short name: `NVIDIA-A100-SXM4-80GB` is `a100`, `NVIDIA-RTX-A6000` is `rtx-a6000`."""
    words = [each for each in _NOT_ID.split(product.lower()) if each]
    kept = [each for each in words if each not in _NOISE and not _SIZE.fullmatch(each)]
    return "-".join(kept) or "-".join(words) or "gpu"


def nominal_gb(product: _Product) -> int:
    """The size on the box: what the name says, else the next nominal size: a part is reserved."""
    if found := _SIZE.search(product.value):
        return int(found["gb"])
    if not product.mebibytes:
        return 1
    gibibytes = max(product.mebibytes) / 1024 - _ROUNDED
    return next((each for each in _NOMINAL if each >= gibibytes), round(gibibytes))


def counted(nodes: int) -> str:
    """`1 node`, `2 nodes`."""
    return f"{nodes} node" if nodes == 1 else f"{nodes} nodes"


def _model(name: str, sizes: Mapping[int, Sequence[_Product]]) -> Iterator[str]:
    yield f"  - id: {name}\n    variants:\n"
    taints: set[tuple[str, str, str]] = set()
    for gigabytes in sorted(sizes):
        products = sorted(sizes[gigabytes], key=lambda each: each.value)
        values = ", ".join(each.value for each in products)
        yield f"      - vram_gb: {gigabytes}"
        told = sorted({mebibytes for each in products for mebibytes in each.mebibytes})
        yield (
            f"  # the nodes say {', '.join(map(str, told))} MiB\n"
            if told
            else "  # check: no node says how much\n"
        )
        yield f"        node_label_values: [{values}]\n"
        if most := max(each.most for each in products):
            yield f"        max_per_node: {most}\n"
        taints |= {taint for each in products for taint in each.taints}
    if taints:
        yield "    # Taints that these nodes have; leave out those that GPU pods must not tolerate.\n"
        yield "    tolerations:\n"
        yield from (f"      - {_toleration(*taint)}\n" for taint in sorted(taints))


def _toleration(key: str, value: str, effect: str) -> str:
    rule = f'operator: Equal, value: "{value}"' if value else "operator: Exists"
    return f"{{key: {key}, {rule}, effect: {effect}}}"


def _left_out(
    products: Iterable[_Product], mixed: Mapping[str, int], bare: Sequence[str]
) -> Iterator[str]:
    for product in sorted(products, key=lambda each: each.value):
        if _MIG_IN_PRODUCT.search(product.value):
            yield f"# left out: {product.value} ({counted(product.nodes)}) are MIG slices (strategy single), not whole cards\n"
        elif product.value.endswith(_SHARED):
            yield f"# left out: {product.value} ({counted(product.nodes)}) are shared by time-slicing, without memory isolation\n"
    for profile, count in sorted(mixed.items()):
        yield f"# left out: MIG slices {profile} on {counted(count)} (strategy mixed); their resource is nvidia.com/mig-{profile}\n"
    for name in bare:
        yield f"# {name} has GPUs and no label {PRODUCT}: nothing can be placed there\n"
