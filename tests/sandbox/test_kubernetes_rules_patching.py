"""PATCH in the embedded Kubernetes: which lists merge by which key, which are atomic, and what is refused."""

from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.kubernetes_rules.patching import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    InvalidPatch,
    apply_patch,
)
from sandbox.kubernetes_rules.resources import BUILT_IN, JOB, NODE, POD, SERVICE, ResourceType
from sandbox.kubernetes_rules.statuses import Refusal

WIDGET = ResourceType("example.com", "v1", "Widget", "widgets", "widget", custom=True)


def strategic(kind: ResourceType, current: dict[str, Any], patch: Any) -> dict[str, Any]:
    return apply_patch(STRATEGIC_PATCH, current, patch, kind=kind)


@pytest.mark.parametrize(
    ("kind", "current", "patch", "expected"),
    [
        pytest.param(
            NODE,
            {"status": {"conditions": [{"type": "A", "status": "False", "reason": "r"}]}},
            {"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B"}]}},
            {
                "status": {
                    "conditions": [{"type": "A", "status": "True", "reason": "r"}, {"type": "B"}]
                }
            },
            id="conditions merge by type",
        ),
        pytest.param(
            NODE,
            {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
            {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}},
            {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}},
            id="taints are replaced whole",
        ),
        pytest.param(
            POD,
            {"spec": {"tolerations": [{"key": "a"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            id="tolerations are replaced whole",
        ),
        pytest.param(
            JOB,
            {
                "spec": {
                    "template": {"spec": {"containers": [{"name": "c", "env": [{"name": "E"}]}]}}
                }
            },
            {
                "spec": {
                    "template": {
                        "spec": {
                            "containers": [{"name": "c", "env": [{"name": "E", "value": "1"}]}],
                            "volumes": [{"name": "v"}],
                        }
                    }
                }
            },
            {
                "spec": {
                    "template": {
                        "spec": {
                            "containers": [{"name": "c", "env": [{"name": "E", "value": "1"}]}],
                            "volumes": [{"name": "v"}],
                        }
                    }
                }
            },
            id="a job's template is a pod's",
        ),
        pytest.param(
            SERVICE,
            {"spec": {"ports": [{"port": 80, "name": "a"}]}},
            {"spec": {"ports": [{"port": 80, "$patch": "delete"}, {"port": 81}]}},
            {"spec": {"ports": [{"port": 81}]}},
            id="a service's ports by port",
        ),
        pytest.param(
            NODE,
            {"metadata": {"finalizers": ["a/b", "c/d"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/b"]}},
            {"metadata": {"finalizers": ["c/d"]}},
            id="one finalizer goes",
        ),
        pytest.param(
            NODE,
            {"metadata": {"labels": {"a": "1", "b": "2"}}},
            {"metadata": {"labels": {"$retainKeys": ["b", "c"], "c": "3"}}},
            {"metadata": {"labels": {"b": "2", "c": "3"}}},
            id="only kept keys stay",
        ),
    ],
)
def test_a_strategic_patch_knows_its_lists(
    kind: ResourceType, current: dict[str, Any], patch: Any, expected: dict[str, Any]
) -> None:
    assert strategic(kind, current, patch) == expected


def test_elements_come_in_the_order_asked_for_and_others_keep_their_place() -> None:
    current = {"status": {"conditions": [{"type": each} for each in "ABC"]}}
    order = [{"type": "C"}, {"type": "D"}, {"type": "A"}]
    patch = {"status": {"$setElementOrder/conditions": order, "conditions": [{"type": "D"}]}}

    merged = strategic(NODE, current, patch)

    assert [each["type"] for each in merged["status"]["conditions"]] == ["B", "C", "D", "A"]


def test_a_custom_resource_takes_no_strategic_patch() -> None:
    with pytest.raises(Refusal) as refused:
        strategic(WIDGET, {}, {})

    assert refused.value.code == 415
    assert "accepted media types include: application/json-patch+json" in str(refused.value)


@pytest.mark.parametrize("media", ["text/plain", "application/apply-patch+yaml", ""])
def test_an_unknown_media_type_is_refused(media: str) -> None:
    with pytest.raises(Refusal, match="415"):
        apply_patch(media, {}, {}, kind=NODE)


def test_the_media_type_may_carry_parameters() -> None:
    patched = apply_patch(f"{MERGE_PATCH}; charset=utf-8", {"a": 1}, {"b": 2}, kind=NODE)

    assert patched == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "test", "path": "/t", "value": 1},
        {"op": "remove", "path": "/zz"},
        {"op": "add", "path": "/l/9", "value": 1},
        {"op": "add", "path": "/a/b", "value": 1},
        {"op": "copy", "from": "/zz", "path": "/y"},
        {"op": "move", "from": "/o", "path": "/o/p"},
        {"op": "frobnicate", "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
        {"op": "replace", "path": "", "value": 3},
    ],
)
def test_an_operation_that_cannot_be_applied_changes_nothing(operation: dict[str, Any]) -> None:
    document = {"a": 1, "t": True, "l": [1], "o": {"p": 1}}
    before = deepcopy(document)

    with pytest.raises(InvalidPatch) as refused:
        apply_patch(
            JSON_PATCH, document, [{"op": "add", "path": "/n", "value": 1}, operation], kind=NODE
        )

    assert (refused.value.code, document) == (422, before)


def test_operations_follow_escaped_pointers_and_list_ends() -> None:
    document = {"m": {"a/b~c": 1}, "l": [1, 2]}
    operations = [
        {"op": "replace", "path": "/m/a~1b~0c", "value": 2},
        {"op": "add", "path": "/l/-", "value": 4},
        {"op": "add", "path": "/l/2", "value": 3},
        {"op": "move", "from": "/l/0", "path": "/first"},
        {"op": "copy", "from": "/m", "path": "/twin"},
    ]

    patched = apply_patch(JSON_PATCH, document, operations, kind=NODE)

    twin = {"a/b~c": 2}
    assert patched == {"m": twin, "l": [2, 3, 4], "first": 1, "twin": twin}


KEYS = [
    *("a", "type", "conditions", "finalizers", "taints", "podCIDRs", "$patch", "$retainKeys"),
    *("$setElementOrder/conditions", "$setElementOrder/finalizers", "$setElementOrder/a"),
    "$deleteFromPrimitiveList/finalizers",
]
JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from(["", "delete", "replace"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from(["metadata", "spec", "status", "a"]), JSON, max_size=4)


@given(current=OBJECTS, patch=JSON, kind=st.sampled_from(BUILT_IN))
def test_any_patch_is_applied_or_refused_and_leaves_its_arguments_alone(
    current: dict[str, Any], patch: Any, kind: ResourceType
) -> None:
    before = deepcopy((current, patch))
    for media in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH):
        with suppress(Refusal):
            apply_patch(media, current, patch, kind=kind)

    assert (current, patch) == before


@given(current=OBJECTS, patch=OBJECTS)
def test_a_merge_patch_applied_twice_is_as_once(
    current: dict[str, Any], patch: dict[str, Any]
) -> None:
    once = apply_patch(MERGE_PATCH, current, patch, kind=NODE)

    assert apply_patch(MERGE_PATCH, once, patch, kind=NODE) == once
