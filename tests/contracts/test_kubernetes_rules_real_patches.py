"""The embedded Kubernetes' rules against a real kube-apiserver: what a PATCH makes of an object."""

from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox.kubernetes_rules.patching import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from sandbox.kubernetes_rules.resources import NODE, POD, ResourceType
from tests.contracts.kubernetes_rules_peers import (
    BY_KIND,
    RealServer,
    a_real_server,
    answered,
    budget,
    comparable,
    embedded_patch,
    job,
    path_of,
    pod,
    taint,
)

pytestmark = pytest.mark.slow

names = count()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with a_real_server(tmp_path_factory.mktemp("kubernetes")) as server:
        yield server


def condition(name: str, **more: Any) -> dict[str, Any]:
    return {"type": name, "status": "True", **more}


Case = tuple[str, str, str | None, Any]


def case_of(media: str, where: str, patch: Any) -> Case:
    kind, _, part = where.partition("/")
    return media, kind, part or None, patch


strategic = partial(case_of, STRATEGIC_PATCH)
merge = partial(case_of, MERGE_PATCH)
operations = partial(case_of, JSON_PATCH)


PATCHES: dict[str, Case] = {
    "taints are atomic": strategic("Node", {"spec": {"taints": [taint("b")]}}),
    "a taint cannot be deleted alone": strategic(
        "Node",
        {"spec": {"taints": [{**taint("x"), "$patch": "delete"}]}},
    ),
    "no taints": merge("Node", {"spec": {"taints": None}}),
    "labels replaced": strategic(
        "Node",
        {"metadata": {"labels": {"$patch": "replace", "z": "1"}}},
    ),
    "labels deleted": strategic(
        "Node",
        {"metadata": {"labels": {"$patch": "delete"}}},
    ),
    "an unknown directive": strategic("Node", {"metadata": {"$patch": "foo"}}),
    "conditions by type": strategic(
        "Node/status",
        {"status": {"conditions": [condition("C"), condition("A", reason="r")]}},
    ),
    "a condition deleted": strategic(
        "Node/status",
        {"status": {"conditions": [{"type": "A", "$patch": "delete"}]}},
    ),
    "conditions replaced": strategic(
        "Node/status",
        {"status": {"conditions": [{"$patch": "replace"}, condition("Z")]}},
    ),
    "a condition without type": strategic(
        "Node/status",
        {"status": {"conditions": [{"status": "True"}]}},
    ),
    "a list told to merge": strategic(
        "Node/status",
        {"status": {"conditions": [{"type": "A", "$patch": "merge"}]}},
    ),
    "kept keys without the one set": strategic(
        "Node/status",
        {"status": {"$retainKeys": ["nodeInfo"], "conditions": [condition("K")]}},
    ),
    "a status patch leaves the spec": merge(
        "Node/status",
        {"spec": {"unschedulable": True}, "metadata": {"labels": {"q": "r"}}},
    ),
    "a plain patch leaves the status": merge(
        "Node",
        {"status": {"conditions": []}, "spec": {"unschedulable": True}},
    ),
    "podCIDR set and kept": merge("Node", {"spec": {"providerID": "other"}}),
    "another name": merge("Node", {"metadata": {"name": "other"}}),
    "an old version": merge("Node", {"metadata": {"resourceVersion": "1"}}),
    "a list for a patch": merge("Node", [1]),
    "a list for a strategic patch": strategic("Node", [1]),
    "a test that fails": operations(
        "Node",
        [{"op": "test", "path": "/metadata/name", "value": "x"}],
    ),
    "a test for nothing": operations(
        "Node",
        [
            {"op": "test", "path": "/spec/unschedulable", "value": None},
            {"op": "add", "path": "/metadata/labels/a~1b", "value": "x"},
        ],
    ),
    "a test below nothing": operations(
        "Node",
        [{"op": "test", "path": "/spec/foo/bar", "value": None}],
    ),
    "nothing to remove": operations(
        "Node",
        [{"op": "remove", "path": "/metadata/labels/zz"}],
    ),
    "nothing to replace": operations(
        "Node",
        [{"op": "replace", "path": "/metadata/labels/zz", "value": "q"}],
    ),
    "the last of a list": operations(
        "Node",
        [{"op": "remove", "path": "/spec/taints/-1"}],
    ),
    "copied and moved": operations(
        "Node",
        [
            {"op": "copy", "from": "/metadata/labels/old", "path": "/metadata/labels/c"},
            {"op": "move", "from": "/metadata/labels/c", "path": "/metadata/labels/d"},
        ],
    ),
    "an operation of no kind": operations("Node", [{"op": "foo", "path": "/spec"}]),
    "an object for operations": operations("Node", {"a": 1}),
    "another image": strategic(
        "Pod",
        {"spec": {"containers": [{"name": "c", "image": "j"}]}},
    ),
    "another node": strategic("Pod", {"spec": {"nodeName": "n1"}}),
    "another selector": strategic("Pod", {"spec": {"nodeSelector": {"a": "b"}}}),
    "a toleration more": strategic(
        "Pod",
        {"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}},
    ),
    "a pod's status": strategic(
        "Pod/status",
        {"status": {"phase": "Running", "conditions": [condition("Ready")]}},
    ),
    "a job's count": merge("Job", {"spec": {"completions": 3, "backoffLimit": 2}}),
    "a job's image": strategic(
        "Job",
        {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "zz"}]}}}},
    ),
    "a job suspended": merge("Job", {"spec": {"suspend": True}}),
    "a job that cannot have ended": strategic(
        "Job/status",
        {"status": {"active": 1, "conditions": [condition("Complete")]}},
    ),
    "a class's value": merge("PriorityClass", {"value": 6}),
    "a budget's selector is replaced": strategic(
        "PodDisruptionBudget",
        {"spec": {"selector": {"matchLabels": {"c": "d"}}}},
    ),
}
BASES: dict[str, dict[str, Any]] = {
    "Node": {
        "metadata": {"labels": {"old": "1"}, "finalizers": []},
        "spec": {"taints": [taint("a")], "providerID": "one"},
        "status": {"conditions": [condition("A"), condition("B")]},
    },
    "Pod": pod(),
    "Job": job(),
    "PriorityClass": {"value": 5},
    "PodDisruptionBudget": budget(minAvailable=1, selector={"matchLabels": {"a": "b"}}),
}


def stored_by(real: RealServer, kind: ResourceType) -> dict[str, Any]:
    base = BASES[kind.kind]
    meta = {**base.get("metadata", {}), "name": f"patched-{next(names)}"}
    body = {**base, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta}
    code, stored = real.call("POST", path_of(kind), body)
    assert code == 201, stored
    return stored


def both_patched(
    real: RealServer, kind: ResourceType, media: str, part: str | None, patch: Any
) -> tuple[Any, Any]:
    current = stored_by(real, kind)
    path = path_of(kind, current["metadata"]["name"]) + (f"/{part}" if part else "")
    theirs = real.call("PATCH", path, patch, media)
    mine = answered(200, lambda: embedded_patch(current, patch, media, kind, part))
    return comparable(mine), comparable(theirs)


@pytest.mark.parametrize("case", PATCHES.values(), ids=PATCHES)
def test_a_patch_does_what_it_does_on_the_real_server(real: RealServer, case: Case) -> None:
    media, name, part, patch = case

    mine, theirs = both_patched(real, BY_KIND[name], media, part, patch)

    assert mine == theirs


TYPES = st.sampled_from(["A", "B", "C", "D", "E"])
TEXTS = st.one_of(st.none(), st.sampled_from(["x", "y"]))
CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {"type": TYPES},
        optional={
            "status": st.just("False"),
            "reason": TEXTS,
            "message": TEXTS,
            "$patch": st.sampled_from(["delete", "replace"]),
        },
    ),
    max_size=4,
    unique_by=lambda each: each["type"],
)
LABELS = st.dictionaries(st.sampled_from(["old", "p", "q"]), TEXTS, max_size=3)
FINALIZERS = st.lists(st.sampled_from(["a.b/c", "d.e/f", "g.h/i"]), max_size=3, unique=True)


@st.composite
def node_status_patches(draw: st.DrawFn) -> dict[str, Any]:
    status: dict[str, Any] = {"conditions": draw(CONDITIONS)}
    if draw(st.booleans()):
        kept = [e["type"] for e in status["conditions"] if "$patch" not in e]
        after = draw(st.lists(TYPES, unique=True, max_size=5))
        order = kept + [each for each in after if each not in kept]
        status["$setElementOrder/conditions"] = [{"type": each} for each in order]
    meta = draw(st.fixed_dictionaries({}, optional={"labels": LABELS, "finalizers": FINALIZERS}))
    return {"status": status, "metadata": meta}


@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(patch=node_status_patches())
def test_any_strategic_patch_of_a_node_gives_the_same_node(
    real: RealServer, patch: dict[str, Any]
) -> None:
    mine, theirs = both_patched(real, NODE, STRATEGIC_PATCH, "status", patch)

    assert mine == theirs


POD_PATCHES = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries({"labels": LABELS, "annotations": LABELS}),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "containers": st.just([{"name": "c", "image": "k"}]),
                "activeDeadlineSeconds": st.integers(0, 9),
                "tolerations": st.just([{"key": "t", "operator": "Exists"}]),
            },
        ),
    },
)


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(patch=POD_PATCHES)
def test_any_strategic_patch_of_a_pod_gives_the_same_pod(
    real: RealServer, patch: dict[str, Any]
) -> None:
    mine, theirs = both_patched(real, POD, STRATEGIC_PATCH, None, patch)

    assert mine == theirs
