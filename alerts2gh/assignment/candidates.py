"""Whom each source of a chain names for an incident, in the order of the chain.

A source that must see a file or a team first says which; nothing is fetched here, and nobody is asked whether a
login may be assigned.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from alerts2gh.assignment.codeowners import clean_path, owners_of
from alerts2gh.assignment.logins import resolve, split_names
from alerts2gh.assignment.on_call import on_call_at
from alerts2gh.assignment.owners import rule_for
from alerts2gh.config import (
    AssigneeSource,
    FromCodeowners,
    FromLabel,
    OnCall,
    OwnerMap,
    RoundRobin,
    StaticAssignees,
)
from alerts2gh.incident import Incident, Member

Files = Mapping[str, str | None]
Teams = Mapping[str, tuple[str, ...] | None]


class CandidateReason(StrEnum):
    """How a source came to its answer."""

    NAMED = "named"
    NO_SUCH_VALUE = "no_such_value"
    NO_RULE_FITS = "no_rule_fits"
    NO_PATH = "no_path"
    FILE_MISSING = "file_missing"
    NO_OWNER = "no_owner"
    NOBODY_ON_CALL = "nobody_on_call"
    NOTHING_USABLE = "nothing_usable"
    LOOKUP_NEEDED = "lookup_needed"


@dataclass(frozen=True, slots=True)
class Lookups:
    """What must be read from GitHub first: files as (repository, path), teams as `org/slug`."""

    files: tuple[tuple[str, str], ...] = ()
    teams: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.files or self.teams)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One source's answer. `detail` says in words where it comes from; `needs` is set when it is not final."""

    source: str
    logins: tuple[str, ...]
    reason: CandidateReason
    detail: str = ""
    notes: tuple[str, ...] = ()
    needs: Lookups = Lookups()


@dataclass(frozen=True, slots=True)
class _Names:
    """Names as written, before they are made logins."""

    reason: CandidateReason
    names: tuple[str, ...] = ()
    detail: str = ""
    files: tuple[tuple[str, str], ...] = ()
    others: tuple[str, ...] = field(default=())


def file_key(repository: str, path: str) -> str:
    """Name a CODEOWNERS file in the mapping of those already read."""
    return f"{repository.lower()}/{path.lstrip('/')}"


def choose(
    sources: Iterable[AssigneeSource],
    incident: Incident,
    *,
    now: datetime,
    codeowners: Files | None = None,
    teams: Teams | None = None,
) -> tuple[Candidate, ...]:
    """Ask every source of the chain.

    Args:
        sources: The chain, first choice first.
        incident: Whose alerts are looked at; the firing ones, while there are any.
        now: For the on-call rotation; with a time zone.
        codeowners: Texts of the files read so far by `file_key`; None where there is no such file.
        teams: Members of the teams read so far by `org/slug` in lower case; None where it could not be read.
    """
    found: list[Candidate] = []
    for source in sources:
        name, asked = _ask(source, incident, now, codeowners or {})
        candidate = _candidate(name, asked, teams or {})
        found.append(candidate)
        found += [replace(candidate, logins=(other,)) for other in asked.others]
    return tuple(found)


def needed_lookups(
    sources: Iterable[AssigneeSource],
    incident: Incident,
    *,
    now: datetime,
    codeowners: Files | None = None,
    teams: Teams | None = None,
) -> Lookups:
    """Name everything that `choose` still misses; empty when its answer is final."""
    asked = choose(sources, incident, now=now, codeowners=codeowners, teams=teams)
    files = dict.fromkeys(each for candidate in asked for each in candidate.needs.files)
    slugs = dict.fromkeys(each for candidate in asked for each in candidate.needs.teams)
    return Lookups(tuple(files), tuple(slugs))


def _candidate(source: str, asked: _Names, teams: Teams) -> Candidate:
    if asked.files:
        needs = Lookups(files=asked.files)
        return Candidate(source, (), CandidateReason.LOOKUP_NEEDED, asked.detail, (), needs)
    if asked.reason is not CandidateReason.NAMED:
        return Candidate(source, (), asked.reason, asked.detail)
    named = resolve(asked.names, teams)
    if named.unknown_teams:
        needs = Lookups(teams=named.unknown_teams)
        return Candidate(source, (), CandidateReason.LOOKUP_NEEDED, asked.detail, (), needs)
    reason = CandidateReason.NAMED if named.logins else CandidateReason.NOTHING_USABLE
    return Candidate(source, named.logins, reason, asked.detail, named.notes)


def _ask(
    source: AssigneeSource, incident: Incident, now: datetime, files: Files
) -> tuple[str, _Names]:
    members = looked_at(incident)
    match source:
        case AssigneeSource(static=StaticAssignees() as static):
            return "static", _Names(CandidateReason.NAMED, static.logins, "the route names them")
        case AssigneeSource(from_label=FromLabel() as wanted):
            return "from_label", _from_label(wanted, members)
        case AssigneeSource(owners=OwnerMap() as owners):
            return "owners", _from_owners(owners, members)
        case AssigneeSource(codeowners=FromCodeowners() as wanted):
            return "codeowners", _from_codeowners(wanted, members, files)
        case AssigneeSource(on_call=OnCall() as rota):
            return "on_call", _from_rota(rota, now)
        case AssigneeSource(round_robin=RoundRobin() as ring):
            return "round_robin", _from_ring(ring, incident.id)
        case _:
            raise AssertionError("the configuration lets no other source through")


def looked_at(incident: Incident) -> tuple[Member, ...]:
    """List the alerts that decide: the firing ones, else all; the newest first."""
    members = incident.firing or tuple(incident.members.values())
    return tuple(sorted(members, key=lambda m: (-m.starts_at.timestamp(), m.fingerprint)))


def _from_label(wanted: FromLabel, members: Iterable[Member]) -> _Names:
    kind, name = ("label", wanted.label) if wanted.label else ("annotation", wanted.annotation)
    key = name or ""
    found = [(m.labels if wanted.label else m.annotations).get(key, "") for m in members]
    values = dict.fromkeys(value.strip() for value in found if value.strip())
    names = [each for value in values for each in _mapped(value, wanted.map)]
    reason = CandidateReason.NAMED if names else CandidateReason.NO_SUCH_VALUE
    return _Names(reason, tuple(names), f"{kind} {key}")


def _mapped(value: str, translation: Mapping[str, str]) -> tuple[str, ...]:
    """Translate the whole value, else each name in it; the translation may again be a list of names."""
    lowered = {key.lower(): names for key, names in translation.items()}
    whole = lowered.get(value.lower())
    names = (whole,) if whole is not None else split_names(value)
    return tuple(
        each for name in names for each in split_names(lowered.get(name.lower(), name) or "")
    )


def _from_owners(owners: OwnerMap, members: Iterable[Member]) -> _Names:
    fitting = [
        rule
        for member in members
        if (rule := rule_for(owners.rules, tuple(member.labels.get(n, "") for n in owners.labels)))
    ]
    matches = dict.fromkeys(rule.match for rule in fitting)
    names = tuple(login for rule in fitting for login in rule.logins)
    reason = CandidateReason.NAMED if names else CandidateReason.NO_RULE_FITS
    return _Names(reason, names, "owner of " + ", ".join(matches) if matches else "")


def _from_codeowners(wanted: FromCodeowners, members: Iterable[Member], files: Files) -> _Names:
    path = _codeowners_path(wanted, members)
    if path is None:
        return _Names(CandidateReason.NO_PATH, detail=wanted.path_annotation or wanted.path or "")
    key = file_key(wanted.repository, wanted.file)
    if key not in files:
        return _Names(CandidateReason.LOOKUP_NEEDED, files=((wanted.repository, wanted.file),))
    text = files[key]
    if text is None:
        return _Names(CandidateReason.FILE_MISSING, detail=key)
    line = owners_of(text, path)
    if line is None or not line.owners:
        return _Names(CandidateReason.NO_OWNER, detail=path)
    return _Names(CandidateReason.NAMED, line.owners, f"{key} line {line.number}")


def _codeowners_path(wanted: FromCodeowners, members: Iterable[Member]) -> str | None:
    if wanted.path is not None:
        return clean_path(wanted.path)
    name = wanted.path_annotation or ""
    paths = (clean_path(member.annotations.get(name, "")) for member in members)
    return next((path for path in paths if path), None)


def _from_rota(rota: OnCall, now: datetime) -> _Names:
    names = on_call_at(rota, now)
    reason = CandidateReason.NAMED if names else CandidateReason.NOBODY_ON_CALL
    return _Names(reason, names, "on call" if names else f"the first shift is on {rota.start}")


def _from_ring(ring: RoundRobin, incident_id: str) -> _Names:
    """Start in the ring where the incident's id says; the others follow, should that one not be assignable."""
    at = int.from_bytes(hashlib.sha256(incident_id.encode()).digest()[:8]) % len(ring.logins)
    turned = ring.logins[at:] + ring.logins[:at]
    return _Names(CandidateReason.NAMED, turned[:1], "next in turn", others=turned[1:])
