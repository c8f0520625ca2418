"""How a Node object becomes Prometheus text, whatever it holds."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from chassis.contracts import ConditionReason
from exporters.node_condition_lines import HEADERS, ORDER, Family, Oddity, label_value, render_node
from tests.exporters.node_builders import a_condition, a_node, a_policy, ago

Samples = dict[tuple[str, ...], float]


def text_of(node: dict[str, Any], **policy: Any) -> str:
    lines = render_node(node, a_policy(**policy))
    whole = b"".join(
        HEADERS[family] + chunk for family, chunk in zip(ORDER, lines.chunks, strict=True)
    )
    return whole.decode("utf-8")


def samples(node: dict[str, Any], metric: str, **policy: Any) -> Samples:
    """The values of a metric by the values of its labels but for the node; each series may be there only once."""
    found: Samples = {}
    for family in text_string_to_metric_families(text_of(node, **policy)):
        for sample in family.samples:
            if sample.name == metric:
                key = tuple(value for name, value in sample.labels.items() if name != "node")
                assert key not in found
                found[key] = sample.value
    return found


def oddities(node: dict[str, Any]) -> tuple[Oddity, ...]:
    return render_node(node, a_policy()).oddities


@pytest.mark.parametrize(
    ("status", "current"),
    [
        pytest.param("True", "true", id="True is the problem"),
        pytest.param("False", "false", id="False is its absence"),
        pytest.param(
            "Unknown", "unknown", id="Unknown is a value of its own and not that of healthy"
        ),
        pytest.param("Bogus", "unknown", id="a status that does not exist says nothing"),
        pytest.param("true", "unknown", id="a status in another case does not exist"),
        pytest.param(None, "unknown", id="no status"),
        pytest.param(["True"], "unknown", id="a status that is no text"),
    ],
)
def test_a_condition_has_one_sample_for_each_status_and_one_of_them_is_1(
    status: object, current: str
) -> None:
    node = a_node(conditions=[a_condition("GPUIsLost", status)])

    assert samples(node, "nodemend_node_condition") == {
        ("GPUIsLost", each): float(each == current) for each in ("true", "false", "unknown")
    }


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (a_condition(status="True"), ()),
        (a_condition(status="Bogus"), (Oddity.BAD_STATUS,)),
        (a_condition(status=None), (Oddity.BAD_STATUS,)),
        (a_condition(kind=None), (Oddity.NO_TYPE,)),
        (a_condition(kind=""), (Oddity.NO_TYPE,)),
        (a_condition(kind=7), (Oddity.NO_TYPE,)),
        ("no mapping", (Oddity.NO_TYPE,)),
        (a_condition(lastTransitionTime="yesterday"), (Oddity.BAD_TIME,)),
        (a_condition(lastTransitionTime="2026-11-30T12:00:00"), (Oddity.BAD_TIME,)),
        (a_condition(lastTransitionTime="0001-01-01T00:00:00Z"), (Oddity.BAD_TIME,)),
        (a_condition(lastHeartbeatTime=12), (Oddity.BAD_TIME,)),
        (a_condition(lastHeartbeatTime=None, lastTransitionTime=None), ()),
    ],
)
def test_what_cannot_be_shown_as_it_is_is_counted(
    condition: object, found: tuple[Oddity, ...]
) -> None:
    assert oddities(a_node(conditions=[condition])) == found


def test_of_two_conditions_of_one_type_the_last_one_is_shown() -> None:
    node = a_node(conditions=[a_condition("X", "True"), a_condition("X", "False")])

    assert samples(node, "nodemend_node_condition")[("X", "false")] == 1
    assert oddities(node) == (Oddity.DUPLICATE_TYPE,)


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        pytest.param("GPUFallenOffBus", "GPUFallenOffBus", id="a reason of ours"),
        pytest.param("Xid79", "Xid79", id="an XID"),
        pytest.param("KubeletReady", "KubeletReady", id="a reason of Kubernetes"),
        pytest.param("FilesystemIsReadOnly", "FilesystemIsReadOnly", id="a configured reason"),
        pytest.param("10.0.0.7 is down", "Other", id="any other text"),
        pytest.param("", "Other", id="an empty reason"),
        pytest.param(None, "Other", id="no reason"),
        pytest.param(7, "Other", id="a reason that is no text"),
    ],
)
def test_a_reason_is_one_of_a_closed_list_or_other(reason: object, shown: str) -> None:
    node = a_node(conditions=[a_condition("X", reason=reason)])

    found = samples(node, "nodemend_node_condition_reason", reasons=["FilesystemIsReadOnly"])

    assert found == {("X", shown): 1.0}


def test_the_reasons_of_the_contract_are_shown_as_they_are() -> None:
    conditions = [a_condition(f"C{n}", reason=each) for n, each in enumerate(ConditionReason)]

    found = samples(a_node(conditions=conditions), "nodemend_node_condition_reason")

    assert [reason for _, reason in found] == list(ConditionReason)


def test_times_are_seconds_since_1970_and_absent_where_there_is_none() -> None:
    node = a_node(
        conditions=[
            a_condition("A", lastHeartbeatTime="2026-11-30T12:00:00Z", lastTransitionTime=None),
            a_condition(
                "B", lastHeartbeatTime=None, lastTransitionTime="2026-11-30T13:00:00+01:00"
            ),
        ]
    )
    metric = "nodemend_node_condition_last_{}_timestamp_seconds"

    assert samples(node, metric.format("heartbeat")) == {("A",): 1796040000.0}
    assert samples(node, metric.format("transition")) == {("B",): 1796040000.0}


def test_the_node_info_has_gpus_kernel_and_driver() -> None:
    node = a_node(
        labels={
            "nvidia.com/gpu.product": "NVIDIA-H100",
            "nvidia.com/cuda.driver-version.full": "580.65.06",
        },
        allocatable={"nvidia.com/gpu": "8", "cpu": "128"},
        kernel="6.8.0-85",
    )

    assert samples(node, "nodemend_node_info") == {
        ("NVIDIA-H100", "8", "6.8.0-85", "580.65.06"): 1.0
    }


@pytest.mark.parametrize(
    ("labels", "driver"),
    [
        ({}, ""),
        ({"nvidia.com/cuda.driver.major": "470", "nvidia.com/cuda.driver.minor": "82", "nvidia.com/cuda.driver.rev": "01"}, "470.82.01"),
        ({"nvidia.com/cuda.driver.major": "470"}, ""),
    ],
)  # fmt: skip
def test_the_driver_may_lie_in_several_labels(labels: dict[str, str], driver: str) -> None:
    assert samples(a_node(labels=labels), "nodemend_node_info") == {("", "0", "6.1.0", driver): 1.0}


@pytest.mark.parametrize("quantity", ["2k", "-1", "1.5", "", "٣", "9" * 40, None, [1]])
def test_a_quantity_that_is_no_whole_number_counts_as_no_gpu(quantity: object) -> None:
    node = a_node(allocatable={"nvidia.com/gpu": quantity, "amd.com/gpu": "2"})

    assert [count for _, count, *_ in samples(node, "nodemend_node_info")] == ["2"]


def test_two_labels_of_a_node_never_meet_in_one_name() -> None:
    """a.b/c and a-b/c both become a_b_c where names are made by replacing characters."""
    node = a_node(labels={"a.b/c": "one", "a-b/c": "two"})

    text = text_of(node, node_labels={"first": "a.b/c", "second": "a-b/c", "third": "gone"})

    assert (
        'nodemend_node_labels{node="n1",label_first="one",label_second="two",label_third=""} 1\n'
        in text
    )


def test_without_configured_labels_there_is_no_labels_family() -> None:
    assert "nodemend_node_labels{" not in text_of(a_node(labels={"a": "b"}))


@pytest.mark.parametrize("family", [each for each in Family if each is not Family.LABELS])
def test_only_the_families_that_are_asked_for_are_rendered(family: Family) -> None:
    lines = render_node(a_node(conditions=[a_condition()]), a_policy(families=[family.value]))

    rendered = {each for each, chunk in zip(ORDER, lines.chunks, strict=True) if chunk}
    assert rendered | ({Family.STALE} if lines.freshness.types else set()) == {family}


def test_400_conditions_are_1200_samples() -> None:
    node = a_node(conditions=[a_condition(f"C{n}") for n in range(400)])

    assert len(samples(node, "nodemend_node_condition")) == 1200


@pytest.mark.parametrize(
    "node",
    [
        {},
        {"metadata": None, "status": None},
        a_node(),
        {
            "metadata": {"name": "n"},
            "status": {"conditions": None, "allocatable": [], "nodeInfo": 3},
        },
        {"metadata": {"name": "n", "labels": ["a"]}, "status": {"conditions": {"type": "X"}}},
    ],
)
def test_a_node_without_conditions_has_none(node: dict[str, Any]) -> None:
    assert samples(node, "nodemend_node_condition") == {}
    assert len(samples(node, "nodemend_node_info")) == 1


def test_a_quote_a_line_break_and_a_line_separator_break_nothing() -> None:
    kind, message = 'a"b\\n\nc\u2028d', 'x\u2028\ny"z'
    node = a_node('no"de', [a_condition(kind, "True", reason='r"\n', message=message)])

    assert samples(node, "nodemend_node_condition")[(kind, "true")] == 1
    assert text_of(node).count("\n") == len(ORDER) * 2 + 3 + 1 + 1 + 1 + 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ('say "no"', r"say \"no\""),
        ("C:\\new", r"C:\\new"),
        ("two\nlines", r"two\nlines"),
        ("half \ud83d pair", "half \ufffd pair"),
        ("nul\x00", "nul\ufffd"),
        ("tab\tand\rreturn\u2028", "tab\tand\rreturn\u2028"),
        (None, ""),
        (3, ""),
    ],
)
def test_a_label_value_is_escaped(text: object, shown: str) -> None:
    assert label_value(text) == shown


anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(), st.lists(st.text(), max_size=2)
)
conditions = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.one_of(
                st.sampled_from(["A", "B"]), st.text(st.characters(), max_size=6), anything
            ),
            "status": st.one_of(st.sampled_from(["True", "False", "Unknown"]), anything),
            "reason": st.one_of(st.text(st.characters(), max_size=6), anything),
            "lastHeartbeatTime": st.one_of(st.just(ago(minutes=1)), anything),
            "lastTransitionTime": st.one_of(st.datetimes().map(str), anything),
        },
    ),
    max_size=6,
)


@settings(max_examples=200, deadline=None)
@given(
    conditions=conditions,
    name=st.text(st.characters(), min_size=1, max_size=8),
    label=st.text(st.characters()),
)
def test_whatever_a_node_holds_the_text_can_be_read_and_no_series_comes_twice(
    conditions: list[Any], name: str, label: str
) -> None:
    node = a_node(name, conditions, labels={"zone": label}, kernel=label)
    text = text_of(node, node_labels={"zone": "zone"})
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, tuple(sample.labels.values()))
            assert key not in seen
            seen.add(key)
