"""The one line that people write: which keys and amounts are understood, and what is said of others."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_admission.gpu_request import KeyProblem, KeySpec, Reason, parse_amount, parse_key
from tests.gpu_admission.admitting import (
    CLUSTER,
    P,
    a_container,
    a_pod,
    asking,
    catalogue_of,
    refused,
)

VALID = "valid names: a100, a30, any, big, l4, mncore, v100 (VRAM in GB: 16, 24, 32, 40, 80)"

UNDERSTOOD = {
    "any": ("any", 0, None),
    "any-24gb": ("any", 24, None),
    "a100": ("a100", 0, "a100"),
    "a100-40gb": ("a100", 40, "a100"),
    "a100-9999gb": ("a100", 9999, "a100"),
    "big-1gb": ("big", 1, "a100"),
    "ampere-a100-80gb": ("ampere-a100", 80, "a100"),
}


@pytest.mark.parametrize("key", UNDERSTOOD)
def test_a_key_is_a_name_and_perhaps_a_least_vram(key: str) -> None:
    spec = parse_key(P + key, CLUSTER)

    assert isinstance(spec, KeySpec)
    assert (spec.name, spec.min_vram_gb, spec.model and spec.model.id) == UNDERSTOOD[key]


PROBLEMS = {
    "a1000": (
        Reason.UNKNOWN_GPU,
        f'unknown GPU "a1000" in {P}a1000; did you mean "a100"? {VALID}',
    ),
    "quantum": (Reason.UNKNOWN_GPU, f'unknown GPU "quantum" in {P}quantum; {VALID}'),
    "A100": (Reason.MALFORMED_KEY, f"{P}A100: write it {P}a100"),
    "A100-40GB": (Reason.MALFORMED_KEY, f"{P}A100-40GB: write it {P}a100-40gb"),
    "any_24gb": (Reason.MALFORMED_KEY, f"{P}any_24gb: write it {P}any-24gb"),
    "any-024gb": (
        Reason.UNKNOWN_GPU,
        f'unknown GPU "any-024gb" in {P}any-024gb; did you mean {P}any-24gb? {VALID}',
    ),
    "24gb": (
        Reason.UNKNOWN_GPU,
        f'unknown GPU "24gb" in {P}24gb; did you mean {P}any-24gb? {VALID}',
    ),
    "v100-32": (
        Reason.UNKNOWN_GPU,
        f'unknown GPU "v100-32" in {P}v100-32; did you mean {P}v100-32gb? {VALID}',
    ),
    "v100-32Gi": (Reason.MALFORMED_KEY, f"{P}v100-32Gi: write it {P}v100-32gb"),
    "mem": (Reason.UNKNOWN_GPU, f'{P}mem: "mem" is reserved; {VALID}'),
    "mem-4gb": (Reason.UNKNOWN_GPU, f'{P}mem-4gb: "mem" is reserved; {VALID}'),
    "mem-shared-4gb": (Reason.UNKNOWN_GPU, f'{P}mem-shared-4gb: "mem" is reserved; {VALID}'),
    "": (
        Reason.MALFORMED_KEY,
        (
            f"{P} is no GPU; write {P}NAME or {P}NAME-24gb, in small letters, with NAME one of "
            "a100, a30, any, big, l4, mncore, v100 (VRAM in GB: 16, 24, 32, 40, 80)"
        ),
    ),
    "a100--40gb": (
        Reason.MALFORMED_KEY,
        (
            f"{P}a100--40gb is no GPU; write {P}NAME or {P}NAME-24gb, in small letters, with NAME one "
            "of a100, a30, any, big, l4, mncore, v100 (VRAM in GB: 16, 24, 32, 40, 80)"
        ),
    ),
}


@pytest.mark.parametrize("key", PROBLEMS)
def test_a_key_that_means_nothing_is_told_with_what_is_near_and_what_is_valid(key: str) -> None:
    problem = parse_key(P + key, CLUSTER)

    assert problem == KeyProblem(*PROBLEMS[key])


@settings(deadline=None)
@given(st.text())
def test_no_key_is_too_odd_to_be_answered(selector: str) -> None:
    found = parse_key(P + selector, CLUSTER)

    assert isinstance(found, KeySpec | KeyProblem)
    if isinstance(found, KeyProblem):
        assert len(found.text) < 500


AMOUNTS: dict[str, tuple[Any, int | str]] = {
    "text": ("2", 2),
    "a whole number, as in a file": (2, 2),
    "thousandths that are whole": ("2000m", 2),
    "thousands": ("1k", 1000),
    "an exponent": ("1e2", 100),
    "binary": ("1Ki", 1024),
    "zero": ("0", 0),
    "leading zeros": ("007", 7),
    "a fraction": ("2.5", 'amount "2.5": must be a whole number'),
    "half, in thousandths": ("500m", 'amount "500m": must be a whole number'),
    "negative": ("-1", 'amount "-1": must not be negative'),
    "negative number": (-1, 'amount "-1": must not be negative'),
    "no number": ("two", 'amount "two": not a number; write how many GPUs, like 1'),
    "empty": ("", 'amount "": not a number; write how many GPUs, like 1'),
    "a float of a file": (0.5, 'amount "0.5": must be a whole number'),
    "a float that is whole": (2.0, 2),
    "a float that is no number": (
        float("nan"),
        'amount "nan": not a number; write how many GPUs, like 1',
    ),
    "true": (True, 'amount "True": not a number; write how many GPUs, like 1'),
    "nothing": (None, 'amount "None": not a number; write how many GPUs, like 1'),
    "a list": ([1], 'amount "[1]": not a number; write how many GPUs, like 1'),
    "digits that are no ASCII": (
        "\uff12",
        'amount "\uff12": not a number; write how many GPUs, like 1',
    ),
    "enormous": ("1e99", 'amount "1e99": too large'),
    "an exponent to exhaust us": (
        "1e999999999",
        'amount "1e999999999": not a number; write how many GPUs, like 1',
    ),
}


@pytest.mark.parametrize("case", AMOUNTS)
def test_an_amount_is_any_quantity_that_is_a_whole_number(case: str) -> None:
    given_, expected = AMOUNTS[case]

    assert parse_amount(given_) == expected


@settings(deadline=None)
@given(st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.booleans()))
def test_no_amount_is_too_odd_to_be_answered(value: Any) -> None:
    assert isinstance(parse_amount(value), int | str)


REFUSED: dict[str, tuple[dict[str, Any], Reason, str]] = {
    "in requests only": (
        a_pod({"name": "c", "resources": {"requests": {f"{P}any": "1"}}}),
        Reason.NOT_IN_LIMITS,
        f'container "c": {P}any must be set in limits, not in requests only',
    ),
    "unequal": (
        a_pod(
            {"name": "c", "resources": {"limits": {f"{P}any": "2"}, "requests": {f"{P}any": "1"}}}
        ),
        Reason.NOT_IN_LIMITS,
        f'container "c": {P}any is 2 in limits and 1 in requests; leave it out of requests',
    ),
    "a fraction": (
        asking("any", "0.5"),
        Reason.WRONG_AMOUNT,
        f'container "train": {P}any: amount "0.5": must be a whole number',
    ),
    "negative": (
        asking("any", "-1"),
        Reason.WRONG_AMOUNT,
        f'container "train": {P}any: amount "-1": must not be negative',
    ),
    "beside the nodes' resource": (
        a_pod(a_container("c", gpu_any="1", nvidia="1")),
        Reason.MIXED_WITH_RAW,
        f'container "c": asks for both {P}any and nvidia.com/gpu; keep one of them',
    ),
    "in the pod's own resources": (
        a_pod(a_container("c"), resources={"limits": {f"{P}any": "1"}}),
        Reason.WRONG_PLACE,
        (
            f"{P}any stands in the pod's own resources; "
            "put it into the limits of the container that uses the GPU"
        ),
    ),
    "an init container": (
        a_pod(a_container("c"), init=[a_container("fetch", gpu_b200="1")]),
        Reason.UNKNOWN_GPU,
        f'container "fetch": unknown GPU "b200" in {P}b200; {VALID}',
    ),
    "several at once": (
        a_pod(a_container("a", gpu_any="x"), a_container("b", gpu_any="-1")),
        Reason.WRONG_AMOUNT,
        (
            f'container "a": {P}any: amount "x": not a number; write how many GPUs, like 1; '
            f'container "b": {P}any: amount "-1": must not be negative'
        ),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_mistake_is_told_with_container_and_key(case: str) -> None:
    pod, reason, told = REFUSED[case]

    denied = refused(pod)

    assert (denied.reason, denied.text, denied.code) == (reason, told, 400)


def test_what_is_told_has_an_end() -> None:
    containers = [a_container(f"c{number}", gpu_any="-1") for number in range(50)]

    told = refused(a_pod(*containers)).text

    assert told.endswith('"-1": must not be negative; and 47 more')
    assert len(refused(asking("x" * 100_000)).text) < 500


def test_only_twenty_names_are_listed() -> None:
    models = [
        {"id": f"m{number:02}", "variants": [{"vram_gb": 16, "node_label_values": [f"M{number}"]}]}
        for number in range(100)
    ]

    told = refused(
        asking("zzz"),
        catalogue_of(models=models, backends={"whole": {"resource": "nvidia.com/gpu"}}),
    ).text

    assert "m17, m18, and 81 more (VRAM in GB: 16)" in told
