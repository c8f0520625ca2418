"""AdmissionReview in and out, and the JSON Patch that goes with it."""

import base64
from typing import Any

import orjson
import pytest

from gpu_admission.review import (
    Answer,
    Malformed,
    Review,
    added,
    answer,
    apply_patch,
    escaped,
    read,
    read_answer,
    removed,
    replaced,
)


def body_of(**request: Any) -> bytes:
    return orjson.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    )


POD = {"metadata": {"name": "p"}}
FULL = {
    "uid": "u-1",
    "kind": {"group": "", "version": "v1", "kind": "Pod"},
    "operation": "CREATE",
    "namespace": "team",
    "name": "p",
    "userInfo": {"username": "ada"},
    "object": POD,
    "oldObject": None,
    "dryRun": False,
}


def test_a_review_is_read() -> None:
    assert read(body_of(**FULL)) == Review(
        uid="u-1",
        kind="Pod",
        operation="CREATE",
        namespace="team",
        name="p",
        user="ada",
        object=POD,
    )


def test_an_update_a_subresource_and_a_dry_run_are_told_apart() -> None:
    review = read(body_of(**{**FULL, "subResource": "status", "dryRun": True, "oldObject": POD}))

    assert isinstance(review, Review)
    assert (review.subresource, review.dry_run, review.old_object) == ("status", True, POD)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"operation": "UPDATE"}, False),
        ({"subResource": "ephemeralcontainers"}, False),
        ({"kind": {"kind": "Deployment"}}, False),
    ],
)
def test_only_a_new_pod_is_a_pods_creation(changes: dict[str, Any], expected: bool) -> None:
    review = read(body_of(**{**FULL, **changes}))

    assert isinstance(review, Review)
    assert review.is_pod_creation is expected


MALFORMED = {
    "no JSON": (b"{", "the body is not JSON"),
    "empty": (b"", "the body is not JSON"),
    "not UTF-8": (b'"\xff"', "the body is not JSON"),
    "a list": (b"[]", "the body is not an AdmissionReview"),
    "another kind": (b'{"kind": "Pod"}', "the body is not an AdmissionReview"),
    "an old version": (
        b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1", "request": {}}',
        "the review's apiVersion must be admission.k8s.io/v1",
    ),
    "no request": (
        b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}',
        "the review has no request",
    ),
    "no uid": (body_of(operation="CREATE"), "the request has no uid"),
    "no kind": (body_of(uid="u", operation="CREATE"), "the request's kind is not text"),
    "no operation": (body_of(uid="u", kind={"kind": "Pod"}), "the request's operation is not text"),
    "an object that is none": (
        body_of(**{**FULL, "object": "x"}),
        "the request's object is not a mapping",
    ),
    "an old object that is none": (
        body_of(**{**FULL, "oldObject": []}),
        "the request's oldObject is not a mapping",
    ),
    "nested too deeply": (b"[" * 100_000, "the body is not JSON"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_what_is_no_review_is_told(case: str) -> None:
    body, told = MALFORMED[case]

    found = read(body)

    assert isinstance(found, Malformed)
    assert found.text.startswith(told)


def the_review() -> Review:
    review = read(body_of(**FULL))
    assert isinstance(review, Review)
    return review


def test_a_plain_yes_has_nothing_but_the_uid() -> None:
    assert orjson.loads(answer(the_review(), Answer(allowed=True))) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "u-1", "allowed": True},
    }


def test_a_patch_is_base64_of_a_list_of_operations() -> None:
    patch = (added("/metadata/labels", {"a": "b"}),)
    decision = Answer(
        allowed=True, patch=patch, warnings=("careful",), audit_annotations={"selection": "{}"}
    )

    response = orjson.loads(answer(the_review(), decision))["response"]

    assert response["patchType"] == "JSONPatch"
    assert orjson.loads(base64.b64decode(response["patch"])) == list(patch)
    assert response["warnings"] == ["careful"]
    assert response["auditAnnotations"] == {"selection": "{}"}


def test_a_denial_has_a_message_and_a_code_and_no_patch() -> None:
    decision = Answer(allowed=False, code=403, text="no", patch=(removed("/x"),))

    response = orjson.loads(answer(the_review(), decision))["response"]

    assert response["allowed"] is False
    assert response["status"] == {"status": "Failure", "code": 403, "message": "no"}
    assert "patch" not in response


def test_a_denial_never_carries_the_code_of_a_success() -> None:
    response = orjson.loads(answer(the_review(), Answer(allowed=False)))["response"]

    assert response["status"]["code"] == 403


def test_a_patch_that_no_json_holds_is_a_denial_not_a_crash() -> None:
    deep: Any = []
    for _ in range(500):
        deep = [deep]

    body = answer(the_review(), Answer(allowed=True, patch=(added("/x", deep),)))

    assert (read_answer(body).allowed, read_answer(body).code) == (False, 400)


def test_warnings_are_few_short_and_each_said_once() -> None:
    many = tuple(f"{number}" * 400 for number in range(10, 40))

    response = orjson.loads(answer(the_review(), Answer(allowed=True, warnings=("a", "a", *many))))

    warnings = response["response"]["warnings"]
    assert len(warnings) == 11
    assert warnings[0] == "a"
    assert max(map(len, warnings)) == 250
    assert sum(map(len, warnings)) < 4096


def test_an_answer_can_be_read_back() -> None:
    decision = Answer(allowed=True, patch=(removed("/x"),), warnings=("w",))

    assert read_answer(answer(the_review(), decision)) == decision
    with pytest.raises(ValueError, match="no answer"):
        read_answer(b"{}")


# JSON Patch.


def test_a_key_with_a_slash_is_one_step() -> None:
    assert escaped("preferred.jp/gpu-any~x") == "preferred.jp~1gpu-any~0x"


DOCUMENT = {"a": {"b/c": 1, "d": [1, 2, 3]}, "e": None}

APPLIED: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "add a key": ([added("/x", 1)], {**DOCUMENT, "x": 1}),
    "add over null": ([added("/e", {})], {**DOCUMENT, "e": {}}),
    "add at the end": (
        [added("/a/d/-", 4)],
        {**DOCUMENT, "a": {"b/c": 1, "d": [1, 2, 3, 4]}},
    ),
    "insert": ([added("/a/d/1", 9)], {**DOCUMENT, "a": {"b/c": 1, "d": [1, 9, 2, 3]}}),
    "replace in a list": (
        [replaced("/a/d/0", 9)],
        {**DOCUMENT, "a": {"b/c": 1, "d": [9, 2, 3]}},
    ),
    "replace a key": ([replaced("/a/b~1c", 2)], {**DOCUMENT, "a": {"b/c": 2, "d": [1, 2, 3]}}),
    "remove": ([removed("/a/b~1c"), removed("/a/d/0")], {"a": {"d": [2, 3]}, "e": None}),
}


@pytest.mark.parametrize("case", APPLIED)
def test_operations_are_applied_and_the_document_stays(case: str) -> None:
    operations, expected = APPLIED[case]
    before = orjson.dumps(DOCUMENT)

    assert apply_patch(DOCUMENT, operations) == expected
    assert orjson.dumps(DOCUMENT) == before


@pytest.mark.parametrize(
    "operation",
    [
        added("/x/y", 1),
        added("/e/y", 1),
        added("/a/d/4", 1),
        added("/a/d/x", 1),
        replaced("/x", 1),
        replaced("/a/d/3", 1),
        removed("/x"),
        removed("/a/d/-"),
        removed("/a/d/-1"),
    ],
)
def test_an_operation_that_does_not_fit_is_refused(operation: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="does not fit the document"):
        apply_patch(DOCUMENT, [operation])
