"""Hypothesis strategies: nodes, pods with affinities of every kind, and JSON that is shaped like a pod."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import orjson
from hypothesis import strategies as st

from tests.gpu_admission.admitting import LABEL, P

OTHER_LABEL = "node.example.com/gpu"
PRODUCTS = [
    "Tesla-V100-SXM2-16GB",
    "Tesla-V100-SXM2-32GB",
    "NVIDIA-A30",
    "NVIDIA-A100-SXM4-40GB",
    "A100-SXM4-40GB",
    "NVIDIA-A100-SXM4-80GB",
    "GeForce-256",
]
ACCELERATORS = ["l4", "abacus"]
KEYS = ["any", "any-24gb", "any-32gb", "v100", "v100-32gb", "a100", "a100-80gb", "l4", "big-41gb"]
ZONES = ["a", "b"]
NAMES = ["node-0", "node-1"]
LABELS: dict[str, list[str]] = {
    LABEL: PRODUCTS,
    OTHER_LABEL: ACCELERATORS,
    "zone": ZONES,
    "memory": ["256", "512"],
}


def _one_of(values: list[Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


def _as_json(value: Any) -> Any:
    """The value as it comes from the wire: no two parts of it are one object."""
    return orjson.loads(orjson.dumps(value))


# All built once: making strategies anew for each example takes longer than the examples.
EVERY_NODE: list[dict[str, Any]] = [
    {
        "metadata": {
            "name": name,
            "labels": {
                key: value for key, value in zip(LABELS, values, strict=True) if value is not None
            },
        }
    }
    for name in NAMES
    for values in product(*([None, *values] for values in LABELS.values()))
]
"""A node of each kind: every combination of labels, or none of one, and of names."""

_EXPRESSIONS: list[dict[str, Any]] = [
    *(
        {"key": key, "operator": operator, "values": values[start : start + length]}
        for key, values in LABELS.items()
        for operator in ("In", "In", "NotIn")
        for start in range(len(values))
        for length in (1, 2, 4)
    ),
    *(
        {"key": key, "operator": operator}
        for key in [*LABELS, "absent"]
        for operator in ("Exists", "DoesNotExist")
    ),
    *(
        {"key": key, "operator": operator, "values": ["300"]}
        for key in (LABEL, "memory")
        for operator in ("Gt", "Lt")
    ),
]
_expressions = st.lists(_one_of(_EXPRESSIONS), min_size=1, max_size=2)
_terms = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.one_of(
            _expressions, _expressions, _expressions, _one_of([None, []])
        ),
        "matchFields": st.tuples(_one_of(["In", "NotIn"]), _one_of(NAMES)).map(
            lambda pair: [{"key": "metadata.name", "operator": pair[0], "values": [pair[1]]}]
        ),
    },
)
_required = st.fixed_dictionaries({"nodeSelectorTerms": st.lists(_terms, max_size=3)})
constraining = _required.map(
    lambda required: _as_json(
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    )
)
"""An affinity that requires something, or nothing that any node has."""
_preferred = [{"weight": 9, "preference": {"matchExpressions": _EXPRESSIONS[:1]}}]
_node_affinity = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.one_of(
            _required, _required, _required, st.none()
        ),
        "preferredDuringSchedulingIgnoredDuringExecution": _one_of([[], _preferred]),
    },
)
affinities = st.one_of(
    st.fixed_dictionaries({"nodeAffinity": _node_affinity}),
    _one_of([None, {}, {"nodeAffinity": None}, {"podAffinity": {}}]),
)
"""What stands at spec.affinity, as the API server takes it."""

_TOLERATIONS = [
    {"operator": "Exists"},
    {"key": "gpu", "operator": "Exists"},
    {"key": "gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"},
    {"key": "gpu", "value": "false"},
    {"key": "other", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9},
]
_LIMITS: list[dict[str, str]] = [
    {},
    *({P + key: amount} for key in KEYS for amount in "1113"),
    *({P + key: "0", "cpu": "2"} for key in KEYS[:2]),
    {P + "any": "1", P + "v100": "1"},
    {"nvidia.com/gpu": "1"},
    {"nvidia.com/gpu": "0", "cpu": "500m"},
]


def _container(name: str) -> st.SearchStrategy[dict[str, Any]]:
    def made(parts: tuple[dict[str, str], bool, int]) -> dict[str, Any]:
        limits, copied, env = parts
        container: dict[str, Any] = {"name": name, "image": "example/x:1"}
        if limits:
            container["resources"] = {"limits": dict(limits)}
            if copied:
                container["resources"]["requests"] = dict(limits)
        if env == 0:
            container["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
        return container

    return st.tuples(_one_of(_LIMITS), st.booleans(), st.integers(0, 4)).map(made)


_init = st.tuples(_container("init"), st.booleans()).map(
    lambda pair: [{**pair[0], "restartPolicy": "Always"} if pair[1] else pair[0]]
)
_app = st.one_of(
    st.tuples(_container("a")),
    st.tuples(_container("a"), _container("b")),
    st.tuples(_container("a"), _container("b"), _container("c")),
).map(list)
pods = st.fixed_dictionaries(
    {
        "metadata": _one_of([{"name": "p"}, {"name": "p", "annotations": {"x/y": "z"}}]),
        "spec": st.fixed_dictionaries(
            {"containers": _app, "priority": _one_of([0, 1000])},
            optional={
                "initContainers": _init,
                "affinity": affinities,
                "nodeSelector": _one_of(
                    [{}, {}, *({key: value} for key in LABELS for value in LABELS[key])]
                ),
                "tolerations": st.lists(_one_of(_TOLERATIONS), max_size=2),
            },
        ),
    }
).map(_as_json)
"""A valid pod as the webhook sees it, which may ask for GPUs in any of the ways."""

json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63),
        st.floats(allow_nan=False),
        st.text(max_size=8),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)

_FIELDS = [
    "spec",
    "metadata",
    "annotations",
    "labels",
    "ownerReferences",
    "containers",
    "initContainers",
    "resources",
    "limits",
    "requests",
    "env",
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
    "matchExpressions",
    "matchFields",
    "nodeSelector",
    "tolerations",
    "priority",
    "priorityClassName",
    "nodeName",
    "schedulerName",
    "restartPolicy",
    "template",
    "jobTemplate",
    "status",
    "preferred.jp/gpu-any",
    "preferred.jp/gpu-v100-32gb",
    "preferred.jp/gpu-selection",
    "nvidia.com/gpu",
    "key",
    "operator",
    "values",
    "name",
]


_oddities = st.lists(st.tuples(st.integers(0, 60), json_values), min_size=1, max_size=3)


def _broken(parts: tuple[dict[str, Any], list[tuple[int, Any]]]) -> Any:
    pod, oddities = parts
    for place, value in oddities:
        pod = _with(pod, [place], value)
    return pod


def _with(node: Any, left: list[int], value: Any) -> Any:
    """The node with the part that the count reaches replaced."""
    left[0] -= 1
    if left[0] == 0:
        return value
    if isinstance(node, dict):
        return {key: _with(each, left, value) for key, each in node.items()}
    if isinstance(node, list):
        return [_with(each, left, value) for each in node]
    return node


broken_pods = st.tuples(pods, _oddities).map(_broken)
"""A pod with some of its parts replaced by arbitrary JSON: shaped like a pod, but wrong."""


def spoilt(node: Any) -> Iterator[Any]:
    """The value once for each of its parts and each oddity, with the part replaced by it."""
    yield from ODDITIES
    if isinstance(node, dict):
        for key, value in node.items():
            yield from ({**node, key: each} for each in spoilt(value))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from ([*node[:index], each, *node[index + 1 :]] for each in spoilt(value))


ODDITIES: list[Any] = [None, True, 5, "", [], [{}], {"x": []}]

pod_shaped = st.recursive(
    st.one_of(
        json_values, st.sampled_from(["1", "0", "-1", "In", "Exists", "Always", "train", LABEL])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(_FIELDS), inner, max_size=5),
    ),
    max_leaves=30,
)
