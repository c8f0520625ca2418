"""The last look at a pod, and the first at a workload's template."""

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from gpu_admission.catalogue import NamespaceView, PriorityClasses
from gpu_admission.gpu_request import Reason
from gpu_admission.validation import Allowed, Denied, Verdict, validate_pod, validate_workload
from tests.gpu_admission.admitting import (
    ANNOTATION,
    CLUSTER,
    GPU,
    HIGH,
    LABEL,
    NOW,
    TEAM,
    P,
    a_container,
    a_pod,
    admitted,
    asking,
    catalogue_of,
    required,
    term,
    with_model,
)


def judged(pod: dict[str, Any], catalogue: Any = CLUSTER) -> Verdict:
    return validate_pod(pod, TEAM, catalogue, NOW)


def reason_of(verdict: Verdict) -> Reason | None:
    return verdict.reason if isinstance(verdict, Denied) else None


@pytest.mark.parametrize("key", ["any", "any-24gb", "a100-80gb", "mncore", "big"])
@pytest.mark.parametrize("priority", [0, HIGH])
def test_what_we_made_of_a_pod_passes(key: str, priority: int) -> None:
    assert judged(admitted(asking(key, priority=priority))) == Allowed()


def test_a_key_that_is_left_means_that_the_mutating_side_was_not_reached() -> None:
    verdict = judged(asking("any"))

    assert isinstance(verdict, Denied)
    assert (verdict.reason, verdict.text) == (
        Reason.LEFT_OVER,
        (
            f'container "train": {P}any was not translated: the mutating webhook of gpu-admission did '
            "not answer; try again, and tell an admin if it stays"
        ),
    )
    assert verdict.answer().allowed is False
    assert verdict.answer().audit_annotations == {"denied": "left_over"}
    assert judged(admitted(asking("any"))).answer().allowed is True


def test_a_wrong_key_that_is_left_is_told_what_is_wrong() -> None:
    assert reason_of(judged(asking("b200"))) == Reason.UNKNOWN_GPU


WEAKENED: dict[str, Any] = {
    "removed": None,
    "replaced": required(term(("zone", "In", ["a"]))),
    "a term beside": required(term((LABEL, "In", ["NVIDIA-L4"])), term(("zone", "In", ["a"]))),
    "a value more": required(term((LABEL, "In", ["NVIDIA-L4", "NVIDIA-A30"]))),
    "preferred only": {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "preference": term((LABEL, "In", ["NVIDIA-L4"]))}
            ]
        }
    },
}


@pytest.mark.parametrize("case", WEAKENED)
def test_an_affinity_that_another_webhook_weakened_is_refused(case: str) -> None:
    pod = admitted(asking("l4"))
    pod["spec"]["affinity"] = WEAKENED[case]

    assert reason_of(judged(pod)) == Reason.AFFINITY_WEAKENED


def test_an_affinity_that_another_webhook_narrowed_is_fine() -> None:
    pod = admitted(asking("any-24gb"))
    terms = pod["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    terms[0]["matchExpressions"].append({"key": "zone", "operator": "In", "values": ["a"]})

    assert judged(pod) == Allowed()


def test_an_annotation_written_by_hand_is_refused() -> None:
    claim = {"requests": {"train": {"gpu-l4": 1}}, "models": ["l4-24gb"], "generation": "x"}
    honest = a_pod(a_container("train", nvidia="1"))
    for value, reason in (
        (orjson.dumps(claim).decode(), Reason.AFFINITY_WEAKENED),
        (
            orjson.dumps({**claim, "requests": {"train": {"gpu-l4": 2}}}).decode(),
            Reason.ANNOTATION_FORGED,
        ),
        (
            orjson.dumps({**claim, "requests": {"train": {"gpu-mncore": 1}}}).decode(),
            Reason.ANNOTATION_FORGED,
        ),
        (
            orjson.dumps({**claim, "requests": {"train": {"gpu-any-99gb": 1}}}).decode(),
            Reason.ANNOTATION_FORGED,
        ),
        ("nonsense", Reason.ANNOTATION_FORGED),
    ):
        pod = deepcopy(honest)
        pod["metadata"]["annotations"] = {ANNOTATION: value}

        assert reason_of(judged(pod)) == reason


def test_an_annotation_on_a_pod_without_a_gpu_is_refused() -> None:
    pod = a_pod(a_container("train"), metadata={"annotations": {ANNOTATION: "{}"}})

    assert reason_of(judged(pod)) == Reason.ANNOTATION_FORGED


def test_while_a_new_catalogue_reaches_the_replicas_pods_of_the_old_one_pass_with_a_word() -> None:
    """One replica changed the pod, the other, which has read the new file, validates it."""
    until = datetime(2027, 1, 1, tzinfo=UTC)
    newer = catalogue_of(
        models=with_model("a30", exclude_from_any={"reason": "INC-1", "until": until})
    )
    by_the_old = admitted(asking("any-24gb"))

    assert judged(by_the_old, newer) == Allowed(
        ("this pod's GPUs were chosen by another generation of the catalogue",)
    )
    by_the_old["spec"]["affinity"] = required(term(("zone", "In", ["a"])))
    assert reason_of(judged(by_the_old, newer)) == Reason.AFFINITY_WEAKENED


def test_another_generation_is_no_way_around_a_denial_of_raw_gpus() -> None:
    claim = {"requests": {"train": {"gpu-any-99gb": 1}}, "models": ["l4-24gb"], "generation": "x"}
    pod = a_pod(
        a_container("train", nvidia="1"),
        affinity=required(term((LABEL, "In", ["NVIDIA-L4"]))),
        metadata={"annotations": {ANNOTATION: orjson.dumps(claim).decode()}},
    )

    assert reason_of(judged(pod, catalogue_of(defaults={"raw_gpu": "deny"}))) == Reason.RAW_GPU


def test_raw_gpus_are_denied_here_too_where_policy_denies_them() -> None:
    pod = a_pod(a_container("train", nvidia="1"))

    assert judged(pod) == Allowed()
    assert reason_of(judged(pod, catalogue_of(defaults={"raw_gpu": "deny"}))) == Reason.RAW_GPU


@pytest.mark.parametrize(
    ("pod", "namespace"),
    [
        (asking("any"), NamespaceView("kube-system", {})),
        (asking("any", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}), TEAM),
        ({}, TEAM),
        (a_pod(a_container("c", cpu="1")), TEAM),
    ],
)
def test_pods_that_are_none_of_ours_pass(pod: dict[str, Any], namespace: NamespaceView) -> None:
    assert validate_pod(pod, namespace, CLUSTER, NOW) == Allowed()


# Templates.

KINDS = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"]


def workload(kind: str, pod: dict[str, Any]) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {**pod["spec"]}}
    template["spec"].pop("priority", None)
    if kind == "CronJob":
        return {"kind": kind, "spec": {"jobTemplate": {"spec": {"template": template}}}}
    return {"kind": kind, "spec": {"replicas": 1, "template": template}}


def checked(
    kind: str, pod: dict[str, Any], old: dict[str, Any] | None = None, **how: Any
) -> Verdict:
    before = workload(kind, old) if old is not None else None
    catalogue = how.pop("catalogue", CLUSTER)
    return validate_workload(kind, workload(kind, pod), before, TEAM, catalogue, NOW, **how)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_spec_is_refused_where_the_user_looks(kind: str) -> None:
    verdict = checked(kind, asking("a1000"))

    assert isinstance(verdict, Denied)
    assert (verdict.reason, verdict.code) == (Reason.UNKNOWN_GPU, 400)
    assert verdict.text.startswith(f'container "train": unknown GPU "a1000" in {P}a1000')


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_spec_that_was_there_before_is_warned_about_only(kind: str) -> None:
    pod = asking("mem")

    unchanged = checked(kind, pod, pod)

    assert isinstance(unchanged, Allowed)
    assert unchanged.warnings[0].startswith(
        f'its pods would be refused: container "train": {P}mem: "mem" is reserved'
    )
    assert isinstance(checked(kind, pod, asking("any")), Denied)


@pytest.mark.parametrize("kind", [each for each in KINDS if each != "DaemonSet"])
def test_a_good_spec_passes(kind: str) -> None:
    assert checked(kind, asking("a100-80gb")) == Allowed()
    assert checked(kind, a_pod(a_container("c", cpu="1"))) == Allowed()


def test_a_template_says_what_its_pods_will_be_warned_of() -> None:
    assert checked("Deployment", asking("ampere-a100")) == Allowed(
        ("gpu-ampere-a100: use gpu-a100",)
    )
    raw = checked("Job", a_pod(a_container("c", nvidia="1")))
    assert isinstance(raw, Allowed)
    assert f"should not ask for {GPU} directly" in raw.warnings[0]


def test_a_daemonset_is_told_before_it_makes_pods() -> None:
    assert reason_of(checked("DaemonSet", asking("any"))) == Reason.DAEMONSET
    assert checked("Deployment", asking("any")) == Allowed()
    lets = catalogue_of(defaults={"daemonsets": "allow"})
    assert checked("DaemonSet", asking("any"), catalogue=lets) == Allowed()


def test_policies_hold_for_templates() -> None:
    denies = catalogue_of(defaults={"raw_gpu": "deny", "max_gpus_per_pod": 2})

    assert reason_of(checked("Job", asking("any", "3"), catalogue=denies)) == Reason.TOO_MANY_GPUS
    raw = a_pod(a_container("c", nvidia="1"))
    assert reason_of(checked("Job", raw, catalogue=denies)) == Reason.RAW_GPU


def test_a_templates_class_is_that_of_its_priority_class() -> None:
    pod = asking("any", priorityClassName="urgent", nodeSelector={LABEL: "NVIDIA-L4"})
    known = PriorityClasses({"urgent": 5000})

    assert reason_of(checked("Job", pod, priorities=known)) == Reason.PINNED_ELSEWHERE
    assert checked("Job", pod) == Allowed()


@pytest.mark.parametrize(
    ("kind", "whole"),
    [
        ("Secret", workload("Deployment", asking("a1000"))),
        ("Deployment", {}),
        ("Deployment", {"spec": {"template": None}}),
        ("CronJob", workload("Deployment", asking("a1000"))),
    ],
)
def test_what_has_no_template_passes(kind: str, whole: dict[str, Any]) -> None:
    assert validate_workload(kind, whole, None, TEAM, CLUSTER, NOW) == Allowed()


def test_templates_in_the_systems_namespaces_pass() -> None:
    bad = workload("Deployment", asking("a1000"))

    verdict = validate_workload(
        "Deployment", bad, None, NamespaceView("kube-system", {}), CLUSTER, NOW
    )

    assert verdict == Allowed()
