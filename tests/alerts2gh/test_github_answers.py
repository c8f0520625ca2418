"""What each answer of GitHub means, row by row."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts2gh.github_answers import (
    MAX_TEXT,
    MAX_WAIT,
    MIN_WAIT,
    Exchange,
    RequestKind,
    TransportFailure,
    Verdict,
    classify,
    rate_limit,
    readable,
)
from alerts2gh.ports import Outcome, RateLimit

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
READ, CREATE, WRITE = RequestKind.READ, RequestKind.CREATE, RequestKind.WRITE
SECONDARY = (
    "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
)


def said(message: object, **more: object) -> str:
    return json.dumps({"message": message, **more})


def used_up(seconds: int = 600, remaining: int = 0) -> dict[str, str]:
    return {
        "x-ratelimit-limit": "5000",
        "x-ratelimit-remaining": str(remaining),
        "x-ratelimit-reset": str(int(NOW.timestamp()) + seconds),
        "x-ratelimit-resource": "core",
    }


def ask(
    status: int, body: str = "", headers: Mapping[str, str] | None = None, kind: RequestKind = WRITE
) -> Verdict:
    return classify(Exchange(kind, status, headers or {}, body), NOW)


@pytest.mark.parametrize(
    ("kind", "status", "body", "headers", "outcome"),
    [
        pytest.param(CREATE, 201, "{}", {}, Outcome.DONE, id="a created issue is done"),
        pytest.param(READ, 204, "", {}, Outcome.DONE, id="no content is done"),
        pytest.param(READ, 304, "", {}, Outcome.NOT_MODIFIED, id="304 is not modified"),
        pytest.param(
            CREATE, 200, "<html>", {}, Outcome.UNKNOWN, id="a proxy page may hide a write's success"
        ),
        pytest.param(
            READ, 200, "<html>", {}, Outcome.UNREACHABLE, id="a proxy page in place of a read says nothing"
        ),
        pytest.param(CREATE, 301, said("Moved"), {}, Outcome.MOVED, id="301 has moved"),
        pytest.param(WRITE, 307, "", {}, Outcome.MOVED, id="307 has moved"),
        pytest.param(WRITE, 308, "", {}, Outcome.MOVED, id="308 has moved"),
        pytest.param(WRITE, 303, "", {}, Outcome.UNKNOWN, id="see other may come after a write"),
        pytest.param(READ, 401, said("Bad credentials"), {}, Outcome.UNAUTHORISED, id="401 is the token"),
        pytest.param(
            WRITE, 403, said("Resource not accessible by integration"), used_up(remaining=9),
            Outcome.FORBIDDEN, id="a missing scope is no limit",
        ),
        pytest.param(
            WRITE, 403, said("Must have push access to Repository."), {}, Outcome.FORBIDDEN,
            id="a missing right is no limit",
        ),
        pytest.param(WRITE, 403, "", {}, Outcome.FORBIDDEN, id="a bare 403 is no limit"),
        pytest.param(
            WRITE, 403, said("Repository was archived so is read-only."), used_up(),
            Outcome.ARCHIVED, id="archived is no limit though the hour is used up",
        ),
        pytest.param(
            WRITE, 403, said("Unable to create comment because issue is locked."), {"retry-after": "1"},
            Outcome.LOCKED, id="locked is no limit",
        ),
        pytest.param(
            CREATE, 403, said("API rate limit exceeded for user ID 1."), used_up(),
            Outcome.PRIMARY_LIMIT, id="403 with its words and headers is the primary limit",
        ),
        pytest.param(
            CREATE, 429, said("API rate limit exceeded for user ID 1."), {},
            Outcome.PRIMARY_LIMIT, id="429 with its words alone is the primary limit",
        ),
        pytest.param(READ, 403, "", used_up(), Outcome.PRIMARY_LIMIT, id="a used-up hour explains a bare 403"),
        pytest.param(READ, 429, "", used_up(), Outcome.PRIMARY_LIMIT, id="a used-up hour explains a 429"),
        pytest.param(WRITE, 403, said(SECONDARY), {}, Outcome.SECONDARY_LIMIT, id="403 secondary by words"),
        pytest.param(
            WRITE, 403, said(SECONDARY), used_up(), Outcome.SECONDARY_LIMIT, id="its words beat the headers"
        ),
        pytest.param(
            WRITE, 403, said("Slow down"), {"retry-after": "30"}, Outcome.SECONDARY_LIMIT,
            id="a 403 that says when to come back is a limit",
        ),
        pytest.param(WRITE, 429, "", {}, Outcome.SECONDARY_LIMIT, id="a bare 429 is the secondary limit"),
        pytest.param(
            WRITE, 403, said("You have triggered an abuse detection mechanism."), {},
            Outcome.SECONDARY_LIMIT, id="the old name of the secondary limit",
        ),
        pytest.param(
            CREATE, 422, said("Validation Failed", errors=["was submitted too quickly"]), {},
            Outcome.SECONDARY_LIMIT, id="submitted too quickly is a limit in the clothes of a 422",
        ),
        pytest.param(WRITE, 404, said("Not Found"), {}, Outcome.NOT_FOUND, id="404 is not found"),
        pytest.param(
            CREATE, 410, said("Issues has been disabled in this repository."), {},
            Outcome.ISSUES_DISABLED, id="410 on create",
        ),
        pytest.param(CREATE, 410, "", {}, Outcome.ISSUES_DISABLED, id="a wordless 410 on create"),
        pytest.param(
            READ, 410, said("Issues are disabled for this repo"), {}, Outcome.ISSUES_DISABLED,
            id="410 on a list when issues are off",
        ),
        pytest.param(READ, 410, said("This issue was deleted"), {}, Outcome.GONE, id="410 on get"),
        pytest.param(WRITE, 410, "", {}, Outcome.GONE, id="410 on edit"),
        pytest.param(WRITE, 422, said("Validation Failed"), {}, Outcome.INVALID, id="422 is invalid"),
        pytest.param(WRITE, 413, "", {}, Outcome.INVALID, id="too large is invalid"),
        pytest.param(READ, 451, said("DMCA"), {}, Outcome.FORBIDDEN, id="blocked for legal reasons"),
        pytest.param(WRITE, 408, "", {}, Outcome.UNKNOWN, id="a proxy's request time-out on a write"),
        pytest.param(WRITE, 409, "", {}, Outcome.UNKNOWN, id="a conflict on a write"),
        *[
            pytest.param(CREATE, s, "", {}, Outcome.UNKNOWN, id=f"a create may have happened behind a {s}")
            for s in (500, 502, 503, 504)
        ],
        *[
            pytest.param(READ, s, "", {}, Outcome.UNREACHABLE, id=f"a read may be repeated after a {s}")
            for s in (500, 502, 503, 504)
        ],
    ],
)  # fmt: skip
def test_an_answer_means(
    kind: RequestKind, status: int, body: str, headers: Mapping[str, str] | None, outcome: Outcome
) -> None:
    verdict = ask(status, body, headers, kind)

    assert (outcome, status) == (verdict.outcome, verdict.status)


@pytest.mark.parametrize(
    ("kind", "failure", "outcome"),
    [
        (READ, TransportFailure.NEVER_LEFT, Outcome.UNREACHABLE),
        (CREATE, TransportFailure.NEVER_LEFT, Outcome.UNREACHABLE),
        (WRITE, TransportFailure.NEVER_LEFT, Outcome.UNREACHABLE),
        (READ, TransportFailure.NO_ANSWER, Outcome.UNREACHABLE),
        (CREATE, TransportFailure.NO_ANSWER, Outcome.UNKNOWN),
        (WRITE, TransportFailure.NO_ANSWER, Outcome.UNKNOWN),
        (READ, TransportFailure.UNREADABLE, Outcome.UNREACHABLE),
        (CREATE, TransportFailure.UNREADABLE, Outcome.UNKNOWN),
        (WRITE, TransportFailure.UNREADABLE, Outcome.UNKNOWN),
    ],
)
def test_only_a_write_that_was_sent_is_unknown(
    kind: RequestKind, failure: TransportFailure, outcome: Outcome
) -> None:
    verdict = classify(Exchange(kind, None, {}, "no connection: refused", failure), NOW)

    assert (outcome, "no connection: refused", None) == (
        verdict.outcome,
        verdict.text,
        verdict.status,
    )


@pytest.mark.parametrize(
    ("status", "headers", "wait"),
    [
        pytest.param(403, {"retry-after": "30"}, 30, id="seconds"),
        pytest.param(403, {"retry-after": " 30 "}, 30, id="seconds between blanks"),
        pytest.param(429, {"retry-after": "1.5"}, 1.5, id="a fraction"),
        pytest.param(429, {"retry-after": "Mon, 30 Nov 2026 12:02:00 GMT"}, 120, id="a date"),
        pytest.param(
            429,
            {
                "retry-after": "Mon, 30 Nov 2026 13:02:00 GMT",
                "date": "Mon, 30 Nov 2026 13:00:00 GMT",
            },
            120,
            id="a date by GitHub's own clock, which is an hour ahead of ours",
        ),
        pytest.param(429, {"retry-after": "Mon, 30 Nov 2026 11:00:00 GMT"}, 1, id="a date gone by"),
        pytest.param(429, {"retry-after": "-5"}, 1, id="negative"),
        pytest.param(429, {"retry-after": "0"}, 1, id="zero"),
        pytest.param(429, {"retry-after": "999999"}, 7200, id="absurdly long"),
        pytest.param(429, {"retry-after": "9" * 400}, 7200, id="longer than a number may be"),
        pytest.param(429, {"retry-after": "soon"}, None, id="not understood is not said"),
        pytest.param(429, {"retry-after": "²"}, None, id="a digit that is none"),
        pytest.param(429, {"retry-after": "Mon, 99 Nov 2026 11:00:00 GMT"}, None, id="no such day"),
        pytest.param(429, {}, None, id="nothing said"),
        pytest.param(429, used_up(600), 601, id="the reset of a used-up hour"),
        pytest.param(429, used_up(600) | {"retry-after": "5"}, 5, id="Retry-After beats the reset"),
        pytest.param(429, used_up(600, remaining=7), None, id="the reset of an hour not used up"),
        pytest.param(429, used_up(-50), 1, id="a reset gone by"),
        pytest.param(503, {"retry-after": "20"}, 20, id="GitHub is down and says until when"),
        pytest.param(404, {"retry-after": "20"}, None, id="no answer for waiting"),
    ],
)
def test_the_wait_is_what_github_asks_within_reason(
    status: int, headers: Mapping[str, str] | None, wait: float | None
) -> None:
    assert (None if wait is None else timedelta(seconds=wait)) == ask(status, "", headers).wait


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(
            said("Validation Failed", errors=[{"resource": "Issue", "field": "title", "code": "missing_field"}]),
            "Validation Failed: Issue title: missing_field", id="field and code",
        ),
        pytest.param(
            said("Validation Failed", errors=[
                {"resource": "Issue", "code": "custom", "field": "body", "message": "body is too long"},
                "and a word",
            ]),
            "Validation Failed: body is too long; and a word", id="messages and words",
        ),
        pytest.param(
            said("Validation Failed", errors=[{"value": "carol", "field": "assignees", "code": "invalid"}]),
            "Validation Failed: assignees ('carol'): invalid", id="the value that is wrong",
        ),
        pytest.param(said("Validation Failed", errors="all of it"), "Validation Failed: all of it", id="one text"),
        pytest.param(said("Invalid request.\n\nFor 'x'"), "Invalid request. For 'x'", id="one line"),
        pytest.param(said(None), "HTTP 422", id="no message"),
        pytest.param(said(7, errors=[None, {}]), "HTTP 422", id="a message that is no text"),
        pytest.param("<html>", "HTTP 422 without a message of GitHub", id="a page"),
        pytest.param("[1]", "HTTP 422 without a message of GitHub", id="a list"),
        pytest.param("[" * 9000, "HTTP 422 without a message of GitHub", id="a bomb of brackets"),
    ],
)  # fmt: skip
def test_a_refusal_is_told_in_githubs_words(body: str, text: str) -> None:
    assert text == ask(422, body).text


@pytest.mark.parametrize(
    "secret",
    [
        "ghp_0123456789abcdefABCDEF0123456789abcd",
        "ghs_0123456789abcdef0123",
        "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz",
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxIn0.c2lnbmF0dXJl",
        "Bearer abcdefghijklmnopqrstu",
        "Authorization: token abcdefghijklmnopqrstu",
    ],
)
def test_a_text_holds_nothing_that_looks_like_a_credential(secret: str) -> None:
    text = ask(403, said(f"bad {secret} there")).text

    assert secret.rpartition(" ")[2] not in text
    assert "[redacted]" in text


@settings(deadline=None)
@given(st.text(max_size=2000))
def test_a_text_is_one_short_printable_line(text: str) -> None:
    line = readable(text)

    assert len(line) <= MAX_TEXT
    assert line.isprintable()


@pytest.mark.parametrize(
    "change",
    [
        {"x-ratelimit-reset": "1e300"},
        {"x-ratelimit-reset": "nan"},
        {"x-ratelimit-limit": "many"},
        {"x-ratelimit-remaining": "inf"},
        {"x-ratelimit-reset": ""},
    ],
)
def test_rate_headers_without_sense_are_as_none(change: dict[str, str]) -> None:
    assert rate_limit(used_up() | change) is None


def test_rate_headers_may_be_fractions() -> None:
    headers = used_up() | {"x-ratelimit-remaining": "12.0", "x-ratelimit-limit": "5000.0"}

    assert RateLimit("core", 5000, 12, NOW + timedelta(seconds=600)) == rate_limit(headers)


ANY_HEADERS = st.dictionaries(
    st.sampled_from(
        ["retry-after", "date", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]
    ),
    st.text(max_size=40) | st.integers().map(str) | st.floats().map(str),
)


@settings(deadline=None)
@given(
    kind=st.sampled_from(RequestKind),
    status=st.integers(100, 999),
    headers=ANY_HEADERS,
    body=st.text(max_size=60) | st.builds(said, st.text(max_size=60)),
)
def test_no_answer_breaks_the_rules(
    kind: RequestKind, status: int, headers: dict[str, str], body: str
) -> None:
    verdict = classify(Exchange(kind, status, headers, body), NOW)

    assert verdict.wait is None or MIN_WAIT <= verdict.wait <= MAX_WAIT
    assert not (kind is READ and verdict.outcome is Outcome.UNKNOWN)
    assert len(verdict.text) <= MAX_TEXT
