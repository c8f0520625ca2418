"""The embedded Kubernetes' rules against a real kube-apiserver: selectors, custom resources, deletions."""

import time
from collections.abc import Iterator
from itertools import count
from typing import Any
from urllib.parse import quote

import pytest

from sandbox.kubernetes_rules import objects, schemas, selectors, validation
from sandbox.kubernetes_rules.resources import ResourceType
from sandbox.kubernetes_rules.statuses import invalid
from tests.contracts.kubernetes_rules_peers import (
    BY_KIND,
    NAMESPACE,
    NOW,
    Answer,
    RealServer,
    a_real_server,
    answered,
    comparable,
    job,
    path_of,
    pod,
)

pytestmark = pytest.mark.slow

names = count()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with a_real_server(tmp_path_factory.mktemp("kubernetes")) as server:
        yield server


LABEL_SELECTORS = [
    *("a", "!a", "a=b", "a==b", "a!=b", "a in (x,y)", "a notin (x)", "a in ()", "a in (x,)"),
    *("a>1", "a gt 1", "a,", "a in (x", "a=b=c", ",a", "a>x", "(a)", "a notin x", "!", "a b"),
    *("a==", "a=,b", "!a=b", "x/y/z=1", "-a=b", "a!!b", "a=" + "v" * 64, "a b c", "in in (in)"),
]


@pytest.mark.parametrize("text", LABEL_SELECTORS)
def test_a_label_selector_is_read_or_refused_alike(real: RealServer, text: str) -> None:
    code, body = real.call("GET", f"/api/v1/nodes?labelSelector={quote(text)}")

    def read() -> dict[str, Any]:
        selectors.parse_labels(text)
        return {}

    mine_code, mine = answered(200, read)
    assert (mine_code, mine.get("message")) == (code, body.get("message"))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("Node", "metadata.name=x,spec.unschedulable=true"),
        ("Node", "spec.foo=x"),
        ("Node", "spec"),
        ("Pod", "spec.nodeName=x,status.phase!=Running"),
        ("Event", "involvedObject.name=x,reason=y"),
        ("Secret", "type=Opaque"),
        ("ConfigMap", "data=x"),
        ("Job", "status.successful=0"),
    ],
)
def test_a_field_selector_is_read_or_refused_alike(real: RealServer, kind: str, text: str) -> None:
    resource = BY_KIND[kind]
    code, body = real.call("GET", f"{path_of(resource)}?fieldSelector={quote(text)}")

    def read() -> dict[str, Any]:
        selectors.parse_fields(text, resource)
        return {}

    mine_code, mine = answered(200, read)
    assert (mine_code, mine.get("message")) == (code, body.get("message"))


SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["a"],
    "properties": {
        "a": {"type": "string", "enum": ["x", "y"], "maxLength": 5},
        "b": {"type": "integer", "minimum": 1, "maximum": 5, "default": 3},
        "c": {"type": "array", "maxItems": 2, "items": {"type": "string", "pattern": "^a"}},
        "d": {"x-kubernetes-int-or-string": True},
        "e": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "f": {"type": "object", "additionalProperties": {"type": "string"}},
        "g": {"type": "string", "nullable": True, "minLength": 2},
        "t": {"type": "string", "format": "date-time"},
        "l": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {
                "type": "object",
                "required": ["k"],
                "properties": {"k": {"type": "string"}, "n": {"type": "integer", "default": 1}},
            },
        },
        "s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "n": {"type": "number", "exclusiveMinimum": True, "minimum": 0},
    },
}
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": SPEC,
                            "status": {
                                "type": "object",
                                "properties": {"phase": {"type": "string", "enum": ["A"]}},
                            },
                        },
                    }
                },
            }
        ],
    },
}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGET = schemas.kinds_of(DEFINITION)[0]
WIDGET_SCHEMA = schemas.schema_of(DEFINITION, "v1")


@pytest.fixture(scope="module")
def defined(real: RealServer) -> RealServer:
    code, body = real.call("POST", DEFINITIONS, DEFINITION)
    assert code == 201, body
    deadline = time.monotonic() + 20
    while real.call("GET", path_of(WIDGET))[0] != 200:
        assert time.monotonic() < deadline, "the definition is not served"
        time.sleep(0.05)
    return real


WIDGETS: dict[str, Any] = {
    "unknown fields go, defaults come": {"a": "x", "zz": 1, "e": {"q": 1}, "l": [{"k": "1"}]},
    "nearly all wrong": {"a": "q", "b": 9, "c": ["b", "a", "a"], "d": 1.5, "f": {"a": 1}},
    "null where it may be": {"a": "x", "g": None},
    "null where it may not be": {"a": "x", "b": None, "t": None},
    "not a time": {"a": "x", "t": "nope"},
    "a time": {"a": "x", "t": "2026-01-01T00:00:00Z"},
    "doubled": {"a": "x", "g": "a", "l": [{"k": "1"}, {"k": "1"}], "s": ["a", "a"]},
    "a key missing": {"a": "x", "l": [{}]},
    "at the edges": {"a": "x", "n": 0, "b": 0, "d": "s"},
    "types": {"a": "xyyyyyyyyy", "b": "3", "c": [5], "e": "x"},
    "nothing": {},
    "not an object": 5,
    "a whole number as a float": {"a": "x", "b": 2.0, "n": 1},
}


def embedded_widget(body: dict[str, Any]) -> dict[str, Any]:
    fresh = objects.prepare_create(
        body, WIDGET, now=NOW, uid="u", random_suffix="abcde", namespace=NAMESPACE
    )
    fresh = schemas.completed(fresh, WIDGET_SCHEMA)
    causes = validation.check_create(fresh, WIDGET) + schemas.check_object(fresh, WIDGET_SCHEMA)
    if causes:
        raise invalid(WIDGET, fresh["metadata"]["name"], causes)
    return fresh


@pytest.mark.parametrize("spec", WIDGETS.values(), ids=WIDGETS)
def test_a_custom_resource_is_completed_or_refused_as_the_real_server_does(
    defined: RealServer, spec: Any
) -> None:
    meta = {"name": f"w-{next(names)}"}
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta, "spec": spec}
    body["status"] = {"phase": "A"}

    theirs = defined.call("POST", path_of(WIDGET), body)

    assert comparable(answered(201, lambda: embedded_widget(body))) == comparable(theirs)


GRACES: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "a pod of no node goes at once": (pod(), [{}]),
    "the usual grace": (pod(nodeName="n1"), [{}]),
    "a shorter grace": (pod(nodeName="n1"), [{"gracePeriodSeconds": 5}, {"gracePeriodSeconds": 3}]),
    "a longer grace changes nothing": (
        pod(nodeName="n1"),
        [{"gracePeriodSeconds": 5}, {"gracePeriodSeconds": 50}],
    ),
    "no grace": (pod(nodeName="n1"), [{"gracePeriodSeconds": 0}]),
    "the grace of the pod": (pod(nodeName="n1", terminationGracePeriodSeconds=7), [{}]),
    "held by a finalizer": (
        {**pod(nodeName="n1"), "metadata": {"finalizers": ["a.b/c"]}},
        [{"gracePeriodSeconds": 0}],
    ),
    "in the foreground": (pod(), [{"propagationPolicy": "Foreground"}]),
    "an unknown policy": (pod(), [{"propagationPolicy": "Foo"}]),
    "another UID": (pod(), [{"preconditions": {"uid": "abc"}}]),
    "a job orphans by default": (job(), [{}]),
}


@pytest.mark.parametrize("case", GRACES.values(), ids=GRACES)
def test_a_deletion_ends_or_waits_as_on_the_real_server(
    real: RealServer, case: tuple[dict[str, Any], list[dict[str, Any]]]
) -> None:
    body, deletions = case
    kind = BY_KIND[body["kind"]]
    name = f"deleted-{next(names)}"
    meta = {**body.get("metadata", {}), "name": name}
    _, stored = real.call(
        "POST",
        path_of(kind),
        {**body, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta},
    )
    mine = stored
    for options in deletions:
        theirs = real.call("DELETE", path_of(kind, name), options)
        code, mine = deleted_here(mine, options, kind)
        assert comparable((code, mine)) == comparable(theirs)

    gone = real.call("GET", path_of(kind, name))[0] == 404
    assert gone == objects.may_be_removed(mine) if code == 200 else not gone


def deleted_here(obj: dict[str, Any], options: dict[str, Any], kind: ResourceType) -> Answer:
    return answered(200, lambda: objects.deletion(obj, options, NOW, kind).object)
