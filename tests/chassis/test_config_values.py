"""What a good configuration turns into, and how it is shown."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.alertmanager import all_match
from chassis.config import (
    Duration,
    MatcherList,
    SecretFile,
    Settings,
    dump_settings,
    format_duration,
    load_settings,
    parse_duration,
)


class Example(Settings):
    wait: Duration = timedelta(minutes=5)
    token_file: SecretFile | None = None
    match: MatcherList = ()
    url: str = ""


def load(folder: Path, text: str) -> Example:
    path = folder / "config.yaml"
    path.write_text(text)
    return load_settings(path, Example)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("5m", 300),
        ("1h30m", 5400),
        ("7d", 604_800),
        ("2w", 1_209_600),
        ("1y", 31_536_000),
        ("1s500ms", 1.5),
        ("1y1w1d1h1m1s1ms", 32_230_861.001),
    ],
)
def test_a_duration_reads_as_in_prometheus(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "5", "m5", "5m1h", "1m1m", "-5m", "1.5h", "5M", "\u0665m", "5m "]
)
def test_what_prometheus_refuses_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=10**13))
def test_a_duration_survives_writing_and_reading(milliseconds: int) -> None:
    duration = timedelta(milliseconds=milliseconds)

    assert parse_duration(format_duration(duration)) == duration


def test_zero_needs_no_unit_in_yaml(tmp_path: Path) -> None:
    assert load(tmp_path, "wait: 0").wait == timedelta(0)


def test_matchers_may_be_one_text_or_a_list(tmp_path: Path) -> None:
    one = load(tmp_path, """match: '{team="gpu",node=~"gpu-.*"}'""")
    many = load(tmp_path, """match: [team="gpu", 'node=~"gpu-.*"']""")

    assert one.match == many.match
    assert all_match(one.match, {"team": "gpu", "node": "gpu-1"})


def test_a_secret_path_starts_at_the_folder_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("  s3cret\n")

    secret = load(tmp_path, "token_file: token").token_file

    assert secret is not None
    assert secret.path == tmp_path / "token"
    assert secret.read() == "s3cret"


def test_a_rotated_secret_counts_at_once_and_a_missing_one_does_not(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old")
    secret = SecretFile(tmp_path / "token")

    (tmp_path / "token").write_text("new")
    assert secret.read() == "new"
    (tmp_path / "token").unlink()
    assert secret.read() == "new"


def test_the_dump_is_one_line_without_secrets(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret")
    settings = load(
        tmp_path, "{token_file: token, url: 'https://me:s3cret@host/', match: a=b, wait: 90s}"
    )

    assert dump_settings(settings) == (
        '{"match":["a=\\"b\\""],"token_file":"%s","url":"https://[redacted]@host/","wait":"1m30s"}'
        % (tmp_path / "token")
    )
    assert "s3cret" not in repr(settings.token_file)


def test_settings_never_change(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape("Instance is frozen")):
        load(tmp_path, "").wait = timedelta(0)  # type: ignore[misc]


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"\xef\xbb\xbfwait: 1m\n")

    assert load_settings(path, Example).wait == timedelta(minutes=1)


def test_a_merge_key_may_be_overridden(tmp_path: Path) -> None:
    assert load(tmp_path, "<<: {wait: 1m, url: u}\nwait: 2m").wait == timedelta(minutes=2)
