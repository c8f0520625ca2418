"""Who calls, and what they may do where: personal tokens, installation tokens, App JWTs, nobody.

Reads the state, changes nothing.
"""

import base64
import binascii
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import jwt

from sandbox.github_rules import Refusal
from sandbox.github_rules.refusals import (
    archived,
    authentication_needed,
    bad_credentials,
    issues_disabled,
    not_found,
    out_of_reach,
)
from sandbox.github_server.issue_records import Actor
from sandbox.github_server.model import App, Installation, Permission, Repository, Token
from sandbox.github_server.state import GitHubState

JWT_LIFE_SECONDS = 600
JWT_SKEW_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Viewer:
    """The caller: a token's user, an App by its JWT, or nobody when both are None."""

    token: Token | None = None
    app: App | None = None
    installation: Installation | None = None

    @property
    def login(self) -> str | None:
        return self.token.login if self.token else self.app.login if self.app else None

    @property
    def budget_key(self) -> str:
        """Installations share a budget, and so do all tokens of a user."""
        if self.installation:
            return f"installation {self.installation.id}"
        return self.login or "anonymous"

    def permission(self, repo: Repository) -> Permission:
        """What the user may do there, cut down to what the token may."""
        public = Permission.NONE if repo.private else Permission.READ
        if self.token is None or not self._in_reach(repo):
            return public
        if self.installation is not None:
            return Permission.READ if self.token.read_only else Permission.WRITE
        login = self.token.login.lower()
        own = Permission.ADMIN if login == repo.owner.lower() else Permission.NONE
        full = max(public, own, repo.collaborators.get(login, Permission.NONE))
        return min(full, Permission.READ) if self.token.read_only else full

    def need_read(self, repo: Repository) -> None:
        if self.permission(repo) < Permission.READ:
            raise not_found()
        if self.installation is not None and self.installation.issues == "none":
            raise out_of_reach(app=True)

    def need_write(self, repo: Repository, least: Permission = Permission.READ) -> None:
        """Refuse unless a write that asks for `least` may go ahead in `repo`."""
        self.need_read(repo)
        if self.token is None:
            raise authentication_needed()
        if self.token.read_only or not self._in_reach(repo):
            raise out_of_reach(app=self.installation is not None)
        if repo.archived:
            raise archived()
        if self.permission(repo) < least:
            raise Refusal(403, "Must have push access to Repository.")

    def need_issues(self, repo: Repository) -> None:
        if not repo.has_issues:
            raise issues_disabled()

    def actor(self, repo: Repository, app: App | None) -> Actor:
        permission = self.permission(repo)
        return Actor(
            self.login or "",
            may_triage=permission >= Permission.TRIAGE,
            may_push=permission >= Permission.WRITE,
            app=app.slug if app else None,
        )

    def _in_reach(self, repo: Repository) -> bool:
        token, home = self.token, self.installation
        if token is None or (home is not None and home.account.lower() != repo.owner.lower()):
            return False
        return token.repositories is None or repo.key in token.repositories


def identify(state: GitHubState, header: str | None, now: datetime) -> Viewer:
    """The caller named by an Authorization header.

    Raises:
        Refusal: 401; the token is unknown, revoked or expired, or the JWT is not sound.
    """
    if not header:
        return Viewer()
    scheme, _, value = header.partition(" ")
    value = _password(value) if scheme.lower() == "basic" else value.strip()
    if scheme.lower() == "bearer" and value.count(".") == 2:  # noqa: PLR2004  (a JWT has 3 parts)
        return Viewer(app=_app_of(state, value, now))
    token = state.tokens.get("", value)
    if token is None or (token.expires_at is not None and token.expires_at <= now):
        raise bad_credentials()
    if token.installation is None:
        return Viewer(token)
    return Viewer(token, installation=state.installations.get("", str(token.installation)))


def _password(encoded: str) -> str:
    try:
        return base64.b64decode(encoded, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        raise bad_credentials() from None


def _app_of(state: GitHubState, encoded: str, now: datetime) -> App:
    try:
        issuer = str(jwt.decode(encoded, options={"verify_signature": False}).get("iss"))
        app = state.apps.get("", issuer)
        if app is None:
            raise Refusal(404, "Integration not found")
        claims = jwt.decode(
            encoded,
            app.public_key,
            algorithms=["RS256"],
            options={"verify_exp": False, "verify_iat": False, "verify_aud": False},
        )
    except jwt.PyJWTError:
        raise Refusal(401, "A JSON web token could not be decoded") from None
    if state.switches.check_jwt_times:
        _check_times(claims, now.timestamp())
    return app


def _check_times(claims: dict[str, Any], now: float) -> None:
    issued, expires = claims.get("iat"), claims.get("exp")
    if not isinstance(issued, int | float) or issued > now + JWT_SKEW_SECONDS:
        raise Refusal(401, "'Issued at' claim ('iat') must be in the past")
    if not isinstance(expires, int | float) or expires <= now:
        raise Refusal(401, "'Expiration time' claim ('exp') must be in the future")
    if expires > now + JWT_LIFE_SECONDS:
        raise Refusal(401, "'Expiration time' claim ('exp') is too far in the future")
