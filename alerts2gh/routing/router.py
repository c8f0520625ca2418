"""From a webhook to the parts that belong to one incident each.

Most alerts of a group differ only in labels that no route looks at, so alerts are first put
together by the labels that do matter and each such pile is decided once. Routing never raises.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from alerts2gh.config import AllowList, Config, Reads
from alerts2gh.incident import DeliveryPart, Disposition, incident_id, label_key
from alerts2gh.routing.asked import asked_for, skips_auto_close
from alerts2gh.routing.filing import Clerk, Filing, Unrouted, UnroutedReason, issue_labels
from alerts2gh.routing.identity import ALERT_NAME, Named, name_incident
from alerts2gh.routing.tree import Node, compile_tree, matching, nodes_below
from chassis.alertmanager import Alert, Webhook


@dataclass(frozen=True, slots=True)
class Origin:
    """Why a part is what it is: the routes that took its alerts and what they led to.

    The first node's settings count. Several meet in one part when their repository and the labels
    that name the incident are the same.
    """

    nodes: tuple[Node, ...]
    named_by: str
    repository_from: str
    labels_from: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Routed:
    """Where a webhook's alerts go.

    `refused` are the alerts among them that have no place; `origins` explains the parts, in the
    same order.
    """

    parts: tuple[DeliveryPart, ...]
    refused: tuple[Unrouted, ...] = ()
    origins: tuple[Origin, ...] = ()


@dataclass(slots=True)
class _Gathered:
    """What has come together for one incident so far."""

    filing: Filing
    named: Named
    nodes: list[Node]
    notes: dict[str, None] = field(default_factory=dict)
    labels: dict[str, None] = field(default_factory=dict)
    piles: list[list[int]] = field(default_factory=list)

    def add(self, node: Node, filing: Filing, pile: list[int]) -> None:
        if node is not self.nodes[-1]:
            self.nodes.append(node)
        self.piles.append(pile)
        self.labels.update(dict.fromkeys(filing.labels))
        self.notes.update(dict.fromkeys(filing.dropped))

    def indices(self) -> Iterable[int]:
        """Of its alerts, in the order of the webhook, each once."""
        if len(self.piles) == 1:
            return self.piles[0]
        return sorted({index for pile in self.piles for index in pile})


class Router:
    """The routes of one configuration, made ready once. Threads may share it."""

    def __init__(self, config: Config) -> None:
        self._root = compile_tree(config)
        self._allowed = AllowList(config.allowed_repositories)
        self._search_label = config.search_label
        names = {matcher.name for node in nodes_below(self._root) for matcher in node.matchers}
        self._matched = Reads(labels=frozenset(names))

    def route(
        self, webhook: Webhook, received_at: datetime, query: Mapping[str, Sequence[str]]
    ) -> Routed | Unrouted:
        """Route each alert by itself and gather those of one incident.

        Args:
            webhook: What Alertmanager sent.
            received_at: When it arrived, in UTC.
            query: The query parameters of the URL it was sent to.

        Returns:
            Unrouted if not one alert has a place.
        """
        clerk = Clerk(
            asked=asked_for(query, webhook.common_labels),
            allowed=self._allowed,
            group_labels=webhook.group_labels,
            receiver=webhook.receiver,
        )
        refusals: dict[tuple[UnroutedReason, str], Unrouted] = {}
        gathered: dict[tuple[str, object], _Gathered] = {}
        for node, indices in self._takers(webhook.alerts):
            for pile in _piles(webhook.alerts, indices, node.reads):
                filing = clerk.file(node, webhook.alerts[pile[0]])
                if isinstance(filing, Unrouted):
                    _note_refusal(refusals, filing, len(pile))
                else:
                    _gather(gathered, node, filing, webhook, pile)
        if not gathered:
            return _nothing(refusals.values())
        return Routed(
            parts=tuple([self._part(each, webhook, received_at) for each in gathered.values()]),
            refused=tuple(refusals.values()),
            origins=tuple([_origin(each) for each in gathered.values()]),
        )

    def _takers(self, alerts: Sequence[Alert]) -> list[tuple[Node, list[int]]]:
        """Each node with the indices of the alerts that it takes, in the order of the file."""
        taken: dict[int, tuple[Node, list[int]]] = {}
        for pile in _piles(alerts, range(len(alerts)), self._matched) if alerts else ():
            for node in matching(self._root, alerts[pile[0]].labels):
                taken.setdefault(node.index, (node, []))[1].extend(pile)
        return [(node, sorted(indices)) for _, (node, indices) in sorted(taken.items())]

    def _part(self, gathered: _Gathered, webhook: Webhook, received_at: datetime) -> DeliveryPart:
        alerts = tuple([webhook.alerts[index] for index in gathered.indices()])
        labels = gathered.named.labels
        return DeliveryPart(
            incident_id=incident_id(gathered.filing.target, labels),
            label_key=label_key(labels),
            disposition=self._disposition(gathered, alerts),
            labels=labels,
            alerts=alerts,
            received_at=received_at,
            receiver=webhook.receiver,
            group_key=webhook.group_key,
            group_labels=webhook.group_labels,
            common_annotations=webhook.common_annotations,
            external_url=webhook.external_url,
            truncated=webhook.truncated_alerts,
        )

    def _disposition(self, gathered: _Gathered, alerts: Iterable[Alert]) -> Disposition:
        node = gathered.nodes[0]
        policy = node.settled.policy
        if policy.auto_close and skips_auto_close(alerts):
            policy = policy.model_copy(update={"auto_close": False})
        return Disposition(
            target=gathered.filing.target,
            route=node.name,
            policy=policy,
            templates=node.settled.templates,
            issue_labels=issue_labels(self._search_label, gathered.labels),
            milestone=node.settled.milestone,
            assignees=node.settled.assignees,
        )


def _gather(
    gathered: dict[tuple[str, object], _Gathered],
    node: Node,
    filing: Filing,
    webhook: Webhook,
    pile: list[int],
) -> None:
    for named, named_pile in _named_piles(node, webhook, pile):
        key = (filing.target.full_name.lower(), frozenset(named.labels.items()))
        if key not in gathered:
            gathered[key] = _Gathered(filing, named, [node])
        gathered[key].add(node, filing, named_pile)


def _named_piles(
    node: Node, webhook: Webhook, pile: list[int]
) -> Iterator[tuple[Named, list[int]]]:
    """The pile, split into the alerts that are one incident each (or a part of one)."""
    alerts, identity = webhook.alerts, node.settled.identity
    for part in _piles(alerts, pile, node.named_by):
        named = name_incident(identity, alerts[part[0]].labels, webhook.group_labels)
        if not named.falls_back:
            yield named, part
            continue
        for smaller in _without_names(alerts, part):
            labels = alerts[smaller[0]].labels
            yield name_incident(identity, labels, webhook.group_labels), smaller


def _without_names(alerts: Sequence[Alert], pile: list[int]) -> Iterator[list[int]]:
    """Alerts that lack the labels to name their incident by: by alertname, else each by itself."""
    for same_name in _piles_by_labels(alerts, pile, [ALERT_NAME]):
        if alerts[same_name[0]].labels.get(ALERT_NAME):
            yield same_name
        else:
            yield from ([index] for index in same_name)


def _origin(gathered: _Gathered) -> Origin:
    return Origin(
        nodes=tuple(gathered.nodes),
        named_by=gathered.named.why,
        repository_from=gathered.filing.repository_from,
        labels_from=gathered.filing.labels_from,
        notes=tuple(gathered.notes),
    )


def _piles(alerts: Sequence[Alert], indices: Iterable[int], reads: Reads) -> Iterable[list[int]]:
    """Indices of alerts that have the same values of all that is read, together."""
    labels = None if reads.labels is None else sorted(reads.labels)
    if reads.annotations == frozenset() and labels is not None:
        return _piles_by_labels(alerts, indices, labels)
    annotations = None if reads.annotations is None else sorted(reads.annotations)
    piles: dict[object, list[int]] = {}
    for index in indices:
        alert = alerts[index]
        key = (_values(alert.labels, labels), _values(alert.annotations, annotations))
        piles.setdefault(key, []).append(index)
    return piles.values()


def _piles_by_labels(
    alerts: Sequence[Alert], indices: Iterable[int], names: Iterable[str]
) -> list[list[int]]:
    """The common case. One name after the other is several times faster than a key of all."""
    piles = [list(indices)]
    for name in names:
        piles = [smaller for pile in piles for smaller in _split(alerts, pile, name)]
    return sorted(piles)


def _split(alerts: Sequence[Alert], pile: list[int], name: str) -> Iterable[list[int]]:
    if len(pile) == 1:
        return (pile,)
    piles: dict[str | None, list[int]] = {}
    for index in pile:
        value = alerts[index].labels.get(name)
        if value in piles:
            piles[value].append(index)
        else:
            piles[value] = [index]
    return piles.values()


def _values(mapping: Mapping[str, str], names: list[str] | None) -> object:
    if names is None:
        return frozenset(mapping.items())
    return tuple(map(mapping.get, names))


def _note_refusal(
    refusals: dict[tuple[UnroutedReason, str], Unrouted], refusal: Unrouted, alerts: int
) -> None:
    """Count it; of the many texts that templates may make, the first one stands for a route."""
    key = (refusal.reason, refusal.route)
    before = refusals.get(key, refusal)
    refusals[key] = replace(before, alerts=before.alerts + alerts)


def _nothing(refusals: Iterable[Unrouted]) -> Unrouted:
    found = list(refusals)
    if not found:
        return Unrouted(
            UnroutedReason.NO_ALERTS, "the webhook holds no alerts, so there is nothing to file"
        )
    return replace(
        found[0],
        text="; ".join(each.text for each in found),
        alerts=sum(each.alerts for each in found),
    )
