"""The documentation of node-conditions is complete and invents nothing."""

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from exporters.config.node_conditions import NodeConditionsSettings
from exporters.node_condition_exporter.exposition import Exposition
from exporters.node_condition_lines import Oddity, render_node
from tests.exporters.node_builders import NOW, a_condition, a_node, a_policy
from tests.project.test_docs import named, paths, rows

DOCS = Path(__file__).parents[2] / "docs"
CODE = re.compile(r"`([^`]+)`")
AS_ELSEWHERE = "serving."


def test_every_key_is_documented_and_none_is_invented() -> None:
    text = (DOCS / "configuration.md").read_text("utf-8")
    keys = [key for key in paths(NodeConditionsSettings) if not key.startswith(AS_ELSEWHERE)]

    assert sorted(named(text, first="node-conditions key")) == sorted(keys)


def test_the_metrics_of_nodes_and_their_labels_are_documented() -> None:
    policy = a_policy(node_labels={"NAME": "zone"})
    node = render_node(a_node("n1", [a_condition()]), policy)
    text = b"".join(Exposition(lambda: {"n1": node}, policy).pieces(NOW)).decode()
    real = {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }

    documented = {
        cells[0].strip("`"): set(CODE.findall(cells[1]))
        for cells in rows((DOCS / "metrics.md").read_text("utf-8"), "node-conditions: nodes")
    }

    assert documented == real


def test_every_oddity_is_explained() -> None:
    text = (DOCS / "exporters.md").read_text("utf-8")

    assert sorted(named(text, first="oddity")) == sorted(Oddity)
