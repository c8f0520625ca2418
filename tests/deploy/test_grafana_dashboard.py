"""The Grafana dashboard: its queries are PromQL and use only what exists."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.promql_words import documented, mistakes

FILE = Path(__file__).parents[2] / "deploy" / "grafana" / "alerts2gh.json"
DASHBOARD: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
QUERIES = [
    (panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]
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


def test_every_panel_is_there_once_and_says_what_it_shows() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]

    assert len(ids) == len(set(ids))
    assert all(panel["title"] and panel["description"] for panel in DASHBOARD["panels"])


def test_no_two_panels_lie_on_each_other() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
