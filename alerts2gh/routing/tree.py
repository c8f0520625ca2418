"""The routing tree made ready: every node with all its settings, and the walk that picks nodes.

The walk is Alertmanager's: depth first; the first child that matches takes the alert, further
siblings are asked only after a match with `continue`; a node none of whose children match takes it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from alerts2gh.config import (
    AssigneeSource,
    Config,
    Identity,
    IssuePolicy,
    Place,
    Reads,
    Route,
    RouteTemplate,
    TemplateNames,
    route_template,
    written,
)
from chassis.alertmanager import Matcher, all_match


@dataclass(frozen=True, slots=True)
class Settled:
    """The settings of a node once its parents' are merged in."""

    credential: str
    policy: IssuePolicy
    identity: Identity
    templates: TemplateNames
    repository: RouteTemplate | None = None
    repository_from: str = ""
    issue_labels: tuple[RouteTemplate, ...] = ()
    milestone: str | None = None
    assignees: tuple[AssigneeSource, ...] = ()

    @property
    def reads(self) -> Reads:
        """Which labels and annotations decide where an alert is filed and under which labels."""
        reads = Reads() if self.repository is None else self.repository.reads
        for template in self.issue_labels:
            reads |= template.reads
        return reads

    @property
    def named_by(self) -> Reads:
        """Which labels name the incident."""
        if self.identity.by == "per_alert":
            return Reads(labels=None)
        return Reads(labels=frozenset(self.identity.labels))


@dataclass(frozen=True, slots=True)
class Node:
    """A route. `index` counts in the order of the file, `path` names it and its parents."""

    index: int
    name: str
    path: tuple[str, ...]
    matchers: tuple[Matcher, ...]
    goes_on: bool
    settled: Settled
    reads: Reads
    named_by: Reads
    because: tuple[str, ...] = ()
    children: tuple["Node", ...] = field(default=(), repr=False)


def compile_tree(config: Config) -> Node:
    """Make the tree of a checked configuration ready."""
    start = Settled(
        credential=config.default_credential,
        policy=config.policy,
        identity=Identity(),
        templates=TemplateNames(),
    )
    return _Builder().node(config.route, ("route",), start, None)


def matching(node: Node, labels: Mapping[str, str]) -> tuple[Node, ...]:
    """The nodes that take an alert with these labels, given that `node` matches it; never empty."""
    found: list[Node] = []
    for child in node.children:
        if all_match(child.matchers, labels):
            found.extend(matching(child, labels))
            if not child.goes_on:
                break
    return tuple(found) or (node,)


def nodes_below(node: Node) -> Iterator[Node]:
    """The node and all below it, in the order of the file."""
    yield node
    for child in node.children:
        yield from nodes_below(child)


class _Builder:
    """Walks over the routes once, counting."""

    def __init__(self) -> None:
        self._count = 0

    def node(self, route: Route, place: Place, above: Settled, parent: Node | None) -> Node:
        settled = _settle(route, above, route.name or written(place))
        node = Node(
            index=self._count,
            name=route.name or ("root" if parent is None else written(place)),
            path=(),
            matchers=route.matchers,
            goes_on=route.continue_,
            settled=settled,
            reads=settled.reads,
            named_by=settled.named_by,
        )
        self._count += 1
        node = replace(
            node,
            path=(*(parent.path if parent else ()), node.name),
            because=(*(parent.because if parent else ()), *map(str, route.matchers)),
        )
        children = tuple(
            self.node(child, (*place, "routes", index), settled, node)
            for index, child in enumerate(route.routes)
        )
        return replace(node, children=children)


def _settle(route: Route, above: Settled, name: str) -> Settled:
    settled = replace(
        above,
        credential=route.credential or above.credential,
        policy=above.policy.overridden(route.policy),
        milestone=above.milestone if route.milestone is None else (route.milestone or None),
        identity=route.identity or above.identity,
        templates=_templates(route.templates, above.templates),
        assignees=above.assignees if route.assignees is None else route.assignees,
    )
    if route.repository is not None:
        template = route_template(route.repository)
        settled = replace(settled, repository=template, repository_from=name)
    if route.issue_labels is not None:
        settled = replace(settled, issue_labels=tuple(map(route_template, route.issue_labels)))
    return settled


def _templates(given: TemplateNames | None, above: TemplateNames) -> TemplateNames:
    if given is None:
        return above
    return above.model_copy(update={key: name for key, name in given if name is not None})
