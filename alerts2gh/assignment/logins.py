"""GitHub logins and teams as people write them, and how they are cleaned.

Must not ask GitHub: whether a login exists or may be assigned is found out elsewhere.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

MAX_ASSIGNEES = 10
"""An issue takes so many: https://docs.github.com/en/rest/issues/assignees#add-assignees-to-an-issue"""

# Logins of managed users end in an underscore and a short code, so the underscore is allowed too.
_LOGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,38}(?:\[bot\])?")
_TEAM = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]{0,38})/([A-Za-z0-9][A-Za-z0-9._-]{0,99})")
_SEPARATORS = re.compile(r"[\s,;]+")
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Named:
    """What a list of names came to: logins to try, teams whose members are needed first, words on the rest."""

    logins: tuple[str, ...] = ()
    unknown_teams: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def clean_login(text: str) -> str | None:
    """Take the `@` and white space away; None when the rest can be no login."""
    plain = text.strip().removeprefix("@")
    return plain if _LOGIN.fullmatch(plain) else None


def team_key(text: str) -> str | None:
    """Read `@org/team` as `org/team` in lower case; None when it is no team."""
    found = _TEAM.fullmatch(text.strip().removeprefix("@"))
    return found[0].lower() if found else None


def split_names(text: str) -> tuple[str, ...]:
    """Split a label's or annotation's value at commas, semicolons and white space."""
    return tuple(name for name in _SEPARATORS.split(text) if name)


def unique(logins: Iterable[str]) -> tuple[str, ...]:
    """Keep the first of each login; GitHub does not tell upper from lower case."""
    kept: dict[str, str] = {}
    for login in logins:
        kept.setdefault(login.lower(), login)
    return tuple(kept.values())


def resolve(names: Iterable[str], teams: Mapping[str, tuple[str, ...] | None]) -> Named:
    """Make logins of names: `octocat`, `@octocat`, `@org/team`.

    Args:
        names: As somebody wrote them.
        teams: Members by `org/slug` in lower case; None for a team that could not be read.
    """
    logins: list[str] = []
    unknown: list[str] = []
    notes: list[str] = []
    for name in names:
        login, team = clean_login(name), team_key(name)
        if login:
            logins.append(login)
        elif not team:
            notes.append(_unusable(name))
        elif team not in teams:
            unknown.append(team)
        else:
            members = teams[team]
            logins += [each for member in members or () if (each := clean_login(member))]
            notes += [] if members else [f"the team {team} has no members that can be read"]
    return Named(unique(logins), tuple(dict.fromkeys(unknown)), tuple(notes))


def _unusable(name: str) -> str:
    shown = name.strip()[:_SHOWN]
    if "@" in shown[1:]:
        return f"{shown} is a mail address; GitHub assigns logins only"
    return f"{shown!r} is no GitHub login"
