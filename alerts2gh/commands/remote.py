"""Speaks HTTP with the running service, as the commands need it: where it is, how to get in, what its answers mean.

Only the standard library's client: a command must start fast, and must tell "nobody listens there" from every other failure.
"""

import base64
import http.client
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from alerts2gh.config import Config
from chassis.config import SecretFile
from chassis.errors import PermanentError, TemporaryError
from chassis.serving import ServingSettings

_TIMEOUT_SECONDS = 30
_MOST_BYTES = 64 * 1024 * 1024
_WEBHOOK = "/v1/webhook"
_FIRST_CERTIFICATE = re.compile(
    r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL
)
_ANY_ADDRESS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 -- read, not listened on
_UNAUTHORIZED, _NOT_FOUND = 401, 404
_FAILURE, _SERVER_FAILURE = 400, 500


class NobodyListensError(TemporaryError):
    """No service listens at the address."""


@dataclass(frozen=True, slots=True)
class Given:
    """What the command line says of the service; None is taken from the configuration."""

    url: str | None = None
    ca_file: Path | None = None
    bearer_token_file: Path | None = None
    client_cert_file: Path | None = None
    client_key_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of the service: the status and the JSON document, empty when it is none."""

    status: int
    document: Mapping[str, Any]

    @property
    def ok(self) -> bool:
        return self.status < _FAILURE

    @property
    def text(self) -> str:
        """What the service says went wrong."""
        reason = self.document.get("reason", "")
        return f"{self.status} {reason}: {self.document.get('error', 'no reason given')}"


@dataclass(frozen=True, slots=True)
class Remote:
    """The service at `host`:`port`, below `prefix`; over TLS with a context."""

    host: str
    port: int
    prefix: str
    tls: ssl.SSLContext | None
    headers: Mapping[str, str] = field(repr=False)

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.tls else ''}://{host}:{self.port}{self.prefix}"

    def get(self, path: str, **query: str) -> Mapping[str, Any]:
        """The document at `path`.

        Raises:
            NobodyListensError: See `exchange`.
            NodemendError: It cannot be reached, or does not answer with a document.
        """
        return self._understood(
            self.exchange("GET", f"{path}?{urlencode(query)}" if query else path)
        )

    def post(self, path: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a document; the one that comes back. Raises as `get` does."""
        return self._understood(self.exchange("POST", path, json.dumps(document).encode()))

    def exchange(self, method: str, path: str, body: bytes | None = None) -> Reply:
        """One request.

        Raises:
            NobodyListensError: The connection was refused.
            TemporaryError: There was no answer.
            PermanentError: TLS, or a name, that will not become right by itself.
        """
        headers = dict(self.headers)
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection = self._connection()
        try:
            connection.request(method, self.prefix + path, body, headers)
            answer = connection.getresponse()
            return Reply(answer.status, _document(answer.read(_MOST_BYTES)))
        except ConnectionRefusedError as error:
            raise NobodyListensError(f"nothing listens at {self.address}") from error
        except ssl.SSLError as error:
            raise PermanentError(_tls_text(self.address, error)) from error
        except TimeoutError as error:
            raise TemporaryError(f"{self.address} did not answer in time") from error
        except (OSError, http.client.HTTPException) as error:
            raise TemporaryError(f"{self.address} cannot be reached: {error}") from error
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self.tls is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=_TIMEOUT_SECONDS)
        return http.client.HTTPSConnection(
            self.host, self.port, timeout=_TIMEOUT_SECONDS, context=self.tls
        )

    def _understood(self, reply: Reply) -> Mapping[str, Any]:
        if reply.ok and reply.document:
            return reply.document
        if reply.status == _UNAUTHORIZED:
            raise PermanentError(
                f"{self.address} does not accept the credential; give the service's token with"
                " --bearer-token-file, or the configuration that it runs with"
            )
        if reply.ok or reply.status == _NOT_FOUND:
            raise PermanentError(
                f"{self.address} answers {reply.status} but not as alerts2gh of this version does;"
                " see what listens there, or give --url"
            )
        error = TemporaryError if reply.status >= _SERVER_FAILURE else PermanentError
        raise error(f"{self.address} answers {reply.text}")


def remote_for(config: Config, given: Given) -> Remote:
    """Where the service runs by its configuration, unless the command line says otherwise.

    Raises:
        PermanentError: The address or a file cannot be used.
    """
    headers = {"Accept": "application/json", **_credential(config, given)}
    if given.url is not None:
        parts = urlsplit(given.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise PermanentError(f"--url: {given.url} is no http:// or https:// address")
        tls = _trusting(given) if parts.scheme == "https" else None
        prefix = parts.path.rstrip("/").removesuffix(_WEBHOOK)
        return Remote(parts.hostname, _port(given.url), prefix, tls, headers)
    serving = config.serving
    host, _, port = serving.listen.rpartition(":")
    host = host.strip("[]")
    if int(port) == 0:
        raise NobodyListensError("serving.listen has port 0, so its port is not known: give --url")
    return Remote(_ANY_ADDRESS.get(host, host), int(port), "", _own_tls(serving, given), headers)


def _port(url: str) -> int:
    parts = urlsplit(url)
    try:
        return parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise PermanentError(f"--url: {url}: {error}") from error


def _credential(config: Config, given: Given) -> dict[str, str]:
    """The Authorization header: the token that was named, else the first way in that the service accepts."""
    if given.bearer_token_file is not None:
        return {"Authorization": f"Bearer {SecretFile(given.bearer_token_file).read()}"}
    if config.auth is None:
        return {}
    if config.auth.bearer_token_file:
        return {"Authorization": f"Bearer {config.auth.bearer_token_file[0].read()}"}
    basic = config.auth.basic_auth[0]
    pair = f"{basic.username}:{basic.password_file.read()}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def _own_tls(serving: ServingSettings, given: Given) -> ssl.SSLContext | None:
    """Trust exactly the certificate that the service shows; its name is the service's, not this machine's."""
    if serving.tls is None:
        return None
    if given.ca_file is not None:
        return _trusting(given)
    file = serving.tls.cert_file
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the certificate itself is the anchor
    try:
        found = _FIRST_CERTIFICATE.search(file.read_text("ascii", errors="replace"))
        context.load_verify_locations(cadata=found[0] if found else "")
    except (OSError, ssl.SSLError, ValueError) as error:
        raise PermanentError(f"serving.tls.cert_file: {file} cannot be used: {error}") from error
    return _showing(context, given)


def _trusting(given: Given) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=given.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise PermanentError(f"--ca-file: {given.ca_file} cannot be used: {error}") from error
    return _showing(context, given)


def _showing(context: ssl.SSLContext, given: Given) -> ssl.SSLContext:
    if given.client_cert_file is not None:
        try:
            context.load_cert_chain(given.client_cert_file, given.client_key_file)
        except (OSError, ssl.SSLError) as error:
            raise PermanentError(
                f"--client-cert-file: {given.client_cert_file} cannot be used: {error}"
            ) from error
    return context


def _tls_text(address: str, error: ssl.SSLError) -> str:
    reason = getattr(error, "verify_message", "") or error.reason or str(error)
    if "CERTIFICATE_REQUIRED" in reason:
        hint = "it wants a client certificate: give --client-cert-file and --client-key-file"
    elif isinstance(error, ssl.SSLCertVerificationError):
        hint = "if the certificate is right, name its authority with --ca-file"
    else:
        hint = "see whether it speaks TLS there, and which"
    return f"no TLS with {address}: {reason}; {hint}"


def _document(body: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
