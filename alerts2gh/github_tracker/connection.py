"""One thread's way to GitHub: a PyGithub requester that does exactly one HTTP request a call.

PyGithub's requester keeps state for each connection, so threads don't share one. It also follows a
301 without a word (for ever, when two point at each other), sleeps on a 202, and with its default
settings retries writes and spaces requests. All of that is off: the rest of the program decides
what is sent and when.
"""

import io
import logging
import math
import ssl
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

import requests
from github import Auth, Github
from github.GithubException import GithubException
from github.Requester import HTTPSRequestsConnectionClass, RequestsResponse
from urllib3.exceptions import HTTPError

from alerts2gh.config import Credential
from alerts2gh.github_answers import Exchange, RequestKind, TransportFailure

MAX_BODY = 16 * 1024 * 1024
_CHUNK = 64 * 1024
# PyGithub acts on these two by itself. Its own handling is kept away; what we see means the same.
_NOT_FOR_PYGITHUB = {301: 308, 202: 200}


def keep_raw_headers_out_of_logs() -> None:
    """Urllib3 warns about headers it can't parse and quotes them.

    A proxy may have put our own request there.
    """
    logging.getLogger("urllib3.connection").addFilter(_quotes_no_headers)


def _quotes_no_headers(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Failed to parse headers")


class AnswerTooLongError(requests.RequestException):
    """The body is larger or slower than any answer of GitHub."""


class Authorisation(Auth.Auth):
    """The Authorization header of the next request; PyGithub masks it in its own debug log."""

    def __init__(self) -> None:
        self.scheme = "token"
        self.secret = ""

    @property
    def token_type(self) -> str:
        return self.scheme

    @property
    def token(self) -> str:
        return self.secret


class _SentBody(io.BytesIO):
    """A request body that knows whether the connection has asked for it.

    GitHub can't act on a write whose body it hasn't got, so an error before that is a request that
    never left.
    """

    asked_for = False

    def read(self, size: int | None = -1, /) -> bytes:
        self.asked_for = True
        return super().read(size)

    def __iter__(self) -> Iterator[bytes]:
        self.asked_for = True
        return super().__iter__()


class _Reply(RequestsResponse):
    """What PyGithub is given to read: the body is already here, within its limits."""

    def __init__(self, response: requests.Response, body: str) -> None:
        super().__init__(response)
        self.status = _NOT_FOR_PYGITHUB.get(response.status_code, response.status_code)
        self._body = body

    def read(self) -> str:
        return self._body


class Wire(HTTPSRequestsConnectionClass):
    """PyGithub's connection, with a bound on size and time and a memory of what was sent."""

    def __init__(self, credential: Credential, now: Callable[[], datetime]) -> None:
        base = urlsplit(credential.base_url)
        self._timeout = credential.timeout.total_seconds()
        verify = True if credential.ca_file is None else str(credential.ca_file)
        super().__init__(base.hostname or "", base.port, retry=0, verify=verify)
        self._origin = f"{base.scheme}://{base.netloc.rpartition('@')[2]}"
        self.session.mount("http://", self.adapter)
        self._now = now
        self.body: _SentBody | None = None

    def getresponse(self) -> RequestsResponse:
        self.body = _SentBody(self.input.encode()) if isinstance(self.input, str) else None
        deadline = self._now() + timedelta(seconds=self._timeout)
        response = self.session.request(
            self.verb,
            f"{self._origin}{self.url}",
            headers=self.headers,
            data=self.body,
            timeout=self._timeout,
            verify=self.verify,
            allow_redirects=False,
            stream=True,
        )
        with response:
            return _Reply(response, self._read_all(response, deadline))

    def _read_all(self, response: requests.Response, deadline: datetime) -> str:
        """A trickling peer never trips the socket's time-out, so the whole has one too."""
        parts: list[bytes] = []
        size = 0
        for part in response.iter_content(_CHUNK):
            parts.append(part)
            size += len(part)
            if size > MAX_BODY:
                raise AnswerTooLongError(f"the answer is longer than {MAX_BODY} bytes")
            if self._now() > deadline:
                raise AnswerTooLongError("the answer did not end within the time-out")
        return b"".join(parts).decode("utf-8", errors="replace")


class Connection:
    """What one thread keeps: requester, wire, and the header that the next request carries."""

    def __init__(self, credential: Credential, now: Callable[[], datetime]) -> None:
        self.authorisation = Authorisation()
        self._wire = Wire(credential, now)
        self._requester = Github(
            auth=self.authorisation,
            base_url=credential.base_url,
            timeout=max(1, math.ceil(credential.timeout.total_seconds())),
            user_agent="nodemend-alerts2gh",
            per_page=100,
            retry=None,
            seconds_between_requests=None,
            seconds_between_writes=None,
            lazy=True,
        ).requester

    def send(
        self,
        kind: RequestKind,
        verb: str,
        path: str,
        *,
        parameters: Mapping[str, Any],
        headers: Mapping[str, str],
        document: Mapping[str, Any] | None,
    ) -> Exchange:
        """Send one request and return what came of it.

        Raises nothing that the network or PyGithub can cause.
        """
        self._wire.body = None
        try:
            status, answer_headers, body = self._requester.requestJson(
                verb,
                path,
                parameters=dict(parameters),
                headers=dict(headers),
                input=None if document is None else dict(document),
                cnx=self._wire,
            )
        except (requests.RequestException, HTTPError, HTTPException, OSError) as error:
            return _failed(kind, self._how_far(error), _what(error))
        except (GithubException, RuntimeError, AssertionError, ValueError, TypeError) as error:
            # Its text may quote headers or bodies, so only its kind is told.
            return _failed(kind, self._how_far(error), f"PyGithub gave up: {type(error).__name__}")
        return Exchange(kind, status, {k: str(v) for k, v in answer_headers.items()}, body)

    def _how_far(self, error: Exception) -> TransportFailure:
        if isinstance(error, AnswerTooLongError):
            return TransportFailure.UNREADABLE
        body = self._wire.body
        if (body is not None and not body.asked_for) or _never_connected(error):
            return TransportFailure.NEVER_LEFT
        return TransportFailure.NO_ANSWER

    def close(self) -> None:
        self._wire.close()
        self._requester.close()


def _failed(kind: RequestKind, failure: TransportFailure, text: str) -> Exchange:
    return Exchange(kind, None, {}, text, failure)


def _never_connected(error: BaseException) -> bool:
    """True for failures that can only come before a request is written."""
    if isinstance(error, requests.ConnectTimeout | requests.exceptions.ProxyError):
        return True
    return any(
        isinstance(cause, ConnectionRefusedError | ssl.SSLCertVerificationError)
        or type(cause).__name__ in {"NewConnectionError", "NameResolutionError"}
        for cause in _causes(error)
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what lies under it.

    `requests` keeps the cause in args, urllib3 in `reason`, Python in __cause__.
    """
    seen: list[BaseException] = []
    queue: list[object] = [error]
    while queue and len(seen) < 20:  # noqa: PLR2004 -- deep enough for any chain, short of a loop
        each = queue.pop(0)
        if isinstance(each, BaseException) and each not in seen:
            seen.append(each)
            queue += [*each.args, getattr(each, "reason", None), each.__cause__, each.__context__]
    return iter(seen)


def _what(error: Exception) -> str:
    """A sentence without URLs and headers: the deepest cause says most."""
    if isinstance(error, AnswerTooLongError):
        return str(error)
    if isinstance(error, requests.Timeout):
        return "no answer within the time-out"
    told = (_cause_in_words(cause) for cause in _causes(error))
    return next((words for words in told if words), f"no connection: {type(error).__name__}")


def _cause_in_words(cause: BaseException) -> str:
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"TLS refused: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"TLS failed: {cause.reason or 'handshake broken off'}"
    if type(cause) is OSError and cause.errno is None:  # how `requests` says it of its `verify`
        return "TLS refused: the CA file can't be read"
    return (
        f"no connection: {cause.strerror}" if isinstance(cause, OSError) and cause.strerror else ""
    )
