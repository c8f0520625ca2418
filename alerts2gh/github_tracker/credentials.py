"""Where the Authorization header comes from: a token file, or a GitHub App's installation token.

One object serves all threads of a tracker. It must not log, and its texts never quote a secret.
https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app
"""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol

from github import Auth

from alerts2gh.config import AppCredential, Credential
from alerts2gh.github_answers import Verdict
from alerts2gh.github_tracker.reading import UnexpectedShapeError, expiring_token
from alerts2gh.ports import Outcome
from chassis.config import SecretFile

REFRESH_BEFORE = timedelta(minutes=5)  # a token must outlive the request that carries it
_HEADER_SAFE = re.compile(r"[\x21-\x7e]+")
_LIMITS = frozenset({Outcome.PRIMARY_LIMIT, Outcome.SECONDARY_LIMIT, Outcome.UNREACHABLE})


@dataclass(frozen=True, slots=True)
class Grant:
    """The two words of an Authorization header."""

    scheme: str
    secret: str = field(repr=False)


class NoTokenError(Exception):
    """There is no usable token now.

    `verdict` is what the caller's request came to, as it was never sent.
    """

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.text)
        self.verdict = verdict


class Tokens(Protocol):
    """A source of tokens."""

    def current(self) -> Grant:
        """The header for the next request; raises NoTokenError."""
        ...

    def forget(self) -> None:
        """GitHub refused the token: don't offer the same from memory again."""
        ...

    def secrets(self) -> tuple[str, ...]:
        """All texts that must appear nowhere."""
        ...


class FileToken:
    """A personal access token, read for each request so that a rotated one counts at once."""

    def __init__(self, file: SecretFile) -> None:
        self._file = file
        self._previous = ""

    def current(self) -> Grant:
        token = self._file.read()
        if not _HEADER_SAFE.fullmatch(token):
            raise _unusable(f"{self._file.path} does not hold a token alone in one line")
        self._previous = token
        return Grant("token", token)

    def forget(self) -> None:
        """Nothing is remembered: the file is read each time."""

    def secrets(self) -> tuple[str, ...]:
        return tuple({each for each in (self._previous, self._file.read()) if each})


class AppToken:
    """The installation token of a GitHub App, kept until shortly before it ends."""

    def __init__(
        self, app: AppCredential, fetch: Callable[[Grant], Verdict], now: Callable[[], datetime]
    ) -> None:
        self._app = app
        self._fetch = fetch
        self._now = now
        self._lock = threading.Lock()  # one thread fetches, the others wait for the same token
        self._token = ""
        self._expires_at: datetime | None = None

    def current(self) -> Grant:
        with self._lock:
            if self._due(REFRESH_BEFORE):
                self._refresh()
            return Grant("token", self._token)

    def _due(self, before: timedelta) -> bool:
        return self._expires_at is None or self._now() >= self._expires_at - before

    def _refresh(self) -> None:
        verdict = self._fetch(self.app_grant())
        if verdict.outcome is Outcome.DONE:
            try:
                self._token, self._expires_at = expiring_token(verdict.document)
            except UnexpectedShapeError as error:
                text = f"no installation token: {error}"
                raise NoTokenError(Verdict(Outcome.UNREACHABLE, text, verdict.status)) from error
        elif self._due(timedelta()):
            raise NoTokenError(_never_sent(verdict))

    def app_grant(self) -> Grant:
        """The App itself, for the few requests that are not an installation's.

        Raises:
            NoTokenError: The private key can't sign.
        """
        auth = Auth.AppAuth(self._app.app_id, self._app.private_key_file.read)
        try:
            return Grant("Bearer", auth.token)
        except Exception:  # noqa: BLE001 -- signing raises AttributeError and worse
            # Not chained: what the key parser says may quote the key.
            path = self._app.private_key_file.path
            raise _unusable(f"{path} is not an RSA private key in PEM form") from None

    def forget(self) -> None:
        with self._lock:
            self._expires_at = None

    def secrets(self) -> tuple[str, ...]:
        return (self._token,) if self._token else ()


def tokens_for(
    credential: Credential,
    fetch: Callable[[AppCredential, Grant], Verdict],
    now: Callable[[], datetime],
) -> Tokens:
    """The source that the credential names; `fetch` asks GitHub for an installation token."""
    if credential.token_file is not None:
        return FileToken(credential.token_file)
    app = credential.app
    if app is None:
        raise AssertionError("the configuration gives a token file or an App")
    return AppToken(app, lambda grant: fetch(app, grant), now)


def _unusable(text: str) -> NoTokenError:
    return NoTokenError(Verdict(Outcome.UNAUTHORISED, text))


def _never_sent(verdict: Verdict) -> Verdict:
    """What a failed fetch of a token means for the request behind it.

    Limits count, all refusals are UNAUTHORISED.
    """
    outcome = verdict.outcome if verdict.outcome in _LIMITS else Outcome.UNAUTHORISED
    return replace(verdict, outcome=outcome, text=f"no installation token: {verdict.text}")
