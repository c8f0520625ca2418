"""What an answer of GitHub, or a missing one, means for the write it belongs to.

Pure: it reads status, headers and body that the adapter saw and names the outcome. It must not
send, wait or log.

Two promises to the worker:

- UNKNOWN is only ever said of a write that may have taken effect. Whatever goes wrong with a read
  is UNREACHABLE: nothing was learnt, and asking again is safe.
- Not every 403 is a limit. Archived and locked are told apart by their words, limits by words and
  headers, and the rest is FORBIDDEN.

The rules for limits are GitHub's own:
https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#exceeding-the-rate-limit
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any, TypeVar

from alerts2gh.ports import Answer, Outcome, RateLimit

T = TypeVar("T")

MIN_WAIT = timedelta(seconds=1)
MAX_WAIT = timedelta(hours=2)  # GitHub's longest window is one hour; more is nonsense or clock skew
MAX_TEXT = 300  # code points

_SECRETS = re.compile(
    r"\bgh[a-z]_[A-Za-z0-9_]{10,}|\bgithub_pat_\w{10,}|\beyJ[\w-]+\.[\w-]+\.[\w-]+"
    r"|\b(?:bearer|basic|token)\s+[A-Za-z0-9._~+/=-]{16,}",
    re.IGNORECASE,
)
_LIMIT_WORDS = re.compile(
    r"secondary rate limit|abuse detection|submitted too quickly|wait a few minutes before you try",
    re.IGNORECASE,
)
_PRIMARY_WORDS = re.compile(r"api rate limit (?:exceeded|has been exceeded)", re.IGNORECASE)
_ARCHIVED = re.compile(r"\barchived\b", re.IGNORECASE)
_LOCKED = re.compile(r"\b(?:is|was|has been) locked\b", re.IGNORECASE)
_DISABLED = re.compile(r"\bissues\b.*\bdisabled\b", re.IGNORECASE)


class RequestKind(StrEnum):
    """What a request would do; the same answer means different things for each."""

    READ = "read"
    CREATE = "create"
    """POST of a new issue."""
    WRITE = "write"


class TransportFailure(StrEnum):
    """Why there is no answer to read."""

    NEVER_LEFT = "never_left"
    """No name, no connection, TLS refused: GitHub has not seen the request."""
    NO_ANSWER = "no_answer"
    """Sent, or perhaps sent, and then a time-out or a closed connection."""
    UNREADABLE = "unreadable"
    """An answer began and broke off, or was not what it said it was."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what came back.

    Header names are lower case; `body` is text, known secrets already removed.

    With a `failure`, `body` is the adapter's own sentence about it.
    """

    kind: RequestKind
    status: int | None
    headers: Mapping[str, str]
    body: str
    failure: TransportFailure | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an exchange came to; `document` is the parsed JSON of a DONE answer."""

    outcome: Outcome
    text: str = ""
    status: int | None = None
    wait: timedelta | None = None
    rate: RateLimit | None = None
    document: Any = None

    def answer(self, value: T | None = None, text: str | None = None) -> Answer[T]:
        """The same for the worker, with the value that the adapter read out of the document."""
        return Answer(
            outcome=self.outcome,
            value=value,
            text=self.text if text is None else text,
            status=self.status,
            wait=self.wait,
            rate=self.rate,
        )


def classify(exchange: Exchange, now: datetime) -> Verdict:
    """Name the outcome of one exchange.

    `now` serves for dates in headers when GitHub sent no `Date` of its own.
    """
    if exchange.failure is not None or exchange.status is None:
        return _without_answer(exchange)
    rate = rate_limit(exchange.headers)
    document = _parse(exchange.body)
    if 200 <= exchange.status < 300:  # noqa: PLR2004 -- the status class is the rule
        return _success(exchange, document, rate)
    message = _message(document, exchange.status)
    outcome = _outcome(exchange, message, rate)
    return Verdict(
        outcome=outcome,
        text=readable(message),
        status=exchange.status,
        wait=_wait(exchange.headers, outcome, rate, now),
        rate=rate,
    )


def unreadable(kind: RequestKind, status: int | None, what: str) -> Verdict:
    """The verdict for a success that cannot be read, such as a proxy's page."""
    return Verdict(_lost(kind), readable(what), status)


def _lost(kind: RequestKind) -> Outcome:
    return Outcome.UNREACHABLE if kind is RequestKind.READ else Outcome.UNKNOWN


def _without_answer(exchange: Exchange) -> Verdict:
    text = readable(exchange.body)
    if exchange.failure is TransportFailure.NEVER_LEFT:
        return Verdict(Outcome.UNREACHABLE, text)
    return Verdict(_lost(exchange.kind), text, exchange.status)


def _success(exchange: Exchange, document: Any, rate: RateLimit | None) -> Verdict:
    if document is _NOT_JSON:
        what = f"HTTP {exchange.status} with a body that is not JSON: is a proxy answering?"
        return Verdict(_lost(exchange.kind), what, exchange.status, rate=rate)
    return Verdict(Outcome.DONE, "", exchange.status, rate=rate, document=document)


_BY_STATUS = {
    301: Outcome.MOVED,
    302: Outcome.MOVED,
    304: Outcome.NOT_MODIFIED,
    307: Outcome.MOVED,
    308: Outcome.MOVED,
    401: Outcome.UNAUTHORISED,
    404: Outcome.NOT_FOUND,
    451: Outcome.FORBIDDEN,
}
_MAY_HAVE_HAPPENED = frozenset({408, 409, 425})  # a proxy's words; GitHub may have gone on


def _outcome(exchange: Exchange, message: str, rate: RateLimit | None) -> Outcome:
    status = exchange.status or 0
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status in {403, 429}:
        return _refused(exchange, message, rate)
    if status == 410:  # noqa: PLR2004 -- GitHub's status for both of these
        disabled = _DISABLED.search(message) or exchange.kind is RequestKind.CREATE
        return Outcome.ISSUES_DISABLED if disabled else Outcome.GONE
    if 400 <= status < 500 and status not in _MAY_HAVE_HAPPENED:  # noqa: PLR2004 -- status class
        return Outcome.SECONDARY_LIMIT if _LIMIT_WORDS.search(message) else Outcome.INVALID
    return _lost(exchange.kind)


def _refused(exchange: Exchange, message: str, rate: RateLimit | None) -> Outcome:
    """403 or 429.

    Words go before headers: the request that used up the hour may itself have hit an archived
    repository.
    """
    if _LIMIT_WORDS.search(message):
        return Outcome.SECONDARY_LIMIT
    if _PRIMARY_WORDS.search(message):
        return Outcome.PRIMARY_LIMIT
    if _ARCHIVED.search(message):
        return Outcome.ARCHIVED
    if _LOCKED.search(message):
        return Outcome.LOCKED
    if rate is not None and rate.remaining == 0:
        return Outcome.PRIMARY_LIMIT
    too_many = exchange.status == 429  # noqa: PLR2004 -- Too Many Requests
    return (
        Outcome.SECONDARY_LIMIT
        if too_many or "retry-after" in exchange.headers
        else Outcome.FORBIDDEN
    )


_WAITABLE = frozenset(
    {Outcome.PRIMARY_LIMIT, Outcome.SECONDARY_LIMIT, Outcome.UNKNOWN, Outcome.UNREACHABLE}
)


def _wait(
    headers: Mapping[str, str], outcome: Outcome, rate: RateLimit | None, now: datetime
) -> timedelta | None:
    """How long GitHub asks us to be silent.

    Retry-After, else the reset of a used-up limit, else nothing said.
    """
    if outcome not in _WAITABLE:
        return None
    there = _http_date(headers.get("date", "")) or now  # their clock, so that skew cancels out
    asked = _retry_after(headers.get("retry-after", ""), there)
    if asked is None and rate is not None and rate.remaining == 0:
        asked = rate.reset_at - there + MIN_WAIT
    return None if asked is None else min(max(asked, MIN_WAIT), MAX_WAIT)


def _retry_after(value: str, there: datetime) -> timedelta | None:
    text = value.strip()
    if re.fullmatch(r"[+-]?\d{1,12}(?:\.\d+)?", text, re.ASCII):
        return timedelta(seconds=min(float(text), MAX_WAIT.total_seconds()))
    if re.fullmatch(r"\d+", text, re.ASCII):
        return MAX_WAIT
    at = _http_date(text)
    return None if at is None else at - there


def _http_date(text: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def rate_limit(headers: Mapping[str, str]) -> RateLimit | None:
    """GitHub's x-ratelimit-* headers; None when one is missing or makes no sense."""
    try:
        return RateLimit(
            resource=headers.get("x-ratelimit-resource", "core")[:50],
            limit=int(float(headers["x-ratelimit-limit"])),
            remaining=max(0, int(float(headers["x-ratelimit-remaining"]))),
            reset_at=datetime.fromtimestamp(float(headers["x-ratelimit-reset"]), UTC),
        )
    except (KeyError, ValueError, OverflowError, OSError):
        return None


_NOT_JSON = object()


def _parse(body: str) -> Any:
    if not body.strip():
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return _NOT_JSON


def _message(document: Any, status: int) -> str:
    """GitHub's message and its list of errors as one sentence.

    Of a page that is not JSON only the status.
    """
    if not isinstance(document, dict):
        return f"HTTP {status} without a message of GitHub"
    message = document.get("message")
    head = message if isinstance(message, str) and message else f"HTTP {status}"
    told = document.get("errors")
    details = [_error_text(each) for each in (told if isinstance(told, list) else [told]) if each]
    return f"{head}: {'; '.join(details)}" if details else head


def _error_text(error: Any) -> str:
    """One entry of `errors`.

    GitHub sends objects with field and code, objects with a message, or plain strings.
    """
    if not isinstance(error, dict):
        return str(error)
    if isinstance(error.get("message"), str) and error["message"]:
        return str(error["message"])
    subject = " ".join(str(error[key]) for key in ("resource", "field") if error.get(key))
    value = f" ({error['value']!r})" if error.get("value") is not None else ""
    return f"{subject}{value}: {error.get('code', 'invalid')}"


def readable(text: str) -> str:
    """One printable line without what looks like a credential, cut to MAX_TEXT."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: MAX_TEXT * 20]).split())
    safe = _SECRETS.sub("[redacted]", line)
    return safe if len(safe) <= MAX_TEXT else safe[: MAX_TEXT - 1] + "…"
