"""Rules about parts of the file that must fit together; each mistake is a place and a sentence.

A field's own rules stand at the field. This runs once all fields are right.
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from alerts2gh.config.names import AllowList
from alerts2gh.config.policy import IssuePolicy
from alerts2gh.config.route_template import route_template, template_syntax_problem
from alerts2gh.config.routes import Route
from chassis.config import format_duration

if TYPE_CHECKING:
    from alerts2gh.config.whole import Config

Place: TypeAlias = tuple[str | int, ...]
Mistake: TypeAlias = tuple[Place, str]

_CREDENTIAL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


def mistakes_of(config: "Config") -> Iterator[Mistake]:
    """Everything in the file that does not fit together."""
    yield from _root_mistakes(config)
    yield from _credential_mistakes(config)
    yield from _fallback_mistakes(config)
    yield from _alertmanager_mistakes(config)
    yield from _policy_mistakes(("policy",), config.policy)
    yield from _tree_mistakes(config)


def _mistake(place: Place, *sentence: str) -> Mistake:
    return place, "".join(sentence)


def walk(route: Route, place: Place = ("route",)) -> Iterator[tuple[Place, Route]]:
    """Each route with its place in the file, parents before children, in the order of the file."""
    yield place, route
    for index, child in enumerate(route.routes):
        yield from walk(child, (*place, "routes", index))


def _root_mistakes(config: "Config") -> Iterator[Mistake]:
    if config.route.matchers:
        yield (
            ("route", "matchers"),
            "the root route takes every alert; put the matchers into a route under `routes`",
        )
    if config.route.continue_:
        yield ("route", "continue"), "the root route has no siblings to continue to; remove it"


def _credential_mistakes(config: "Config") -> Iterator[Mistake]:
    for name in config.credentials:
        if not _CREDENTIAL_NAME.fullmatch(name):
            yield (
                ("credentials", name),
                "name credentials with letters, digits, hyphens, dots and underscores",
            )
    if len(config.credentials) > 1 and config.route.credential is None:
        yield _mistake(
            ("route", "credential"),
            f"there are several credentials; name the one to use here ({_names(config)}),",
            " routes below may name another",
        )


def _names(config: "Config") -> str:
    return ", ".join(sorted(config.credentials))


def _fallback_mistakes(config: "Config") -> Iterator[Mistake]:
    name = config.fallback_repository
    if name is not None and not AllowList(config.allowed_repositories).allows(name):
        yield (
            ("fallback_repository",),
            f"no entry of allowed_repositories fits {name}; add it there",
        )


def _alertmanager_mistakes(config: "Config") -> Iterator[Mistake]:
    seen: set[str] = set()
    for index, each in enumerate(config.alertmanagers):
        if each.url in seen:
            yield ("alertmanagers", index, "url"), "this Alertmanager is listed twice; remove one"
        seen.add(each.url)


def _policy_mistakes(place: Place, policy: IssuePolicy) -> Iterator[Mistake]:
    if policy.auto_close and policy.close_after < policy.reorder_window:
        yield _mistake(
            (*place, "close_after"),
            f"{format_duration(policy.close_after)} is shorter than reorder_window",
            f" ({format_duration(policy.reorder_window)}), so an issue would close before a late",
            " firing can be told from a new one; raise close_after or lower reorder_window",
        )


def _tree_mistakes(config: "Config") -> Iterator[Mistake]:
    allowed = AllowList(config.allowed_repositories)
    names: dict[str, Place] = {}
    for place, route in walk(config.route):
        if route.name in names:
            where = written(names[route.name])
            yield (*place, "name"), f"{where} has this name already; give each route its own"
        if route.name is not None:
            names.setdefault(route.name, place)
        yield from _route_mistakes(config, allowed, place, route)
    yield from _merged_policy_mistakes(config.route, ("route",), config.policy)


def _route_mistakes(
    config: "Config", allowed: AllowList, place: Place, route: Route
) -> Iterator[Mistake]:
    if route.credential is not None and route.credential not in config.credentials:
        yield (
            (*place, "credential"),
            f"there is no credential of this name; use one of: {_names(config)}",
        )
    name = route.repository
    if name is not None and route_template(name).is_static and not allowed.allows(name):
        yield (
            (*place, "repository"),
            f"no entry of allowed_repositories fits {name}; add it there",
        )
    yield from _template_file_mistakes(config.templates_directory, place, route)
    yield from _unreachable_mistakes(place, route)


def _unreachable_mistakes(place: Place, route: Route) -> Iterator[Mistake]:
    for index, child in enumerate(route.routes[:-1]):
        if not child.matchers and not child.continue_:
            yield _mistake(
                (*place, "routes", index),
                "it takes every alert, so the routes after it get none; give it matchers,",
                " `continue: true`, or the last place",
            )


def _template_file_mistakes(
    directory: Path | None, place: Place, route: Route
) -> Iterator[Mistake]:
    for key, name in route.templates or ():
        if name is None:
            continue
        problem = _template_file_problem(directory, name)
        if problem is not None:
            yield (*place, "templates", key), problem


def _template_file_problem(directory: Path | None, name: str) -> str | None:
    if directory is None:
        return "set templates_directory to the folder of this file"
    try:
        source = (directory / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        return f"cannot read {directory / name}: {reason}"
    problem = template_syntax_problem(source)
    return None if problem is None else f"{directory / name}: {problem}"


def _merged_policy_mistakes(route: Route, place: Place, parent: IssuePolicy) -> Iterator[Mistake]:
    policy = parent.overridden(route.policy)
    if _timing(policy) != _timing(parent):
        yield from _policy_mistakes((*place, "policy"), policy)
    for index, child in enumerate(route.routes):
        yield from _merged_policy_mistakes(child, (*place, "routes", index), policy)


def _timing(policy: IssuePolicy) -> tuple[bool, timedelta, timedelta]:
    return policy.auto_close, policy.close_after, policy.reorder_window


def written(place: Place) -> str:
    """A place as a person writes it: `route.routes[0].policy`."""
    return "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" if index else step
        for index, step in enumerate(place)
    )
