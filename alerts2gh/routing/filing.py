"""Where one alert is filed: its repository and the labels of the issue, or why it cannot be.

The repository comes from the sender's request or the route's template, and must be one that
`allowed_repositories` allows whoever names it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from alerts2gh.config import (
    MAX_LABELS,
    AllowList,
    TemplateProblemError,
    clean_label,
    is_repository_name,
)
from alerts2gh.incident import Target
from alerts2gh.routing.asked import Asked, Word
from alerts2gh.routing.tree import Node
from chassis.alertmanager import Alert

_SHOWN = 140  # a name made of label values may be as long as the sender likes


class UnroutedReason(StrEnum):
    """Why alerts have no place."""

    NO_ALERTS = "no_alerts"
    NO_REPOSITORY = "no_repository"
    HALF_A_REPOSITORY = "half_a_repository"
    TEMPLATE_FAILED = "template_failed"
    BAD_REPOSITORY_NAME = "bad_repository_name"
    REPOSITORY_NOT_ALLOWED = "repository_not_allowed"


@dataclass(frozen=True, slots=True)
class Unrouted:
    """Alerts that cannot be filed; `text` says what to add where. `route` took the alerts."""

    reason: UnroutedReason
    text: str
    route: str = ""
    alerts: int = 0


@dataclass(frozen=True, slots=True)
class Filing:
    """Where an alert goes. `dropped` are label templates that came to nothing, with the reason."""

    target: Target
    repository_from: str
    labels_from: str
    labels: tuple[str, ...]
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Found:
    name: str
    source: str


@dataclass(frozen=True, slots=True)
class Clerk:
    """Files alerts of one webhook."""

    asked: Asked
    allowed: AllowList
    group_labels: Mapping[str, str]
    receiver: str
    verdicts: dict[str, bool] = field(default_factory=dict)

    def file(self, node: Node, alert: Alert) -> Filing | Unrouted:
        """Decide for one alert that `node` took."""
        found = self._repository(node, alert)
        if isinstance(found, Unrouted):
            return found
        problem = self._problem(node, found)
        if problem is not None:
            return problem
        owner, _, repo = found.name.partition("/")
        target = Target(node.settled.credential, owner, repo)
        if self.asked.labels is not None:
            said_by = "the query parameter labels"
            return Filing(target, found.source, said_by, self.asked.labels)
        labels, dropped = self._labels(node, alert)
        return Filing(target, found.source, f"route {node.name}", labels, dropped)

    def _repository(self, node: Node, alert: Alert) -> _Found | Unrouted:
        owner, repo = self.asked.owner, self.asked.repo
        if owner and repo:
            source = " and ".join(dict.fromkeys((owner.said_by, repo.said_by)))
            return _Found(f"{owner.value}/{repo.value}", source)
        if node.settled.repository is None:
            return _half(owner or repo) if owner or repo else _none(node)
        named = self._rendered(node, alert)
        if isinstance(named, Unrouted) or not (owner or repo):
            return named
        own_owner, _, own_repo = named.name.partition("/")
        name = f"{owner.value or own_owner}/{repo.value or own_repo}"
        return _Found(name, f"{(owner or repo).said_by} and {named.source}")

    def _rendered(self, node: Node, alert: Alert) -> _Found | Unrouted:
        template, source = node.settled.repository, f"route {node.settled.repository_from}"
        assert template is not None  # noqa: S101 - the caller has looked
        try:
            name = template.render(
                alert.labels, alert.annotations, self.group_labels, self.receiver
            )
        except TemplateProblemError as error:
            return Unrouted(
                UnroutedReason.TEMPLATE_FAILED,
                f"{source}: the repository template {template.source!r} has no result:"
                f" {_short(str(error))}; add the label to the alert, a default to the template, or"
                " a route for alerts without it",
                node.name,
            )
        shown = source if template.is_static else f"{source}, from {template.source!r}"
        return _Found(name.strip(), shown)

    def _problem(self, node: Node, found: _Found) -> Unrouted | None:
        if not is_repository_name(found.name):
            return Unrouted(
                UnroutedReason.BAD_REPOSITORY_NAME,
                f"{_short(found.name)!r} (said by {found.source}) is no OWNER/REPO; correct it"
                " there",
                node.name,
            )
        if not self._allows(found.name):
            return Unrouted(
                UnroutedReason.REPOSITORY_NOT_ALLOWED,
                f"the repository {found.name} (said by {found.source}) fits no entry of"
                " allowed_repositories; add it there",
                node.name,
            )
        return None

    def _allows(self, name: str) -> bool:
        if name not in self.verdicts:
            self.verdicts[name] = self.allowed.allows(name)
        return self.verdicts[name]

    def _labels(self, node: Node, alert: Alert) -> tuple[tuple[str, ...], tuple[str, ...]]:
        labels: list[str] = []
        dropped: list[str] = []
        for template in node.settled.issue_labels:
            try:
                labels.append(
                    template.render(
                        alert.labels, alert.annotations, self.group_labels, self.receiver
                    )
                )
            except TemplateProblemError as error:
                dropped.append(f"issue label {template.source!r} left out: {_short(str(error))}")
        return tuple(labels), tuple(dropped)


def issue_labels(search_label: str, wanted: Iterable[str]) -> tuple[str, ...]:
    """The labels of an issue: ours first, each clean and once whatever its case, at most 100."""
    labels = {search_label.casefold(): search_label}
    for each in wanted:
        label = clean_label(each)
        if label:
            labels.setdefault(label.casefold(), label)
            if len(labels) == MAX_LABELS:
                break
    return tuple(labels.values())


def _none(node: Node) -> Unrouted:
    return Unrouted(
        UnroutedReason.NO_REPOSITORY,
        f"route {node.name} took the alerts, but neither it nor a parent has a `repository`; add"
        " one there, or a route under it that matches these alerts and has one",
        node.name,
    )


def _half(word: Word) -> Unrouted:
    return Unrouted(
        UnroutedReason.HALF_A_REPOSITORY,
        f"{word.said_by} says {_short(word.value)!r}, which is half a repository; say both owner"
        " and repo, or add a `repository` to the route",
    )


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
