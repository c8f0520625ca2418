"""The life of an object in the embedded Kubernetes: created, updated, deleted, swept with its owner."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.kubernetes_rules import defaults, objects, ownership, validation
from sandbox.kubernetes_rules.deletion import Outcome
from sandbox.kubernetes_rules.resources import (
    BUILT_IN,
    CONFIG_MAP,
    JOB,
    NAMESPACE,
    NODE,
    POD,
    ResourceType,
)
from sandbox.kubernetes_rules.statuses import Refusal

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
WIDGET = ResourceType(
    "example.com",
    "v1",
    "Widget",
    "widgets",
    "widget",
    subresources=frozenset({"status"}),
    custom=True,
)


def created(kind: ResourceType, obj: dict[str, Any], namespace: str = "default") -> dict[str, Any]:
    made = objects.prepare_create(
        obj, kind, now=NOW, uid="u1", random_suffix="x7k2p", namespace=namespace
    )
    made["metadata"]["resourceVersion"] = "5"
    return made


def a_pod(**spec: Any) -> dict[str, Any]:
    return created(
        POD,
        {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}},
    )


def test_a_generated_name_ends_in_the_suffix_and_stays_a_label() -> None:
    made = created(CONFIG_MAP, {"metadata": {"generateName": "long" * 20}})

    name = made["metadata"]["name"]
    assert name.endswith("x7k2p")
    assert len(name) == 63


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"cpu": "1", "memory": "1Gi"}, "Guaranteed"),
        ({"cpu": "1"}, "Burstable"),
        ({"nvidia.com/gpu": "1"}, "BestEffort"),
    ],
)
def test_a_pods_class_follows_its_resources(limits: dict[str, str], expected: str) -> None:
    pod = a_pod(containers=[{"name": "c", "image": "i", "resources": {"limits": limits}}])

    assert pod["status"]["qosClass"] == expected
    assert pod["spec"]["containers"][0]["resources"]["requests"] == limits


def test_a_pod_that_tolerates_all_gets_no_more_tolerations() -> None:
    pod = a_pod(tolerations=[{"operator": "Exists"}])

    assert pod["spec"]["tolerations"] == [{"operator": "Exists"}]


@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda kind: kind.qualified_plural)
def test_defaults_applied_again_change_nothing(kind: ResourceType) -> None:
    made = created(kind, {"metadata": {"name": "x"}, "spec": {"a": {}}})

    assert defaults.with_defaults(made, kind) == made


def test_a_new_node_is_not_ready_for_pods_until_something_says_so() -> None:
    node = created(NODE, {"metadata": {"name": "n", "namespace": "left out"}})

    assert node["spec"]["taints"] == [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    ]
    assert "namespace" not in node["metadata"]


def test_a_job_selects_its_own_pods() -> None:
    job = created(JOB, {"metadata": {"name": "j"}, "spec": {"template": {"spec": {}}}})

    labels = job["spec"]["template"]["metadata"]["labels"]
    assert job["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert (job["spec"]["completions"], job["spec"]["backoffLimit"]) == (1, 6)


def a_class(name: str, value: int, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "value": value, **more}


CLASSES = [
    a_class("high", 1000, preemptionPolicy="Never"),
    a_class("usual", 7, globalDefault=True),
]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"priorityClassName": "high"}, (1000, "Never"), id="its class"),
        pytest.param({}, (7, "PreemptLowerPriority"), id="the default class"),
        pytest.param(
            {"priorityClassName": "system-node-critical"},
            (2000001000, "PreemptLowerPriority"),
            id="the system's",
        ),
    ],
)
def test_a_pods_priority_is_its_classes(spec: dict[str, Any], expected: tuple[int, str]) -> None:
    pod = defaults.with_priority(a_pod(**spec), CLASSES, POD)

    assert (pod["spec"]["priority"], pod["spec"]["preemptionPolicy"]) == expected


def test_a_priority_of_its_own_is_forbidden() -> None:
    with pytest.raises(Refusal, match='403: pods "p" is forbidden: the integer value of priority'):
        defaults.with_priority(a_pod(priority=5), CLASSES, POD)


def widget(**parts: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, **parts}


def test_spec_and_status_of_a_custom_resource_never_change_in_one_write() -> None:
    current = created(WIDGET, widget(spec={"a": 1}, status={"lost": "on create"}))
    new = {**current, "spec": {"a": 2}, "status": {"p": 1}}

    by_spec = objects.prepare_update(current, new, WIDGET)
    by_status = objects.prepare_update(current, new, WIDGET, subresource="status")

    assert (by_spec["spec"], by_spec.get("status")) == ({"a": 2}, None)
    assert (by_status["spec"], by_status["status"]) == ({"a": 1}, {"p": 1})
    assert [e["metadata"]["generation"] for e in (current, by_spec, by_status)] == [1, 2, 1]


def test_an_update_that_changes_nothing_is_equal_to_what_is_stored() -> None:
    pod = a_pod()

    assert objects.prepare_update(pod, {**pod, "status": {"phase": "Running"}}, POD) == pod


@pytest.mark.parametrize(
    ("meta", "code", "words"),
    [
        ({"resourceVersion": "4"}, 409, "the object has been modified"),
        ({"uid": "other"}, 409, "UID in precondition: other"),
        ({"name": "q"}, 400, r"the name of the object \(q\) does not match"),
        ({"namespace": "q"}, 400, "namespace of the provided object does not match"),
    ],
)
def test_an_update_of_another_object_is_refused(
    meta: dict[str, str], code: int, words: str
) -> None:
    pod = a_pod()

    with pytest.raises(Refusal, match=f"{code}: .*{words}"):
        objects.prepare_update(pod, {**pod, "metadata": {**pod["metadata"], **meta}}, POD)


def test_a_custom_resource_must_name_the_version_it_replaces() -> None:
    current = created(WIDGET, widget(spec={}))

    with pytest.raises(Refusal, match="must be specified for an update"):
        objects.prepare_update(current, widget(spec={"a": 1}), WIDGET)


def test_a_deletion_waits_for_grace_and_then_for_finalizers() -> None:
    pod = a_pod(nodeName="n")
    pod["metadata"]["finalizers"] = ["a.b/c"]

    first = objects.deletion(pod, None, NOW, POD)
    second = objects.deletion(first.object, {"gracePeriodSeconds": 0}, NOW, POD)
    freed = {**second.object, "metadata": {**second.object["metadata"], "finalizers": []}}

    assert [first.outcome, second.outcome] == [Outcome.TERMINATING, Outcome.TERMINATING]
    assert first.object["metadata"]["deletionTimestamp"] == "2026-03-01T12:00:30Z"
    assert second.object["metadata"]["deletionTimestamp"] == "2026-03-01T12:00:00Z"
    assert not objects.may_be_removed(second.object)
    assert objects.may_be_removed(objects.prepare_update(second.object, freed, POD))


def test_a_second_deletion_cannot_lengthen_the_grace() -> None:
    first = objects.deletion(a_pod(nodeName="n"), {"gracePeriodSeconds": 5}, NOW, POD).object
    later = NOW + timedelta(seconds=1)

    assert objects.deletion(first, {"gracePeriodSeconds": 50}, later, POD).outcome is (
        Outcome.UNCHANGED
    )


def test_a_namespace_ends_when_its_finalizer_is_off() -> None:
    namespace = created(NAMESPACE, {"metadata": {"name": "team"}})

    ending = objects.deletion(namespace, None, NOW, NAMESPACE)
    ended = {**ending.object, "spec": {}}

    assert ending.object["status"]["phase"] == "Terminating"
    assert (ending.outcome, objects.may_be_removed(ended)) == (Outcome.TERMINATING, True)


def test_no_finalizer_comes_too_late() -> None:
    ending = objects.deletion(a_pod(nodeName="n"), None, NOW, POD).object
    late = {**ending, "metadata": {**ending["metadata"], "finalizers": ["a.b/c"]}}

    causes = validation.check_update(ending, late, POD)

    assert [each.field for each in causes] == ["metadata.finalizers"]


def owned(name: str, *owners: str, blocking: bool = False) -> dict[str, Any]:
    references = [{"uid": each, "blockOwnerDeletion": blocking} for each in owners]
    return {"metadata": {"name": name, "uid": name, "ownerReferences": references}}


def test_what_all_owners_are_gone_of_goes_and_others_are_released() -> None:
    everything = [owned("alone"), owned("orphan", "gone"), owned("shared", "gone", "here")]

    sweep = ownership.swept(everything, living={"alone", "orphan", "shared", "here"})

    assert [each["metadata"]["name"] for each in sweep.delete] == ["orphan"]
    assert [each["metadata"]["ownerReferences"] for each in sweep.release] == [
        [{"uid": "here", "blockOwnerDeletion": False}]
    ]


@pytest.mark.parametrize(("blocking", "may_go"), [(True, False), (False, True)])
def test_in_the_foreground_an_owner_waits_for_those_that_block_it(
    blocking: bool, may_go: bool
) -> None:
    step = ownership.foreground_step("o", [owned("d", "o", blocking=blocking), owned("e", "x")])

    assert ([each["metadata"]["name"] for each in step.delete], step.owner_may_go) == (
        ["d"],
        may_go,
    )


def test_orphans_lose_the_reference_only() -> None:
    assert ownership.orphaned("o", [owned("d", "o")]) == ({"metadata": {"name": "d", "uid": "d"}},)


JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from(["", "a", "1%"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["name", "key", "labels", "resources"]), inner, max_size=2),
    ),
    max_leaves=6,
)
PARTS = st.sampled_from(
    ["containers", "taints", "tolerations", "selector", "template", "conditions", "affinity"]
)


@given(
    kind=st.sampled_from(BUILT_IN),
    meta=st.dictionaries(st.sampled_from(["labels", "finalizers", "ownerReferences"]), JUNK),
    spec=st.one_of(JUNK, st.dictionaries(PARTS, JUNK, max_size=3)),
)
def test_an_object_of_any_shape_is_taken_or_refused(
    kind: ResourceType, meta: dict[str, Any], spec: Any
) -> None:
    with suppress(Refusal):
        made = created(kind, {"metadata": {"name": "x", **meta}, "spec": spec, "status": spec})
        validation.check_create(made, kind)
        validation.check_update(made, objects.prepare_update(made, made, kind), kind)
