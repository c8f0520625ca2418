"""The commands beside `serve`: exit status, words, and what they change in a real store."""

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from alerts2gh import commands
from alerts2gh.config import Database
from alerts2gh.ports import BudgetState, Store
from chassis.errors import TemporaryError
from tests.alerts2gh.store_builders import open_migrated

NOW = datetime(2026, 11, 30, 9, 30, tzinfo=UTC)
PAYLOADS = Path(__file__).parents[1] / "payloads"
CONFIG = """
database: {sqlite_file: alerts2gh.db}
credentials: {main: {token_file: token}}
allowed_repositories: [example-org/*]
route:
  repository: example-org/ops
  milestone: Q4
  routes:
    - name: first-gpu
      matchers: gpu="0"
      repository: example-org/{{ labels.cluster }}-ops
      issue_labels: ["severity/{{ labels.severity }}", "team/{{ labels.team }}"]
      policy: {close_after: 1h30m}
      assignees:
        - from_label: {label: owner}
        - static: {logins: [ada, bob]}
        - codeowners: {repository: example-org/ops, path: docs}
    - matchers: gpu="2"
      repository: example-org/{{ labels.team }}
"""


class Console:
    """What a command read and wrote."""

    def __init__(self, stdin: bytes = b"") -> None:
        self.stdin = io.BytesIO(stdin)
        self.out = io.StringIO()
        self.err = io.StringIO()

    @property
    def said(self) -> list[str]:
        return self.out.getvalue().splitlines()

    @property
    def complained(self) -> list[str]:
        return self.err.getvalue().splitlines()


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("made-up", encoding="utf-8")
    file = tmp_path / "alerts2gh.yaml"
    file.write_text(CONFIG, encoding="utf-8")
    return file


def run_route(payload: Path, config: Path, console: Console, query: str = "") -> int:
    return commands.route(
        payload,
        config,
        query=query,
        now=NOW,
        stdin=console.stdin,
        out=console.out,
        err=console.err,
    )


def test_a_good_file_is_summed_up_in_one_line(config_file: Path) -> None:
    console = Console()

    assert commands.check_config(config_file, console.out, console.err) == 0
    assert console.said == [
        f"{config_file}: can be used: 3 routes, credentials main, may write to example-org/*"
    ]
    assert console.complained == []


def test_a_bad_file_is_one_line_a_mistake(config_file: Path) -> None:
    console = Console()
    text = CONFIG.replace("milestone: Q4", "milestone: ' '\n  colour: red")
    config_file.write_text(text, encoding="utf-8")

    assert commands.check_config(config_file, console.out, console.err) == 2
    assert console.said == []
    assert sorted(line.partition(": ")[2].partition(":")[0] for line in console.complained) == [
        "route.colour",
        "route.milestone",
    ]


def test_route_tells_where_each_alert_goes_and_why(config_file: Path) -> None:
    console = Console()

    status = run_route(PAYLOADS / "grouped-3.json", config_file, console)

    told = console.out.getvalue()
    assert status == 1  # the third alert has no place
    assert "incident 1 of 2: 1 alert\n" in told
    for line in (
        "  route          root (takes the rest)",
        '  route          root > first-gpu (matched gpu="0")',
        (
            "  repository     example-org/testc-ops (said by route first-gpu, from"
            " 'example-org/{{ labels.cluster }}-ops')"
        ),
        "  credential     main (https://api.github.com)",
        "  named by       alertname=Grouped (the group labels)",
        "  issue labels   alerts2gh, severity/critical (search_label and route first-gpu)",
        "  milestone      Q4",
        "  when resolved  closes after 1h30m",
        "  assignees      no such value (from_label: label owner)",
        "  assignees      ada, bob (static: the route names them)",
        "  assignees      lookup needed (codeowners: example-org/ops/.github/CODEOWNERS)",
        (
            "  note           issue label 'team/{{ labels.team }}' left out: the alert has no 'team'"
            " among its labels"
        ),
    ):
        assert line in console.said
    assert console.said[-1].startswith("no place for 1 alert (template_failed): route ")


def test_route_reads_stdin_and_query_parameters(config_file: Path) -> None:
    console = Console((PAYLOADS / "firing.json").read_bytes())

    status = run_route(Path("-"), config_file, console, query="?repo=lab&labels=a,b")

    assert status == 0
    assert any("example-org/lab" in line for line in console.said)
    assert any("alerts2gh, a, b" in line for line in console.said)


def test_route_says_when_an_issue_will_not_close(config_file: Path) -> None:
    config_file.write_text(CONFIG + "policy: {auto_close: false}\n", encoding="utf-8")
    console = Console()

    assert run_route(PAYLOADS / "firing.json", config_file, console) == 0
    assert "  when resolved  stays open, as auto_close is off" in console.said


def test_route_has_no_place_for_a_foreign_repository(config_file: Path) -> None:
    console = Console()

    status = run_route(PAYLOADS / "firing.json", config_file, console, "owner=evil&repo=x")

    assert status == 1
    assert console.said == [
        (
            "no place for 1 alert (repository_not_allowed): the repository evil/x (said by the query"
            " parameter owner and the query parameter repo) fits no entry of allowed_repositories; add"
            " it there"
        )
    ]


@pytest.mark.parametrize("body", [b"{", b"[]", None])
def test_route_cannot_answer_without_a_webhook(
    config_file: Path, tmp_path: Path, body: bytes | None
) -> None:
    payload = tmp_path / "payload.json"
    if body is not None:
        payload.write_bytes(body)
    console = Console()

    assert run_route(payload, config_file, console) == 2
    assert len(console.complained) == 1
    assert console.complained[0].startswith(f"{payload}: ")


def test_nothing_that_a_terminal_would_obey_comes_out_of_an_alert(
    config_file: Path, tmp_path: Path
) -> None:
    payload = json.loads((PAYLOADS / "firing.json").read_text("utf-8"))
    payload["groupLabels"] = {"alertname": "\x1b[2Jcleared\u202e" + "x" * 5000}
    file = tmp_path / "payload.json"
    file.write_text(json.dumps(payload), encoding="utf-8")
    console = Console()

    assert run_route(file, config_file, console) == 0
    assert "\x1b" not in console.out.getvalue()
    assert max(map(len, console.said)) < 400


@pytest.fixture
def opener(tmp_path: Path) -> Callable[[], Store]:
    database = Database(sqlite_file=tmp_path / "alerts2gh.db")
    return lambda: open_migrated(database, now=lambda: NOW)


def fill(opener: Callable[[], Store]) -> list[int]:
    store = opener()
    ids = [
        store.bury(None, "main:example-org/ops", "archived", f"it is archived {number}", NOW)
        for number in range(2)
    ]
    store.count_refusal("bad_json", "no JSON", NOW)
    store.count_refusal("bad_json", "no JSON again", NOW)
    blocked = BudgetState((NOW,), (), NOW + timedelta(minutes=5), "secondary limit")
    store.save_budget("main", blocked)
    store.close()
    return ids


def nobody_listens() -> commands.Remote:
    raise commands.NobodyListensError("nothing listens at http://127.0.0.1:1")


def finder(opener: Callable[[], Store], credentials: Sequence[str] = ()) -> commands.Finder:
    """Where no service runs."""
    return commands.Finder(nobody_listens, opener, credentials, NOW, "1.2.3")


def test_dead_letters_are_listed_with_their_reason(opener: Callable[[], Store]) -> None:
    ids = fill(opener)
    console = Console()

    assert commands.list_dead_letters(finder(opener), console.out, console.err) == 0
    assert len(console.said) == 3
    for identifier, line in zip(sorted(ids), sorted(console.said[1:]), strict=True):
        assert line.startswith(f"{identifier} ")
        assert "2026-11-30 09:30:00 UTC" in line
        assert "archived" in line


def test_no_dead_letters_is_said(opener: Callable[[], Store]) -> None:
    console = Console()

    assert commands.list_dead_letters(finder(opener), console.out, console.err) == 0
    assert console.said == ["there are no dead letters"]


@pytest.mark.parametrize(
    ("chosen", "status", "left"),
    [("one", 0, 1), ("all", 0, 0), ("unknown", 1, 2)],
)
def test_requeue_brings_dead_letters_back(
    opener: Callable[[], Store], chosen: str, status: int, left: int
) -> None:
    ids = fill(opener)
    which = {"one": ids[:1], "all": None, "unknown": [10**6]}[chosen]
    console = Console()

    found = commands.requeue_dead_letters(finder(opener), which, console.out, console.err)

    store = opener()
    assert (found, len(store.dead_letters())) == (status, left)
    store.close()
    assert bool(console.complained) is (status == 1)


def test_status_tells_counts_budget_and_refusals(opener: Callable[[], Store]) -> None:
    fill(opener)
    console = Console()

    assert commands.status(finder(opener, ["main", "new"]), console.out, console.err) == 0
    lines = {" ".join(line.split()) for line in console.said}
    assert (
        "credential main 1 writes in the last hour; silent until 2026-11-30 09:35:00 UTC"
        " (secondary limit)" in lines
    )
    assert "credential new 0 writes in the last hour" in lines
    assert "refused (bad_json) 2 times, last 2026-11-30 09:30:00 UTC: no JSON again" in lines


def test_a_database_that_cannot_be_opened_is_said() -> None:
    def locked() -> Store:
        raise TemporaryError("another process has it")

    console = Console()

    assert commands.list_dead_letters(finder(locked), console.out, console.err) == 2
    assert console.complained == [
        (
            "nothing listens at http://127.0.0.1:1, and the database cannot be used: another"
            " process has it"
        )
    ]


def test_with_an_address_given_the_database_is_left_alone(opener: Callable[[], Store]) -> None:
    console = Console()
    only = replace(finder(opener), only_service=True)

    assert commands.status(only, console.out, console.err) == 2
    assert console.complained == ["nothing listens at http://127.0.0.1:1"]


def test_status_from_the_database_says_that_no_service_runs(opener: Callable[[], Store]) -> None:
    console = Console()

    assert commands.status(finder(opener), console.out, console.err) == 0
    assert "no service runs; read from the database" in console.out.getvalue()


@pytest.mark.parametrize(("form", "first"), [("markdown", "# Alerts"), ("csv", "alertname,")])
def test_the_report_is_written_in_the_form_asked_for(
    opener: Callable[[], Store], form: str, first: str
) -> None:
    console = Console()

    assert commands.report(finder(opener), 7, form, console.out, console.err) == 0
    assert console.said[0].startswith(first)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("serve -c a.yaml", {"command": "serve", "config": Path("a.yaml")}),
        ("check-config a.yaml", {"command": "check-config", "file": Path("a.yaml")}),
        ("route - --config a.yaml --query repo=x", {"payload": Path("-"), "query": "repo=x"}),
        ("replay a b -c a.yaml --dry-run", {"paths": [Path("a"), Path("b")], "dry_run": True}),
        ("replay a -c a.yaml --bearer-token-file t", {"bearer_token_file": Path("t")}),
        ("dead-letters list -c a.yaml", {"command": "dead-letters", "letters": "list"}),
        ("dead-letters requeue 1 2 -c a.yaml", {"ids": [1, 2], "all": False}),
        ("dead-letters requeue --all -c a.yaml", {"ids": [], "all": True}),
        ("status -c a.yaml", {"command": "status", "url": None}),
        ("status -c a --url http://x --ca-file f", {"url": "http://x", "ca_file": Path("f")}),
        ("report -c a.yaml", {"command": "report", "days": 30, "format": "markdown"}),
        ("report -c a --days 7 --format csv", {"days": 7, "format": "csv"}),
    ],
)
def test_the_command_line_is_understood(line: str, expected: dict[str, Any]) -> None:
    parsed = vars(commands.build_parser("1.2.3").parse_args(line.split()))

    assert {key: parsed[key] for key in expected} == expected


@pytest.mark.parametrize(
    "line",
    [
        "",
        "route x",
        "dead-letters requeue -c a",
        "dead-letters requeue 1 --all -c a",
        "x",
        "report -c a --days 0",
        "report -c a --days x",
        "report -c a --format pdf",
    ],
)
def test_a_command_line_that_is_not_understood_ends_with_status_2(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        commands.build_parser("1.2.3").parse_args(line.split())

    assert ended.value.code == 2
    assert "usage: alerts2gh" in capsys.readouterr().err


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        commands.build_parser("1.2.3").parse_args(["--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out == "alerts2gh 1.2.3\n"
