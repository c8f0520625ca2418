"""Writes to the sandbox Kubernetes: versions, patches, apply, deletion, dry runs, custom resources."""

import threading
from typing import Any

import pytest

from sandbox.kubernetes_server import SandboxKubernetes
from tests.sandbox.kubernetes_calls import MAPS, MERGE, NODES, PODS, a_map, a_pod, ask, bare, made

__all__ = ["bare"]  # a fixture, asked for by name
APPLY = "application/apply-patch+yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.dev/v1/things"


def a_definition() -> dict[str, Any]:
    properties = {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "maximum": 9}}},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    names = {"plural": "things", "kind": "Thing"}
    return {
        "metadata": {"name": "things.example.dev"},
        "spec": {"group": "example.dev", "scope": "Cluster", "names": names, "versions": [version]},
    }


def a_thing(name: str = "one", **parts: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.dev/v1",
        "kind": "Thing",
        "metadata": {"name": name},
        **parts,
    }


def test_a_stale_version_is_a_conflict(bare: SandboxKubernetes) -> None:
    stale = made(bare, MAPS, a_map("a"))
    ask(bare, "PATCH", f"{MAPS}/a", {"data": {"x": "1"}}, kind=MERGE)

    answer = ask(bare, "PUT", f"{MAPS}/a", stale)

    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
    assert bare.object("configmaps", "a", "default")["data"] == {"x": "1"}


def test_concurrent_patches_without_a_version_all_arrive(bare: SandboxKubernetes) -> None:
    made(bare, MAPS, a_map("a"))

    def patch(number: int) -> None:
        ask(bare, "PATCH", f"{MAPS}/a", {"data": {f"k{number}": "x"}}, kind=MERGE)

    threads = [threading.Thread(target=patch, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert set(bare.object("configmaps", "a", "default")["data"]) == {f"k{n}" for n in range(8)}


def test_a_name_is_made_once_and_generated_names_differ(bare: SandboxKubernetes) -> None:
    made(bare, MAPS, a_map("a"))
    body = {"metadata": {"generateName": "g-"}}

    again = ask(bare, "POST", MAPS, a_map("a"))

    assert (again.status_code, again.json()["reason"]) == (409, "AlreadyExists")
    assert len({made(bare, MAPS, body)["metadata"]["name"] for _ in range(3)}) == 3


def test_a_dry_run_leaves_nothing(bare: SandboxKubernetes) -> None:
    made(bare, MAPS, a_map("kept"))

    assert ask(bare, "POST", MAPS, a_map("a"), dryRun="All").status_code == 201
    assert ask(bare, "DELETE", f"{MAPS}/kept", dryRun="All").status_code == 200
    assert ask(bare, "DELETE", f"{MAPS}/kept", {"dryRun": ["All"]}).status_code == 200
    assert [each["metadata"]["name"] for each in bare.objects("configmaps")] == ["kept"]


def test_apply_makes_and_then_merges(bare: SandboxKubernetes) -> None:
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    first = ask(
        bare, "PATCH", f"{MAPS}/a", {**head, "data": {"x": "1"}}, kind=APPLY, fieldManager="t"
    )
    second = ask(
        bare, "PATCH", f"{MAPS}/a", {**head, "data": {"y": "2"}}, kind=APPLY, fieldManager="t"
    )

    assert (first.status_code, second.status_code) == (201, 200)
    assert second.json()["data"] == {"x": "1", "y": "2"}
    assert ask(bare, "PATCH", f"{MAPS}/a", head, kind=APPLY).status_code == 400


def test_a_status_write_changes_nothing_else(bare: SandboxKubernetes) -> None:
    bare.add_nodes(1)
    body = {"spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "3"}}}

    ask(bare, "PATCH", f"{NODES}/node-00000/status", body, kind=MERGE)
    node = bare.object("nodes", "node-00000")
    assert ("unschedulable" in node["spec"], node["status"]["capacity"]["cpu"]) == (False, "3")

    ask(bare, "PATCH", f"{NODES}/node-00000", {**body, "status": {"capacity": {}}}, kind=MERGE)
    node = bare.object("nodes", "node-00000")
    assert (node["spec"]["unschedulable"], node["status"]["capacity"]["cpu"]) == (True, "3")


@pytest.mark.parametrize("part", ["uid", "resourceVersion"])
def test_a_deletion_for_another_object_is_a_conflict(bare: SandboxKubernetes, part: str) -> None:
    made(bare, MAPS, a_map("a"))

    answer = ask(bare, "DELETE", f"{MAPS}/a", {"preconditions": {part: "77"}})

    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
    assert bare.object("configmaps", "a", "default") is not None


def test_a_finalizer_holds_an_object_until_it_is_taken_off(bare: SandboxKubernetes) -> None:
    body = a_map("a")
    body["metadata"]["finalizers"] = ["example.dev/hold"]
    made(bare, MAPS, body)

    assert "deletionTimestamp" in ask(bare, "DELETE", f"{MAPS}/a").json()["metadata"]
    assert bare.object("configmaps", "a", "default") is not None
    ask(bare, "PATCH", f"{MAPS}/a", {"metadata": {"finalizers": None}}, kind=MERGE)

    assert bare.object("configmaps", "a", "default") is None


def test_a_pod_on_a_node_stays_terminating_until_its_grace_is_zero(bare: SandboxKubernetes) -> None:
    made(bare, PODS, a_pod("p", nodeName="n"))

    ask(bare, "DELETE", f"{PODS}/p")
    assert bare.object("pods", "p", "default")["metadata"]["deletionGracePeriodSeconds"] == 30
    ask(bare, "DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})

    assert bare.object("pods", "p", "default") is None


def test_a_collection_is_deleted_by_selector(bare: SandboxKubernetes) -> None:
    made(bare, MAPS, a_map("a", {"team": "red"}))
    made(bare, MAPS, a_map("b"))

    ask(bare, "DELETE", MAPS, labelSelector="team=red")

    assert [each["metadata"]["name"] for each in bare.objects("configmaps")] == ["b"]


def test_a_namespace_that_is_not_there_takes_nothing(bare: SandboxKubernetes) -> None:
    answer = ask(bare, "POST", "/api/v1/namespaces/none/configmaps", a_map("a"))

    assert (answer.status_code, answer.json()["message"]) == (404, 'namespaces "none" not found')


def test_an_invalid_object_is_told_field_by_field(bare: SandboxKubernetes) -> None:
    answer = ask(bare, "POST", MAPS, a_map("Not_A_Name"))

    assert answer.status_code == 422
    assert [each["field"] for each in answer.json()["details"]["causes"]] == ["metadata.name"]


@pytest.mark.parametrize(
    ("body", "code"),
    [("{", 400), ("[]", 400), ('{"kind": "Pod", "metadata": {"name": "a"}}', 400)],
    ids=["no JSON", "no object", "another kind"],
)
def test_a_body_that_is_no_object_of_the_kind_is_refused(
    bare: SandboxKubernetes, body: str, code: int
) -> None:
    import requests  # noqa: PLC0415  (raw bytes, which `ask` would encode)

    answer = requests.post(bare.url + MAPS, data=body, timeout=20)

    assert answer.status_code == code


def test_a_custom_resource_is_served_as_soon_as_it_is_defined(bare: SandboxKubernetes) -> None:
    definition = made(bare, CRDS, a_definition())
    made(bare, THINGS, a_thing(spec={"size": 3}, status={"phase": "dropped"}))

    ask(bare, "PATCH", f"{THINGS}/one/status", {"status": {"phase": "Up"}}, kind=MERGE)

    conditions = {each["type"]: each["status"] for each in definition["status"]["conditions"]}
    assert conditions["Established"] == "True"
    thing = ask(bare, "GET", f"{THINGS}/one").json()
    assert (thing["spec"], thing["status"]) == ({"size": 3}, {"phase": "Up"})
    assert thing["metadata"]["generation"] == 1


def test_a_custom_resource_must_fit_its_schema(bare: SandboxKubernetes) -> None:
    made(bare, CRDS, a_definition())

    answer = ask(bare, "POST", THINGS, a_thing(spec={"size": 10}))

    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")


@pytest.mark.parametrize(
    ("checking", "code", "warning"),
    [
        ("Strict", 400, None),
        ("Warn", 201, '299 - "unknown field \\"spec.colour\\""'),
        ("Ignore", 201, None),
    ],
)
def test_unknown_fields_are_told_as_the_client_wants(
    bare: SandboxKubernetes, checking: str, code: int, warning: str | None
) -> None:
    made(bare, CRDS, a_definition())

    answer = ask(bare, "POST", THINGS, a_thing(spec={"colour": "red"}), fieldValidation=checking)

    assert (answer.status_code, answer.headers.get("Warning")) == (code, warning)


def test_a_definition_takes_its_objects_with_it(bare: SandboxKubernetes) -> None:
    made(bare, CRDS, a_definition())
    made(bare, THINGS, a_thing())

    ask(bare, "DELETE", f"{CRDS}/things.example.dev")
    assert ask(bare, "GET", THINGS).status_code == 404
    made(bare, CRDS, a_definition())

    assert ask(bare, "GET", THINGS).json()["items"] == []
