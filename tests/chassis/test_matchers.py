"""Matchers read and decide as those of Alertmanager do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.alertmanager import (
    Matcher,
    MatcherError,
    all_match,
    parse_matcher,
    parse_matchers,
)


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        pytest.param('a="b"', {"a": "b"}, True, id="equal"),
        pytest.param('a="b"', {"a": "bb"}, False, id="equal means the whole value"),
        pytest.param('a="b"', {}, False, id="an absent label is not b"),
        pytest.param('a=""', {}, True, id="an absent label is empty"),
        pytest.param('a!="b"', {}, True, id="an absent label differs from b"),
        pytest.param('a!=""', {}, False, id="an absent label is not non-empty"),
        pytest.param('a=~"b|c"', {"a": "c"}, True, id="an alternative"),
        pytest.param('a=~"b|c"', {"a": "cc"}, False, id="anchored around all alternatives"),
        pytest.param('a=~"b"', {"a": "b\n"}, False, id="a line break at the end counts"),
        pytest.param('a=~".*"', {}, True, id="an absent label matches what empty matches"),
        pytest.param('a!~"b.*"', {"a": "bc"}, False, id="negated expression"),
        pytest.param('a!~"b.*"', {}, True, id="an absent label escapes a negated expression"),
        pytest.param(r'a=~"\\d+"', {"a": "٣"}, False, id="digits are ASCII as in RE2"),
        pytest.param('a=~"(?i)WARN.*"', {"a": "warning"}, True, id="case ignored on wish"),
    ],
)
def test_a_matcher_decides_as_in_alertmanager(
    text: str, labels: dict[str, str], matches: bool
) -> None:
    assert parse_matcher(text).matches(labels) is matches


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a="b"', [("a", "=", "b")]),
        ("a=b", [("a", "=", "b")]),
        ("a = b", [("a", "=", "b")]),
        ("a=", [("a", "=", "")]),
        ("{}", []),
        ("{ }", []),
        ('{a="b",c=~"d|e"}', [("a", "=", "b"), ("c", "=~", "d|e")]),
        ('{ a = "b" , c !~ d }', [("a", "=", "b"), ("c", "!~", "d")]),
        ('a="b",', [("a", "=", "b")]),
        ('a="x,y}{"', [("a", "=", "x,y}{")]),
        (r'a="q\"\\\n"', [("a", "=", 'q"\\\n')]),
        (r"instance=~10\.0\..*", [("instance", "=~", r"10\.0\..*")]),
        ('"my label!"="ü"', [("my label!", "=", "ü")]),
        ('größe="b"', [("größe", "=", "b")]),
        ("a=b c", [("a", "=", "b c")]),
    ],
)
def test_matchers_are_read(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert [(each.name, each.op, each.value) for each in parse_matchers(text)] == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "an empty text is no matcher"),
        ("   ", "an empty text is no matcher"),
        ("a", "after 'a' one of =, !=, =~, !~ is missing"),
        ('a "b"', "after 'a' one of"),
        ('="b"', "a label name is missing"),
        ('""="b"', "a label name is missing"),
        ('a=="b"', "'=' follows an operator"),
        ("a='b'", "use double quotes"),
        ('a="b', "a double quote has no partner"),
        ('{a="b"', "a brace has no partner"),
        ('a="b"}', "a brace has no partner"),
        ('{{a="b"}}', "a label name is missing"),
        ('a="b" c="d"', "a comma is missing"),
        (',a="b"', "a label name is missing"),
        ('a="b",,c="d"', "a label name is missing"),
        (r'a=~"\d"', r"is no escape; write a backslash as two"),
        ('a=~"("', "is no regular expression here"),
        ('a=~"[[:alpha:]]"', "is no regular expression here"),
        (r'a=~"\\pL"', "is no regular expression here"),
        ('a=~"x{99999999999999999999}"', "is no regular expression here"),
        (f'a=~"{"(" * 5000}"', "is no regular expression here"),
    ],
)
def test_what_is_no_matcher_is_refused_with_a_reason(text: str, told: str) -> None:
    with pytest.raises(MatcherError) as caught:
        parse_matchers(text)

    assert told in str(caught.value)


def test_one_matcher_is_one() -> None:
    with pytest.raises(MatcherError, match="holds 2 matchers, one is wanted"):
        parse_matcher("a=b,c=d")


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(MatcherError, match="'==' is no operator"):
        Matcher("a", "==", "b")


def test_all_matchers_must_agree_and_none_is_agreement() -> None:
    matchers = parse_matchers('a="1",b!="2"')

    assert all_match(matchers, {"a": "1"})
    assert not all_match(matchers, {"a": "1", "b": "2"})
    assert all_match((), {"a": "1"})


def test_equal_matchers_are_equal_and_hashable() -> None:
    assert {parse_matcher('a=~"b"'), parse_matcher("a=~b")} == {Matcher("a", "=~", "b")}


@given(st.text(min_size=1), st.sampled_from(["=", "!="]), st.text())
def test_a_matcher_survives_writing_and_reading(name: str, op: str, value: str) -> None:
    matcher = Matcher(name, op, value)

    assert parse_matcher(str(matcher)) == matcher


@given(st.text(alphabet='{}"=~!,\\abc[( |*\n'))
def test_any_text_is_matchers_or_an_error(text: str) -> None:
    try:
        parse_matchers(text)
    except MatcherError as error:
        str(error).encode()
