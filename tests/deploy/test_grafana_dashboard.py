"""The Grafana dashboards: their queries are PromQL and use only what exists."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.promql_words import documented, mistakes

FOLDER = Path(__file__).parents[2] / "deploy" / "grafana"
DASHBOARDS: dict[str, dict[str, Any]] = {
    file.stem: json.loads(file.read_text("utf-8")) for file in sorted(FOLDER.glob("*.json"))
}
QUERIES = [
    (f"{name}: {panel['title']}", target["expr"])
    for name, dashboard in DASHBOARDS.items()
    for panel in dashboard["panels"]
    for target in panel["targets"]
]


@pytest.mark.parametrize(("title", "query"), QUERIES)
def test_a_query_uses_only_metrics_and_labels_that_exist(title: str, query: str) -> None:
    assert mistakes(query, documented(), frozenset({"job"})) == []


def test_the_queries_are_promql(promtool: str, tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:query:{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, (_, query) in enumerate(QUERIES)
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))

    done = subprocess.run(
        [promtool, "check", "rules", file], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboards_of_all_services_are_there() -> None:
    assert {"alerts2gh", "exporters"} <= set(DASHBOARDS)
    assert len({each["uid"] for each in DASHBOARDS.values()}) == len(DASHBOARDS)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_panel_is_there_once_and_says_what_it_shows(name: str) -> None:
    panels = DASHBOARDS[name]["panels"]
    ids = [panel["id"] for panel in panels]

    assert len(ids) == len(set(ids))
    assert all(panel["title"] and panel["description"] for panel in panels)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_no_two_panels_lie_on_each_other(name: str) -> None:
    places = [panel["gridPos"] for panel in DASHBOARDS[name]["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
