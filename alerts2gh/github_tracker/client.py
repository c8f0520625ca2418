"""One verb's exchange with GitHub.

Fetch the token, send, follow a redirect, read pages, scrub, tell the metrics.

It must not know what an issue is, and must not retry.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

import requests.utils
from structlog.typing import FilteringBoundLogger

from alerts2gh.config import AppCredential, Credential
from alerts2gh.github_answers import Exchange, RequestKind, Verdict, classify, readable, unreadable
from alerts2gh.github_tracker.connection import Connection, keep_raw_headers_out_of_logs
from alerts2gh.github_tracker.credentials import Grant, NoTokenError, tokens_for
from alerts2gh.github_tracker.reading import UnexpectedShapeError
from alerts2gh.ports import Answer, Outcome, RateLimit

T = TypeVar("T")
OnResponse = Callable[[str, int | None, RateLimit | None], None]

MAX_HOPS = 3
MAX_PAGES = 100
REDACTED = "[redacted]"


class Endpoint(StrEnum):
    """The requests this program makes, as metrics and logs name them."""

    APP = "app"
    APP_TOKEN = "app_token"  # noqa: S105 -- an endpoint's name
    ASSIGNABLE = "assignable"
    ASSIGNEES_ADD = "assignees_add"
    COMMENT_CREATE = "comment_create"
    COMMENT_LIST = "comment_list"
    CONTENTS = "contents"
    ISSUE_CREATE = "issue_create"
    ISSUE_EDIT = "issue_edit"
    ISSUE_GET = "issue_get"
    ISSUE_LIST = "issue_list"
    LABEL_REMOVE = "label_remove"
    LABELS_ADD = "labels_add"
    MILESTONE_LIST = "milestone_list"
    TEAM_MEMBERS = "team_members"
    USER = "user"


class _ImpossiblePathError(ValueError):
    """A name that can't be part of a request path."""


def _path(segments: tuple[str, ...]) -> str:
    """Quote and join.

    An empty name, `.` or `..` would be folded away, and the request go to another endpoint.
    """
    for segment in segments:
        if segment in {"", ".", ".."}:
            raise _ImpossiblePathError(f"{segment!r} can't be part of a GitHub path")
    try:
        return "/" + "/".join(quote(segment, safe="") for segment in segments)
    except UnicodeEncodeError as error:
        raise _ImpossiblePathError("a name holds characters that are not Unicode") from error


@dataclass(frozen=True, slots=True)
class Call:
    """One request to make.

    `segments` are the names of its path; `path` is a whole one that GitHub gave, instead.
    """

    endpoint: Endpoint
    verb: str
    segments: tuple[str, ...]
    kind: RequestKind = RequestKind.READ
    path: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    document: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What a call came to, with the headers that a verb may need (lower-case names)."""

    kind: RequestKind
    verdict: Verdict
    headers: Mapping[str, str] = field(default_factory=dict)

    def read(self, value: Callable[[Any], T], text: str | None = None) -> Answer[T]:
        """Read the document of a success; one of another shape is as good as no answer."""
        if self.verdict.outcome is not Outcome.DONE:
            return self.verdict.answer()
        try:
            return self.verdict.answer(value(self.verdict.document), text)
        except UnexpectedShapeError as error:
            what = f"GitHub's answer can't be read: {error}"
            return unreadable(self.kind, self.verdict.status, what).answer()


class Client:
    """All threads' exchanges for one credential; each thread has a connection of its own."""

    def __init__(
        self,
        credential: Credential,
        *,
        now: Callable[[], datetime],
        log: FilteringBoundLogger,
        on_response: OnResponse,
    ) -> None:
        keep_raw_headers_out_of_logs()
        self._credential = credential
        self._now = now
        self._log = log
        self._on_response = on_response
        self._threads = threading.local()
        self._lock = threading.Lock()
        self._connections: list[tuple[threading.Thread, Connection]] = []
        self.tokens = tokens_for(credential, self._fetch_app_token, now)

    def call(self, call: Call, grant: Grant | None = None) -> Reply:
        """Make one request, and one more for each redirect inside the same GitHub.

        `grant` replaces the credential's own token, for requests that an App makes as itself.
        """
        try:
            addressed = replace(call, path=call.path or _path(call.segments))
            used = grant or self.tokens.current()
        except _ImpossiblePathError as error:
            return Reply(call.kind, Verdict(Outcome.INVALID, f"not sent: {error}"))
        except NoTokenError as error:
            return Reply(call.kind, error.verdict)
        reply = self._follow(addressed, used)
        if reply.verdict.outcome is Outcome.UNAUTHORISED and grant is None:
            self.tokens.forget()
        return reply

    def _follow(self, call: Call, grant: Grant) -> Reply:
        """GitHub asks to repeat the same request at Location for 301, 302, 307 and 308.

        The first had no effect.

        https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api#follow-redirects
        """
        reply = self._once(call, grant)
        for _ in range(MAX_HOPS):
            if reply.verdict.outcome is not Outcome.MOVED:
                return reply
            location = reply.headers.get("location", "")
            inside = self._inside(location)
            if inside is None:
                host = urlsplit(location).netloc.rpartition("@")[2] if location else "nowhere"
                text = f"redirected to {host}, which is not this GitHub: not followed; see base_url"
                return replace(reply, verdict=replace(reply.verdict, text=readable(text)))
            query = dict(parse_qsl(urlsplit(location).query))
            call = replace(call, path=inside, parameters=query or call.parameters)
            reply = self._once(call, grant)
        return reply

    def _inside(self, location: str) -> str | None:
        """The path below base_url that an address of this GitHub names; None for any other place.

        The token must go nowhere else.
        """
        base, there = urlsplit(self._credential.base_url), urlsplit(location)
        prefix = base.path.rstrip("/")
        same = not there.netloc or (
            there.scheme == base.scheme and there.netloc == base.netloc.rpartition("@")[2]
        )
        under = there.path.startswith(f"{prefix}/") and ".." not in there.path.split("/")
        return there.path.removeprefix(prefix) if same and under else None

    def _once(self, call: Call, grant: Grant) -> Reply:
        connection = self._connection()
        connection.authorisation.scheme = grant.scheme
        connection.authorisation.secret = grant.secret
        raw = connection.send(
            call.kind,
            call.verb,
            call.path,
            parameters=call.parameters,
            headers=call.headers,
            document=call.document,
        )
        exchange = self._scrubbed(raw, grant)
        verdict = classify(exchange, self._now())
        self._on_response(call.endpoint.value, exchange.status, verdict.rate)
        self._log.debug(
            "github_answered",
            endpoint=call.endpoint.value,
            status=exchange.status,
            outcome=verdict.outcome.value,
            text=verdict.text,
        )
        return Reply(call.kind, verdict, exchange.headers)

    def _scrubbed(self, exchange: Exchange, grant: Grant) -> Exchange:
        """Some proxies show the request in their error page.

        A success is kept: it may be a token we asked for.
        """
        if exchange.status is not None and exchange.status < 300:  # noqa: PLR2004 -- status class
            return exchange
        body = exchange.body
        for secret in {grant.secret, *self.tokens.secrets()}:
            body = body.replace(secret, REDACTED)
        return replace(exchange, body=body)

    def pages(self, call: Call, read: Callable[[Any], tuple[T, ...]]) -> Answer[tuple[T, ...]]:
        """Read all pages of a list, one request each, by the Link header as GitHub asks.

        Stops at MAX_PAGES and says so. A page that fails fails the whole: half a list is a wrong
        answer.
        """
        found: list[T] = []
        seen = {""}
        for _ in range(MAX_PAGES):
            reply = self.call(call)
            page = reply.read(read)
            if page.outcome is not Outcome.DONE:
                return replace(page, value=None)
            found.extend(page.value or ())
            link = _next_link(reply.headers.get("link", ""))
            if link in seen:
                return replace(page, value=tuple(found))
            seen.add(link)
            inside = self._inside(link)
            if inside is None:
                what = "the next page is not at this GitHub; see base_url"
                return unreadable(call.kind, page.status, what).answer()
            call = replace(call, path=inside, parameters=dict(parse_qsl(urlsplit(link).query)))
        return replace(page, value=tuple(found), text=f"cut after {MAX_PAGES} pages")

    def _fetch_app_token(self, app: AppCredential, grant: Grant) -> Verdict:
        segments = ("app", "installations", str(app.installation_id), "access_tokens")
        # As a READ: nothing is lost when its answer gets lost.
        return self.call(Call(Endpoint.APP_TOKEN, "POST", segments), grant).verdict

    def _connection(self) -> Connection:
        mine: Connection | None = getattr(self._threads, "connection", None)
        if mine is None:
            mine = Connection(self._credential, self._now)
            self._threads.connection = mine
            with self._lock:
                self._drop_finished_threads()
                self._connections.append((threading.current_thread(), mine))
        return mine

    def _drop_finished_threads(self) -> None:
        for thread, connection in self._connections:
            if not thread.is_alive():
                connection.close()
        self._connections = [each for each in self._connections if each[0].is_alive()]

    def close(self) -> None:
        """Close the connections of all threads; a later call opens new sockets."""
        with self._lock:
            for _, connection in self._connections:
                connection.close()


def _next_link(header: str) -> str:
    links = requests.utils.parse_header_links(header) if header else []
    return next((str(each["url"]) for each in links if each.get("rel") == "next"), "")
