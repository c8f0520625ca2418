"""Lists and watches of the sandbox Kubernetes: pages, versions, selectors, bookmarks, and what history forgets."""

import pytest

from sandbox.kubernetes_server import SandboxKubernetes
from tests.sandbox.kubernetes_calls import MAPS, MERGE, NODES, Watch, a_map, ask, bare, made

__all__ = ["bare"]  # a fixture, asked for by name


def names(answer: dict) -> list[str]:
    return [each["metadata"]["name"] for each in answer["items"]]


def test_pages_together_are_the_list_as_it_was_at_its_first_page(bare: SandboxKubernetes) -> None:
    bare.add_nodes(5)
    first = ask(bare, "GET", NODES, limit=2).json()
    ask(bare, "DELETE", f"{NODES}/node-00004")
    bare.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-00002-late"}})

    found, page = names(first), first
    while page["metadata"].get("continue"):
        page = ask(bare, "GET", NODES, limit=2, **{"continue": page["metadata"]["continue"]}).json()
        found += names(page)

    assert found == [f"node-0000{number}" for number in range(5)]
    assert first["metadata"]["remainingItemCount"] == 3
    assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_list_cannot_be_continued_once_its_version_is_forgotten(bare: SandboxKubernetes) -> None:
    bare.add_nodes(3)
    token = ask(bare, "GET", NODES, limit=1).json()["metadata"]["continue"]

    bare.control.expire_watches()

    answer = ask(bare, "GET", NODES, limit=1, **{"continue": token})
    assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")


def test_a_watch_tells_what_changes_after_the_list(bare: SandboxKubernetes) -> None:
    version = ask(bare, "GET", MAPS).json()["metadata"]["resourceVersion"]
    made(bare, MAPS, a_map("a"))
    with Watch(bare, MAPS, resourceVersion=version) as watch:
        ask(bare, "PATCH", f"{MAPS}/a", {"data": {"x": "1"}}, kind=MERGE)
        ask(bare, "DELETE", f"{MAPS}/a")
        events = [watch.next() for _ in range(3)]

    assert [(kind, name) for kind, name, _ in events] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
    ]
    versions = [int(body["metadata"]["resourceVersion"]) for *_, body in events]
    assert versions == sorted(set(versions))
    assert events[2][2]["data"] == {"x": "1"}


def test_a_write_that_changes_nothing_is_no_event(bare: SandboxKubernetes) -> None:
    before = made(bare, MAPS, a_map("a", x="1"))

    after = ask(bare, "PATCH", f"{MAPS}/a", {"data": {"x": "1"}}, kind=MERGE).json()

    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


def test_an_object_that_leaves_the_selector_is_deleted_to_the_watch(
    bare: SandboxKubernetes,
) -> None:
    with Watch(bare, MAPS, labelSelector="team=red") as watch:
        made(bare, MAPS, a_map("other", {"team": "blue"}))
        made(bare, MAPS, a_map("a", {"team": "red"}))
        for team in ("blue", "red"):
            labels = {"metadata": {"labels": {"team": team}}}
            ask(bare, "PATCH", f"{MAPS}/a", labels, kind=MERGE)
        added, gone, back = (watch.next() for _ in range(3))

    assert [added[:2], gone[:2], back[:2]] == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]
    assert gone[2]["metadata"]["labels"] == {"team": "red"}
    assert int(gone[2]["metadata"]["resourceVersion"]) > int(
        added[2]["metadata"]["resourceVersion"]
    )


def test_a_field_selector_picks_one_object_of_a_watch(bare: SandboxKubernetes) -> None:
    with Watch(bare, MAPS, fieldSelector="metadata.name=b") as watch:
        made(bare, MAPS, a_map("a"))
        made(bare, MAPS, a_map("b"))

        assert watch.next()[:2] == ("ADDED", "b")


def test_a_watch_from_a_version_that_is_forgotten_gets_410(bare: SandboxKubernetes) -> None:
    version = made(bare, MAPS, a_map("a"))["metadata"]["resourceVersion"]
    bare.control.expire_watches()

    answer = ask(bare, "GET", MAPS, watch="1", resourceVersion=version)

    assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")
    assert answer.json()["message"].startswith(f"too old resource version: {version} (")


def test_an_open_watch_is_told_that_its_version_expired(bare: SandboxKubernetes) -> None:
    with Watch(bare, MAPS) as watch:
        bare.control.expire_watches()
        kind, _, status = watch.next()

        assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
        with pytest.raises(StopIteration):
            watch.next()


def test_more_changes_than_the_history_holds_make_a_start_too_old() -> None:
    with SandboxKubernetes(controllers=False, scheduler=False, history=3) as bare:
        first = made(bare, MAPS, a_map("a"))["metadata"]["resourceVersion"]
        with Watch(bare, MAPS, resourceVersion=first) as open_watch:
            for number in range(5):
                made(bare, MAPS, a_map(f"b{number}"))

            assert open_watch.kinds(5)[-1] == ("ADDED", "b4")
            assert ask(bare, "GET", MAPS, watch="1", resourceVersion=first).status_code == 410


def test_initial_events_end_with_an_annotated_bookmark(bare: SandboxKubernetes) -> None:
    made(bare, MAPS, a_map("a"))
    wanted = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    with Watch(bare, MAPS, **wanted) as watch:
        assert watch.next()[:2] == ("ADDED", "a")
        kind, _, body = watch.next()

    assert kind == "BOOKMARK"
    assert body["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_watch_ends_at_its_timeout_with_a_bookmark(bare: SandboxKubernetes) -> None:
    with Watch(bare, MAPS, timeoutSeconds="1", allowWatchBookmarks="true") as watch:
        version = bare.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        kind, _, body = watch.next()

        assert kind == "BOOKMARK"
        assert body["metadata"]["resourceVersion"] == version["metadata"]["resourceVersion"]
        with pytest.raises(StopIteration):
            watch.next()


def test_bookmarks_come_at_their_interval() -> None:
    with (
        SandboxKubernetes(controllers=False, scheduler=False, bookmark_seconds=0.05) as bare,
        Watch(bare, MAPS, allowWatchBookmarks="true") as watch,
    ):
        assert watch.next()[0] == "BOOKMARK"


def test_a_version_from_the_future_is_refused_as_too_large(bare: SandboxKubernetes) -> None:
    answer = ask(bare, "GET", MAPS, resourceVersion="999999")

    assert answer.status_code == 504
    assert answer.json()["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


def test_an_exact_version_is_the_list_of_then(bare: SandboxKubernetes) -> None:
    version = made(bare, MAPS, a_map("a"))["metadata"]["resourceVersion"]
    ask(bare, "DELETE", f"{MAPS}/a")

    then = ask(bare, "GET", MAPS, resourceVersion=version, resourceVersionMatch="Exact").json()

    assert (names(then), then["metadata"]["resourceVersion"]) == (["a"], version)
    assert names(ask(bare, "GET", MAPS).json()) == []


@pytest.mark.parametrize(
    "path", ["/api/v1/nope", "/apis/nope.dev/v1/things", "/api/v1/namespaces/default/nodes", "/x"]
)
def test_what_is_not_served_is_not_found(bare: SandboxKubernetes, path: str) -> None:
    assert ask(bare, "GET", path).status_code == 404


def test_health_version_and_discovery_answer(bare: SandboxKubernetes) -> None:
    assert [ask(bare, "GET", path).text for path in ("/healthz", "/livez", "/readyz")] == ["ok"] * 3
    assert ask(bare, "GET", "/version").json()["major"] == "1"
    assert "pods/eviction" in {
        each["name"] for each in ask(bare, "GET", "/api/v1").json()["resources"]
    }
