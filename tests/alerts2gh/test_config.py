"""What a configuration may say: one file for each way to be wrong, and the whole file made right."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from alerts2gh.config import (
    AllowList,
    Config,
    IssuePolicy,
    PolicyOverride,
    TemplateProblemError,
    clean_label,
    route_template,
)
from chassis.config import load_settings
from chassis.errors import ConfigError

BAD = Path(__file__).parents[1] / "bad_configs" / "alerts2gh"
DOCUMENTATION = Path(__file__).parents[2] / "docs" / "configuration.md"

MISTAKES = {
    "adopt_author_no_login": "adopt_authors[0]: not a GitHub login; use letters, digits and hyphens",
    "adopt_author_with_at": "adopt_authors[0]: write the login without @",
    "alertmanager_twice": "alertmanagers[1].url: this Alertmanager is listed twice; remove one",
    "alertmanager_url": "alertmanagers[0].url: not a web address; write it like https://HOST[:PORT]/PATH",
    "allowed_any_owner": "allowed_repositories[0]: the owner must be named; write OWNER/* for all repositories of an owner",
    "allowed_without_repository": "allowed_repositories[0]: write OWNER/REPO or OWNER/*; in the repository * and ? are wildcards",
    "assignee_with_at": "route.assignees[0].static.logins[0]: write the login without @",
    "assignees_empty": "route.assignees[0].static.logins: give at least 1 entry",
    "assignees_none_in_one": "route.assignees[0]: give exactly one of static, from_label, owners, codeowners, on_call, round_robin in each entry of the list; here is none",
    "assignees_too_many": "route.assignees[0].static.logins: give at most 10 entries, not 11",
    "assignees_two_in_one": "route.assignees[0]: give exactly one of static, from_label, owners, codeowners, on_call, round_robin in each entry of the list; here are static, round_robin",
    "close_before_reorder_window": "policy.close_after: 1m is shorter than reorder_window (2m), so an issue would close before a late firing can be told from a new one; raise close_after or lower reorder_window",
    "close_before_reorder_window_in_a_route": "route.routes[0].policy.close_after: 15m is shorter than reorder_window (20m), so an issue would close before a late firing can be told from a new one; raise close_after or lower reorder_window",
    "codeowners_two_paths": "route.assignees[0].codeowners: give exactly one of path and path_annotation",
    "credential_ca_file": "credentials.main.ca_file: cannot read the file /no/such/ca.pem; correct the path or put the file there",
    "credential_name": "credentials.my bot: name credentials with letters, digits, hyphens, dots and underscores",
    "credential_timeout": "credentials.main.timeout: must be at least 100ms",
    "credential_url": "credentials.main.base_url: not a web address; write it like https://HOST[:PORT]/PATH",
    "credential_website": "credentials.main.base_url: this is the website; leave base_url out for github.com",
    "credential_with_two_secrets": "credentials.main: give exactly one of token_file and app",
    "credential_without_secret": "credentials.main: give exactly one of token_file and app",
    "duration_without_unit": "policy.close_after: the number 300 has no unit; write a number and a unit, like 30s or 1h30m",
    "external_url": "external_url: not a web address; write it like https://HOST[:PORT]/PATH",
    "fallback_no_name": "fallback_repository: write OWNER/REPO, like example-org/gpu-ops",
    "fallback_not_allowed": "fallback_repository: no entry of allowed_repositories fits other-org/ops; add it there",
    "flapping_window": "policy.flapping.window: must be longer than 0s",
    "from_label_two_sources": "route.assignees[0].from_label: give exactly one of label and annotation",
    "identity_labels_missing": "route.identity: give labels together with `by: labels`, and at least one",
    "identity_labels_twice": "route.identity: labels must be label names, each once",
    "identity_labels_unused": "route.identity: give labels together with `by: labels`, and at least one",
    "identity_unknown": "route.identity.by: must be 'group_labels', 'labels' or 'per_alert'",
    "issue_label_template": "route.issue_labels[0]: cannot use this template: expected name or number",
    "issue_label_too_long": "route.issue_labels[0]: GitHub takes no such label; write 1 to 50 characters without commas, control characters or white space around",
    "issue_label_with_comma": "route.issue_labels[0]: GitHub takes no such label; write 1 to 50 characters without commas, control characters or white space around",
    "keep_open_label": "policy.keep_open_label: GitHub takes no such label; write 1 to 50 characters without commas, control characters or white space around",
    "lease_too_short": "database.lease: must be at least 1s, or replicas take work from each other",
    "matcher": "route.routes[0].matchers: 'team gpu': after 'team' one of =, !=, =~, !~ is missing; write it like severity=\"critical\" or node=~\"gpu-.*\"",
    "milestone_of_two_lines": "route.milestone: must be one line without white space around",
    "no_allowed_repositories": "allowed_repositories: give at least 1 entry",
    "no_credentials": "credentials: give at least 1 entry",
    "no_database": "database: missing; add it",
    "no_route": "route: missing; add it",
    "on_call_handover": 'route.assignees[0].on_call.handover: write the time of day as "HH:MM", in quotes',
    "on_call_override_no_offset": "route.assignees[0].on_call.overrides[0]: give start and end with a UTC offset, like 2026-12-24T09:00:00+09:00",
    "on_call_override_order": "route.assignees[0].on_call.overrides[0]: end must be after start",
    "on_call_zone": "route.assignees[0].on_call.time_zone: 'Asia/Tokio' is no IANA time zone, like Asia/Tokyo",
    "owner_network": "route.assignees[0].owners.rules[0].match: not a network, like 10.0.0.0/8: '10.0.0.0/40' does not appear to be an IPv4 or IPv6 network",
    "reconcile_too_often": "reconcile_every: must be at least 1s",
    "recovery_order": "recovery: look_after must go from the shortest to the longest",
    "recovery_retries": "recovery: retry_at_most must not be shorter than retry_after",
    "repository_no_name": "route.repository: write OWNER/REPO or a template for it, like example-org/{{ labels.cluster }}-ops",
    "repository_not_allowed": "route.routes[0].repository: no entry of allowed_repositories fits other-org/ops; add it there",
    "repository_template_includes": "route.repository: cannot use this template: it must not include, import or extend other templates",
    "repository_template_syntax": "route.repository: cannot use this template: unexpected '}'",
    "repository_template_unknown_filter": "route.repository: cannot use this template: No filter named 'lowercase'.",
    "repository_template_unknown_name": "route.repository: cannot use this template: it has no 'label'; use labels, group_labels, annotations or receiver",
    "root_with_continue": "route.continue: the root route has no siblings to continue to; remove it",
    "root_with_matchers": "route.matchers: the root route takes every alert; put the matchers into a route under `routes`",
    "same_name_twice": "route.routes[0].routes[0].name: route.routes[0] has this name already; give each route its own",
    "search_label_with_comma": "search_label: GitHub takes no such label; write 1 to 50 characters without commas, control characters or white space around",
    "several_credentials_none_chosen": "route.credential: there are several credentials; name the one to use here (main, other), routes below may name another",
    "storm_window": "storm.window: must be longer than 0s; `enabled: false` switches the rollup off",
    "template_broken": "route.templates.comment: FOLDER/templates/broken.j2: line 2: Expected an expression, got 'end of statement block'",
    "template_missing": "route.templates.body: cannot read FOLDER/templates/absent.j2: No such file or directory",
    "template_outside": "route.templates.title: write the name of a file inside templates_directory",
    "template_without_directory": "route.templates.title: set templates_directory to the folder of this file",
    "templates_directory_missing": "templates_directory: FOLDER/no/such/folder is not a folder; correct the path or make the folder",
    "token_in_place": 'credentials.main.token: unknown key; did you mean "token_file"?',
    "two_databases": "database: give exactly one of sqlite_file and postgres_url_file",
    "unknown_credential": "route.routes[0].credential: there is no credential of this name; use one of: main",
    "unknown_key": 'polcy: unknown key; did you mean "policy"?',
    "unreachable_route": "route.routes[0]: it takes every alert, so the routes after it get none; give it matchers, `continue: true`, or the last place",
}


def test_each_bad_file_has_its_mistake_here() -> None:
    assert {path.stem for path in BAD.glob("*.yaml")} == set(MISTAKES)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_bad_file_is_told_in_one_line(name: str) -> None:
    file = BAD / f"{name}.yaml"

    with pytest.raises(ConfigError) as refused:
        load_settings(file, Config)

    (mistake,) = refused.value.mistakes
    assert mistake == f"{file}: {MISTAKES[name]}".replace("FOLDER", str(BAD))


SMALLEST = """
database: {sqlite_file: alerts2gh.db}
credentials: {main: {token_file: token}}
allowed_repositories: [example-org/*]
route: {repository: example-org/ops}
"""


def loaded(folder: Path, text: str) -> Config:
    (folder / "token").write_text("made-up", encoding="utf-8")
    file = folder / "alerts2gh.yaml"
    file.write_text(text, encoding="utf-8")
    return load_settings(file, Config)


def test_the_smallest_file_has_defaults_for_the_rest(tmp_path: Path) -> None:
    config = loaded(tmp_path, SMALLEST)

    assert config.default_credential == "main"
    assert config.policy == IssuePolicy()
    assert config.search_label == "alerts2gh"


FULL = """
database: {postgres_url_file: token, lease: 10s}
credentials:
  app: {app: {app_id: 1, installation_id: 2, private_key_file: token}, timeout: 5s}
  ghe: {token_file: token, base_url: "https://ghe.example/api/v3/", ca_file: token}
allowed_repositories: [example-org/*]
fallback_repository: example-org/alerts
adopt_authors: ["old-bot[bot]"]
policy: {flapping: {window: 30m}}
storm: {window: 10m}
recovery: {look_after: [1s, 1s, 2s]}
alertmanagers:
  - {url: "http://a.example:9093/", bearer_token_file: token}
  - {url: "http://b.example:9093/"}
reconcile_every: 30s
route:
  credential: app
  milestone: Q4
  repository: example-org/ops
  assignees:
    - from_label: {annotation: owner, map: {ada@example.com: ada}}
    - owners: {rules: [{match: 10.1.2.3/16, logins: [ada]}, {match: gpu-*, logins: [bob]}]}
    - codeowners: {repository: example-org/ops, path_annotation: runbook_path}
    - on_call:
        start: 2026-01-05
        handover: "10:30"
        time_zone: Asia/Tokyo
        logins: [ada, bob]
        overrides:
          - {start: 2026-12-24T09:00:00+09:00, end: 2026-12-25T09:00:00+09:00, logins: [eve]}
    - round_robin: {logins: [ada, bob]}
  routes:
    - {matchers: team="gpu", credential: ghe, identity: {by: labels, labels: [node]}}
"""


def test_a_file_that_uses_everything_can_be_used(tmp_path: Path) -> None:
    config = loaded(tmp_path, FULL)

    assert config.default_credential == "app"
    assert config.credentials["ghe"].base_url == "https://ghe.example/api/v3"
    assert config.credentials["ghe"].ca_file == tmp_path / "token"
    assert [each.url for each in config.alertmanagers] == [
        "http://a.example:9093",
        "http://b.example:9093",
    ]
    assert config.route.assignees is not None
    assert len(config.route.assignees) == 5


def test_relative_paths_start_at_the_folder_of_the_file(tmp_path: Path) -> None:
    config = loaded(tmp_path, SMALLEST)

    assert config.database.sqlite_file == tmp_path / "alerts2gh.db"
    assert config.credentials["main"].token_file is not None
    assert config.credentials["main"].token_file.path == tmp_path / "token"


def test_several_mistakes_are_told_at_once(tmp_path: Path) -> None:
    text = SMALLEST.replace("route: {", "fallback_repository: a/b\nroute: {credential: x, ")

    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, text)

    assert [mistake.partition(": ")[2] for mistake in refused.value.mistakes] == [
        "fallback_repository: no entry of allowed_repositories fits a/b; add it there",
        "route.credential: there is no credential of this name; use one of: main",
    ]


def test_a_secret_is_neither_told_nor_dumped(tmp_path: Path) -> None:
    text = SMALLEST.replace("token_file: token", "token_file: token, token: ghp_sesame")

    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, text)

    assert "ghp_sesame" not in str(refused.value)
    assert "made-up" not in repr(loaded(tmp_path, SMALLEST))


def test_a_policy_may_close_early_where_nothing_closes_by_itself(tmp_path: Path) -> None:
    config = loaded(tmp_path, SMALLEST + "policy: {auto_close: false, close_after: 0s}\n")

    assert config.policy.close_after == timedelta(0)


def test_the_root_route_chooses_among_credentials(tmp_path: Path) -> None:
    text = SMALLEST.replace("route: {", "route: {credential: b, ").replace(
        "{main: {token_file: token}}", "{a: {token_file: token}, b: {token_file: token}}"
    )

    assert loaded(tmp_path, text).default_credential == "b"


def test_template_files_are_found_in_their_folder(tmp_path: Path) -> None:
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "title.j2").write_text("{{ anything | goes }}", encoding="utf-8")
    text = SMALLEST.replace(
        "route: {", "templates_directory: words\nroute: {templates: {title: title.j2}, "
    )

    assert loaded(tmp_path, text).route.templates is not None


def test_every_key_of_a_policy_may_be_set_by_a_route() -> None:
    assert set(PolicyOverride.model_fields) == set(IssuePolicy.model_fields)


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("example-org/ops", True),
        ("EXAMPLE-ORG/Ops", True),
        ("example-org/", False),
        ("example-org/a/b", False),
        ("example-org/..", False),
        ("example-org-2/ops", False),
        ("exact/one", True),
        ("exact/one2", False),
        ("exact/lab-7", True),
        ("exact/lab-77", False),
        ("exact/one\n", False),
    ],
)
def test_the_allow_list_takes_names_and_wildcards(name: str, allowed: bool) -> None:
    patterns = ["example-org/*", "exact/one", "exact/lab-?"]

    assert AllowList(patterns).allows(name) is allowed


def test_an_empty_allow_list_allows_nothing() -> None:
    assert not AllowList([]).allows("a/b")


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("plain", "plain"),
        ("a,b", "a b"),
        ("\x00 a\u2028b\r\n", "a b"),
        ("\u202eright\u200b-to-left", "right-to-left"),
        ("\ud800x", "x"),
        ("x" * 49 + " y", "x" * 49),
        (",\x07", ""),
        ("漢" * 51, "漢" * 50),
    ],
)
def test_a_label_is_brought_under_githubs_rules(text: str, label: str) -> None:
    assert clean_label(text) == label


@pytest.mark.parametrize(
    ("source", "labels", "annotations"),
    [
        ("static", set(), set()),
        ("{{ labels.a }}-{{ labels['b'] }}", {"a", "b"}, set()),
        ("{{ annotations.a | default(labels.b) }}", {"b"}, {"a"}),
        ("{{ labels[annotations.key] }}", None, {"key"}),
        ("{{ labels.get('a') }}", None, set()),
        ("{% for name in labels %}{{ name }}{% endfor %}", None, set()),
        ("{% set all = labels %}{{ all.a }}", None, set()),
        ("{{ group_labels.a }}{{ receiver }}", set(), set()),
    ],
)
def test_a_template_knows_what_its_result_depends_on(
    source: str, labels: set[str] | None, annotations: set[str] | None
) -> None:
    reads = route_template(source).reads

    assert (reads.labels, reads.annotations) == (labels, annotations)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("{{ labels.a }}", "the alert has no 'a' among its labels"),
        ("{{ annotations['a'] | upper }}", "the alert has no 'a' among its annotations"),
        ("{{ labels.a.b }}", "the alert has no 'a' among its labels"),
        ("{{ 1 // 0 }}", "integer division or modulo by zero"),
        (
            "{{ labels.keys.__self__ }}",
            "access to attribute '__self__' of 'method' object is unsafe.",
        ),
    ],
)
def test_a_template_without_a_result_says_why(source: str, problem: str) -> None:
    with pytest.raises(TemplateProblemError) as failed:
        route_template(source).render({}, {}, {}, "")

    assert str(failed.value) == problem


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ labels.a.upper() }}", "X"),
        ("{{ labels | length }}", "1"),
        ("{{ labels['a'][0] }}", "x"),
        ("{{ labels.a if labels.a == 'x' else labels.b }}", "x"),
        ("{# nothing #}", ""),
    ],
)
def test_a_template_may_use_jinja_as_it_is(source: str, text: str) -> None:
    assert route_template(source).render({"a": "x"}, {}, {}, "") == text


def test_a_template_nested_too_deeply_is_refused() -> None:
    with pytest.raises(TemplateProblemError, match="nested too deeply"):
        route_template("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}")


def test_a_template_prints_labels_the_same_way_each_time() -> None:
    template = route_template("{{ labels }}{{ labels | items | list }}")

    once, again = (template.render({"b": "2", "a": "1"}, {}, {}, "") for _ in range(2))

    assert once == again == "labels: {'a': '1', 'b': '2'}[('b', '2'), ('a', '1')]"


def keys_of(model: type[BaseModel], above: str = "", seen: tuple[Any, ...] = ()) -> set[str]:
    """Every key of a model and of those inside it, as `policy.close_after`."""
    keys = set()
    for name, field in model.model_fields.items():
        key = f"{above}{field.alias or name}"
        keys.add(key)
        for step, inner in models_in(field.annotation):
            if inner not in (*seen, model) and inner.__module__.startswith("alerts2gh"):
                keys |= keys_of(inner, f"{key}{step}.", (*seen, model))
    return keys


def models_in(annotation: Any, step: str = "") -> list[tuple[str, type[BaseModel]]]:
    """The models in a type, each with how an entry of a list or mapping is written on the way."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [(step, annotation)]
    step += {tuple: "[]", dict: ".NAME"}.get(get_origin(annotation), "")
    return [found for inner in get_args(annotation) for found in models_in(inner, step)]


def documented_keys() -> set[str]:
    return set(re.findall(r"^\| `([^`]+)` \|", DOCUMENTATION.read_text("utf-8"), re.MULTILINE))


def test_every_key_is_documented() -> None:
    # What a route changes of the policy is described once, under policy.
    ours = {key for key in keys_of(Config) if not key.startswith("route.policy.")}

    assert sorted(ours - documented_keys()) == []


def test_the_documented_example_can_be_used(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(serving:.*?)```", DOCUMENTATION.read_text("utf-8"), re.DOTALL)
    assert example is not None
    (tmp_path / "secrets").mkdir()
    for name in ("webhook-token", "github-token"):
        (tmp_path / "secrets" / name).write_text("made-up", encoding="utf-8")

    config = loaded(tmp_path, example[1])

    assert [route.name for route in config.route.routes] == ["gpu"]
