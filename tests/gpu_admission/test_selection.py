"""Which GPUs a pod may have: its class, the admin's levers, and the sentences of a refusal."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpu_admission.catalogue import Catalogue, NamespaceView, PriorityClasses
from gpu_admission.gpu_request import Reason
from gpu_admission.mutation import Mutated
from gpu_admission.selection import Why
from tests.gpu_admission.admitting import (
    CLUSTER,
    HIGH,
    LABEL,
    LOW,
    NOW,
    TEAM,
    P,
    a_container,
    a_pod,
    asking,
    catalogue_of,
    decide,
    models_of,
    refused,
    required,
    settings_of,
    term,
    with_model,
)

# The classes.

CHOSEN: dict[str, tuple[dict[str, Any], list[str]]] = {
    "low gets every GPU, if it asks for any": (
        asking("any"),
        ["v100-16gb", "v100-32gb", "a30-24gb", "a100-40gb", "a100-80gb", "l4-24gb"],
    ),
    "high gets the smallest, if it asks for any": (asking("any", priority=HIGH), ["v100-16gb"]),
    "low gets every GPU with so much VRAM": (
        asking("any-32gb"),
        ["v100-32gb", "a100-40gb", "a100-80gb"],
    ),
    "high gets the smallest of them": (asking("any-32gb", priority=HIGH), ["v100-32gb"]),
    "high gets all models of the smallest size": (
        asking("any-17gb", priority=HIGH),
        ["a30-24gb", "l4-24gb"],
    ),
    "a model alone is each of its sizes": (asking("v100"), ["v100-16gb", "v100-32gb"]),
    "high gets the smaller of them": (asking("v100", priority=HIGH), ["v100-16gb"]),
    "a model with VRAM is the sizes that have it": (asking("v100-17gb"), ["v100-32gb"]),
    "the VRAM is a lower bound, met exactly too": (asking("a100-80gb"), ["a100-80gb"]),
    "an alias is the model": (asking("big-41gb"), ["a100-80gb"]),
    "another vendor's model is asked for by name": (asking("mncore"), ["mncore-32gb"]),
    "of several keys the most VRAM counts": (
        a_pod(a_container("a", gpu_any_24gb="1"), a_container("b", gpu_any_40gb="1")),
        ["a100-40gb", "a100-80gb"],
    ),
    "a model in one container is meant for all": (
        a_pod(a_container("a", gpu_a100="1"), a_container("b", gpu_any_41gb="1")),
        ["a100-80gb"],
    ),
    "an init container's key counts": (
        a_pod(a_container("a"), init=[a_container("i", gpu_any_80gb="1")]),
        ["a100-80gb"],
    ),
    "a key of amount zero is no constraint": (
        a_pod(a_container("a", gpu_v100="1"), a_container("b", gpu_a100="0")),
        ["v100-16gb", "v100-32gb"],
    ),
    "nodes with too few GPUs are left out": (
        asking("any-24gb", "5"),
        ["v100-32gb", "a30-24gb", "a100-80gb"],
    ),
    "and the smallest is found after that": (asking("any-33gb", "5", priority=HIGH), ["a100-80gb"]),
    "app containers' GPUs add up": (
        a_pod(a_container("a", gpu_any_40gb="3"), a_container("b", gpu_any="3")),
        ["a100-80gb"],
    ),
    "init containers run one at a time": (
        a_pod(
            a_container("a", gpu_any_40gb="4"),
            init=[a_container("i", gpu_any="4"), a_container("j", gpu_any="4")],
        ),
        ["a100-40gb", "a100-80gb"],
    ),
    "a sidecar stays beside the others": (
        a_pod(
            a_container("a", gpu_any_40gb="4"),
            init=[{**a_container("s", gpu_any="1"), "restartPolicy": "Always"}],
        ),
        ["a100-80gb"],
    ),
}


@pytest.mark.parametrize("case", CHOSEN)
def test_who_gets_which_gpus(case: str) -> None:
    pod, expected = CHOSEN[case]

    assert models_of(pod) == expected


@pytest.mark.parametrize(
    ("reported_mib", "nominal"), [(23028, 24), (23034, 24), (46068, 48), (81559, 80), (15360, 16)]
)
def test_the_catalogue_says_how_much_vram_a_model_has_not_what_it_reports(
    reported_mib: int, nominal: int
) -> None:
    """An A10 reports 23028 MiB and is a 24 GB card; 24 GiB would be 24576 MiB."""
    card = {"id": "card", "variants": [{"vram_gb": nominal, "node_label_values": ["Card"]}]}

    assert reported_mib * 2**20 < nominal * 2**30
    assert models_of(
        asking(f"any-{nominal}gb"),
        catalogue=catalogue_of(models=[card], backends={"whole": {"resource": "nvidia.com/gpu"}}),
    ) == [f"card-{nominal}gb"]


# Which class a pod is in.

LEVERS = {
    "namespace_label": "gpu-class",
    "pod_label": "my-class",
    "pod_annotation": "example.com/class",
    "pods_may_choose": ["high"],
}
POLICY = [{"match": {"names": ["infra-*"]}, "class": "high"}]

CLASSES: dict[str, tuple[dict[str, Any], NamespaceView, str]] = {
    "by priority, at its beginning": (asking("any", priority=1000), TEAM, "high"),
    "by priority, just below": (asking("any", priority=999), TEAM, "low"),
    "by a negative priority": (asking("any", priority=-5), TEAM, "low"),
    "by the namespace's policy": (asking("any"), NamespaceView("infra-db", {}), "high"),
    "by the namespace's label": (asking("any"), NamespaceView("t", {"gpu-class": "high"}), "high"),
    "by the namespace's label, down": (
        asking("any", priority=HIGH),
        NamespaceView("t", {"gpu-class": "low"}),
        "low",
    ),
    "the policy is before the label": (
        asking("any"),
        NamespaceView("infra-db", {"gpu-class": "low"}),
        "high",
    ),
    "a label that names no class is nothing": (
        asking("any"),
        NamespaceView("t", {"gpu-class": "urgent"}),
        "low",
    ),
    "by the pod's label": (asking("any", metadata={"labels": {"my-class": "high"}}), TEAM, "high"),
    "by the pod's annotation": (
        asking("any", metadata={"annotations": {"example.com/class": "high"}}),
        TEAM,
        "high",
    ),
    "a pod cannot choose what it may not": (
        asking("any", priority=HIGH, metadata={"labels": {"my-class": "low"}}),
        TEAM,
        "high",
    ),
}


@pytest.mark.parametrize("case", CLASSES)
def test_which_class_a_pod_is_in(case: str) -> None:
    pod, namespace, expected = CLASSES[case]

    decision = decide(pod, catalogue_of(class_levers=LEVERS, namespace_policy=POLICY), namespace)

    assert isinstance(decision, Mutated)
    assert decision.class_name == expected


def test_a_class_that_a_pod_may_not_choose_is_said() -> None:
    pod = asking("any", priority=HIGH, metadata={"labels": {"my-class": "low"}})

    assert decide(pod, catalogue_of(class_levers=LEVERS)).answer().warnings == (
        'class "low" cannot be chosen by a pod (it can choose: high); this one is high',
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"priorityClassName": "urgent"}, "high"),
        ({"priorityClassName": "batch"}, "low"),
        ({"priorityClassName": "system-node-critical"}, "high"),
        ({"priorityClassName": "unheard-of"}, "high"),
        ({}, "high"),
        ({"priority": 5, "priorityClassName": "urgent"}, "low"),
    ],
)
def test_a_file_without_a_priority_has_that_of_its_class_or_the_default(
    spec: dict[str, Any], expected: str
) -> None:
    priorities = PriorityClasses({"urgent": 5000, "batch": 1}, default=1000)

    decision = decide(asking("any", **{"priority": None, **spec}), priorities=priorities)

    assert isinstance(decision, Mutated)
    assert decision.class_name == expected


def test_there_may_be_more_than_two_classes() -> None:
    classes = [
        {"name": "low", "select": "all"},
        {"name": "top", "min_priority": 10_000, "select": "all"},
        {"name": "high", "min_priority": 1000, "select": "smallest"},
    ]
    catalogue = catalogue_of(priority_policy=classes)

    assert [catalogue.class_for(each).name for each in (0, 1000, 9999, 10_000)] == [
        "low",
        "high",
        "high",
        "top",
    ]


# Taking a model out of `any`.

UNTIL = datetime(2026, 12, 10, tzinfo=UTC)


def without(model: str, until: datetime | None = UNTIL, **overrides: Any) -> Catalogue:
    exclusion = {"reason": "maintenance INC-12", "until": until}
    return catalogue_of(models=with_model(model, exclude_from_any=exclusion), **overrides)


def test_a_model_taken_out_of_any_is_given_to_those_who_name_it_only() -> None:
    catalogue = without("a100")

    assert models_of(asking("any-32gb"), catalogue=catalogue) == ["v100-32gb"]
    assert models_of(asking("a100"), catalogue=catalogue) == ["a100-40gb", "a100-80gb"]
    assert models_of(asking("big"), catalogue=catalogue) == ["a100-40gb", "a100-80gb"]


def test_any_beside_the_model_by_name_means_that_model() -> None:
    pod = a_pod(a_container("a", gpu_a100="1"), a_container("b", gpu_any="1"))

    assert models_of(pod, catalogue=without("a100")) == ["a100-40gb", "a100-80gb"]


def test_who_is_affected_is_told() -> None:
    decision = decide(asking("any-32gb"), without("a100"))

    assert decision.answer().warnings == (
        'gpu-any-32gb: a100 is left out of "any" until 2026-12-10 (maintenance INC-12)',
    )
    assert decide(asking("a100"), without("a100")).answer().warnings == ()


@pytest.mark.parametrize(
    ("moment", "chosen"),
    [
        (UNTIL - timedelta(seconds=1), ["v100-32gb"]),
        (UNTIL, ["v100-32gb", "a100-40gb", "a100-80gb"]),
    ],
)
def test_an_exclusion_ends_by_itself(moment: datetime, chosen: list[str]) -> None:
    assert models_of(asking("any-32gb"), catalogue=without("a100"), now=moment) == chosen


def test_an_exclusion_without_an_end_lasts() -> None:
    late = NOW + timedelta(days=10_000)

    assert models_of(asking("any-32gb"), catalogue=without("a100", None), now=late) == ["v100-32gb"]


def test_if_only_excluded_models_fit_the_pod_is_refused_with_the_way_out() -> None:
    denied = refused(asking("any-40gb"), without("a100"))

    assert (denied.reason, denied.text, denied.code) == (
        Reason.EXCLUDED_FROM_ANY,
        (
            'gpu-any-40gb: only a100 fits and it is excluded from "any" until 2026-12-10 '
            f"(maintenance INC-12); ask for {P}a100 explicitly"
        ),
        403,
    )


def test_the_way_out_asks_for_as_much_vram_as_before() -> None:
    denied = refused(asking("any-60gb"), without("a100"))

    assert denied.text.endswith(f"ask for {P}a100-60gb explicitly")


def test_a_high_pod_spills_to_the_next_size_with_a_warning() -> None:
    decision = decide(asking("any", priority=HIGH), without("v100"))

    assert isinstance(decision, Mutated)
    assert decision.selection is not None
    assert [each.id for each in decision.selection.variants] == ["a30-24gb", "l4-24gb"]
    assert decision.warnings == (
        'gpu-any: v100 is left out of "any" until 2026-12-10 (maintenance INC-12)',
        'gpu-any: the smallest GPU that fits is left out of "any"; this pod gets 24 GB instead',
    )


def test_or_it_is_refused_if_policy_says_so() -> None:
    defaults = {"smallest_excluded": "deny"}
    catalogue = without("v100", defaults=defaults)

    denied = refused(asking("any", priority=HIGH), catalogue)

    assert (denied.reason, denied.text) == (
        Reason.SMALLEST_EXCLUDED,
        (
            'gpu-any: the smallest GPU that fits, v100 (16 GB), is excluded from "any" until 2026-12-10 '
            f"(maintenance INC-12); ask for {P}v100 explicitly, or wait"
        ),
    )
    assert models_of(asking("any-80gb", priority=HIGH), catalogue=catalogue) == ["a100-80gb"]
    assert "v100-16gb" not in models_of(asking("any"), catalogue=catalogue)


def test_a_high_pod_whose_smallest_size_has_another_model_left_does_not_spill() -> None:
    decision = decide(
        asking("any-24gb", priority=HIGH), without("a30", defaults={"smallest_excluded": "deny"})
    )

    assert isinstance(decision, Mutated)
    assert decision.selection is not None
    assert [each.id for each in decision.selection.variants] == ["l4-24gb"]


def test_excluding_every_gpu_moves_nobody_to_another_vendors() -> None:
    models = [
        {**each, "exclude_from_any": None if each["id"] == "mncore" else {"reason": "closed"}}
        for each in settings_of()["models"]
    ]

    denied = refused(asking("any-32gb"), catalogue_of(models=models))

    assert denied.reason == Reason.EXCLUDED_FROM_ANY
    assert "mncore" not in denied.text


def test_any_means_another_vendors_only_where_the_default_has_none() -> None:
    models = with_model("mncore", exclude_from_any=None)
    models[-1]["variants"] = [{**models[-1]["variants"][0], "vram_gb": 192}]
    catalogue = catalogue_of(models=models)

    assert "mncore-192gb" not in models_of(asking("any"), catalogue=catalogue)
    assert models_of(asking("any-100gb"), catalogue=catalogue) == ["mncore-192gb"]


# What a namespace may.


def under(**rules: Any) -> Catalogue:
    return catalogue_of(namespace_policy=[{"match": {"names": ["team"]}, **rules}])


def test_a_namespace_may_have_the_models_that_its_policy_allows() -> None:
    catalogue = under(allowed_models=["l4", "v100"])

    assert models_of(asking("any-24gb"), catalogue=catalogue) == ["v100-32gb", "l4-24gb"]
    assert refused(asking("a100"), catalogue).text == (
        'gpu-a100: a100 is not allowed in namespace "team"; allowed there: l4, v100'
    )


def test_a_model_may_have_the_namespaces_that_its_lists_say() -> None:
    lists = {"allow": ["team*", "intern-*"], "deny": ["intern-*"]}
    catalogue = catalogue_of(models=with_model("a100", namespaces=lists))

    assert models_of(asking("a100-80gb"), catalogue=catalogue) == ["a100-80gb"]
    for name in ("intern-9", "others"):
        denied = refused(asking("a100"), catalogue, NamespaceView(name, {}))
        assert denied.reason == Reason.NOT_ALLOWED


def test_the_smallest_for_high_is_the_smallest_that_is_allowed() -> None:
    assert models_of(asking("any", priority=HIGH), catalogue=under(allowed_models=["a100"])) == [
        "a100-40gb"
    ]


def test_a_namespace_that_may_have_none_is_told_so() -> None:
    assert refused(asking("any"), under(allowed_models=[])).text.endswith(
        'not allowed in namespace "team"; allowed there: no GPU'
    )


def test_of_several_entries_the_first_that_says_a_thing_counts() -> None:
    catalogue = catalogue_of(
        namespace_policy=[
            {"match": {"labels": {"team": "eval"}}, "max_gpus_per_pod": 1},
            {"match": {"names": ["eval-*"]}, "max_gpus_per_pod": 4, "allowed_models": ["l4"]},
        ]
    )
    both = NamespaceView("eval-a", {"team": "eval"})
    by_name = NamespaceView("eval-a", {})

    assert refused(asking("l4", "2"), catalogue, both).reason == Reason.TOO_MANY_GPUS
    assert models_of(asking("l4", "2"), catalogue=catalogue, namespace=by_name) == ["l4-24gb"]
    assert refused(asking("a100"), catalogue, both).reason == Reason.NOT_ALLOWED


def test_a_pod_may_have_so_many_gpus_and_raw_ones_count() -> None:
    catalogue = catalogue_of(defaults={"max_gpus_per_pod": 2})

    denied = refused(asking("any", "3"), catalogue)

    assert (denied.reason, denied.text, denied.code) == (
        Reason.TOO_MANY_GPUS,
        '3 GPUs needed, a pod in namespace "team" may have 2',
        403,
    )
    raw = a_pod(a_container("a", gpu_any="1"), a_container("b", nvidia="2"))
    assert refused(raw, catalogue).reason == Reason.TOO_MANY_GPUS
    assert refused(a_pod(a_container("b", nvidia="3")), catalogue).reason == Reason.TOO_MANY_GPUS


def test_a_namespace_whose_labels_are_not_known_yet_is_asked_to_try_again() -> None:
    catalogue = catalogue_of(
        namespace_policy=[{"match": {"labels": {"team": "eval"}}, "allowed_models": ["l4"]}]
    )
    unknown = NamespaceView("eval", None)

    denied = refused(asking("a100"), catalogue, unknown)

    assert (denied.reason, denied.code) == (Reason.NAMESPACE_UNKNOWN, 503)
    assert models_of(asking("a100-80gb"), namespace=unknown) == ["a100-80gb"]  # no rule by labels


# What cannot be met.

REFUSED: dict[str, tuple[dict[str, Any], Reason, str]] = {
    "no card is so big": (
        asking("any-192gb"),
        Reason.NOT_ENOUGH_VRAM,
        'container "train": no GPU has >= 192 GB; largest is a100 (80 GB)',
    ),
    "the model is not so big": (
        asking("v100-40gb"),
        Reason.NOT_ENOUGH_VRAM,
        'container "train": "v100" has 16, 32 GB; you asked for 40',
    ),
    "two models": (
        a_pod(a_container("a", gpu_l4="1"), a_container("b", gpu_a100="1")),
        Reason.NO_COMMON_MODEL,
        (
            'no single model satisfies container "a": gpu-l4 and container "b": gpu-a100; '
            "all containers of a pod run on one node"
        ),
    ),
    "a model and more VRAM than it has": (
        a_pod(a_container("a", gpu_l4="1"), a_container("b", gpu_any_80gb="1")),
        Reason.NO_COMMON_MODEL,
        (
            'no single model satisfies container "a": gpu-l4 and container "b": gpu-any-80gb; '
            "all containers of a pod run on one node"
        ),
    ),
    "two models in one container": (
        a_pod(a_container("a", gpu_l4="1", gpu_a30="1")),
        Reason.NO_COMMON_MODEL,
        (
            'no single model satisfies container "a": gpu-l4 and container "a": gpu-a30; '
            "all containers of a pod run on one node"
        ),
    ),
    "more than a node has": (
        asking("l4", "8"),
        Reason.NODE_TOO_SMALL,
        "gpu-l4: 8 GPUs needed, nodes with l4 have at most 4",
    ),
    "more than a node has, over containers": (
        a_pod(a_container("a", gpu_l4="3"), a_container("b", gpu_l4="2")),
        Reason.NODE_TOO_SMALL,
        "gpu-l4: 5 GPUs needed, nodes with l4 have at most 4",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_met_is_told_with_what_could(case: str) -> None:
    pod, reason, told = REFUSED[case]

    denied = refused(pod)

    assert (denied.reason, denied.text, denied.code) == (reason, told, 403)


# The pod's own constraints.

A100_40 = "NVIDIA-A100-SXM4-40GB"
PINS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a node selector": ({"nodeSelector": {LABEL: A100_40}}, ["a100-40gb"]),
    "an affinity": ({"affinity": required(term((LABEL, "In", [A100_40, "X"])))}, ["a100-40gb"]),
    "terms are alternatives": (
        {"affinity": required(term((LABEL, "In", [A100_40])), term((LABEL, "In", ["NVIDIA-L4"])))},
        ["a100-40gb", "l4-24gb"],
    ),
    "a term about other labels leaves all open": (
        {"affinity": required(term((LABEL, "In", [A100_40])), term(("zone", "In", ["a"])))},
        ["v100-32gb", "a30-24gb", "a100-40gb", "a100-80gb", "l4-24gb"],
    ),
    "not this one": (
        {"affinity": required(term((LABEL, "NotIn", ["NVIDIA-L4", "NVIDIA-A30"])))},
        ["v100-32gb", "a100-40gb", "a100-80gb"],
    ),
    "the label must be there": (
        {"affinity": required(term((LABEL, "Exists", [])))},
        ["v100-32gb", "a30-24gb", "a100-40gb", "a100-80gb", "l4-24gb"],
    ),
}


@pytest.mark.parametrize("case", PINS)
def test_what_the_pod_pins_itself_to_narrows_the_choice(case: str) -> None:
    spec, expected = PINS[case]

    assert models_of(asking("any-24gb", **spec)) == expected


ELSEWHERE: dict[str, dict[str, Any]] = {
    "a node selector": {"nodeSelector": {LABEL: "NVIDIA-L4"}},
    "an affinity": {"affinity": required(term((LABEL, "In", ["NVIDIA-L4"])))},
    "the label must not be there": {"affinity": required(term((LABEL, "DoesNotExist", [])))},
    "numbers that no product is": {"affinity": required(term((LABEL, "Gt", ["5"])))},
    "selector and affinity together": {
        "nodeSelector": {LABEL: A100_40},
        "affinity": required(term((LABEL, "NotIn", [A100_40]))),
    },
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_a_pod_pinned_to_other_gpus_is_refused(case: str) -> None:
    denied = refused(asking("a100", **ELSEWHERE[case]))

    assert denied.reason == Reason.PINNED_ELSEWHERE


def test_the_refusal_names_both() -> None:
    assert refused(asking("v100-32gb", nodeSelector={LABEL: "NVIDIA-L4"})).text == (
        f"gpu-v100-32gb means {LABEL} Tesla-V100-SXM2-32GB, but the pod itself asks for {LABEL} "
        "NVIDIA-L4; remove one of them"
    )


def test_pinning_gives_a_high_pod_no_more_vram_than_its_class() -> None:
    pod = asking("any", priority=HIGH, nodeSelector={LABEL: A100_40})

    denied = refused(pod)

    assert (denied.reason, denied.text) == (
        Reason.PINNED_ELSEWHERE,
        (
            f"gpu-any means {LABEL} Tesla-V100-SXM2-16GB for class high, but the pod itself asks for "
            f"{LABEL} {A100_40}; remove one of them"
        ),
    )
    assert models_of(pod, catalogue=catalogue_of(defaults={"pinning": "allow"})) == ["a100-40gb"]
    assert models_of(pod, catalogue=under(pinning="allow")) == ["a100-40gb"]


def test_even_where_pins_come_first_one_that_leaves_nothing_is_refused() -> None:
    pod = asking("l4", priority=HIGH, nodeSelector={LABEL: A100_40})

    assert refused(pod, under(pinning="allow")).reason == Reason.PINNED_ELSEWHERE


# Why the others are not chosen.


def test_a_selection_says_why_each_other_variant_is_left_out() -> None:
    catalogue = under(allowed_models=["v100", "a30", "a100", "mncore"])

    decision = decide(asking("any-24gb", "5", priority=HIGH), catalogue)

    assert isinstance(decision, Mutated)
    assert decision.selection is not None
    assert decision.selection.left_out == {
        "v100-16gb": Why.TOO_LITTLE_VRAM,
        "l4-24gb": Why.NOT_ALLOWED,
        "a100-40gb": Why.NODE_TOO_SMALL,
        "mncore-32gb": Why.NODE_TOO_SMALL,
        "v100-32gb": Why.NOT_SMALLEST,
        "a100-80gb": Why.NOT_SMALLEST,
    }


def test_deprecated_aliases_are_told_once() -> None:
    pod = a_pod(a_container("a", gpu_ampere_a100="1"), a_container("b", gpu_ampere_a100="1"))

    assert decide(pod).answer().warnings == ("gpu-ampere-a100: use gpu-a100",)
    assert "ampere-a100" not in CLUSTER.names()
    assert "big" in CLUSTER.names()


def test_the_priority_is_never_in_the_patch() -> None:
    for priority in (LOW, HIGH):
        decision = decide(
            asking("any", priority=priority, priorityClassName="x", preemptionPolicy="Never")
        )

        assert isinstance(decision, Mutated)
        assert not [each for each in decision.patch if "priority" in str(each["path"]).lower()]
        assert not [each for each in decision.patch if "preemption" in str(each["path"]).lower()]
