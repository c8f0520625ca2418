"""What is written as JSON comes back the same, and other versions' documents can be read."""

import random
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, date, datetime, timedelta, timezone
from enum import Enum
from types import MappingProxyType, NoneType
from typing import Any, cast, get_args, get_origin, get_type_hints

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AwareDatetime, BaseModel

from alerts2gh.config import (
    AssigneeSource,
    FromCodeowners,
    FromLabel,
    IssuePolicy,
    OnCall,
    OwnerMap,
    OwnerRule,
    RotationOverride,
    RoundRobin,
    StaticAssignees,
)
from alerts2gh.incident import DeliveryPart, Disposition, Incident
from alerts2gh.store.codec import decode, encode
from alerts2gh.store.delivery_codec import decode_part, encode_part
from chassis.alertmanager import AlertStatus
from chassis.errors import PermanentError
from tests.alerts2gh.store_builders import NOW, a_part, an_alert, an_incident, an_issue

TEXTS = ["", "a", "b", "NUL \x00", "half a pair \ud800", '\\ "', "雪 🦊", "a\nb"]
JST = timezone(timedelta(hours=9))
SOURCES = [
    AssigneeSource(static=StaticAssignees(logins=("a", "b"))),
    AssigneeSource(from_label=FromLabel(label="owner", map={"x@example.org": "x"})),
    AssigneeSource(owners=OwnerMap(rules=(OwnerRule(match="10.0.0.0/8", logins=("a",)),))),
    AssigneeSource(codeowners=FromCodeowners(repository="a/b", path="x")),
    AssigneeSource(
        on_call=OnCall(
            start=date(2026, 1, 5),
            time_zone="Asia/Tokyo",
            logins=("a",),
            overrides=(
                RotationOverride(
                    start=datetime(2026, 1, 6, tzinfo=JST),
                    end=datetime(2026, 1, 7, tzinfo=JST),
                    logins=("b",),
                ),
            ),
        )
    ),
    AssigneeSource(round_robin=RoundRobin(logins=("a",))),
]


without_deadline = settings(deadline=None)  # other tests run beside this one


class Drawn:
    """Values of any type that an incident is made of, from one seed; all fields of a class are drawn."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def value(self, hint: Any) -> Any:
        origin, inside = get_origin(hint), get_args(hint)
        if NoneType in inside:
            return self._random.choice([None, self.value(inside[0])])
        if origin is tuple:
            return tuple(self.value(inside[0]) for _ in range(self._random.randrange(3)))
        if origin is not None:
            drawn = range(self._random.randrange(3))
            return {self.value(inside[0]): self.value(inside[1]) for _ in drawn}
        return self._plain(hint)

    def _plain(self, kind: Any) -> Any:
        if kind is AssigneeSource:
            return self._random.choice(SOURCES)
        if issubclass(kind, Enum):
            return self._random.choice(list(kind))
        if issubclass(kind, BaseModel):
            hints = get_type_hints(kind)
            return kind.model_construct(
                **{name: self.value(hints[name]) for name in kind.model_fields}
            )
        if is_dataclass(kind):
            hints = get_type_hints(kind)
            drawn = {each.name: self.value(hints[each.name]) for each in fields(kind)}
            return cast("Any", kind)(**drawn)
        return self._simple(kind)

    def _simple(self, kind: type) -> Any:
        microseconds = timedelta(microseconds=self._random.randrange(10**15))
        moment = datetime(1990, 1, 1, tzinfo=UTC) + microseconds
        simple = {
            str: self._random.choice(TEXTS),
            int: self._random.randrange(2**53),
            bool: self._random.random() < 0.5,
            datetime: moment,
            AwareDatetime: moment,
            timedelta: microseconds,
        }
        return simple[kind]


@without_deadline
@given(st.integers(0, 2**32))
def test_every_field_of_an_incident_survives(seed: int) -> None:
    incident = Drawn(seed).value(Incident)

    assert decode(Incident, encode(incident)) == incident


@without_deadline
@given(st.integers(0, 2**32))
def test_every_field_of_a_delivery_survives(seed: int) -> None:
    part = Drawn(seed).value(DeliveryPart)

    assert decode_part(encode_part(part).body) == part


@without_deadline
@given(st.text(st.characters()))  # half surrogate pairs are among them
def test_any_text_survives(text: str) -> None:
    part = a_part("A", an_alert(labels={text: text}), labels={text: text})

    assert decode_part(encode_part(part).body) == part


def test_all_assignee_sources_survive() -> None:
    disposition = replace(a_part().disposition, assignees=tuple(SOURCES))

    assert decode(Disposition, encode(disposition)) == disposition


def test_read_only_mappings_may_be_stored() -> None:
    labels = MappingProxyType({"a": "b"})
    part = a_part("A", an_alert(labels=labels), labels=labels)

    assert decode_part(encode_part(part).body).alerts[0].labels == {"a": "b"}


def test_a_policy_in_the_cache_is_not_taken_for_another() -> None:
    for hours in range(1200):  # more than are kept; freed objects' addresses are used again
        policy = IssuePolicy(close_after=timedelta(hours=hours))
        disposition = replace(a_part().disposition, policy=policy)
        assert decode(Disposition, encode(disposition)).policy.close_after == policy.close_after


def test_fields_of_a_newer_version_are_skipped() -> None:
    incident = replace(an_incident(), issue=an_issue())
    raw = orjson.loads(encode(incident))
    for place in (raw, raw["issue"], raw["disposition"], raw["disposition"]["policy"]):
        place["from_the_future"] = {"a": [1]}

    assert decode(Incident, orjson.dumps(raw)) == incident


def test_a_newer_versions_delivery_is_read() -> None:
    part = a_part()
    raw = orjson.loads(encode_part(part).body)
    raw["new"] = raw["part"]["new"] = 1
    raw["alerts"][0].append("new")

    assert decode_part(orjson.dumps(raw)) == part


def test_fields_that_an_older_version_lacked_get_their_default() -> None:
    incident = replace(an_incident(), issue=an_issue(title="A"), truncated=3)
    raw = orjson.loads(encode(incident))
    del raw["truncated"], raw["issue"]["title"], raw["disposition"]["policy"]["flapping"]
    del raw["disposition"]["templates"]

    read = decode(Incident, orjson.dumps(raw))

    assert read == replace(incident, truncated=0, issue=an_issue())


@pytest.mark.parametrize(
    "document",
    [b"", b"[]", b"{}", b"null", b'{"part":{},"alerts":[]}', b'{"part":{},"alerts":[[]]}', b"\xff"],
)
def test_a_document_that_is_something_else_is_a_permanent_error(document: bytes) -> None:
    with pytest.raises(PermanentError, match="a stored DeliveryPart cannot be read"):
        decode_part(document)
    with pytest.raises(PermanentError, match="a stored Incident cannot be read"):
        decode(Incident, document)


def test_a_time_is_kept_to_the_microsecond() -> None:
    alert = an_alert(starts_at=NOW, status=AlertStatus.RESOLVED, ends_at=NOW.replace(microsecond=1))

    assert decode_part(encode_part(a_part("A", alert)).body).alerts == (alert,)
