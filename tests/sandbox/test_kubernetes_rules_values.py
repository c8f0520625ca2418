"""Selectors, quantities and schemas in the embedded Kubernetes; texts of refusals are held to the real server elsewhere."""

from contextlib import suppress
from copy import deepcopy
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.kubernetes_rules import resources, schemas
from sandbox.kubernetes_rules.cel_rules import without_cel_rules
from sandbox.kubernetes_rules.quantities import (
    NotAQuantity,
    canonical,
    format_quantity,
    parse_quantity,
)
from sandbox.kubernetes_rules.selectors import parse_fields, parse_labels, structured
from sandbox.kubernetes_rules.statuses import Refusal


@pytest.mark.parametrize(
    ("text", "number", "written"),
    [
        ("500m", Fraction(1, 2), "500m"),
        ("1000m", Fraction(1), "1"),
        ("0.5", Fraction(1, 2), "500m"),
        ("1024Mi", Fraction(2**30), "1Gi"),
        ("1.5Gi", Fraction(3 * 2**29), "1536Mi"),
        ("1e3", Fraction(1000), "1k"),
        ("100n", Fraction(1, 10**7), "100n"),
        ("-1", Fraction(-1), "-1"),
        (8, Fraction(8), "8"),
        ("0", Fraction(0), "0"),
    ],
)
def test_a_quantity_is_exact_and_written_canonically(
    text: str | int, number: Fraction, written: str
) -> None:
    assert (parse_quantity(text), canonical(text)) == (number, written)


@pytest.mark.parametrize(
    "text", ["", "x", "1 Gi", "1gi", "1.2.3", "--1", "1e", None, True, "\uff11"]
)
def test_what_is_no_quantity_is_refused(text: Any) -> None:
    with pytest.raises(NotAQuantity, match="must match the regular expression"):
        parse_quantity(text)


@given(thousandths=st.integers(-(10**18), 10**18), binary=st.booleans())
def test_a_quantity_written_and_read_again_is_the_same(thousandths: int, binary: bool) -> None:
    number = Fraction(thousandths, 1000)

    assert parse_quantity(format_quantity(number, binary=binary)) == number


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("", {}, True),
        ("a=b,c!=d", {"a": "b"}, True),
        ("a=b,c!=d", {"a": "b", "c": "d"}, False),
        ("a in (x, y)", {"a": "y"}, True),
        ("a notin (x)", {}, True),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("a>5", {"a": "6"}, True),
        ("a<5", {"a": "6"}, False),
        ("a>5", {"a": "many"}, False),
        ("a=", {"a": ""}, True),
        ("example.com/a=b", {"example.com/a": "b"}, True),
    ],
)
def test_a_label_selector_matches(text: str, labels: dict[str, str], expected: bool) -> None:
    assert parse_labels(text).matches(labels) is expected


def test_no_structured_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert not structured(None).matches({"a": "b"})
    assert structured({}).matches({"a": "b"})


@pytest.mark.parametrize(
    ("kind", "text", "item", "expected"),
    [
        (resources.POD, "spec.nodeName=n", {"spec": {"nodeName": "n"}}, True),
        (resources.POD, "spec.nodeName=", {"spec": {}}, True),
        (resources.POD, "status.phase!=Running", {"status": {"phase": "Running"}}, False),
        (resources.NODE, "spec.unschedulable=false", {}, True),
        (resources.NODE, "spec.unschedulable=true", {"spec": {"unschedulable": True}}, True),
        (resources.EVENT, "reason=a\\,b", {"reason": "a,b"}, True),
        (resources.SECRET, "type==Opaque", {"type": "Opaque"}, True),
        (resources.JOB, "metadata.name=x", {"metadata": {"name": "y"}}, False),
    ],
)
def test_a_field_selector_matches(
    kind: resources.ResourceType, text: str, item: dict[str, Any], expected: bool
) -> None:
    assert parse_fields(text, kind).matches(item) is expected


@given(text=st.text(st.sampled_from("ab=!,()<> in/."), max_size=12))
def test_any_selector_is_read_or_refused(text: str) -> None:
    with suppress(Refusal):
        assert parse_labels(text).matches({}) in {True, False}
    with suppress(Refusal):
        assert parse_fields(text, resources.POD).matches({}) in {True, False}


def a_definition(**schema: Any) -> dict[str, Any]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Phase", "type": "string", "jsonPath": ".status.p"}],
        "schema": {"openAPIV3Schema": {"type": "object", **schema}},
    }
    names = {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]}
    spec = {"group": "x.io", "scope": "Cluster", "names": names, "versions": [version]}
    return {"metadata": {"name": "widgets.x.io"}, "spec": spec}


def test_a_definition_makes_a_kind() -> None:
    (kind,) = schemas.kinds_of(a_definition())

    assert (kind.api_version, kind.namespaced, kind.has_status) == ("x.io/v1", False, True)
    assert (kind.short_names, kind.columns[0].path, kind.list_kind) == (
        ("wd",),
        ".status.p",
        "WidgetList",
    )


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        pytest.param(
            {"x-kubernetes-validations": [{"rule": "x"}]}, "x-kubernetes-validations", id="CEL"
        ),
        pytest.param({"oneOf": [{"required": ["a"]}]}, "oneOf", id="oneOf"),
    ],
)
def test_what_is_not_carried_out_is_refused_at_creation(schema: dict[str, Any], field: str) -> None:
    (cause,) = schemas.definition_causes(
        a_definition(properties={"spec": {"type": "object", **schema}})
    )

    assert cause.field == f"spec.validation.openAPIV3Schema.properties[spec].{field}"
    assert "does not carry out" in cause.message


def test_a_definition_without_its_cel_rules_is_taken_and_else_the_same() -> None:
    rules = [{"rule": "self == oldSelf"}]
    plain: dict[str, Any] = {
        "x-kubernetes-validations": {"type": "string"},  # a property may have this name
        "list": {"type": "array", "items": {"type": "object", "properties": {}}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "open": {"type": "object", "additionalProperties": True},
    }
    ruled = deepcopy(plain)
    ruled["x-kubernetes-validations"]["x-kubernetes-validations"] = rules
    ruled["list"]["items"]["x-kubernetes-validations"] = rules
    ruled["map"]["additionalProperties"]["x-kubernetes-validations"] = rules

    stripped = without_cel_rules(a_definition(properties=ruled))

    assert stripped == a_definition(properties=plain)
    assert not schemas.definition_causes(stripped)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"metadata": {"name": "other"}}, "metadata.name"),
        ({"spec": {**a_definition()["spec"], "scope": "World"}}, "spec.scope"),
        ({"spec": {**a_definition()["spec"], "versions": []}}, "spec.versions"),
    ],
)
def test_a_wrong_definition_says_where(change: dict[str, Any], field: str) -> None:
    causes = schemas.definition_causes({**a_definition(), **change})

    assert [each.field for each in causes] == [field]


def test_a_pattern_that_cannot_be_read_is_refused_with_its_definition() -> None:
    definition = a_definition(properties={"n": {"type": "string", "pattern": "("}})

    (cause,) = schemas.definition_causes(definition)

    assert "must be a valid regular expression" in cause.message


def test_an_int_or_string_may_repeat_itself_as_generators_write_it() -> None:
    amount = {
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
    }

    assert schemas.definition_causes(a_definition(properties={"n": amount})) == []
