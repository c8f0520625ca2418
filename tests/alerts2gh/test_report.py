"""What keeps happening: firings summed up by alert and node, the dearest first, in words that stay in their cell."""

import csv
import io
from datetime import timedelta
from typing import Any

import pytest

from alerts2gh.ports import Ending, Episode
from alerts2gh.report import Report, Row, as_csv, as_markdown, report
from tests.alerts2gh.store_builders import NOW

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
SINCE = NOW - 7 * DAY


def episode(
    begin: timedelta, lasted: timedelta | None, alertname: str = "GPUDown", **more: Any
) -> Episode:
    """A firing that began `begin` ago; without `lasted` it goes on."""
    starts_at = NOW - begin
    ended_at = None if lasted is None else starts_at + lasted
    given = {
        "incident_id": "i",
        "fingerprint": f"{alertname}{more.get('node', 'n1')}",
        "repository": "acme/alerts",
        "node": "n1",
        "playbook": "",
        "ending": None if lasted is None else Ending.RESOLVED,
    }
    return Episode(alertname=alertname, starts_at=starts_at, ended_at=ended_at, **{**given, **more})


def row(times: int, total: timedelta, middle: timedelta, **more: Any) -> Row:
    given = {
        "alertname": "GPUDown",
        "node": "n1",
        "endings": {"resolved": times},
        "playbook": "",
    }
    return Row(times=times, total=total, median=middle, **{**given, **more})


@pytest.mark.parametrize(
    ("episodes", "rows"),
    [
        pytest.param([], [], id="nothing fired"),
        pytest.param([episode(5 * HOUR, HOUR)], [row(1, HOUR, HOUR)], id="once"),
        pytest.param(
            [episode(9 * HOUR, HOUR), episode(6 * HOUR, 3 * HOUR), episode(2 * HOUR, HOUR)],
            [row(3, 5 * HOUR, HOUR)],
            id="the median leaves the long one out, the total does not",
        ),
        pytest.param(
            [episode(2 * HOUR, None)],
            [row(1, 2 * HOUR, 2 * HOUR, endings={"still_firing": 1})],
            id="what still fires counts until now",
        ),
        pytest.param(
            [episode(8 * DAY, 3 * DAY)],
            [row(1, 2 * DAY, 2 * DAY)],
            id="only what lies in the days asked for counts",
        ),
        pytest.param(
            [
                episode(9 * HOUR, HOUR, ending=Ending.CLOSED),
                episode(7 * HOUR, HOUR, ending=Ending.NOT_PLANNED),
                episode(5 * HOUR, HOUR, ending=Ending.DELETED),
                episode(3 * HOUR, HOUR),
            ],
            [
                row(
                    4,
                    4 * HOUR,
                    HOUR,
                    endings={"resolved": 1, "closed": 1, "not_planned": 1, "deleted": 1},
                )
            ],
            id="each ending is counted",
        ),
        pytest.param(
            [episode(9 * HOUR, HOUR), episode(9 * HOUR, None, incident_id="other")],
            [row(1, 9 * HOUR, 9 * HOUR, endings={"still_firing": 1})],
            id="an alert in two repositories fires once, as long as in either",
        ),
        pytest.param(
            [
                episode(9 * HOUR, HOUR, node="n2"),
                episode(9 * HOUR, 2 * HOUR, "Other"),
                episode(9 * HOUR, 4 * HOUR),
            ],
            [
                row(1, 4 * HOUR, 4 * HOUR),
                row(1, 2 * HOUR, 2 * HOUR, alertname="Other"),
                row(1, HOUR, HOUR, node="n2"),
            ],
            id="by alert and node, the dearest first",
        ),
        pytest.param(
            [episode(9 * HOUR, HOUR), episode(5 * HOUR, HOUR, playbook="reset-gpu")],
            [row(2, 2 * HOUR, HOUR, playbook="reset-gpu")],
            id="the newest firing says which playbook there is",
        ),
    ],
)
def test_firings_are_summed_up(episodes: list[Episode], rows: list[Row]) -> None:
    assert report(episodes, SINCE, NOW) == Report(SINCE, NOW, tuple(rows))


def a_report(**more: Any) -> Report:
    return report(
        [
            episode(9 * HOUR, 90 * HOUR / 60, **more),
            episode(3 * HOUR, None, "Healed", playbook="reboot", node="n2"),
        ],
        SINCE,
        NOW,
    )


def test_markdown_says_what_has_no_playbook_yet() -> None:
    assert as_markdown(a_report()).splitlines() == [
        "# Alerts of the last 7 days",
        "",
        (
            "2 firings, 4h30m. Without a playbook: 1 firing, 1h30m. The dearest stands first;"
            " automate those without a playbook from the top."
        ),
        "",
        "| alert | node | times | fired for | median | ended | playbook |",
        "|---|---|---:|---:|---:|---|---|",
        "| Healed | n2 | 1 | 3h | 3h | 1 still firing | reboot |",
        "| GPUDown | n1 | 1 | 1h30m | 1h30m | 1 resolved by itself | none |",
    ]


def test_an_empty_report_says_so() -> None:
    assert as_markdown(report([], SINCE, NOW)).splitlines()[-1] == "Nothing fired."


def test_csv_has_seconds_and_a_column_for_each_ending() -> None:
    lines = list(csv.DictReader(io.StringIO(as_csv(a_report()))))

    assert lines[1] == {
        "alertname": "GPUDown",
        "node": "n1",
        "times": "1",
        "total_seconds": "5400",
        "median_seconds": "5400",
        "resolved": "1",
        "closed": "0",
        "not_planned": "0",
        "deleted": "0",
        "still_firing": "0",
        "playbook": "",
    }


@pytest.mark.parametrize("name", ["=1+1", "@SUM(A1)", "+1", "-1", "\t=1", "\r=1", " =1"])
def test_no_cell_of_the_csv_is_a_formula(name: str) -> None:
    (line, *_) = [
        each
        for each in csv.reader(io.StringIO(as_csv(a_report(node=name)), newline=""))
        if each[0] == "GPUDown"
    ]

    assert line[1] == f"'{name.strip()}"


@pytest.mark.parametrize("name", ["a|b", "a\nb", "<b>", "[x](http://evil)", "`x`", "@org/everyone"])
def test_no_label_leaves_its_cell_of_the_markdown(name: str) -> None:
    plain, hostile = as_markdown(a_report()), as_markdown(a_report(node=name))

    assert len(hostile.splitlines()) == len(plain.splitlines())
    (line,) = [each for each in hostile.splitlines() if "GPUDown" in each]
    bare = line.replace("\\\\", "")
    for character in "|<[`@":
        allowed = 8 if character == "|" else 0
        assert bare.count(character) - bare.count(f"\\{character}") == allowed
