"""The whole life of an issue, judged by what stands on GitHub at the end and by GitHub's own log."""

import hashlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from alerts2gh.incident import Target, incident_id
from sandbox.github_server import Fault, FaultKind
from tests.alerts2gh.world import FALLBACK, HOME, NOON, OTHER, World, a_world, alert, webhook

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
QUIET = 16 * MINUTE
Make = Callable[..., World]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    worlds = []

    def one(**config: object) -> World:
        manager = a_world(tmp_path, **config)  # type: ignore[arg-type]
        worlds.append(manager)
        return manager.__enter__()

    yield one
    for manager in worlds:
        manager.__exit__(None, None, None)


@pytest.fixture
def world(make: Make) -> World:
    return make()


def refusal(
    method: str, path: str, *, status: int = 422, message: str = "no", count: int | None = None
) -> Fault:
    return Fault(
        FaultKind.ERROR, method=method, path=path, status=status, message=message, count=count
    )


def fire(world: World, *nodes: str) -> None:
    """New episodes of these nodes."""
    world.deliver(*(alert(node, starts_at=world.clock.at) for node in nodes or ("gpu-n1",)))


def resolve(world: World, *nodes: str) -> None:
    """The end of the present episodes of these nodes."""
    starts = {m.labels["node"]: m.starts_at for m in world.incident().members.values()}
    chosen = nodes or tuple(starts)
    world.deliver(*(alert(node, firing=False, starts_at=starts[node]) for node in chosen))


def pass_by(world: World, *nodes: str) -> None:
    """A whole episode, up to the close."""
    fire(world, *nodes)
    world.advance(3 * MINUTE)
    resolve(world)
    world.advance(QUIET)


# Opening, closing, reopening.


def test_an_alert_opens_an_issue_closes_it_after_the_quiet_period_and_reopens_it(
    world: World,
) -> None:
    fire(world)
    assert world.states() == ["open"]
    world.advance(3 * MINUTE)
    resolve(world)
    world.advance(14 * MINUTE)
    assert world.states() == ["open"]
    world.advance(2 * MINUTE)
    assert world.states() == ["closed"]
    assert (world.issue().state_reason, world.issue().closed_by) == ("completed", "nodemend-bot")
    fire(world)
    assert world.states() == ["open"]
    assert len(world.effects("POST", "/issues")) == 1


def test_firing_again_in_the_quiet_period_cancels_the_close(world: World) -> None:
    fire(world)
    world.advance(3 * MINUTE)
    resolve(world)
    world.advance(10 * MINUTE)
    fire(world)
    world.advance(DAY)
    assert world.states() == ["open"]
    assert not [e for e in world.effects("PATCH") if e.fields.get("state") == "closed"]


def test_it_closes_only_when_every_member_has_resolved(world: World) -> None:
    fire(world, "gpu-n1", "gpu-n2")
    world.advance(3 * MINUTE)
    resolve(world, "gpu-n1")
    world.advance(DAY)
    assert world.states() == ["open"]
    resolve(world, "gpu-n2")
    world.advance(QUIET)
    assert world.states() == ["closed"]


def test_after_the_reopen_window_a_new_issue_links_to_the_old_one(world: World) -> None:
    pass_by(world)
    world.advance(8 * DAY)
    fire(world)
    assert world.states() == ["closed", "open"]
    assert f"/{HOME}/issues/1" in (world.issue(2).body or "")


def test_what_was_only_ever_resolved_makes_no_issue(world: World) -> None:
    world.deliver(alert(firing=False))
    world.advance(DAY)
    assert world.issues() == []
    assert world.effects() == []


def test_a_repeat_is_no_news(world: World) -> None:
    world.deliver(alert())
    before = len(world.github.log())
    for _ in range(3):
        world.advance(4 * HOUR)
        world.deliver(alert())
    assert len(world.github.log()) == before


def test_transitions_are_told_in_comments_each_once(world: World) -> None:
    fire(world, "gpu-n1")
    world.advance(MINUTE)
    fire(world, "gpu-n2")
    world.advance(3 * MINUTE)
    resolve(world)
    texts = [comment.body for comment in world.comments()]
    assert len(texts) == 2
    assert "gpu-n2" in texts[0]
    assert "gpu-n1" not in texts[0].split("| Summary |")[-1]
    assert "All alerts are resolved" in texts[1]


def test_no_comments_where_the_policy_wants_none(make: Make) -> None:
    world = make(policy={"comment_on": "nothing"})
    fire(world, "gpu-n1")
    world.advance(MINUTE)
    fire(world, "gpu-n2")
    pass_by(world)
    assert world.comments() == []
    assert "gpu-n2" in (world.issue().body or "")


def test_a_truncated_delivery_does_not_close_and_a_later_whole_one_does(world: World) -> None:
    fire(world)
    world.advance(3 * MINUTE)
    world.deliver(alert(firing=False), truncated=2)
    world.advance(DAY)
    assert world.states() == ["open"]
    world.deliver(alert(firing=False))
    world.advance(QUIET)
    assert world.states() == ["closed"]


def test_auto_close_switched_off_leaves_it_open(make: Make) -> None:
    world = make(policy={"auto_close": False})
    pass_by(world)
    world.advance(DAY)
    assert world.states() == ["open"]


# What people do.


def test_what_a_person_wrote_labelled_and_renamed_survives_every_change(world: World) -> None:
    fire(world)
    body = world.issue().body or ""
    human = world.human
    human.edit(HOME, 1, title="my own title", body=f"{body}\n\nI am on it.\n- [x] looked")
    human.label(HOME, 1, "hardware")
    human.assign(HOME, 1, "bob")
    world.advance(3 * MINUTE)
    fire(world, "gpu-n1", "gpu-n2")
    resolve(world)
    world.advance(QUIET)
    fire(world)
    issue = world.issue()
    assert issue.title == "my own title"
    assert (issue.body or "").endswith("\n\nI am on it.\n- [x] looked")
    assert "gpu-n2" in (issue.body or "")
    assert {"hardware", "alerts2gh"} <= set(issue.labels)
    assert issue.assignees == ("bob",)


def test_closed_as_completed_while_firing_it_stays_closed_until_a_new_episode(
    world: World,
) -> None:
    fire(world)
    world.advance(MINUTE)
    world.human.close(HOME, 1)
    world.advance(MINUTE)
    world.deliver(alert(starts_at=NOON))
    world.advance(DAY)
    assert world.states() == ["closed"]
    resolve(world)
    world.advance(HOUR)
    fire(world)
    assert world.states() == ["open"]
    assert world.issue().number == 1


def test_closed_while_firing_it_reopens_by_policy(make: Make) -> None:
    world = make(policy={"closed_while_firing": "reopen"})
    fire(world)
    world.advance(MINUTE)
    world.human.close(HOME, 1)
    world.advance(11 * MINUTE)
    assert world.states() == ["open"]


def test_what_a_person_closed_after_it_resolved_is_not_touched_again(world: World) -> None:
    fire(world)
    world.advance(3 * MINUTE)
    resolve(world)
    world.human.close(HOME, 1, "not_planned")
    changes = len(world.effects())
    world.advance(DAY)
    assert (world.issue().state_reason, world.issue().closed_by) == ("not_planned", "alice")
    assert len(world.effects()) == changes


@pytest.mark.parametrize("reason", ["not_planned", "duplicate"])
@pytest.mark.parametrize("comment_on", ["transitions", "nothing"])
def test_refused_by_a_person_it_is_quiet_for_the_members_it_had(
    make: Make, reason: str, comment_on: str
) -> None:
    world = make(policy={"comment_on": comment_on})
    fire(world)
    world.advance(MINUTE)
    world.human.close(HOME, 1, reason)
    world.advance(3 * MINUTE)
    resolve(world)
    world.advance(HOUR)
    fire(world)
    world.advance(DAY)
    assert world.states() == ["closed"]
    fire(world, "gpu-n1", "gpu-n9")
    assert world.states() == ["closed", "open"]
    assert f"/{HOME}/issues/1" in (world.issue(2).body or "")


def test_not_planned_is_over_after_suppress_for(make: Make) -> None:
    world = make(policy={"suppress_for": "2d"})
    fire(world)
    world.advance(MINUTE)
    world.human.close(HOME, 1, "not_planned")
    world.advance(HOUR)
    fire(world)
    world.advance(DAY)
    assert world.states() == ["closed"]
    world.advance(DAY)
    assert world.states() == ["closed", "open"]


def test_the_keep_open_label_keeps_it_open_until_it_is_taken_off(world: World) -> None:
    fire(world)
    world.human.label(HOME, 1, "keep-open")
    world.advance(3 * MINUTE)
    resolve(world)
    world.advance(DAY)
    assert world.states() == ["open"]
    world.human.unlabel(HOME, 1, "keep-open")
    world.advance(2 * HOUR)
    assert world.states() == ["closed"]


def test_the_keep_open_annotation_keeps_it_open(world: World) -> None:
    keep = {"summary": "s", "nodemend.dev/keep-open": "true"}
    world.deliver(alert(annotations=keep))
    world.advance(3 * MINUTE)
    world.deliver(alert(firing=False, annotations=keep))
    world.advance(DAY)
    assert world.states() == ["open"]


def test_a_person_who_reopened_it_finds_it_open(world: World) -> None:
    pass_by(world)
    world.human.reopen(HOME, 1)
    world.advance(DAY)
    assert world.states() == ["open"]


# Flapping.


def test_flapping_is_labelled_and_silent_and_ends(world: World) -> None:
    for _ in range(4):
        fire(world)
        world.advance(4 * MINUTE)
        resolve(world)
        world.advance(4 * MINUTE)
    said = len(world.comments())
    assert "flapping" in world.issue().labels
    fire(world)
    world.advance(4 * MINUTE)
    resolve(world)
    world.advance(20 * MINUTE)
    assert len(world.comments()) == said
    assert world.states() == ["open"]
    world.advance(2 * HOUR)
    assert "flapping" not in world.issue().labels
    assert world.states() == ["closed"]
    assert len(world.comments()) == said + 1


def test_a_flapping_label_that_github_does_not_take_holds_up_nothing(world: World) -> None:
    world.github.state.faults.add(refusal("POST", "/labels$"))
    for _ in range(4):
        fire(world)
        world.advance(4 * MINUTE)
        resolve(world)
        world.advance(4 * MINUTE)
    world.advance(3 * HOUR)
    assert world.states() == ["closed"]
    assert world.store.dead_letters() == ()


# What happens to the issue and its repository.


def test_a_transferred_issue_is_followed(world: World) -> None:
    fire(world)
    world.human.transfer(HOME, 1, OTHER)
    world.advance(3 * MINUTE)
    resolve(world)
    world.advance(QUIET)
    assert world.issues() == []
    assert world.states(OTHER) == ["closed"]
    fire(world)
    assert world.states(OTHER) == ["open"]
    assert len(world.effects("POST", "/issues")) == 1


def test_a_deleted_issue_is_made_again_once_and_then_is_a_dead_letter(world: World) -> None:
    fire(world)
    world.human.delete(HOME, 1)
    world.advance(MINUTE)
    fire(world, "gpu-n1", "gpu-n2")
    assert [issue.number for issue in world.issues()] == [2]
    world.human.delete(HOME, 2)
    world.advance(MINUTE)
    fire(world, "gpu-n1", "gpu-n3")
    world.advance(DAY)
    assert world.issues() == []
    assert [letter.reason for letter in world.store.dead_letters()] == ["gone"]


def test_an_issue_that_cannot_be_seen_for_a_moment_is_not_taken_for_deleted(world: World) -> None:
    fire(world)
    world.github.state.faults.add(refusal("GET", "/issues/1$", status=404, count=2))
    world.advance(MINUTE)
    fire(world, "gpu-n1", "gpu-n2")
    world.advance(HOUR)
    assert world.states() == ["open"]
    assert "gpu-n2" in (world.issue().body or "")


def lock(world: World) -> None:
    """As for a credential that may not write to the repository; one that may comments all the same."""
    world.human.lock(HOME, 1)
    world.github.state.faults.add(
        refusal(
            "POST",
            f"{HOME}/issues/1/comments$",
            status=403,
            message="Unable to create comment because issue is locked.",
        )
    )


def test_an_issue_that_is_locked_while_it_fires_goes_on_in_the_fallback_with_links_both_ways(
    world: World,
) -> None:
    fire(world)
    lock(world)
    world.advance(3 * MINUTE)
    fire(world, "gpu-n1", "gpu-n2")
    assert (world.states(), world.states(FALLBACK)) == (["closed"], ["open"])
    old, new = world.issue(), world.issue(1, FALLBACK)
    assert f"/{FALLBACK}/issues/1" in (old.body or "")
    assert f"/{HOME}/issues/1" in (new.body or "")
    assert old.state_reason == "not_planned"
    assert [letter.reason for letter in world.store.dead_letters()] == ["locked"]
    resolve(world)
    world.advance(QUIET)
    assert (world.states(), world.states(FALLBACK)) == (["closed"], ["closed"])


def test_a_persons_words_in_a_locked_issue_stay(world: World) -> None:
    fire(world)
    lock(world)
    world.human.edit(HOME, 1, body=f"{world.issue().body}\nOurs, see the wiki.")
    world.advance(3 * MINUTE)
    fire(world, "gpu-n1", "gpu-n2")
    assert (world.issue().body or "").endswith("\nOurs, see the wiki.")


def test_a_locked_issue_that_cannot_be_closed_is_left_and_the_incident_goes_on(
    world: World,
) -> None:
    fire(world)
    lock(world)
    world.github.state.faults.add(refusal("PATCH", f"{HOME}/issues/1$", status=403))
    world.advance(3 * MINUTE)
    fire(world, "gpu-n1", "gpu-n2")
    assert (world.states(), world.states(FALLBACK)) == (["open"], ["open"])
    resolve(world)
    world.advance(QUIET)
    assert world.states(FALLBACK) == ["closed"]


def test_an_issue_that_is_locked_when_all_is_resolved_is_closed_without_a_comment(
    world: World,
) -> None:
    fire(world)
    lock(world)
    world.advance(3 * MINUTE)
    resolve(world)
    world.advance(QUIET)
    assert (world.states(), world.states(FALLBACK)) == (["closed"], [])
    assert world.comments() == []
    assert world.store.dead_letters() == ()


def test_without_a_fallback_a_locked_issue_is_kept_up_to_date_without_comments(make: Make) -> None:
    world = make(fallback_repository=None)
    fire(world)
    lock(world)
    world.advance(3 * MINUTE)
    fire(world, "gpu-n1", "gpu-n2")
    assert "gpu-n2" in (world.issue().body or "")
    assert world.comments() == []
    assert world.store.dead_letters() == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"archived": True}, "archived", id="archived"),
        pytest.param({"has_issues": False}, "issues_disabled", id="issues switched off"),
    ],
)
def test_what_a_repository_does_not_take_goes_to_the_fallback_with_a_dead_letter(
    world: World, change: dict[str, bool], reason: str
) -> None:
    world.github.state.change_repository(HOME, **change)
    fire(world)
    assert world.states(FALLBACK) == ["open"]
    world.advance(3 * MINUTE)
    fire(world, "gpu-n1", "gpu-n2")
    resolve(world)
    world.advance(QUIET)
    assert world.states(FALLBACK) == ["closed"]
    assert [letter.reason for letter in world.store.dead_letters()] == [reason]


def test_a_repository_that_does_not_exist_is_one_that_takes_nothing(make: Make) -> None:
    world = make(route={"repository": "acme/nowhere"})
    fire(world)
    assert world.states(FALLBACK) == ["open"]
    assert [letter.reason for letter in world.store.dead_letters()] == ["not_found"]


def test_an_open_issue_in_a_repository_archived_since_continues_in_the_fallback(
    world: World,
) -> None:
    fire(world)
    world.github.state.change_repository(HOME, archived=True)
    world.advance(MINUTE)
    fire(world, "gpu-n1", "gpu-n2")
    assert world.states(FALLBACK) == ["open"]
    assert f"/{HOME}/issues/1" in (world.issue(1, FALLBACK).body or "")


def test_deliveries_while_the_fallback_is_busy_do_not_try_the_refusing_repository_again(
    world: World,
) -> None:
    world.github.state.change_repository(HOME, archived=True)
    world.github.state.faults.add(refusal("POST", f"{FALLBACK}/issues$", status=429, count=1))
    fire(world)
    fire(world, "gpu-n1", "gpu-n2")
    world.advance(HOUR)
    assert world.states(FALLBACK) == ["open"]
    assert len(world.store.dead_letters()) == 1


def test_without_a_fallback_a_dead_letter_waits_and_is_requeued(make: Make) -> None:
    world = make(fallback_repository=None)
    world.github.state.change_repository(HOME, archived=True)
    fire(world)
    world.advance(DAY)
    (letter,) = world.store.dead_letters()
    assert "archived" in letter.text
    world.github.state.change_repository(HOME, archived=False)
    assert world.store.requeue([letter.id], world.clock.at) == 1
    world.settle()
    assert world.states() == ["open"]
    assert world.store.dead_letters() == ()


# Assignees.


def chain(*sources: dict[str, object]) -> dict[str, object]:
    return {"repository": HOME, "assignees": list(sources)}


def test_the_chain_falls_through_unassignable_and_unknown_logins_and_the_issue_says_so(
    make: Make,
) -> None:
    world = make(
        route=chain(
            {"static": {"logins": ["nobody-knows"]}},
            {"static": {"logins": ["stranger"]}},
            {"static": {"logins": ["bob"]}},
        )
    )
    world.github.state.add_user("stranger")
    fire(world)
    body = world.issue().body or ""
    assert world.issue().assignees == ("bob",)
    assert "nobody-knows" in body
    assert "stranger" in body
    assert "Assigned: `bob`" in body


def test_nobody_assignable_leaves_an_issue_that_says_so(make: Make) -> None:
    world = make(route=chain({"static": {"logins": ["nobody-knows"]}}))
    fire(world)
    world.advance(HOUR)
    assert world.issue().assignees == ()
    assert "nobody could be assigned" in (world.issue().body or "")


def test_logins_that_github_drops_silently_fall_through(make: Make) -> None:
    world = make(route=chain({"static": {"logins": ["bob"]}}))
    world.github.state.switches.assignees_off = True
    fire(world)
    world.advance(HOUR)
    assert world.issue().assignees == ()
    assert "GitHub did not assign bob" in (world.issue().body or "")


def test_who_a_person_chose_meanwhile_stays_alone(make: Make) -> None:
    """The assignment was put off by a limit, and in that time somebody took the issue."""
    world = make(route=chain({"static": {"logins": ["bob"]}}))
    world.github.state.faults.add(refusal("POST", "/assignees$", status=429, count=1))
    fire(world)
    world.human.assign(HOME, 1, "alice")
    world.advance(HOUR)
    assert world.issue().assignees == ("alice",)


def test_whom_a_person_removed_is_not_assigned_again(make: Make) -> None:
    world = make(route=chain({"static": {"logins": ["bob"]}}))
    fire(world)
    world.human.unassign(HOME, 1, "bob")
    world.advance(3 * MINUTE)
    pass_by(world)
    fire(world)
    assert world.issue().assignees == ()


def test_a_codeowners_path_that_is_no_file_falls_through(make: Make) -> None:
    world = make(
        route=chain(
            {"codeowners": {"repository": HOME, "file": "docs", "path": "gpu"}},
            {"static": {"logins": ["bob"]}},
        )
    )
    world.github.state.faults.add(refusal("GET", "/contents/", status=422))
    fire(world)
    assert world.issue().assignees == ("bob",)
    assert world.store.dead_letters() == ()


# What was there before us.


def test_with_its_database_lost_it_takes_over_its_open_issues(world: World) -> None:
    fire(world)
    world.human.edit(HOME, 1, title="my own title")
    world.advance(30 * DAY)
    world.lose_database()
    world.deliver(alert(starts_at=NOON), alert("gpu-n2", starts_at=NOON))
    assert world.states() == ["open"]
    assert world.issue().title == "my own title"
    assert "gpu-n2" in (world.issue().body or "")
    world.advance(3 * MINUTE)
    resolve(world)
    world.advance(QUIET)
    assert world.states() == ["closed"]


def test_with_its_database_lost_it_reopens_what_closed_lately(world: World) -> None:
    pass_by(world)
    world.advance(DAY)
    world.lose_database()
    fire(world)
    assert world.states() == ["open"]
    assert world.issue().number == 1


def test_with_its_database_lost_a_refusal_by_a_person_still_counts(world: World) -> None:
    fire(world)
    world.human.close(HOME, 1, "not_planned")
    world.advance(DAY)
    world.lose_database()
    world.deliver(alert(starts_at=NOON))
    world.advance(DAY)
    assert world.states() == ["closed"]


def foreign_body(group_key: str) -> str:
    name = hashlib.sha256(group_key.encode()).hexdigest()
    return f"Old text\n\n<!-- (UNIQUE ALERT ID, DO NOT MODIFY: {name} ) -->"


def test_issues_of_alertmanager_to_github_are_taken_over(make: Make) -> None:
    world = make(adopt_authors=["old-bot"])
    body = webhook(alert())
    world.github.human("old-bot").open(HOME, "old title", foreign_body(body["groupKey"]))
    world.accept(body)
    world.settle()
    issue = world.issue()
    assert world.states() == ["open"]
    assert issue.title == "old title"
    assert (issue.body or "").startswith("<!-- alerts2gh:v1:")
    assert "Old text" in (issue.body or "")
    world.advance(3 * MINUTE)
    resolve(world)
    world.advance(QUIET)
    assert world.states() == ["closed"]


@pytest.mark.parametrize("ours", [True, False], ids=["with our marker", "with the old marker"])
def test_issues_of_strangers_are_not_touched(world: World, ours: bool) -> None:
    body = webhook(alert())
    home = Target("main", *HOME.split("/"))
    name = incident_id(home, {"alertname": "GPURuntimeError"})
    marker = f"<!-- alerts2gh:v1:{name} -->\nMine"
    text = marker if ours else foreign_body(body["groupKey"])
    mallory = world.github.human("mallory")
    mallory.open(HOME, "not yours", text)
    mallory.label(HOME, 1, "alerts2gh")
    before = world.issue()
    pass_by(world)
    assert world.issue(1) == before
    assert world.states() == ["open", "closed"]


def duplicate_of(world: World, number: int) -> int:
    """A second issue with the same marker, by our own account, as a lagging list lets happen."""
    issue = world.issue(number)
    bot = world.github.human(world.github.login)
    second = bot.open(HOME, issue.title, issue.body)
    bot.label(HOME, second.number, "alerts2gh")
    return second.number


def test_of_two_issues_the_older_stays_and_the_newer_is_linked_and_closed(world: World) -> None:
    fire(world)
    second = duplicate_of(world, 1)
    third = duplicate_of(world, 1)
    world.human.edit(HOME, second, body=f"{world.issue(second).body}\nnotes of a person")
    bodies = [issue.body for issue in world.issues()]
    world.lose_database()
    world.deliver(alert(starts_at=NOON))
    world.advance(MINUTE)
    assert world.states() == ["open", "closed", "closed"]
    assert [issue.body for issue in world.issues()] == bodies
    for number in (second, third):
        assert world.issue(number).state_reason == "duplicate"
        assert [c.body.splitlines()[-1] for c in world.comments(number)] == [
            "Duplicate of #1, which was filed first and stays."
        ]


# Routes that change.


def test_an_open_issue_stays_where_it_is_when_the_routes_change(world: World) -> None:
    fire(world)
    world.configure(route={"repository": OTHER})
    world.advance(3 * MINUTE)
    fire(world, "gpu-n1", "gpu-n2")
    assert world.issues(OTHER) == []
    assert "gpu-n2" in (world.issue().body or "")
    resolve(world)
    world.advance(QUIET)
    assert world.states() == ["closed"]
    world.deliver(alert(starts_at=world.clock.at))
    assert (world.states(), world.states(OTHER)) == (["closed"], ["open"])


def test_a_renamed_credential_opens_nothing_again(world: World) -> None:
    fire(world)
    credential = {"base_url": world.github.url, "token_file": "token"}
    world._changes["credentials"] = {"renamed": credential}
    world.restart()
    world.advance(3 * MINUTE)
    resolve(world)
    world.advance(QUIET)
    assert world.states() == ["closed"]
