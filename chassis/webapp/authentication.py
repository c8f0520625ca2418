"""Who may call the protected paths: bearer tokens and basic authentication, several of each.

Several are accepted at once so that a secret can be changed without a moment in which the sender is
refused. Files are read at each request, so a changed file counts at once. Comparisons take the same
time whatever is wrong. Must not log or repeat what a client sent.
"""

import hmac
from collections.abc import Iterable
from typing import Annotated, Any, Self

from flask import Flask, Response, request
from pydantic import BeforeValidator, Field, model_validator
from structlog.typing import FilteringBoundLogger

from chassis.config import SecretFile, Settings
from chassis.webapp.answers import error_answer


def _one_or_several(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value,)


class BasicAuth(Settings):
    """One user name with the file that holds its password."""

    username: Annotated[str, Field(min_length=1, pattern=r"^[^:]+$")]
    password_file: SecretFile


class AuthSettings(Settings):
    """What is accepted; each key takes one value or a list."""

    bearer_token_file: Annotated[tuple[SecretFile, ...], BeforeValidator(_one_or_several)] = ()
    basic_auth: Annotated[tuple[BasicAuth, ...], BeforeValidator(_one_or_several)] = ()

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not self.bearer_token_file and not self.basic_auth:
            raise ValueError("set bearer_token_file or basic_auth, or leave the section out")
        return self

    def accepts_bearer(self, token: str) -> bool:
        return _any_equal(token, (each.read() for each in self.bearer_token_file))

    def accepts_basic(self, username: str, password: str) -> bool:
        pairs = (f"{each.username}:{each.password_file.read()}" for each in self.basic_auth)
        return _any_equal(f"{username}:{password}", pairs)


def _any_equal(given: str, accepted: Iterable[str]) -> bool:
    found = False
    for each in accepted:  # no early end: the time must not tell which one was near
        found |= hmac.compare_digest(given.encode(), each.encode())
    return found


def install_authentication(
    app: Flask, auth: AuthSettings, prefixes: tuple[str, ...], log: FilteringBoundLogger
) -> None:
    """Refuse, before any of the body is read, calls below `prefixes` without a known credential."""
    schemes = [
        *(['Bearer realm="nodemend"'] if auth.bearer_token_file else []),
        *(['Basic realm="nodemend", charset="UTF-8"'] if auth.basic_auth else []),
    ]

    def authenticate() -> Response | None:
        if not _protected(prefixes) or _known(auth):
            return None
        given = "none" if request.authorization is None else "not_accepted"
        log.warning("request_unauthorized", credential=given, remote=request.remote_addr)
        answer = error_answer(401, "unauthorized", "this path needs a credential that is accepted")
        for scheme in schemes:
            answer.headers.add("WWW-Authenticate", scheme)
        return answer

    app.before_request(authenticate)


def _protected(prefixes: tuple[str, ...]) -> bool:
    rule = request.url_rule
    paths = (request.path, rule.rule if rule is not None else request.path)
    return any(path == each or path.startswith(f"{each}/") for path in paths for each in prefixes)


def _known(auth: AuthSettings) -> bool:
    given = request.authorization
    if given is None:
        return False
    if given.type == "bearer":
        return given.token is not None and auth.accepts_bearer(given.token)
    if given.type == "basic":
        return auth.accepts_basic(given.username or "", given.password or "")
    return False
