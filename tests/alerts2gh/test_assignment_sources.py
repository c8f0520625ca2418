"""Whom each kind of source names."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts2gh.assignment import Candidate, CandidateReason, Lookups, choose, needed_lookups
from alerts2gh.assignment.codeowners import clean_path, owners_of
from alerts2gh.assignment.logins import clean_login, resolve, unique
from alerts2gh.assignment.on_call import on_call_at, shift_at
from alerts2gh.assignment.owners import host_of
from alerts2gh.config import AssigneeSource, OnCall
from tests.alerts2gh.incident_builders import NOW, a_member, an_incident


def a_source(**fields: Any) -> AssigneeSource:
    return AssigneeSource.model_validate(fields)


def named(source: AssigneeSource, *members: Any, **known: Any) -> tuple[str, ...]:
    return choose([source], an_incident(members), now=NOW, **known)[0].logins


@pytest.mark.parametrize(
    ("text", "login"),
    [
        pytest.param("octocat", "octocat", id="a login"),
        pytest.param(" @octocat ", "octocat", id="an at sign and spaces go"),
        pytest.param("mona_corp", "mona_corp", id="a managed user's login"),
        pytest.param("octo@corp.example", None, id="no mail address"),
        pytest.param("org/team", None, id="no team"),
        pytest.param("-x", None, id="no dash in front"),
        pytest.param("a" * 40, None, id="39 characters at most"),
        pytest.param("", None, id="not nothing"),
        pytest.param("öcto", None, id="no other letters"),
    ],
)
def test_clean_login(text: str, login: str | None) -> None:
    assert clean_login(text) == login


def test_the_first_spelling_of_a_login_stays() -> None:
    assert unique(["B", "a", "b", "A", "c"]) == ("B", "a", "c")


def test_teams_are_expanded_and_what_is_no_login_is_told() -> None:
    teams = {"org/gpu": ("Octocat", "hubot"), "org/gone": None}
    found = resolve(["octocat", "@Org/GPU", "@org/gone", "@org/new", "a@b.example", "?"], teams)
    assert found.logins == ("octocat", "hubot")
    assert found.unknown_teams == ("org/new",)
    assert found.notes == (
        "the team org/gone has no members that can be read",
        "a@b.example is a mail address; GitHub assigns logins only",
        "'?' is no GitHub login",
    )


LABEL = {"from_label": {"label": "owner"}}
ANNOTATION = {
    "from_label": {"annotation": "owners", "map": {"mona@corp.example": "mona", "SRE": "a,b"}}
}


@pytest.mark.parametrize(
    ("source", "values", "logins"),
    [
        pytest.param(LABEL, ["octocat"], ("octocat",), id="a label names somebody"),
        pytest.param(LABEL, ["@a, b;c d"], ("a", "b", "c", "d"), id="a label names several"),
        pytest.param(LABEL, ["a", "b", "A"], ("a", "b"), id="all alerts count, each login once"),
        pytest.param(LABEL, [""], (), id="an empty label names nobody"),
        pytest.param(ANNOTATION, ["mona@corp.example"], ("mona",), id="a mail address is translated"),
        pytest.param(ANNOTATION, ["sre, x"], ("a", "b", "x"), id="one name of several is translated"),
        pytest.param(ANNOTATION, ["c@corp.example"], (), id="an unknown mail address names nobody"),
    ],
)  # fmt: skip
def test_from_label(source: dict[str, Any], values: list[str], logins: tuple[str, ...]) -> None:
    members = [
        a_member(f"m{at}", labels={"owner": value}, annotations={"owners": value})
        for at, value in enumerate(values)
    ]
    assert named(a_source(**source), *members) == logins


def test_while_something_fires_the_resolved_alerts_do_not_decide() -> None:
    over = a_member("a", labels={"owner": "past"}, firing=False)
    new = a_member("b", labels={"owner": "newer"}, started=NOW + timedelta(minutes=1))
    old = a_member("c", labels={"owner": "older"})
    assert named(a_source(**LABEL), over, old, new) == ("newer", "older")
    assert named(a_source(**LABEL), over) == ("past",)


RULES = [
    {"match": "gpu-special", "logins": ["exact"]},
    {"match": "gpu-a100-*", "logins": ["glob"]},
    {"match": "10.1.0.0/16", "logins": ["four"]},
    {"match": "fd00:1::/32", "logins": ["six"]},
    {"match": "10.2.0.7", "logins": ["one"]},
    {"match": "storage.example:9100", "logins": ["port"]},
    {"match": "rack-[0-3]?", "logins": ["range"]},
]


@pytest.mark.parametrize(
    ("value", "logins"),
    [
        pytest.param("gpu-special", ("exact",), id="an exact name"),
        pytest.param("GPU-Special", ("exact",), id="names know no case"),
        pytest.param("gpu-special:9100", ("exact",), id="an exact name with a port"),
        pytest.param("gpu-a100-7", ("glob",), id="a glob"),
        pytest.param("gpu-a100-7:9100", ("glob",), id="a glob, with a port"),
        pytest.param("rack-29", ("range",), id="a glob with a range"),
        pytest.param("10.1.200.3:9100", ("four",), id="an IPv4 network"),
        pytest.param("http://10.1.200.3:9100/metrics", ("four",), id="an address with a scheme"),
        pytest.param("10.2.0.7:1", ("one",), id="a single address"),
        pytest.param("[fd00:1::5]:9100", ("six",), id="an IPv6 network"),
        pytest.param("fd00:1::5", ("six",), id="an IPv6 address without brackets"),
        pytest.param("FD00:0001:0:0::5", ("six",), id="another spelling of it"),
        pytest.param("fd00:1::5%eth0", ("six",), id="an IPv6 address with a zone"),
        pytest.param("::ffff:10.1.0.1", ("four",), id="an IPv4 address in IPv6 clothes"),
        pytest.param("storage.example:9100", ("port",), id="a rule with a port"),
        pytest.param("storage.example:9200", (), id="another port"),
        pytest.param("10.11.0.1", (), id="outside the network"),
        pytest.param("[broken", (), id="a broken address"),
        pytest.param("", (), id="an empty value"),
    ],
)
@pytest.mark.parametrize("label", ["node", "instance"])
def test_owners(label: str, value: str, logins: tuple[str, ...]) -> None:
    source = a_source(owners={"rules": RULES})
    assert named(source, a_member(labels={label: value})) == logins


def test_the_first_rule_that_fits_decides_and_each_alert_has_its_owner() -> None:
    rules = [{"match": "n1", "logins": ["a"]}, {"match": "n*", "logins": ["b"]}]
    members = [a_member(name, labels={"node": name}) for name in ("n1", "n2", "x")]
    assert named(a_source(owners={"rules": rules}), *members) == ("a", "b")


@given(st.text(max_size=30))
def test_any_instance_has_a_host(value: str) -> None:
    assert isinstance(host_of(value), str)


CODEOWNERS = """\
# everything
*            @all
*.js         @js #an inline comment
/build/logs/ @doctor
docs/*       docs@corp.example
apps/        @apps
/apps/github
**/logs      @logs
/src/**/test @tests @org/qa
with\\ space  @space
!no          @never
[ab].txt     @never
\\#hash       @never
a?c          @question
/deep/**     @deep
"""


@pytest.mark.parametrize(
    ("path", "owners"),
    [
        pytest.param("README", ("@all",), id="a star is everything"),
        pytest.param("a/b/README", ("@all",), id="at any depth"),
        pytest.param("x/y.js", ("@js",), id="an extension, its comment left out"),
        pytest.param("build/logs/a/b", ("@logs",), id="the last line that fits wins"),
        pytest.param("docs/a.md", ("docs@corp.example",), id="directly in a folder"),
        pytest.param("docs/sub/a.md", ("@all",), id="a final star goes no deeper"),
        pytest.param("x/docs/a.md", ("@all",), id="a slash inside ties to the root"),
        pytest.param("x/apps/y", ("@apps",), id="a folder at any depth"),
        pytest.param("apps", ("@all",), id="a folder pattern is no file"),
        pytest.param("apps/github", (), id="a line without owners clears"),
        pytest.param("apps/github/x", (), id="also below"),
        pytest.param("apps/githubber", ("@apps",), id="but not names that only begin so"),
        pytest.param("a/b/logs/c", ("@logs",), id="two stars in front"),
        pytest.param("src/test", ("@tests", "@org/qa"), id="two stars are also no folder"),
        pytest.param("src/a/b/test", ("@tests", "@org/qa"), id="or several"),
        pytest.param("with space", ("@space",), id="an escaped space"),
        pytest.param("a.txt", ("@all",), id="character ranges are not known"),
        pytest.param("#hash", ("@all",), id="an escaped hash is not known"),
        pytest.param("x/abc", ("@question",), id="a question mark"),
        pytest.param("a/c", ("@all",), id="which is no slash"),
        pytest.param("deep/a/b", ("@deep",), id="two stars at the end"),
    ],
)
def test_codeowners(path: str, owners: tuple[str, ...]) -> None:
    line = owners_of(CODEOWNERS, path)
    assert line is not None
    assert line.owners == owners


def test_a_file_that_fits_nothing_or_is_too_large_names_nobody() -> None:
    assert owners_of("/a @x", "b") is None
    assert owners_of("* @x\n" + "#" * 3_000_000, "b") is None


@pytest.mark.parametrize(
    ("text", "path"),
    [
        pytest.param("/a//./b", "a/b", id="tidied"),
        pytest.param("../a", None, id="not outside the repository"),
        pytest.param(" ", None, id="not nothing"),
    ],
)
def test_clean_path(text: str, path: str | None) -> None:
    assert clean_path(text) == path


@given(st.text(max_size=60), st.text(min_size=1, max_size=20))
def test_any_codeowners_file_has_an_answer(text: str, path: str) -> None:
    line = owners_of(text, path)
    assert line is None or line.number >= 1


FROM_FILE = a_source(codeowners={"repository": "octo-org/infra", "path_annotation": "source"})
KEY = "octo-org/infra/.github/CODEOWNERS"
WITH_PATH = a_member(annotations={"source": "/alerts/gpu.yaml"})


@pytest.mark.parametrize(
    ("member", "files", "teams", "reason", "logins", "needs"),
    [
        pytest.param(a_member(), {}, {}, CandidateReason.NO_PATH, (), Lookups(), id="no path, no question"),
        pytest.param(
            WITH_PATH, {}, {}, CandidateReason.LOOKUP_NEEDED, (),
            Lookups(files=(("octo-org/infra", ".github/CODEOWNERS"),)), id="the file first",
        ),
        pytest.param(
            WITH_PATH, {KEY: "* @org/gpu @mona"}, {}, CandidateReason.LOOKUP_NEEDED, (),
            Lookups(teams=("org/gpu",)), id="then the team",
        ),
        pytest.param(
            WITH_PATH, {KEY: "* @org/gpu @mona"}, {"org/gpu": ("hubot",)}, CandidateReason.NAMED,
            ("hubot", "mona"), Lookups(), id="then its members",
        ),
        pytest.param(
            WITH_PATH, {KEY: None}, {}, CandidateReason.FILE_MISSING, (), Lookups(), id="a missing file names nobody",
        ),
        pytest.param(
            WITH_PATH, {KEY: "/alerts/"}, {}, CandidateReason.NO_OWNER, (), Lookups(), id="a cleared path has no owner",
        ),
        pytest.param(
            WITH_PATH, {KEY: "* a@b.example"}, {}, CandidateReason.NOTHING_USABLE, (), Lookups(),
            id="a mail address cannot be assigned",
        ),
    ],
)  # fmt: skip
def test_codeowners_source(
    member: Any, files: Any, teams: Any, reason: Any, logins: Any, needs: Any
) -> None:
    incident = an_incident([member])
    (found,) = choose([FROM_FILE], incident, now=NOW, codeowners=files, teams=teams)
    assert (found.reason, found.logins, found.needs) == (reason, logins, needs)
    asked = needed_lookups([FROM_FILE], incident, now=NOW, codeowners=files, teams=teams)
    assert asked == needs
    assert bool(asked) == bool(needs.files or needs.teams)


def a_rota(**fields: Any) -> OnCall:
    return OnCall.model_validate(
        {"start": "2026-03-02", "time_zone": "Europe/Berlin", "logins": ["a", "b", "c"]} | fields
    )


@pytest.mark.parametrize(
    ("at", "who"),
    [
        pytest.param("2026-03-02T07:59:59+00:00", (), id="nobody before the first handover"),
        pytest.param("2026-03-02T08:00:00+00:00", ("a",), id="the first from the handover on"),
        pytest.param("2026-03-09T07:59:59+00:00", ("a",), id="up to the next one"),
        pytest.param("2026-03-09T08:00:00+00:00", ("b",), id="then the second"),
        pytest.param("2026-03-16T08:00:00+00:00", ("c",), id="then the third"),
        pytest.param("2026-03-23T08:00:00+00:00", ("a",), id="then the first again"),
        pytest.param(
            "2026-03-30T06:59:59+00:00", ("a",), id="in summer the handover is an hour earlier"
        ),
        pytest.param("2026-03-30T07:00:00+00:00", ("b",), id="by the clock on the wall it is not"),
        pytest.param("2026-03-30T16:00:00+09:00", ("b",), id="the same instant in another zone"),
    ],
)
def test_the_rotation_turns_at_the_handover(at: str, who: tuple[str, ...]) -> None:
    assert on_call_at(a_rota(), datetime.fromisoformat(at)) == who


@pytest.mark.parametrize(
    ("handover", "before", "after"),
    [
        pytest.param("02:30", "2026-03-29T01:29:59+00:00", "2026-03-29T01:30:00+00:00", id="a left-out time"),
    ],
)  # fmt: skip
def test_a_handover_in_the_hour_that_summer_time_leaves_out(
    handover: str, before: str, after: str
) -> None:
    rota = a_rota(start="2026-03-28", period_days=1, handover=handover)
    assert shift_at(rota, datetime.fromisoformat(before)) == 0
    assert shift_at(rota, datetime.fromisoformat(after)) == 1


def test_a_handover_in_the_hour_that_comes_twice_is_at_the_first() -> None:
    rota = a_rota(start="2026-10-24", period_days=1, handover="02:30")
    assert shift_at(rota, datetime(2026, 10, 25, 0, 29, 59, tzinfo=UTC)) == 0
    assert shift_at(rota, datetime(2026, 10, 25, 0, 30, tzinfo=UTC)) == 1
    assert shift_at(rota, datetime(2026, 10, 25, 1, 30, tzinfo=UTC)) == 1


OVERRIDES = [
    {"start": "2026-03-10T09:00:00+01:00", "end": "2026-03-11T09:00:00+01:00", "logins": ["x", "y"]},
    {"start": "2026-03-11T00:00:00+01:00", "end": "2026-03-12T00:00:00+01:00", "logins": ["z"]},
    {"start": "2026-01-01T00:00:00+01:00", "end": "2026-01-02T00:00:00+01:00", "logins": ["early"]},
]  # fmt: skip


@pytest.mark.parametrize(
    ("at", "who"),
    [
        pytest.param("2026-03-10T08:59:59+01:00", ("b",), id="before it the rotation"),
        pytest.param("2026-03-10T09:00:00+01:00", ("x", "y"), id="its start belongs to it"),
        pytest.param("2026-03-11T00:00:00+01:00", ("z",), id="of two the later written"),
        pytest.param("2026-03-12T00:00:00+01:00", ("b",), id="its end does not"),
        pytest.param("2026-01-01T12:00:00+01:00", ("early",), id="also before the first shift"),
    ],
)
def test_overrides(at: str, who: tuple[str, ...]) -> None:
    assert on_call_at(a_rota(overrides=OVERRIDES), datetime.fromisoformat(at)) == who


@given(st.datetimes(timezones=st.just(UTC)), st.integers(1, 30), st.integers(0, 23))
def test_shifts_come_one_after_the_other(at: datetime, period: int, hour: int) -> None:
    rota = a_rota(period_days=period, handover=f"{hour:02}:30")
    if datetime(1900, 1, 1, tzinfo=UTC) < at < datetime(2200, 1, 1, tzinfo=UTC):
        assert shift_at(rota, at + timedelta(minutes=30)) - shift_at(rota, at) in {0, 1}


def test_the_same_incident_gets_the_same_person_and_the_others_follow() -> None:
    source = a_source(round_robin={"logins": ["a", "b", "c"]})
    found = choose([source], an_incident(), now=NOW)
    assert found == choose([source], an_incident(), now=NOW + timedelta(days=9))
    assert sorted(each.logins[0] for each in found) == ["a", "b", "c"]


def test_the_ring_gives_everybody_a_share() -> None:
    source = a_source(round_robin={"logins": ["a", "b", "c"]})
    first = [
        choose([source], an_incident(id=f"{at:032x}"), now=NOW)[0].logins[0] for at in range(300)
    ]
    assert min(first.count(login) for login in "abc") > 70


def test_a_chain_is_answered_in_its_order_each_with_its_reason() -> None:
    chain = [
        a_source(**LABEL),
        a_source(on_call={"start": "2030-01-01", "logins": ["a"]}),
        a_source(static={"logins": ["Mona", "mona"]}),
    ]
    assert choose(chain, an_incident(), now=NOW) == (
        Candidate("from_label", (), CandidateReason.NO_SUCH_VALUE, "label owner"),
        Candidate("on_call", (), CandidateReason.NOBODY_ON_CALL, "the first shift is on 2030-01-01"),
        Candidate("static", ("Mona",), CandidateReason.NAMED, "the route names them"),
    )  # fmt: skip
