"""What the sandbox GitHub remembers, as frozen records. No behaviour beyond what a record says.

Each record names its table group and key, so that one kind of table (see `storage`) holds them all.
Times are aware and UTC. Logins and repository names keep their case; keys ignore it, as GitHub does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from typing import Any


class Permission(IntEnum):
    """What somebody may do in a repository, in order of power."""

    NONE = 0
    READ = 1
    TRIAGE = 2
    WRITE = 3
    ADMIN = 4


@dataclass(frozen=True, slots=True)
class User:
    id: int
    login: str
    kind: str = "User"  # or Bot, Organization
    name: str | None = None

    @property
    def group(self) -> str:
        return ""

    @property
    def key(self) -> str:
        return self.login.lower()


@dataclass(frozen=True, slots=True)
class Team:
    id: int
    organization: str
    slug: str
    members: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        return self.organization.lower()

    @property
    def key(self) -> str:
        return self.slug.lower()


@dataclass(frozen=True, slots=True)
class Repository:
    """`collaborators` maps lower-case logins to permissions; the owner needs no entry."""

    id: int
    owner: str
    name: str
    created_at: datetime
    private: bool = False
    archived: bool = False
    has_issues: bool = True
    last_number: int = 0
    collaborators: Mapping[str, Permission] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.name}"

    @property
    def group(self) -> str:
        return ""

    @property
    def key(self) -> str:
        return self.full_name.lower()


@dataclass(frozen=True, slots=True)
class Label:
    id: int
    repository: int
    name: str
    color: str = "ededed"
    description: str | None = None

    @property
    def group(self) -> str:
        return str(self.repository)

    @property
    def key(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Milestone:
    id: int
    repository: int
    number: int
    title: str
    creator: str
    created_at: datetime
    updated_at: datetime
    state: str = "open"
    description: str | None = None
    due_on: str | None = None

    @property
    def group(self) -> str:
        return str(self.repository)

    @property
    def key(self) -> str:
        return str(self.number)


@dataclass(frozen=True, slots=True)
class Issue:
    """`comments` is their count; `app` the slug of the App that opened it, if one did."""

    id: int
    repository: int
    number: int
    title: str
    body: str | None
    author: str
    created_at: datetime
    updated_at: datetime
    state: str = "open"
    state_reason: str | None = None
    closed_at: datetime | None = None
    closed_by: str | None = None
    labels: tuple[str, ...] = ()
    assignees: tuple[str, ...] = ()
    milestone: int | None = None
    locked: bool = False
    lock_reason: str | None = None
    comments: int = 0
    app: str | None = None

    @property
    def group(self) -> str:
        return str(self.repository)

    @property
    def key(self) -> str:
        return str(self.number)


@dataclass(frozen=True, slots=True)
class Comment:
    id: int
    repository: int
    number: int
    author: str
    body: str
    created_at: datetime
    updated_at: datetime
    app: str | None = None

    @property
    def group(self) -> str:
        return f"{self.repository}/{self.number}"

    @property
    def key(self) -> str:
        return str(self.id)


@dataclass(frozen=True, slots=True)
class Event:
    """One line of an issue's timeline; `detail` holds what GitHub adds for that kind of event."""

    id: int
    repository: int
    number: int
    kind: str
    actor: str
    created_at: datetime
    detail: Mapping[str, Any] = field(default_factory=dict)
    app: str | None = None

    @property
    def group(self) -> str:
        return f"{self.repository}/{self.number}"

    @property
    def key(self) -> str:
        return str(self.id)


@dataclass(frozen=True, slots=True)
class Trail:
    """Where an issue went: to another repository, or, with no target, to deletion."""

    repository: int
    number: int
    to_repository: int | None = None
    to_number: int | None = None

    @property
    def group(self) -> str:
        return str(self.repository)

    @property
    def key(self) -> str:
        return str(self.number)


@dataclass(frozen=True, slots=True)
class Token:
    """`repositories` are lower-case full names, None for all that `login` reaches.

    `installation` is set for tokens of an App; `expires_at` None means never.
    """

    value: str
    login: str
    repositories: tuple[str, ...] | None = None
    read_only: bool = False
    installation: int | None = None
    expires_at: datetime | None = None

    @property
    def group(self) -> str:
        return ""

    @property
    def key(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class App:
    """`public_key` is PEM; GitHub signs nothing, it checks the JWT that the App signed."""

    id: int
    slug: str
    owner: str
    public_key: str
    created_at: datetime

    @property
    def login(self) -> str:
        return f"{self.slug}[bot]"

    @property
    def group(self) -> str:
        return ""

    @property
    def key(self) -> str:
        return str(self.id)


@dataclass(frozen=True, slots=True)
class Installation:
    """`repositories` as in Token; `issues` is the App's permission on issues: read or write."""

    id: int
    app: int
    account: str
    created_at: datetime
    repositories: tuple[str, ...] | None = None
    issues: str = "write"

    @property
    def group(self) -> str:
        return ""

    @property
    def key(self) -> str:
        return str(self.id)
