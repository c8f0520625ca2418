"""Sends one request and says how it ended: an answer below 300, or one of our errors.

Nothing is retried, except a request that was refused for its credentials while newer ones lay
ready: a 401 comes before anything is done.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from urllib.parse import urlencode

import urllib3
from structlog.typing import FilteringBoundLogger

from chassis.kube_client.credentials import Credentials
from chassis.kube_client.errors import Unauthorized, Unavailable, error_from_answer
from chassis.kube_client.limiter import RateLimiter
from chassis.kube_client.settings import KubeSettings
from chassis.kube_client.streams import LineStream

Params = Mapping[str, str | int | bool | None]

JSON = "application/json"
_CONNECT_SECONDS = 10.0
_LONGEST_MESSAGE = 500
_NEVER_SENT = (
    urllib3.exceptions.NewConnectionError,
    urllib3.exceptions.ConnectTimeoutError,
    urllib3.exceptions.SSLError,
    urllib3.exceptions.ProxyError,
)


@dataclass(frozen=True, slots=True)
class Request:
    """One call; `timeout` None means the settings'. `params` that are None are left out."""

    method: str
    path: str
    body: bytes | None = None
    params: Params | None = None
    content_type: str = JSON
    timeout: timedelta | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Transport:
    """A connection pool with our credentials. Safe to use from many threads."""

    def __init__(
        self, settings: KubeSettings, log: FilteringBoundLogger, *, user_agent: str
    ) -> None:
        """Read the credentials; nothing is sent yet.

        Raises:
            PermanentError: The kubeconfig or the pod's service account cannot be used.
        """
        self._credentials = Credentials(settings)
        self._pool = self._credentials.new_pool()
        self._limiter = RateLimiter(settings.qps, settings.burst)
        self._timeout = settings.timeout
        self._user_agent = user_agent
        self._log = log

    @property
    def url(self) -> str:
        """Where the API is."""
        return self._credentials.host

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.clear()

    def content(self, request: Request) -> bytes:
        """The whole body of the answer."""
        return _read(self._answer(request), request)

    def stream(self, request: Request) -> LineStream:
        """The answer's lines as they come; the request's timeout is the longest silence."""
        return LineStream(self._answer(request), str(request))

    def _answer(self, request: Request) -> urllib3.BaseHTTPResponse:
        self._limiter.acquire()
        try:
            return self._once(request)
        except Unauthorized:
            if not self._credentials.reload():
                raise
            self._log.info("kubernetes_credentials_renewed")
            return self._once(request)

    def _once(self, request: Request) -> urllib3.BaseHTTPResponse:
        try:
            response = self._pool.request(
                request.method,
                f"{self.url}{request.path}{_query(request.params)}",
                body=request.body,
                headers=self._headers(request),
                timeout=_timeout(request.timeout or self._timeout),
                preload_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _unreachable(request, error) from error
        if response.status < HTTPStatus.MULTIPLE_CHOICES:
            return response
        wait = response.headers.get("Retry-After")
        content = _read(response, request)
        raise error_from_answer(response.status, content, wait, what=str(request))

    def _headers(self, request: Request) -> dict[str, str]:
        headers = {"Accept": JSON, "User-Agent": self._user_agent}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        if authorization := self._credentials.authorization():
            headers["Authorization"] = authorization
        return headers


def _read(response: urllib3.BaseHTTPResponse, request: Request) -> bytes:
    try:
        content = response.read()
    except (urllib3.exceptions.HTTPError, OSError) as error:
        response.close()
        raise _unreachable(request, error) from error
    response.release_conn()
    return content


def _unreachable(request: Request, error: Exception) -> Unavailable:
    return Unavailable(
        f"{request}: {error}"[:_LONGEST_MESSAGE],
        status=0,
        reason=type(error).__name__,
        may_have_happened=request.method != "GET" and not isinstance(error, _NEVER_SENT),
    )


def _timeout(timeout: timedelta) -> urllib3.Timeout:
    seconds = timeout.total_seconds()
    return urllib3.Timeout(connect=min(_CONNECT_SECONDS, seconds), read=seconds)


def _query(params: Params | None) -> str:
    given = {
        key: str(value).lower() if isinstance(value, bool) else value
        for key, value in (params or {}).items()
        if value is not None
    }
    return f"?{urlencode(given)}" if given else ""
