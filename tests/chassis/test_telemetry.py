"""One line an event, no secret in it, and a registry that belongs to one service."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from chassis.telemetry import (
    MASK,
    configure_logging,
    get_logger,
    new_registry,
    redact_secrets,
    redact_text,
)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    root.handlers[:] = handlers
    root.setLevel(level)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_line_of_json_with_time_level_and_part() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)

    get_logger("worker").info("issue_opened", number=7, text="two\nlines")

    (line,) = lines(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "issue_opened",
        "level": "info",
        "component": "worker",
        "number": 7,
        "text": "two\nlines",
    }


def test_a_logger_made_before_the_configuration_obeys_it() -> None:
    log, stream = get_logger("early"), io.StringIO()
    configure_logging(stream=stream, level="warning")

    log.info("unheard")
    log.warning("heard")

    assert [line["event"] for line in lines(stream)] == ["heard"]


def test_a_bound_context_is_on_each_line() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    structlog.contextvars.bind_contextvars(request_id="r1")

    get_logger("a").info("x")

    assert lines(stream)[0]["request_id"] == "r1"


def test_a_library_speaks_in_the_same_format_from_warning_on() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream, level="debug")

    logging.getLogger("library").info("unheard")
    logging.getLogger("library").warning("slow: %s", "Bearer abcdefgh12345678")

    (line,) = lines(stream)
    assert line["event"] == f"slow: Bearer {MASK}"
    assert (line["level"], line["logger"]) == ("warning", "library")


def test_a_traceback_holds_no_local_variables_and_no_credential() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    hidden = "local-value-42"

    try:
        raise RuntimeError("https://me:pass@host failed " + hidden[:0])
    except RuntimeError:
        get_logger("a").exception("crashed")

    told = lines(stream)[0]["exception"]
    assert "RuntimeError" in told
    assert "pass@" not in told
    assert hidden not in told


@pytest.mark.parametrize("level", ["info", "INFO", "debug"])
def test_a_terminal_gets_words_and_a_file_gets_json(level: str) -> None:
    terminal = Terminal()
    configure_logging(stream=terminal, level=level)
    get_logger("a").info("hello")

    with pytest.raises(json.JSONDecodeError):
        lines(terminal)


def test_json_can_be_asked_for_at_a_terminal() -> None:
    terminal = Terminal()
    configure_logging(stream=terminal, json=True)
    get_logger("a").info("hello")

    assert lines(terminal)[0]["event"] == "hello"


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="no log level 'loud': use debug, info"):
        configure_logging(stream=io.StringIO(), level="loud")


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("\ud800", id="a lone surrogate"),
        pytest.param("\x00", id="NUL"),
        pytest.param("\u2028", id="a line separator"),
        pytest.param(object(), id="an object without JSON"),
        pytest.param(float("nan"), id="no number"),
    ],
)
def test_a_strange_value_never_stops_the_log(value: object) -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)

    get_logger("a").info("odd", value=value)

    assert len(stream.getvalue().encode().splitlines()) == 1


@pytest.mark.parametrize(
    "key",
    [
        "token",
        "github_token",
        "PASSWORD",
        "db.password",
        "Authorization",
        "client_secret",
        "private_key",
        "api-key",
        "Set-Cookie",
        "credentials",
    ],
)
def test_a_field_named_like_a_secret_is_masked(key: str) -> None:
    assert redact_secrets(None, "info", {key: "s3cret", "in": {key: ["s3cret"]}}) == {
        key: MASK,
        "in": {key: [MASK]},
    }


@pytest.mark.parametrize("key", ["token_file", "password_files", "tokens_left", "monkey", "keyed"])
def test_a_field_that_only_speaks_of_a_secret_is_kept(key: str) -> None:
    assert redact_secrets(None, "info", {key: "kept"}) == {key: "kept"}


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcdefgh12345678",
        "token ghp_abcdefghijklmnop1234",
        "github_pat_11ABCDEFG0123456789_abcdef",
        "see ghs_abcdefghijklmnop1234.",
        "Basic dXNlcjpwYXNzd29yZA==",
        "https://user:abcdefgh12345678@host/path",
        "-----BEGIN RSA PRIVATE KEY-----\nabcdefgh12345678\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nabcdefgh12345678 cut off",
    ],
)
def test_a_credential_inside_a_text_is_masked(text: str) -> None:
    masked = redact_text(text)

    assert MASK in masked
    for secret in ("abcdefgh", "dXNlcjpw"):
        assert secret not in masked


@given(st.text())
def test_masking_twice_changes_nothing_more(text: str) -> None:
    assert redact_text(redact_text(text)) == redact_text(text)


def test_bytes_are_never_logged() -> None:
    assert redact_secrets(None, "info", {"body": b"s3cret"}) == {"body": MASK}


def test_a_registry_has_the_process_and_the_version_and_is_no_other() -> None:
    registry, other = new_registry("demo", "1.2.3"), new_registry("demo", "9")

    assert registry.get_sample_value("demo_build_info", {"version": "1.2.3"}) == 1
    assert registry.get_sample_value("demo_build_info", {"version": "9"}) is None
    assert other.get_sample_value("demo_build_info", {"version": "9"}) == 1
    assert (registry.get_sample_value("process_resident_memory_bytes") or 0) > 0
