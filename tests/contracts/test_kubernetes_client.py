"""The verbs mean the same on the embedded and on the real API: conflicts, patches, evictions, pages."""

import threading
from datetime import timedelta
from typing import Any

import pytest

from chassis.kube_client import (
    CONFIG_MAPS,
    NODES,
    PDBS,
    PODS,
    AlreadyExists,
    Conflict,
    EvictionRefused,
    Invalid,
    KubeClient,
    NotFound,
    PatchKind,
    Unavailable,
)
from tests.contracts.kubernetes_peers import (
    KubernetesPeer,
    a_config_map,
    a_node,
    a_pod,
    wait_for,
)


def test_what_is_created_can_be_read_and_is_gone_once_deleted(kube: KubeClient) -> None:
    made = kube.create(CONFIG_MAPS, a_config_map("life", a="1"))

    assert kube.get(CONFIG_MAPS, "life", "default")["data"] == {"a": "1"}
    assert made["metadata"]["uid"]
    kube.delete(CONFIG_MAPS, "life", "default")
    with pytest.raises(NotFound) as caught:
        kube.get(CONFIG_MAPS, "life", "default")
    assert (caught.value.status, caught.value.reason) == (404, "NotFound")


def test_a_name_is_given_once(kube: KubeClient) -> None:
    kube.create(CONFIG_MAPS, a_config_map("once"))

    with pytest.raises(AlreadyExists):
        kube.create(CONFIG_MAPS, a_config_map("once"))


def test_a_generated_name_starts_as_asked(kube: KubeClient) -> None:
    body = a_config_map("x")
    body["metadata"] = {"generateName": "made-", "namespace": "default"}

    assert kube.create(CONFIG_MAPS, body)["metadata"]["name"].startswith("made-")


def test_an_object_that_breaks_the_rules_is_invalid(kube: KubeClient) -> None:
    with pytest.raises(Invalid) as caught:
        kube.create(CONFIG_MAPS, a_config_map("Not A Name"))
    assert caught.value.status == 422


def test_replacing_an_object_that_has_changed_since_is_a_conflict(kube: KubeClient) -> None:
    first = kube.create(CONFIG_MAPS, a_config_map("race", a="1"))
    kube.replace(CONFIG_MAPS, {**first, "data": {"a": "2"}})

    with pytest.raises(Conflict):
        kube.replace(CONFIG_MAPS, {**first, "data": {"a": "3"}})
    assert kube.get(CONFIG_MAPS, "race", "default")["data"] == {"a": "2"}


def test_a_patch_that_names_an_old_version_is_a_conflict(kube: KubeClient) -> None:
    old = kube.create(CONFIG_MAPS, a_config_map("patch-race"))["metadata"]["resourceVersion"]
    kube.patch(CONFIG_MAPS, "patch-race", {"data": {"a": "1"}}, "default")

    with pytest.raises(Conflict):
        kube.patch(
            CONFIG_MAPS,
            "patch-race",
            {"metadata": {"resourceVersion": old}, "data": {"a": "2"}},
            "default",
        )


def test_deleting_another_object_of_the_same_name_is_a_conflict(kube: KubeClient) -> None:
    kube.create(CONFIG_MAPS, a_config_map("same-name"))

    with pytest.raises(Conflict):
        kube.delete(CONFIG_MAPS, "same-name", "default", uid="00000000-0000-0000-0000-000000000000")
    assert kube.get(CONFIG_MAPS, "same-name", "default")


def test_a_dry_run_stores_nothing(kube: KubeClient) -> None:
    kube.create(CONFIG_MAPS, a_config_map("dry"), dry_run=True)

    with pytest.raises(NotFound):
        kube.get(CONFIG_MAPS, "dry", "default")


CONDITION = {"type": "GPUIsLost", "status": "True", "reason": "GPUIsLost", "message": "gone"}


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        (PatchKind.MERGE, {"data": {"a": None, "b": "2"}}, {"b": "2"}),
        (PatchKind.STRATEGIC, {"data": {"b": "2"}}, {"a": "1", "b": "2"}),
        (PatchKind.STRATEGIC, {"data": {"b": "2", "$patch": "replace"}}, {"b": "2"}),
        (PatchKind.JSON, [{"op": "replace", "path": "/data/a", "value": "9"}], {"a": "9"}),
    ],
    ids=["merge removes on null", "strategic adds", "strategic replaces", "JSON replaces"],
)
def test_each_kind_of_patch_does_what_it_says(
    kube: KubeClient, kind: PatchKind, body: Any, expected: dict[str, str]
) -> None:
    made = kube.create(
        CONFIG_MAPS,
        {
            **a_config_map("x", a="1"),
            "metadata": {"generateName": "patched-", "namespace": "default"},
        },
    )
    name = made["metadata"]["name"]

    assert kube.patch(CONFIG_MAPS, name, body, "default", kind=kind)["data"] == expected


def test_a_json_patch_whose_test_fails_is_invalid_and_changes_nothing(kube: KubeClient) -> None:
    kube.create(CONFIG_MAPS, a_config_map("tested", a="1"))
    steps = [
        {"op": "test", "path": "/data/a", "value": "2"},
        {"op": "replace", "path": "/data/a", "value": "3"},
    ]

    with pytest.raises(Invalid):
        kube.patch(CONFIG_MAPS, "tested", steps, "default", kind=PatchKind.JSON)
    assert kube.get(CONFIG_MAPS, "tested", "default")["data"] == {"a": "1"}


def test_conditions_merge_by_type_under_a_strategic_patch_of_the_status(kube: KubeClient) -> None:
    kube.create(NODES, a_node("conditions"))
    for kind in ("GPUIsLost", "PCIeLinkDegraded"):
        condition = {**CONDITION, "type": kind}
        kube.patch(
            NODES, "conditions", {"status": {"conditions": [condition]}}, subresource="status"
        )

    found = kube.get(NODES, "conditions")["status"]["conditions"]

    assert {each["type"] for each in found} == {"GPUIsLost", "PCIeLinkDegraded"}


def add_taint(kube: KubeClient, node: str, key: str) -> None:
    """Read, modify, write: what a taint's owner has to do, as the list is one value."""
    while True:
        found = kube.get(NODES, node)
        taints = [
            *(found["spec"].get("taints") or []),
            {"key": key, "effect": "NoSchedule"},
        ]
        version = found["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}
        try:
            kube.patch(NODES, node, body)
        except Conflict:
            continue
        return


def test_taints_that_are_added_at_the_same_time_are_all_kept(kube: KubeClient) -> None:
    kube.create(NODES, a_node("tainted"))
    threads = [
        threading.Thread(target=add_taint, args=(kube, "tainted", f"test/{number}"))
        for number in range(6)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(20)

    keys = {each["key"] for each in kube.get(NODES, "tainted")["spec"]["taints"]}

    assert {f"test/{number}" for number in range(6)} <= keys


def test_a_strategic_patch_without_the_other_taints_loses_them(kube: KubeClient) -> None:
    kube.create(NODES, a_node("atomic"))
    for key in ("test/one", "test/two"):
        taints = [{"key": key, "effect": "NoSchedule"}]
        kube.patch(NODES, "atomic", {"spec": {"taints": taints}})

    assert [each["key"] for each in kube.get(NODES, "atomic")["spec"]["taints"]] == ["test/two"]


def test_a_list_is_whole_whatever_the_page_size(kube: KubeClient) -> None:
    for number in range(7):
        kube.create(NODES, a_node(f"page-{number}", paged="yes"))

    found = kube.list(NODES, label_selector="paged=yes", limit=3)

    assert sorted(each["metadata"]["name"] for each in found.items) == [
        f"page-{number}" for number in range(7)
    ]
    assert found.resource_version
    pages = [*kube.pages(NODES, params={"labelSelector": "paged=yes"}, limit=3)]
    assert [len(page.items) for page in pages] == [3, 3, 1]


def test_a_field_selector_chooses_one(kube: KubeClient) -> None:
    for name in ("field-a", "field-b"):
        kube.create(NODES, a_node(name))

    found = kube.list(NODES, field_selector="metadata.name=field-b").items

    assert [each["metadata"]["name"] for each in found] == ["field-b"]


def a_running_pod(kube: KubeClient, name: str) -> dict[str, Any]:
    kube.create(NODES, a_node(f"node-of-{name}"))
    body = a_pod(name, app=name)
    body["spec"] |= {"nodeName": f"node-of-{name}"}
    kube.create(PODS, body)
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"phase": "Running", "conditions": conditions}
    return kube.patch(PODS, name, {"status": status}, "default", subresource="status")


def guard(kube: KubeClient, name: str) -> None:
    """A budget that lets no pod of the app go, once the controller has counted."""
    selector = {"matchLabels": {"app": name}}
    kube.create(
        PDBS,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": selector},
        },
    )
    wait_for(
        lambda: kube.get(PDBS, name, "default").get("status", {}).get("currentHealthy") == 1,
        "the budget counts the pod",
    )


def test_an_eviction_that_a_budget_forbids_is_told_from_throttling(kube: KubeClient) -> None:
    a_running_pod(kube, "guarded")
    guard(kube, "guarded")

    with pytest.raises(EvictionRefused) as caught:
        kube.evict("guarded", "default")
    assert caught.value.status == 429
    assert "deletionTimestamp" not in kube.get(PODS, "guarded", "default")["metadata"]


def test_a_pod_without_a_budget_is_evicted(kube: KubeClient) -> None:
    uid = a_running_pod(kube, "evicted")["metadata"]["uid"]

    kube.evict("evicted", "default", uid=uid, dry_run=True)
    assert "deletionTimestamp" not in kube.get(PODS, "evicted", "default")["metadata"]
    kube.evict("evicted", "default", uid=uid, grace_seconds=0)

    with pytest.raises(NotFound):
        kube.get(PODS, "evicted", "default")
    with pytest.raises(NotFound):
        kube.evict("evicted", "default")


def test_another_pod_of_the_same_name_is_not_evicted(kube: KubeClient) -> None:
    a_running_pod(kube, "namesake")

    with pytest.raises(Conflict):
        kube.evict("namesake", "default", uid="00000000-0000-0000-0000-000000000000")
    assert "deletionTimestamp" not in kube.get(PODS, "namesake", "default")["metadata"]


def test_a_server_that_is_away_or_silent_is_unavailable_and_a_write_may_have_happened(
    kubernetes_peer: KubernetesPeer, kube: KubeClient
) -> None:
    kube.create(CONFIG_MAPS, a_config_map("silent"))
    kubernetes_peer.pause()
    try:
        with pytest.raises(Unavailable) as silent:
            kube.patch(
                CONFIG_MAPS,
                "silent",
                {"data": {"a": "1"}},
                "default",
                timeout=timedelta(milliseconds=300),
            )
    finally:
        kubernetes_peer.resume()
    kubernetes_peer.kill()
    try:
        other = kubernetes_peer.client()
        with pytest.raises(Unavailable) as away:
            other.patch(CONFIG_MAPS, "silent", {"data": {"a": "2"}}, "default")
    finally:
        kubernetes_peer.restart()

    assert (silent.value.may_have_happened, away.value.may_have_happened) == (True, False)
    assert kube.get(CONFIG_MAPS, "silent", "default")
