"""The quick way to read an alert takes only what the careful way takes alike; an alert never changes."""

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.alertmanager import FieldError
from chassis.alertmanager.alerts import alert_from, ordinary_alert

USUAL: dict[str, Any] = {
    "status": "firing",
    "labels": {"alertname": "NodeDown", "node": "gpu-n1"},
    "annotations": {"summary": "down"},
    "startsAt": "2026-01-31T08:00:00.123456789Z",
    "endsAt": "0001-01-01T00:00:00Z",
    "generatorURL": "http://prometheus.example/graph",
    "fingerprint": "0123456789abcdef",
}
STRANGE = st.one_of(
    st.none(),
    st.integers(),
    st.booleans(),
    st.text(max_size=3),
    st.lists(st.text(max_size=1), max_size=1),
    st.dictionaries(st.text(max_size=2), st.one_of(st.text(max_size=2), st.integers()), max_size=2),
    st.sampled_from(["resolved", "2026-01-31T08:00:00+02:00", "0001-01-01T00:00:00Z", "9999-99"]),
)


def test_a_usual_alert_is_read_the_quick_way() -> None:
    assert ordinary_alert(USUAL) == alert_from(USUAL, "alerts[0]")


@given(key=st.sampled_from(sorted(USUAL)), value=STRANGE)
def test_the_quick_way_takes_nothing_that_the_careful_way_reads_otherwise(
    key: str, value: object
) -> None:
    raw = {**USUAL, key: value}
    quick = ordinary_alert(raw)
    if quick is not None:
        assert quick == alert_from(raw, "alerts[0]")


@given(st.one_of(STRANGE, st.dictionaries(st.sampled_from(sorted(USUAL)), STRANGE)))
def test_what_the_careful_way_refuses_the_quick_way_leaves_to_it(raw: object) -> None:
    try:
        alert_from(raw, "alerts[0]")
    except FieldError:
        assert ordinary_alert(raw) is None


def test_an_alert_does_not_change_and_its_copy_differs_in_what_was_asked() -> None:
    alert = alert_from(USUAL, "alerts[0]")
    with pytest.raises(FrozenInstanceError):
        alert.generator_url = "other"  # type: ignore[misc]  # what must not work
    assert replace(alert, generator_url="other") != alert
    assert hash(replace(alert, labels=(), annotations=())) is not None  # type: ignore[arg-type]  # hashable as before
