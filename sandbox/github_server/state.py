"""Everything the sandbox GitHub knows, behind one lock; set up and read by tests and the server.

Users, repositories, tokens, Apps and switches live here; what happens to issues is in `issues` and
`conversation`. No HTTP here, and no clock of its own: `clock` is handed in.
"""

import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from chassis.errors import PermanentError
from sandbox.github_server.faults import FaultBook
from sandbox.github_server.ledger import Ledger
from sandbox.github_server.model import (
    App,
    Comment,
    Event,
    Installation,
    Issue,
    Label,
    Milestone,
    Permission,
    Repository,
    Team,
    Token,
    Trail,
    User,
)
from sandbox.github_server.request_log import RequestLog
from sandbox.github_server.storage import SQLiteFile, Table

Clock = Callable[[], datetime]
TOKEN_LIFE = timedelta(hours=1)


@dataclass
class Switches:
    """What tests change while the server runs; each is off, or as at GitHub, at first."""

    list_lag: timedelta = timedelta(0)
    search_lag: timedelta = timedelta(0)
    assignees_off: bool = False
    enforce_primary: bool = False
    enforce_secondary: bool = False
    check_jwt_times: bool = True
    core_limit: int | None = None
    search_needs_kind: bool = True
    """Off: searches that name no kind are taken, as GitHub does for older tokens."""


class GitHubState:
    """One GitHub. Methods may be called from any thread; records handed out never change."""

    def __init__(self, clock: Clock, database: str | None = None) -> None:
        self.clock = clock
        self.lock = threading.RLock()
        self.closing = threading.Event()
        self.switches = Switches()
        self.faults = FaultBook()
        self.ledger = Ledger()
        self.log = RequestLog()
        self._file = SQLiteFile(database) if database else None
        self.users = Table(User, self._file)
        self.teams = Table(Team, self._file)
        self.repositories = Table(Repository, self._file)
        self.labels = Table(Label, self._file)
        self.milestones = Table(Milestone, self._file)
        self.issues = Table(Issue, self._file)
        self.comments = Table(Comment, self._file)
        self.events = Table(Event, self._file)
        self.trails = Table(Trail, self._file)
        self.tokens = Table(Token, self._file)
        self.apps = Table(App, self._file)
        self.installations = Table(Installation, self._file)
        self._by_id = {repo.id: repo.key for repo in self.repositories.all()}
        self._last_id = max((record.id for record in self._numbered()), default=1000)
        self._depth = 0
        self._effects = threading.local()

    # -- changing and reading ------------------------------------------------------------------

    @contextmanager
    def changing(self) -> Iterator[datetime]:
        """Hold the lock for one change and hand out its time; the file gets it as a whole."""
        with self.lock:
            self._depth += 1
            if self._depth == 1 and self._file is not None:
                self._file.begin()
            try:
                yield self.clock()
            finally:
                self._depth -= 1
                if self._depth == 0 and self._file is not None:
                    self._file.commit()

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def note_effect(self) -> None:
        """Called with each change of an issue; `effects` of a thread tells if it had any."""
        self._effects.count = self.effects + 1

    @property
    def effects(self) -> int:
        return int(getattr(self._effects, "count", 0))

    def close(self) -> None:
        """Let go of held requests and of the database file."""
        self.closing.set()
        with self.lock:
            if self._file is not None:
                self._file.close()

    # -- users, teams, repositories ------------------------------------------------------------

    def add_user(self, login: str, *, kind: str = "User", name: str | None = None) -> User:
        with self.changing():
            known = self.users.get("", login.lower())
            return known or self.users.put(User(self.next_id(), login, kind, name))

    def add_team(self, organization: str, slug: str, members: Iterable[str]) -> Team:
        with self.changing():
            self.add_user(organization, kind="Organization")
            logins = tuple(self.add_user(login).login for login in members)
            return self.teams.put(Team(self.next_id(), organization, slug, logins))

    def add_repository(
        self,
        full_name: str,
        *,
        private: bool = False,
        collaborators: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
    ) -> Repository:
        """Add `OWNER/NAME`, its owner (as an organization) and its collaborators.

        `collaborators` maps logins to read, triage, write or admin.

        Raises:
            PermanentError: the name is not OWNER/NAME.
        """
        owner, slash, name = full_name.partition("/")
        if not (slash and owner and name) or "/" in name:
            raise PermanentError(f"{full_name!r} is not a repository; write OWNER/NAME")
        with self.changing() as now:
            self.add_user(owner, kind="Organization")
            rights = {
                self.add_user(login).key: _permission(word)
                for login, word in (collaborators or {}).items()
            }
            repository = Repository(self.next_id(), owner, name, now, private=private)
            repository = replace(repository, collaborators=rights, files=dict(files or {}))
            self._by_id[repository.id] = repository.key
            return self.repositories.put(repository)

    def repository(self, full_name: str) -> Repository:
        found = self.repositories.get("", full_name.lower())
        if found is None:
            raise PermanentError(f"the sandbox has no repository {full_name!r}; add it first")
        return found

    def repository_by_id(self, number: int) -> Repository | None:
        return self.repositories.get("", self._by_id.get(number, ""))

    def change_repository(
        self,
        full_name: str,
        *,
        archived: bool | None = None,
        has_issues: bool | None = None,
        private: bool | None = None,
        files: Mapping[str, str] | None = None,
    ) -> Repository:
        """Change what is given of a repository; `files` replaces all its files."""
        with self.changing():
            repo = self.repository(full_name)
            repo = replace(
                repo,
                archived=repo.archived if archived is None else archived,
                has_issues=repo.has_issues if has_issues is None else has_issues,
                private=repo.private if private is None else private,
                files=repo.files if files is None else dict(files),
            )
            return self.repositories.put(repo)

    def set_collaborator(self, full_name: str, login: str, word: str) -> Repository:
        """Give `login` read, triage, write or admin; none takes it away."""
        with self.changing():
            repo = self.repository(full_name)
            rights = dict(repo.collaborators)
            rights[self.add_user(login).key] = _permission(word)
            rights = {key: right for key, right in rights.items() if right}
            return self.repositories.put(replace(repo, collaborators=rights))

    # -- tokens and Apps -----------------------------------------------------------------------

    def add_token(
        self,
        value: str,
        login: str,
        *,
        repositories: Iterable[str] | None = None,
        read_only: bool = False,
    ) -> Token:
        with self.changing():
            reach = None if repositories is None else tuple(name.lower() for name in repositories)
            user = self.add_user(login)
            return self.tokens.put(Token(value, user.login, reach, read_only))

    def revoke_token(self, value: str) -> None:
        with self.changing():
            token = self.tokens.get("", value)
            if token is not None:
                self.tokens.delete(token)

    def add_app(self, slug: str, owner: str, public_key: str) -> App:
        """Register an App that signs with the private half of `public_key` (PEM, RSA)."""
        with self.changing() as now:
            self.add_user(owner, kind="Organization")
            app = self.apps.put(App(self.next_id(), slug, owner, public_key, now))
            self.add_user(app.login, kind="Bot")
            return app

    def add_installation(
        self,
        app: App,
        account: str,
        *,
        repositories: Iterable[str] | None = None,
        issues: str = "write",
    ) -> Installation:
        with self.changing() as now:
            reach = None if repositories is None else tuple(name.lower() for name in repositories)
            self.add_user(account, kind="Organization")
            made = Installation(self.next_id(), app.id, account, now, reach, issues)
            return self.installations.put(made)

    def issue_installation_token(
        self, installation: Installation, repositories: Iterable[str] | None, *, read_only: bool
    ) -> Token:
        """A token of an hour, for `repositories` of the installation or all of them."""
        with self.changing() as now:
            app = self.apps.get("", str(installation.app))
            login = app.login if app else ""
            reach = installation.repositories if repositories is None else tuple(repositories)
            token = Token(
                f"ghs_{secrets.token_hex(18)}",
                login,
                reach,
                read_only or installation.issues != "write",
                installation.id,
                now + TOKEN_LIFE,
            )
            return self.tokens.put(token)

    def _numbered(self) -> Iterator[User | Team | Repository | Label | Milestone | Issue | Event]:
        tables = (self.users, self.teams, self.repositories, self.labels, self.milestones)
        for table in (*tables, self.issues, self.comments, self.events, self.apps):
            yield from table.all()  # type: ignore[misc]  # a union of tables, each with an id
        yield from self.installations.all()  # type: ignore[misc]  # as above


def _permission(word: str) -> Permission:
    try:
        return Permission[word.upper()]
    except KeyError:
        known = ", ".join(permission.name.lower() for permission in Permission)
        raise PermanentError(f"{word!r} is no permission; there are {known}") from None
