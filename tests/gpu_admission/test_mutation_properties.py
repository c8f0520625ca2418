"""What holds for every pod: judged by a model of the scheduler that shares no code with the product."""

from typing import Any

import orjson
import pytest
from hypothesis import event, given, note, settings
from hypothesis import strategies as st

from gpu_admission.catalogue import Catalogue, NamespaceView
from gpu_admission.demand import demand_of
from gpu_admission.gpu_request import Reason
from gpu_admission.mutation import Decision, Denied, Mutated, Unchanged, UnchangedReason, mutate
from gpu_admission.review import Malformed, answer, apply_patch, read, read_answer
from gpu_admission.validation import Allowed, validate_pod, validate_workload
from tests.gpu_admission.admitting import (
    ANNOTATION,
    LABEL,
    NOW,
    TEAM,
    P,
    a_container,
    a_pod,
    admitted,
    asking,
    catalogue_of,
    decide,
    patched,
    required,
    term,
    with_model,
)
from tests.gpu_admission.pod_shapes import (
    EVERY_NODE,
    OTHER_LABEL,
    broken_pods,
    constraining,
    json_values,
    pod_shaped,
    pods,
    spoilt,
)
from tests.gpu_admission.scheduling_model import fits_labels

# The L4's nodes have another label, so that most requests need alternatives of two labels.
L4 = {"vram_gb": 24, "label_key": OTHER_LABEL, "node_label_values": ["l4"], "max_per_node": 4}
CATALOGUE = catalogue_of(
    models=with_model("l4", variants=[L4]), defaults={"raw_gpu": "warn", "pinning": "deny"}
)
CARDS: dict[str, tuple[str, int, int]] = {
    "Tesla-V100-SXM2-16GB": ("v100", 16, 8),
    "Tesla-V100-SXM2-32GB": ("v100", 32, 8),
    "NVIDIA-A30": ("a30", 24, 6),
    "NVIDIA-A100-SXM4-40GB": ("a100", 40, 4),
    "A100-SXM4-40GB": ("a100", 40, 4),
    "NVIDIA-A100-SXM4-80GB": ("a100", 80, 8),
    "l4": ("l4", 24, 4),
}
"""Product to model, VRAM, GPUs a node: the catalogue again, as a table of the test's own."""
WANTS = {
    "any": (None, 0),
    "any-24gb": (None, 24),
    "any-32gb": (None, 32),
    "v100": ("v100", 0),
    "v100-32gb": ("v100", 32),
    "a100": ("a100", 0),
    "a100-80gb": ("a100", 80),
    "l4": ("l4", 0),
    "big-41gb": ("a100", 41),
}


def amounts(container: dict[str, Any]) -> dict[str, int]:
    limits = container.get("resources", {}).get("limits", {})
    return {key: int(value) for key, value in limits.items() if "gpu" in key}


def needed(spec: dict[str, Any]) -> int:
    """How many GPUs the scheduler counts; there is one init container at most."""
    app = sum(sum(amounts(each).values()) for each in spec["containers"])
    for each in spec.get("initContainers", []):
        own = sum(amounts(each).values())
        return app + own if each.get("restartPolicy") == "Always" else max(app, own)
    return app


def wanted_cards(spec: dict[str, Any]) -> set[str] | None:
    """The cards that the pod may have by its keys and class alone; None if it has no key above 0."""
    everyone = [*spec["containers"], *spec.get("initContainers", [])]
    asked = [
        WANTS[key.removeprefix(P)]
        for container in everyone
        for key, amount in amounts(container).items()
        if key.startswith(P) and amount
    ]
    if not asked:
        return None
    most = needed(spec)
    fitting = {
        card
        for card, (model, vram, on_a_node) in CARDS.items()
        if on_a_node >= most
        and all(vram >= least and name in {None, model} for name, least in asked)
    }
    if spec["priority"] >= 1000 and fitting:
        smallest = min(CARDS[card][1] for card in fitting)
        return {card for card in fitting if CARDS[card][1] == smallest}
    return fitting


def has_card(node: dict[str, Any], cards: set[str]) -> bool:
    labels = node["metadata"]["labels"]
    return labels.get(LABEL) in cards - {"l4"} or (
        "l4" in cards and labels.get(OTHER_LABEL) == "l4"
    )


@settings(max_examples=200, deadline=None)
@given(pods)
def test_a_pod_fits_the_nodes_that_it_fitted_and_that_have_its_gpus(pod: dict[str, Any]) -> None:
    assert_the_same_nodes_but_for_gpus(pod)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([*WANTS]), st.sampled_from([0, 1000]), constraining)
def test_and_so_does_one_with_an_affinity_of_its_own(
    key: str, priority: int, affinity: dict[str, Any]
) -> None:
    assert_the_same_nodes_but_for_gpus(asking(key, priority=priority, affinity=affinity))


def assert_the_same_nodes_but_for_gpus(pod: dict[str, Any]) -> None:
    """Judged on a node of each kind: nodes(after) = nodes(before) and nodes(models)."""
    decision = decide(pod, CATALOGUE)
    cards = wanted_cards(pod["spec"])
    expected = [
        fits_labels(node, pod["spec"]) and (cards is None or has_card(node, cards))
        for node in EVERY_NODE
    ]
    event(type(decision).__name__)
    if isinstance(decision, Denied):
        event(decision.reason)
        if decision.reason in {Reason.PINNED_ELSEWHERE, Reason.NODE_TOO_SMALL}:
            assert not any(expected)  # refused is only what could have run nowhere
        return
    after = patched(pod, decision)["spec"]
    note(str(after.get("affinity")))

    assert [fits_labels(node, after) for node in EVERY_NODE] == expected


def test_a_term_beside_the_pods_own_would_be_noticed() -> None:
    """The model can tell: this is what a webhook of another project did."""
    node = {"metadata": {"name": "n", "labels": {LABEL: "NVIDIA-A30", "zone": "b"}}}
    own, ours = term(("zone", "In", ["a"])), term((LABEL, "In", ["NVIDIA-A30"]))
    anded = term(("zone", "In", ["a"]), (LABEL, "In", ["NVIDIA-A30"]))

    assert not fits_labels(node, {"affinity": required(own)})
    assert fits_labels(node, {"affinity": required(own, ours)})
    assert not fits_labels(node, {"affinity": required(anded)})


@settings(max_examples=200, deadline=None)
@given(pods)
def test_a_changed_pod_is_finished_valid_and_otherwise_as_it_was(pod: dict[str, Any]) -> None:
    decision = decide(pod, CATALOGUE)
    if isinstance(decision, Denied):
        return
    after = patched(pod, decision)

    assert_a_second_time_changes_nothing(decision, after)
    assert_no_key_is_left(after)
    assert isinstance(validate_pod(after, TEAM, CATALOGUE, NOW), Allowed)
    assert demand_of(after, TEAM, CATALOGUE) == demand_of(pod, TEAM, CATALOGUE)
    if isinstance(decision, Mutated):
        assert apply_patch(pod, list(decision.patch)) == after  # ours agrees with the strict one
    assert without_our_part(after) == without_our_part(pod)


def assert_a_second_time_changes_nothing(first: Decision, once: dict[str, Any]) -> None:
    second = decide(once, CATALOGUE)
    event(str(getattr(second, "reason", "mutated")))

    assert isinstance(second, Unchanged)
    if isinstance(first, Mutated) and first.selection is not None:
        assert second.reason == UnchangedReason.ALREADY_DONE
        assert not [each for each in second.asks if "/" not in each.name]  # counted once


def assert_no_key_is_left(pod: dict[str, Any]) -> None:
    """And what is there instead is what Kubernetes takes: equal in limits and requests."""
    for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])):
        resources = container.get("resources", {})
        limits, requests = resources.get("limits", {}), resources.get("requests", {})
        assert not [key for key in (*limits, *requests) if key.startswith(P)]
        for resource in ("nvidia.com/gpu", "preferred.jp/cpu-for-high-priority-cpu-pods"):
            if resource in requests:
                assert requests[resource] == limits[resource]


def without_our_part(pod: dict[str, Any]) -> dict[str, Any]:
    spec = {key: value for key, value in pod["spec"].items() if key not in OUR_PART}
    for part in ("containers", "initContainers"):
        spec[part] = [
            {
                **{key: value for key, value in each.items() if key != "resources"},
                "env": [one for one in each.get("env", []) if one["value"] != "none"],
            }
            for each in spec.get(part, [])
        ]
    return spec


OUR_PART = {"affinity", "tolerations"}


RICH = a_pod(
    a_container("a", gpu_any_24gb="1", cpu="2"),
    {**a_container("b", gpu_any="0"), "env": [{"name": "X", "value": "y"}]},
    init=[{**a_container("c", gpu_any="1"), "restartPolicy": "Always"}],
    affinity=required(term(("zone", "In", ["a"]), matchFields=[{"key": "metadata.name"}])),
    tolerations=[{"key": "gpu", "operator": "Equal", "value": "x", "effect": "NoSchedule"}],
    nodeSelector={"zone": "a"},
    schedulerName="default-scheduler",
    priorityClassName="high",
    metadata={
        "annotations": {ANNOTATION: "{}", "example.com/class": "low"},
        "labels": {"my-class": "low"},
        "ownerReferences": [{"kind": "Job", "controller": True}],
    },
)
LEVERS = {
    "namespace_label": "c",
    "pod_label": "my-class",
    "pod_annotation": "example.com/class",
    "pods_may_choose": ["low"],
}
MANY_LEVERS = catalogue_of(class_levers=LEVERS)


@pytest.mark.parametrize(
    "pod",
    [
        RICH,
        {**admitted(RICH), "status": {"phase": "Running"}},
        admitted(asking("mncore")),
        asking("mncore", schedulerName="default-scheduler"),
        a_pod(a_container("a", cpu="2"), priority=1000, resources={"requests": {"cpu": "9"}}),
    ],
    ids=["with everything", "mutated", "another vendor's", "and before", "without a GPU"],
)
def test_no_part_of_a_pod_is_too_odd_to_be_answered(pod: dict[str, Any]) -> None:
    for whole in spoilt(pod):
        if isinstance(whole, dict):
            assert_answered(whole, MANY_LEVERS)


@settings(max_examples=200, deadline=None)
@given(st.one_of(json_values, pod_shaped, broken_pods))
def test_no_pod_is_too_broken_to_be_answered(pod: Any) -> None:
    assert_answered(pod if isinstance(pod, dict) else {"spec": pod}, CATALOGUE)


def assert_answered(whole: dict[str, Any], catalogue: Catalogue) -> None:
    decision = mutate(whole, TEAM, catalogue, NOW)

    assert isinstance(decision, Mutated | Unchanged | Denied)
    if isinstance(decision, Mutated):
        # An API server can apply it: the way to each path is there.
        after = apply_patch(whole, list(decision.patch))
        assert isinstance(mutate(after, TEAM, catalogue, NOW), Unchanged | Denied)
    validate_pod(whole, TEAM, catalogue, NOW)
    demand_of(whole, NamespaceView("x", None), catalogue)
    for kind in ("Deployment", "CronJob", "Secret"):
        template = {"spec": {"template": whole, "jobTemplate": {"spec": {"template": whole}}}}
        validate_workload(kind, template, None, TEAM, catalogue, NOW)
        validate_workload(kind, whole, whole, TEAM, catalogue, NOW)


@settings(max_examples=100, deadline=None)
@given(st.one_of(json_values, st.text(max_size=200)), pods)
def test_no_annotation_is_too_odd_to_be_answered(value: Any, pod: dict[str, Any]) -> None:
    pod["metadata"]["annotations"] = {ANNOTATION: value}
    decision = decide(pod, CATALOGUE)

    if not isinstance(decision, Denied):
        after = patched(pod, decision)
        assert after["metadata"]["annotations"].get(ANNOTATION, NONE) != value
    validate_pod(pod, TEAM, CATALOGUE, NOW)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_no_body_is_too_odd_to_be_answered(body: bytes) -> None:
    assert isinstance(read(body), Malformed)


NONE = object()
REVIEW_FIELDS = [
    "uid",
    "kind",
    "operation",
    "namespace",
    "name",
    "subResource",
    "userInfo",
    "object",
    "oldObject",
    "dryRun",
    "username",
]


_requests = st.fixed_dictionaries(
    {
        "uid": st.just("u"),
        "kind": st.just({"kind": "Pod"}),
        "operation": st.just("CREATE"),
        "object": st.one_of(pods, broken_pods, st.none()),
    }
)
_oddities = st.dictionaries(st.sampled_from(REVIEW_FIELDS), json_values, max_size=1)


@settings(max_examples=100, deadline=None)
@given(_requests, _oddities)
def test_no_review_is_too_odd_to_be_answered(sensible: dict[str, Any], odd: dict[str, Any]) -> None:
    request = {**sensible, **odd}
    try:
        body = orjson.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        )
    except TypeError:  # an integer beyond JSON's
        return
    review = read(body)
    event(type(review).__name__)
    if isinstance(review, Malformed):
        return
    decision = mutate(review.object or {}, TEAM, CATALOGUE, NOW)

    assert read_answer(answer(review, decision.answer())).allowed is not isinstance(
        decision, Denied
    )
