"""Asks Prometheus and Alertmanager; the sole importer of `prometheus_api_client`.

Only asks: what an answer means is decided elsewhere. Nothing is retried here, since the caller
knows how long an answer is of use; every failure is a TemporaryError or a PermanentError.
"""

import math
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from urllib3.util.retry import Retry

from chassis.alertmanager import (
    Alert,
    FieldError,
    parse_api_alerts,
    parse_api_silencers,
    parse_api_silences,
    parse_api_start,
)
from chassis.errors import PermanentError, TemporaryError
from chassis.telemetry import redact_text

_CONNECT_TIMEOUT = timedelta(seconds=3)
_TRY_LATER = frozenset({408, 425, 429})
_SERVER_ERROR = 500
_LONGEST_EXCERPT = 300
_LONGEST_WAIT_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach one Prometheus or Alertmanager.

    `bearer_token` and `password` are called for each request, so that a rotated secret counts at
    once. `timeout` bounds the wait for a connection and between two packets.
    """

    url: str
    timeout: timedelta = timedelta(seconds=10)
    bearer_token: Callable[[], str] | None = None
    username: str = ""
    password: Callable[[], str] | None = None
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One element of an instant vector; `value` may be NaN or infinite, `at` is UTC."""

    labels: Mapping[str, str]
    value: float
    at: datetime


class PrometheusClient:
    """Instant queries to one Prometheus, or anything with its query API."""

    def __init__(self, access: Access) -> None:
        """Connect at the first query. Raises PermanentError if the address is none."""
        self._url = access.url.rstrip("/")
        self._timeout = access.timeout
        try:
            self._connection = PrometheusConnect(
                url=self._url, retry=Retry(total=0), session=_session(access), method="POST"
            )
        except ValueError as error:
            raise PermanentError(f"{redact_text(self._url)}: not a usable address") from error

    def query(self, promql: str, timeout: timedelta | None = None) -> tuple[Sample, ...]:
        """The instant vector that `promql` gives now.

        Raises:
            TemporaryError: Not reachable, too slow, overloaded.
            PermanentError: The query is wrong, gives no vector, or access is refused.
        """
        seconds = (timeout or self._timeout).total_seconds()
        with _translated(self._url):
            rows = self._connection.custom_query(
                promql,
                params={"timeout": f"{max(1, math.ceil(seconds))}s"},
                # The library hands it on to requests, which takes a float as well.
                timeout=seconds,  # type: ignore[arg-type]
            )
        return tuple(_sample(row) for row in rows)


class AlertmanagerClient:
    """The alerts that one Alertmanager holds, and since when it runs."""

    def __init__(self, access: Access) -> None:
        self._url = access.url.rstrip("/")
        self._timeout = access.timeout
        self._session = _session(access)

    def alerts(self) -> tuple[Alert, ...]:
        """All alerts not resolved, those silenced, inhibited or muted included.

        Raises:
            TemporaryError: Not reachable, too slow, overloaded.
            PermanentError: Access is refused, or it is no Alertmanager.
        """
        wanted = dict.fromkeys(("active", "silenced", "inhibited", "unprocessed"), "true")
        with _translated(self._url):
            return parse_api_alerts(self._get("/api/v2/alerts", wanted))

    def silenced(self) -> Mapping[str, str]:
        """By fingerprint, who has silenced an alert and why. Errors as `alerts`."""
        wanted = {
            "active": "false",
            "silenced": "true",
            "inhibited": "true",  # else those that are silenced and inhibited, too, are left out
            "unprocessed": "false",
        }
        with _translated(self._url):
            silencers = parse_api_silencers(self._get("/api/v2/alerts", wanted))
            if not silencers:
                return {}
            told = parse_api_silences(self._get("/api/v2/silences", {}))
        return {
            fingerprint: "; ".join(told.get(each, "by somebody") for each in ids)
            for fingerprint, ids in silencers.items()
        }

    def started_at(self) -> datetime:
        """When this Alertmanager started; it forgets alerts when it restarts. Errors as `alerts`."""
        with _translated(self._url):
            return parse_api_start(self._get("/api/v2/status", {}))

    def _get(self, path: str, params: Mapping[str, str]) -> bytes:
        seconds = self._timeout.total_seconds()
        connect = min(seconds, _CONNECT_TIMEOUT.total_seconds())
        answer = self._session.get(self._url + path, params=params, timeout=(connect, seconds))
        return answer.content


class _Credentials(requests.auth.AuthBase):
    def __init__(self, access: Access) -> None:
        self._access = access

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        access = self._access
        if access.bearer_token is not None:
            token = access.bearer_token()
            if not token.isascii() or not token.isprintable():
                # Said here, since the HTTP library would show the token in its error.
                raise PermanentError("the bearer token holds characters that no header can carry")
            request.headers["Authorization"] = f"Bearer {token}"
        elif access.password is not None:
            pair = f"{access.username}:{access.password()}".encode()
            request.headers["Authorization"] = f"Basic {b64encode(pair).decode()}"
        return request


def _session(access: Access) -> requests.Session:
    session = requests.Session()
    session.trust_env = False  # no proxy, .netrc or CA from the environment: the settings say all
    session.verify = str(access.ca_file) if access.ca_file else True
    session.auth = _Credentials(access)
    session.hooks["response"].append(_refuse_failures)
    return session


def _refuse_failures(response: requests.Response, *_: Any, **__: Any) -> None:
    status = response.status_code
    if response.ok or response.is_redirect:
        return
    what = f"{redact_text(response.url.partition('?')[0])} answered {status}: {_excerpt(response)}"
    if status >= _SERVER_ERROR or status in _TRY_LATER:
        raise TemporaryError(what, retry_after=_retry_after(response))
    raise PermanentError(what)


def _excerpt(response: requests.Response) -> str:
    try:
        told = orjson.loads(response.content)["error"]
    except (ValueError, KeyError, TypeError):
        told = response.reason
    return redact_text(str(told))[:_LONGEST_EXCERPT]


def _retry_after(response: requests.Response) -> timedelta | None:
    seconds = response.headers.get("Retry-After", "")
    if not seconds.isdecimal() or len(seconds) > _LONGEST_WAIT_DIGITS:
        return None
    return timedelta(seconds=int(seconds))


@contextmanager
def _translated(url: str) -> Iterator[None]:
    place = redact_text(url)
    try:
        yield
    except (
        requests.exceptions.MissingSchema,
        requests.exceptions.InvalidSchema,
        requests.exceptions.InvalidURL,
        requests.exceptions.TooManyRedirects,
    ) as error:
        raise PermanentError(f"{place}: not a usable address: {error}") from error
    except (
        PrometheusApiClientException,
        requests.exceptions.InvalidJSONError,
        FieldError,
        KeyError,
        TypeError,
    ) as error:
        raise PermanentError(f"{place}: not the answer that was expected: {error}") from error
    except requests.RequestException as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise PermanentError(f"{place}: no trust in its certificate; set its CA") from error
        raise TemporaryError(f"{place}: no answer: {redact_text(str(error))}") from error
    except OSError as error:  # requests checks the CA file only when it connects
        raise PermanentError(f"{place}: {error}") from error


def _sample(row: Any) -> Sample:
    try:
        at, value = row["value"]
        return Sample(dict(row["metric"]), float(value), datetime.fromtimestamp(at, tz=UTC))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise PermanentError("the query gives no instant vector; ask for one") from error
