"""Affinity and tolerations: ANDed into what the pod says, never instead of it, never beside it."""

from typing import Any

import pytest

from gpu_admission.catalogue import Catalogue
from gpu_admission.mutation import Mutated
from gpu_admission.placement import covers, is_confined
from tests.gpu_admission.admitting import (
    CLUSTER,
    HIGH,
    LABEL,
    admitted,
    asking,
    catalogue_of,
    decide,
    required,
    term,
    with_model,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
OURS = {"key": LABEL, "operator": "In", "values": ["Tesla-V100-SXM2-32GB"]}
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
HOST = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["gpu-1"]}
FIELD = {"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}


def terms_after(pod: dict[str, Any], catalogue: Catalogue = CLUSTER) -> Any:
    spec = admitted(pod, catalogue)["spec"]
    return spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


TERMS: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "no affinity": ({}, [{"matchExpressions": [OURS]}]),
    "affinity is null": ({"affinity": None}, [{"matchExpressions": [OURS]}]),
    "affinity is empty": ({"affinity": {}}, [{"matchExpressions": [OURS]}]),
    "node affinity is null": (
        {"affinity": {"nodeAffinity": None}},
        [{"matchExpressions": [OURS]}],
    ),
    "node affinity is empty": ({"affinity": {"nodeAffinity": {}}}, [{"matchExpressions": [OURS]}]),
    "required is null": (
        {"affinity": {"nodeAffinity": {REQUIRED: None}}},
        [{"matchExpressions": [OURS]}],
    ),
    "a hostname": (
        {"affinity": required({"matchExpressions": [HOST]})},
        [{"matchExpressions": [HOST, OURS]}],
    ),
    "two terms": (
        {"affinity": required({"matchExpressions": [ZONE]}, {"matchExpressions": [HOST]})},
        [{"matchExpressions": [ZONE, OURS]}, {"matchExpressions": [HOST, OURS]}],
    ),
    "fields only": (
        {"affinity": required({"matchFields": [FIELD]})},
        [{"matchFields": [FIELD], "matchExpressions": [OURS]}],
    ),
    "fields, and expressions that are null": (
        {"affinity": required({"matchFields": [FIELD], "matchExpressions": None})},
        [{"matchFields": [FIELD], "matchExpressions": [OURS]}],
    ),
    "an empty term beside another stays empty": (
        {"affinity": required({}, {"matchExpressions": [ZONE]})},
        [{}, {"matchExpressions": [ZONE, OURS]}],
    ),
    "only empty terms stay empty": (
        {"affinity": required({}, {"matchExpressions": []})},
        [{}, {"matchExpressions": []}],
    ),
    "no term at all stays none": ({"affinity": required()}, []),
    "ours is there already": (
        {"affinity": required({"matchExpressions": [OURS]})},
        [{"matchExpressions": [OURS]}],
    ),
    "ours is in one of two": (
        {"affinity": required({"matchExpressions": [OURS, ZONE]}, {"matchExpressions": [HOST]})},
        [{"matchExpressions": [OURS, ZONE]}, {"matchExpressions": [HOST, OURS]}],
    ),
    "a wider list of products": (
        {"affinity": required(term((LABEL, "In", ["Tesla-V100-SXM2-32GB", "X"])))},
        [
            {
                "matchExpressions": [
                    {"key": LABEL, "operator": "In", "values": ["Tesla-V100-SXM2-32GB", "X"]},
                    OURS,
                ]
            }
        ],
    ),
}


@pytest.mark.parametrize("case", TERMS)
def test_the_expression_is_in_each_term_that_says_anything(case: str) -> None:
    spec, expected = TERMS[case]

    assert terms_after(asking("v100-32gb", **spec)) == expected


def test_the_rest_of_the_affinity_stays_as_it_is() -> None:
    pod_affinity = {"podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": {}}]}}
    own = [{"weight": 7, "preference": {"matchExpressions": [ZONE]}}]
    affinity = {**pod_affinity, "nodeAffinity": {PREFERRED: own}}

    after = admitted(asking("v100-32gb", affinity=affinity))["spec"]["affinity"]

    assert after == {
        **pod_affinity,
        "nodeAffinity": {
            PREFERRED: own,
            REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [OURS]}]},
        },
    }


def test_a_node_selector_is_never_touched() -> None:
    pod = asking("v100", nodeSelector={"zone": "a", LABEL: "Tesla-V100-SXM2-32GB"})

    assert admitted(pod)["spec"]["nodeSelector"] == pod["spec"]["nodeSelector"]


# Models whose nodes have different labels.


def two_labels() -> Catalogue:
    l4 = {
        "vram_gb": 24,
        "label_key": "node.example.com/gpu",
        "node_label_values": ["l4"],
        "max_per_node": 4,
    }
    return catalogue_of(models=with_model("l4", variants=[l4]))


A30 = {"key": LABEL, "operator": "In", "values": ["NVIDIA-A30"]}
L4 = {"key": "node.example.com/gpu", "operator": "In", "values": ["l4"]}

CROSSED: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "no affinity": ({}, [{"matchExpressions": [L4]}, {"matchExpressions": [A30]}]),
    "one term becomes two": (
        {"affinity": required({"matchExpressions": [ZONE], "matchFields": [FIELD]})},
        [{"matchExpressions": [ZONE, each], "matchFields": [FIELD]} for each in (L4, A30)],
    ),
    "an empty one stays one": (
        {"affinity": required({}, {"matchExpressions": [ZONE]})},
        [{}, {"matchExpressions": [ZONE, L4]}, {"matchExpressions": [ZONE, A30]}],
    ),
    "one that has either is left": (
        {"affinity": required({"matchExpressions": [L4]}, {"matchExpressions": [ZONE]})},
        [
            {"matchExpressions": [L4]},
            {"matchExpressions": [ZONE, L4]},
            {"matchExpressions": [ZONE, A30]},
        ],
    ),
}


@pytest.mark.parametrize("case", CROSSED)
def test_labels_of_different_keys_are_alternatives_of_every_term(case: str) -> None:
    spec, expected = CROSSED[case]

    assert terms_after(asking("any-17gb", priority=HIGH, **spec), two_labels()) == expected


# Preferring the cheapest.


def preferences(
    key: str, catalogue: Catalogue = CLUSTER, **pod: Any
) -> list[tuple[int, list[str]]]:
    affinity = admitted(asking(key, **pod), catalogue)["spec"]["affinity"]["nodeAffinity"]
    return [
        (each["weight"], each["preference"]["matchExpressions"][0]["values"])
        for each in affinity.get(PREFERRED, [])
    ]


def priced(*costs: float | None, tiers: tuple[int | None, ...] = ()) -> Catalogue:
    models = [
        {
            "id": f"m{number}",
            "variants": [
                {
                    "vram_gb": 100 - number,
                    "node_label_values": [f"M{number}"],
                    "cost_per_hour": cost,
                    "tier": tiers[number] if tiers else None,
                }
            ],
        }
        for number, cost in enumerate(costs)
    ]
    return catalogue_of(models=models, backends={"whole": {"resource": "nvidia.com/gpu"}})


def test_low_pods_prefer_the_cheapest_and_high_pods_have_no_choice() -> None:
    assert preferences("v100") == [(50, ["Tesla-V100-SXM2-16GB"])]
    assert preferences("v100", priority=HIGH) == []
    assert preferences("l4") == []


def test_the_dearest_has_no_weight_and_equal_prices_are_one_preference() -> None:
    assert preferences("any", priced(3, 1, 2, 1)) == [(50, ["M1", "M3"]), (25, ["M2"])]
    assert preferences("any", priced(2, 2, 2)) == []


def test_where_a_price_is_missing_the_tier_counts_and_then_the_vram() -> None:
    assert preferences("any", priced(1, None, tiers=(2, 1))) == [(50, ["M1"])]
    assert preferences("any", priced(1, None, tiers=(2, None))) == [(50, ["M1"])]  # 99 < 100 GB


def test_many_prices_are_at_most_five_levels() -> None:
    found = preferences("any", priced(*range(100)))

    assert [weight for weight, _ in found] == [50, 37, 25, 12]
    assert [len(values) for _, values in found] == [20, 20, 20, 20]


def test_the_weight_is_the_admins_and_zero_is_none() -> None:
    def weighing(weight: int) -> Catalogue:
        low = {"name": "low", "select": "all", "cheapest_weight": weight}
        return catalogue_of(priority_policy=[low])

    assert preferences("v100", weighing(100)) == [(100, ["Tesla-V100-SXM2-16GB"])]
    assert preferences("v100", weighing(1)) == [(1, ["Tesla-V100-SXM2-16GB"])]
    assert preferences("v100", weighing(0)) == []


def test_the_pods_own_preferences_come_first_and_ours_once() -> None:
    own = {"weight": 7, "preference": {"matchExpressions": [ZONE]}}
    affinity = {"nodeAffinity": {PREFERRED: [own]}}

    after = admitted(asking("v100", affinity=affinity))["spec"]["affinity"]
    again = admitted(asking("v100", affinity=after))["spec"]["affinity"]

    assert after["nodeAffinity"][PREFERRED][0] == own
    assert len(after["nodeAffinity"][PREFERRED]) == 2
    assert again == after


# Tolerations.

OUR_TOLERATION = {"key": "gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("own", "after"),
    [
        (None, [OUR_TOLERATION]),
        ([], [OUR_TOLERATION]),
        (
            [{"key": "x", "operator": "Exists"}],
            [{"key": "x", "operator": "Exists"}, OUR_TOLERATION],
        ),
        ([OUR_TOLERATION], [OUR_TOLERATION]),
        ([{"operator": "Exists"}], [{"operator": "Exists"}]),
        ([{"key": "gpu", "operator": "Exists"}], [{"key": "gpu", "operator": "Exists"}]),
        ([{"key": "gpu", "value": "true"}], [{"key": "gpu", "value": "true"}]),
    ],
)
def test_a_toleration_is_added_only_if_the_pods_own_do_not_cover_it(own: Any, after: Any) -> None:
    spec = {} if own is None else {"tolerations": own}

    assert admitted(asking("a100", **spec))["spec"]["tolerations"] == after


COVERED: dict[str, tuple[dict[str, Any], bool]] = {
    "the same": (OUR_TOLERATION, True),
    "everything": ({"operator": "Exists"}, True),
    "everything of the effect": ({"operator": "Exists", "effect": "NoSchedule"}, True),
    "everything of another effect": ({"operator": "Exists", "effect": "NoExecute"}, False),
    "the key": ({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, True),
    "another key": ({"key": "cpu", "operator": "Exists"}, False),
    "another value": ({**OUR_TOLERATION, "value": "yes"}, False),
    "no operator is Equal": ({"key": "gpu", "value": "true"}, True),
    "no value is an empty one": ({"key": "gpu"}, False),
    "an empty key needs Exists": ({"key": "", "operator": "Equal", "value": "true"}, False),
    "for a while only": (
        {"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
        False,
    ),
    "for a while, every effect": (
        {"key": "gpu", "operator": "Exists", "tolerationSeconds": 5},
        False,
    ),
    "an operator of the future": ({"key": "gpu", "operator": "Gt", "value": "true"}, False),
}


@pytest.mark.parametrize("case", COVERED)
def test_when_a_toleration_covers_another(case: str) -> None:
    present, expected = COVERED[case]

    assert covers(present, OUR_TOLERATION) is expected


def test_a_toleration_for_every_value_is_covered_by_the_key_alone() -> None:
    wanted = {"key": "gpu", "operator": "Exists"}

    assert covers({"key": "gpu", "operator": "Exists"}, wanted)
    assert not covers(OUR_TOLERATION, wanted)
    assert not covers({**wanted, "effect": "NoSchedule"}, wanted)


def test_tolerations_of_models_that_are_not_chosen_are_not_given() -> None:
    assert "tolerations" not in admitted(asking("any", priority=HIGH))["spec"]
    assert admitted(asking("any"))["spec"]["tolerations"] == [OUR_TOLERATION]


# Being confined, as validation asks.

CONFINED: dict[str, tuple[dict[str, Any], bool]] = {
    "by our expression": (required({"matchExpressions": [OURS]}), True),
    "beside others": (required({"matchExpressions": [ZONE, OURS], "matchFields": [FIELD]}), True),
    "in each term": (required({"matchExpressions": [OURS]}, {"matchExpressions": [OURS]}), True),
    "but not in every term": (
        required({"matchExpressions": [OURS]}, {"matchExpressions": [ZONE]}),
        False,
    ),
    "to a part of it": (required(term((LABEL, "In", ["Tesla-V100-SXM2-32GB"]))), True),
    "to more": (required(term((LABEL, "In", ["Tesla-V100-SXM2-32GB", "X"]))), False),
    "by another operator": (required(term((LABEL, "NotIn", ["X"]))), False),
    "by another label": (required(term(("zone", "In", ["Tesla-V100-SXM2-32GB"]))), False),
    "by no term": ({"nodeAffinity": {}}, False),
    "by terms that match nothing": (required({}), True),
    "by values of a wrong shape": (required(term((LABEL, "In", [["a"]]))), False),  # type: ignore[list-item]
}


@pytest.mark.parametrize("case", CONFINED)
def test_when_an_affinity_confines_a_pod(case: str) -> None:
    affinity, expected = CONFINED[case]
    variant = CLUSTER.variant("v100-32gb")
    assert variant is not None

    assert is_confined({"affinity": affinity}, (variant,)) is expected


def test_what_is_remembered_between_pods_is_never_changed_by_one() -> None:
    first = decide(asking("any"))
    admitted(asking("any", affinity=required({"matchExpressions": [ZONE]})), two_labels())
    second = decide(asking("any"))

    assert isinstance(first, Mutated)
    assert isinstance(second, Mutated)
    assert first.patch == second.patch
