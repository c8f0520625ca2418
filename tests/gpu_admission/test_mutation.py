"""What is done to a pod besides placing it: resources, zeros, annotations, and pods left alone."""

from typing import Any

import orjson
import pytest

from gpu_admission.catalogue import NamespaceView
from gpu_admission.gpu_request import Ask, Reason
from gpu_admission.mutation import Denied, Mutated, Unchanged, UnchangedReason
from tests.gpu_admission.admitting import (
    ANNOTATION,
    CLUSTER,
    GPU,
    HIGH,
    P,
    a_container,
    a_pod,
    admitted,
    asking,
    catalogue_of,
    decide,
    patched,
    refused,
    required,
    term,
)

# Resources.

REWRITTEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "in limits and requests": (
        {"limits": {f"{P}any": "2", "cpu": "1"}, "requests": {f"{P}any": "2", "cpu": "1"}},
        {"limits": {"cpu": "1", GPU: "2"}, "requests": {"cpu": "1", GPU: "2"}},
    ),
    "in limits only, as in a file": (
        {"limits": {f"{P}any": 1}},
        {"limits": {GPU: "1"}, "requests": {GPU: "1"}},
    ),
    "requests are null": (
        {"limits": {f"{P}any": "1"}, "requests": None},
        {"limits": {GPU: "1"}, "requests": {GPU: "1"}},
    ),
    "thousandths in one, whole in the other": (
        {"limits": {f"{P}any": "1000m"}, "requests": {f"{P}any": "1"}},
        {"limits": {GPU: "1"}, "requests": {GPU: "1"}},
    ),
    "two keys add up": (
        {"limits": {f"{P}any": "1", f"{P}any-24gb": "2"}, "requests": {"cpu": "1"}},
        {"limits": {GPU: "3"}, "requests": {"cpu": "1", GPU: "3"}},
    ),
    "zero of the nodes' resource beside": (
        {"limits": {f"{P}any": "1", GPU: "0"}, "requests": {f"{P}any": "1", GPU: "0"}},
        {"limits": {GPU: "1"}, "requests": {GPU: "1"}},
    ),
}


@pytest.mark.parametrize("case", REWRITTEN)
def test_the_key_becomes_the_nodes_resource(case: str) -> None:
    resources, expected = REWRITTEN[case]

    after = admitted(a_pod({"name": "train", "resources": resources}))

    assert after["spec"]["containers"][0]["resources"] == expected


def test_a_patch_names_single_keys_and_escapes_their_slash() -> None:
    decision = decide(asking("any"))

    assert isinstance(decision, Mutated)
    assert [(each["op"], each["path"]) for each in decision.patch][:4] == [
        ("remove", "/spec/containers/0/resources/limits/preferred.jp~1gpu-any"),
        ("remove", "/spec/containers/0/resources/requests/preferred.jp~1gpu-any"),
        ("add", "/spec/containers/0/resources/limits/nvidia.com~1gpu"),
        ("add", "/spec/containers/0/resources/requests/nvidia.com~1gpu"),
    ]


def test_every_container_is_rewritten_and_the_others_are_not_touched() -> None:
    pod = a_pod(
        a_container("a", gpu_any="1"),
        a_container("plain", cpu="2"),
        a_container("c", gpu_any="2"),
        init=[
            a_container("i", gpu_any_24gb="1"),
            {**a_container("s", gpu_any="1"), "restartPolicy": "Always"},
        ],
    )

    spec = admitted(pod)["spec"]

    assert [each["resources"]["limits"] for each in spec["containers"]] == [
        {GPU: "1"},
        {"cpu": "2"},
        {GPU: "2"},
    ]
    assert [each["resources"]["limits"] for each in spec["initContainers"]] == [{GPU: "1"}] * 2


def test_another_vendors_resource_scheduler_and_runtime_are_the_back_ends() -> None:
    spec = admitted(asking("mncore", "2"))["spec"]

    assert spec["containers"][0]["resources"]["limits"] == {"preferred.jp/mncore": "2"}
    assert (spec["schedulerName"], spec["runtimeClassName"]) == ("mncore-scheduler", "mncore")


def test_what_the_pod_names_itself_stays() -> None:
    pod = asking("mncore", schedulerName="mine", runtimeClassName="kata")

    spec = admitted(pod)["spec"]

    assert (spec["schedulerName"], spec["runtimeClassName"]) == ("mine", "kata")


def test_the_default_scheduler_is_no_choice_of_the_pod() -> None:
    """The API server has filled it in before we see the pod."""
    pod = asking("mncore", schedulerName="default-scheduler")

    assert admitted(pod)["spec"]["schedulerName"] == "mncore-scheduler"


# Zero.


@pytest.mark.parametrize("key", [f"{P}any", GPU])
def test_a_container_that_asks_for_zero_sees_none(key: str) -> None:
    container = {"name": "c", "resources": {"limits": {key: "0"}, "requests": {key: "0"}}}

    after = admitted(a_pod(container))["spec"]

    assert after["containers"][0]["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]
    assert f"{P}any" not in after["containers"][0]["resources"]["limits"]
    assert "affinity" not in after


@pytest.mark.parametrize(
    ("env", "after"),
    [
        ([], [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]),
        (
            [{"name": "X", "value": "1"}],
            [{"name": "X", "value": "1"}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}],
        ),
        (
            [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
            [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
        ),
    ],
)
def test_what_the_pod_sets_itself_is_kept(env: list[dict[str, str]], after: Any) -> None:
    pod = a_pod({**a_container("c", gpu_any="0"), "env": env})

    assert admitted(pod)["spec"]["containers"][0]["env"] == after


def test_only_containers_that_say_zero_are_blinded_and_only_if_policy_says_so() -> None:
    pod = a_pod(
        a_container("zero", gpu_any="0"), a_container("one", gpu_any="1"), a_container("silent")
    )
    off = catalogue_of(defaults={"hide_gpus_when_zero": False})

    blinded = [each["name"] for each in admitted(pod)["spec"]["containers"] if "env" in each]

    assert blinded == ["zero"]
    assert not [each for each in admitted(pod, off)["spec"]["containers"] if "env" in each]


# The nodes' own resource.


def test_asking_for_the_nodes_resource_is_allowed_warned_about_or_denied() -> None:
    pod = a_pod(a_container("c", nvidia="1"))
    told = f"ask for {GPU} directly; ask for {P}any, or for a model like {P}v100-16gb"

    allowed = decide(pod, catalogue_of(defaults={"raw_gpu": "allow"}))
    warned = decide(pod)
    denied = refused(pod, catalogue_of(defaults={"raw_gpu": "deny"}))

    assert allowed == Unchanged(UnchangedReason.RAW_GPU, (), (Ask(GPU, 0, 1),), "low")
    assert isinstance(warned, Unchanged)
    assert warned.warnings == (f'container "c": pods should not {told}',)
    assert (denied.reason, denied.text) == (Reason.RAW_GPU, f'container "c": pods must not {told}')


def test_zero_of_the_nodes_resource_is_not_asking_for_it() -> None:
    pod = a_pod(a_container("c", nvidia="0"))

    assert not isinstance(decide(pod, catalogue_of(defaults={"raw_gpu": "deny"})), Denied)


def test_a_namespace_may_be_let_where_others_are_not() -> None:
    catalogue = catalogue_of(
        defaults={"raw_gpu": "deny"},
        namespace_policy=[{"match": {"names": ["infra"]}, "raw_gpu": "allow"}],
    )
    pod = a_pod(a_container("c", mncore="1"))

    assert isinstance(decide(pod, catalogue, NamespaceView("infra", {})), Unchanged)
    assert refused(pod, catalogue).reason == Reason.RAW_GPU


# Pods that are left alone.

ALONE: dict[str, tuple[dict[str, Any], NamespaceView, UnchangedReason]] = {
    "no GPU": (
        a_pod(a_container("c", cpu="1")),
        NamespaceView("kube-x", {}),
        UnchangedReason.NO_GPU,
    ),
    "a static pod's mirror": (
        asking("nonsense", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}),
        NamespaceView("team", {}),
        UnchangedReason.MIRROR_POD,
    ),
    "the system's namespace": (
        asking("nonsense"),
        NamespaceView("kube-system", {}),
        UnchangedReason.EXCLUDED_NAMESPACE,
    ),
    "no spec": ({"metadata": {}}, NamespaceView("team", {}), UnchangedReason.NOT_A_POD),
    "a key of another prefix": (
        a_pod({"name": "c", "resources": {"limits": {"example.com/gpu-any": "1"}}}),
        NamespaceView("team", {}),
        UnchangedReason.NO_GPU,
    ),
    "keys of ephemeral containers, which Kubernetes refuses": (
        a_pod(ephemeralContainers=[a_container("debug", gpu_any="1")]),
        NamespaceView("team", {}),
        UnchangedReason.NO_GPU,
    ),
}


@pytest.mark.parametrize("case", ALONE)
def test_a_pod_that_is_none_of_ours_is_left_as_it_is(case: str) -> None:
    pod, namespace, reason = ALONE[case]

    decision = decide(pod, catalogue_of(cpu_policy=None), namespace)

    assert isinstance(decision, Unchanged)
    assert decision.reason == reason
    assert not decision.answer().patch


def owned_by(kind: str, *, controller: bool = True) -> dict[str, Any]:
    return {"ownerReferences": [{"kind": kind, "name": "x", "controller": controller}]}


def test_a_daemonset_may_not_ask_by_our_keys_unless_policy_lets_it() -> None:
    """Its controller makes pods for nodes by the template, which the webhook does not change."""
    pod = asking("any", metadata=owned_by("DaemonSet"))

    denied = refused(pod)

    assert denied.reason == Reason.DAEMONSET
    assert denied.text.startswith("gpu-any: a DaemonSet makes a pod for each node")
    assert isinstance(decide(pod, catalogue_of(defaults={"daemonsets": "allow"})), Mutated)
    assert isinstance(decide(asking("any", metadata=owned_by("ReplicaSet"))), Mutated)
    assert isinstance(
        decide(asking("any", metadata=owned_by("DaemonSet", controller=False))), Mutated
    )


def test_a_daemonset_that_asks_for_no_gpu_is_left_alone_whatever_its_priority() -> None:
    """A device plugin or an exporter belongs to its node; it must not need a share of it."""
    pod = a_pod(a_container("plugin", cpu="1"), priority=HIGH, metadata=owned_by("DaemonSet"))

    assert isinstance(decide(pod), Unchanged)


def test_a_daemonset_that_asks_for_the_nodes_resource_is_not_advised_otherwise() -> None:
    pod = a_pod(a_container("c", nvidia="1"), metadata=owned_by("DaemonSet"))

    assert decide(pod).answer().warnings == ()
    assert decide(pod, catalogue_of(defaults={"daemonsets": "allow"})).answer().warnings


def test_a_node_that_is_named_already_is_said() -> None:
    decision = decide(asking("any", nodeName="gpu-1"))

    assert isinstance(decision, Mutated)
    assert decision.warnings == (
        (
            "spec.nodeName is set: the scheduler is passed by, and the node refuses the pod if it has "
            "other GPUs"
        ),
    )


# Maps and lists that are not there.


@pytest.mark.parametrize("metadata", ["absent", None, {}, {"annotations": None}])
def test_what_a_patch_adds_to_is_made_if_it_is_missing(metadata: Any) -> None:
    pod = {"spec": {"containers": [{"name": "c", "resources": {"limits": {f"{P}a100": "1"}}}]}}
    if metadata != "absent":
        pod["metadata"] = metadata

    after = admitted(pod)

    assert ANNOTATION in after["metadata"]["annotations"]
    assert after["spec"]["tolerations"]
    assert after["spec"]["affinity"]
    assert after["spec"]["containers"][0]["resources"]["requests"] == {GPU: "1"}


# The audit annotation.


def test_the_annotation_tells_what_was_asked_for_and_what_was_given() -> None:
    pod = a_pod(a_container("a", gpu_a100="1"), a_container("b", gpu_any_41gb="2"), priority=HIGH)
    decision = decide(pod)

    written = patched(pod, decision)["metadata"]["annotations"][ANNOTATION]

    assert orjson.loads(written) == {
        "requests": {"a": {"gpu-a100": 1}, "b": {"gpu-any-41gb": 2}},
        "class": "high",
        "models": ["a100-80gb"],
        "generation": CLUSTER.generation,
    }
    assert decision.answer().audit_annotations == {"selection": written}


def test_other_annotations_stay() -> None:
    pod = asking("any", metadata={"annotations": {"a/b": "c"}})

    assert admitted(pod)["metadata"]["annotations"]["a/b"] == "c"


def test_an_annotation_that_somebody_wrote_is_overwritten_by_the_truth() -> None:
    forged = orjson.dumps(
        {"requests": {"train": {"gpu-a100": 8}}, "models": ["a100-80gb"]}
    ).decode()

    after = admitted(asking("l4", metadata={"annotations": {ANNOTATION: forged}}))

    assert orjson.loads(after["metadata"]["annotations"][ANNOTATION])["requests"] == {
        "train": {"gpu-l4": 1}
    }


FORGED: dict[str, Any] = {
    "no JSON": "{",
    "another shape": "[1]",
    "no requests": "{}",
    "a container that is not there": '{"requests": {"other": {"gpu-any": 1}}}',
    "another amount": '{"requests": {"train": {"gpu-any": 2}}}',
    "an unknown GPU": '{"requests": {"train": {"gpu-b200": 1}}}',
    "zero": '{"requests": {"train": {"gpu-any": 0}}}',
    "no key of ours": '{"requests": {"train": {"cpu": 1}}}',
    "what no node has": '{"requests": {"train": {"gpu-any-999gb": 1}}}',
    "another resource": '{"requests": {"train": {"gpu-mncore": 1}}}',
    "no text": 5,
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_annotation_on_a_raw_gpu_is_removed_and_helps_nobody(case: str) -> None:
    pod = a_pod(
        a_container("train", nvidia="1"), metadata={"annotations": {ANNOTATION: FORGED[case]}}
    )
    decision = decide(pod)

    assert ANNOTATION not in patched(pod, decision)["metadata"]["annotations"]
    assert decision.answer().warnings[-1] == (
        f"the annotation {ANNOTATION} is written by the webhook only and does not fit this pod; "
        "it was removed"
    )
    assert refused(pod, catalogue_of(defaults={"raw_gpu": "deny"})).reason == Reason.RAW_GPU


def test_an_annotation_that_fits_the_amounts_but_not_the_affinity_is_refused() -> None:
    claim = '{"requests": {"train": {"gpu-l4": 1}}, "models": ["l4-24gb"]}'
    pod = a_pod(a_container("train", nvidia="1"), metadata={"annotations": {ANNOTATION: claim}})

    for policy in ("allow", "deny"):
        denied = refused(pod, catalogue_of(defaults={"raw_gpu": policy}))
        assert denied.reason == Reason.AFFINITY_WEAKENED


def test_a_called_again_webhook_is_not_fooled_by_its_own_work() -> None:
    """Reinvocation: the pod has the nodes' resource now, which the policy denies to everyone else."""
    catalogue = catalogue_of(defaults={"raw_gpu": "deny"})
    once = admitted(asking("any-24gb"), catalogue)

    again = decide(once, catalogue)

    assert again == Unchanged(UnchangedReason.ALREADY_DONE, (), (), "low")  # asks: counted before
    once["metadata"]["annotations"] = {}
    assert refused(once, catalogue).reason == Reason.RAW_GPU


def test_what_another_webhook_adds_between_two_calls_is_taken_in() -> None:
    """A second webhook injects a container with a key of ours after the first call."""
    catalogue = catalogue_of(defaults={"raw_gpu": "deny"})
    once = admitted(a_pod(a_container("a", gpu_any_24gb="1")), catalogue)
    once["spec"]["containers"].append(a_container("injected", gpu_any_40gb="1"))

    decision = decide(once, catalogue)
    after = patched(once, decision)

    assert isinstance(decision, Mutated)
    assert orjson.loads(after["metadata"]["annotations"][ANNOTATION])["requests"] == {
        "a": {"gpu-any-24gb": 1},
        "injected": {"gpu-any-40gb": 1},
    }
    assert decision.asks == (Ask("any", 40, 1),)  # the other was counted at the first call
    assert [each["resources"]["limits"] for each in after["spec"]["containers"]] == [
        {GPU: "1"},
        {GPU: "1"},
    ]
    assert isinstance(decide(after, catalogue), Unchanged)


def test_another_webhooks_weaker_affinity_is_refused_at_the_second_call() -> None:
    once = admitted(asking("a100"))
    once["spec"]["affinity"] = required(term(("zone", "In", ["a"])))

    assert refused(once).reason == Reason.AFFINITY_WEAKENED


# What metrics are told.


def test_a_decision_tells_what_was_asked_for() -> None:
    pod = a_pod(
        a_container("a", gpu_any_24gb="1"),
        a_container("b", gpu_any_24gb="1", gpu_a100="1"),
        init=[a_container("i", gpu_any_24gb="5")],
    )
    decision = decide(pod)

    assert isinstance(decision, Mutated)
    assert set(decision.asks) == {Ask("any", 24, 5), Ask("a100", 0, 1)}


@pytest.mark.parametrize(
    ("pod", "asks"),
    [
        (asking("any-192gb"), {Ask("any", 192, 1)}),
        (asking("b200", "3"), {Ask("unknown", 0, 3)}),
        (asking("a100-80gb", "half"), {Ask("a100", 80, 0)}),
        (
            a_pod(a_container("a", gpu_any="1"), a_container("b", gpu_b200="1")),
            {Ask("any", 0, 1), Ask("unknown", 0, 1)},
        ),
    ],
)
def test_a_denial_tells_it_too(pod: dict[str, Any], asks: set[Ask]) -> None:
    denied = refused(pod)

    assert set(denied.asks) == asks
    assert denied.class_name == "low"
    assert denied.answer().audit_annotations == {"denied": denied.reason.value}
