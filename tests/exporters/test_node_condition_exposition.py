"""What a scrape gets: all nodes family by family, the process's part of them, and honest silence."""

import gzip
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from flask.testing import FlaskClient
from prometheus_client.parser import text_string_to_metric_families

from chassis.telemetry import get_logger, new_registry
from chassis.webapp import create_app
from exporters.node_condition_exporter.exposition import Exposition, Nodes
from exporters.node_condition_exporter.sharding import shard_of
from exporters.node_condition_lines import HEADERS, Family, render_node
from tests.exporters.node_builders import NOW, a_condition, a_node, a_policy


def an_exposition(nodes: Callable[[], Nodes | None], **policy: Any) -> str:
    return b"".join(Exposition(nodes, a_policy(**policy)).pieces(NOW)).decode()


def nodes(*conditions: Any, count: int = 2, **policy: Any) -> Nodes:
    names = [f"n{number}" for number in range(count)]
    return {name: render_node(a_node(name, conditions), a_policy(**policy)) for name in names}


def test_the_samples_of_a_family_stand_together_behind_its_head() -> None:
    text = an_exposition(lambda: nodes(a_condition("X"), a_condition("Y")))
    order = [line.split("{")[0].split(" ")[0] for line in text.splitlines() if line[0] != "#"]

    assert [name for n, name in enumerate(order) if n == 0 or order[n - 1] != name] == list(
        dict.fromkeys(order)
    )
    assert all(
        text.count(head.decode()) == (family is not Family.LABELS)
        for family, head in HEADERS.items()
    )


def test_families_that_are_switched_off_are_not_even_named() -> None:
    chosen: dict[str, Any] = {"families": ["condition"]}
    text = an_exposition(lambda: nodes(a_condition("X"), **chosen), **chosen)

    assert {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")} == {
        "nodemend_node_condition",
        "nodemend_nodes",
        "nodemend_node_condition_oddities",
    }


def test_while_the_nodes_are_not_known_there_is_no_series_of_any() -> None:
    text = an_exposition(lambda: None)

    assert [line for line in text.splitlines() if not line.startswith("#")] == []


def test_an_empty_cluster_is_known_to_be_empty() -> None:
    assert "nodemend_nodes 0\n" in an_exposition(dict)


def test_a_node_of_another_shard_has_no_series() -> None:
    mine = {"n0": nodes()["n0"], "n1": None}
    text = an_exposition(lambda: mine)

    assert ('node="n0"' in text, 'node="n1"' in text, "nodemend_nodes 1\n" in text) == (
        True,
        False,
        True,
    )


def test_oddities_are_counted_over_all_nodes_and_start_at_0() -> None:
    text = an_exposition(lambda: nodes(a_condition("X", "Bogus"), count=3))

    assert 'nodemend_node_condition_oddities{oddity="bad_status"} 3\n' in text
    assert 'nodemend_node_condition_oddities{oddity="no_type"} 0\n' in text


@pytest.mark.parametrize("total", [1, 2, 5, 64])
def test_every_node_falls_to_one_shard_and_the_shards_are_about_even(total: int) -> None:
    names = [f"node-{number}" for number in range(6400)]
    counts = [0] * total
    for name in names:
        counts[shard_of(name, total)] += 1

    assert sum(counts) == 6400
    assert min(counts) > 6400 / total * 0.6


def test_the_shard_of_a_node_is_the_same_in_every_version() -> None:
    assert [shard_of(f"node-{n}", 4) for n in range(8)] == [1, 1, 2, 2, 0, 0, 0, 0]


@pytest.fixture
def client() -> FlaskClient:
    exposition = Exposition(lambda: nodes(a_condition("X\u2028"), count=3000), a_policy())
    app = create_app(
        "nodemend",
        registry=new_registry("nodemend", "1.2.3"),
        log=get_logger("test"),
        max_body_bytes=1000,
        auth=None,
        metrics_hook=lambda: exposition.pieces(datetime(2026, 11, 30, 12, tzinfo=UTC)),
    )
    return app.test_client()


def test_a_compressed_scrape_holds_the_same_as_a_plain_one(client: FlaskClient) -> None:
    plain = client.get("/metrics")
    packed = client.get("/metrics", headers={"Accept-Encoding": "gzip"})

    assert packed.headers["Content-Encoding"] == "gzip"
    assert len(packed.data) < len(plain.data) / 10
    assert conditions_in(gzip.decompress(packed.data)) == conditions_in(plain.data)


def conditions_in(body: bytes) -> list[str]:
    return [line for line in body.decode().split("\n") if line.startswith("nodemend_node")]


def test_a_scrape_is_read_by_the_reference_parser(client: FlaskClient) -> None:
    text = client.get("/metrics").get_data(as_text=True)

    families = {each.name: len(each.samples) for each in text_string_to_metric_families(text)}

    assert families["nodemend_node_condition"] == 9000
    assert families["nodemend_build_info"] == 1
