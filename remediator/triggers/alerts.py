"""Alerts to playbooks: the first one that matches takes the alert and says where its node is named.

Pure.
"""

from collections.abc import Callable, Collection
from functools import lru_cache

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from chassis.alertmanager import Alert, AlertStatus, all_match
from remediator.cluster import NodeView
from remediator.config import Config, NodeName, Playbook
from remediator.operation import Cause, CauseKind
from remediator.triggers.matching import Match, NoMatch, NoMatchReason

MAX_TEXT = 256
MAX_VALUE = 1024

_SANDBOX = ImmutableSandboxedEnvironment(
    undefined=StrictUndefined,
    autoescape=False,
)


def taken_by(
    alert: Alert, config: Config, find_node: Callable[[str], NodeView | None]
) -> Match | NoMatch:
    """The playbook for an alert: the first one that matches it and whose `nodes` fit its node."""
    refused: NoMatch | None = None
    skipped: list[str] = []
    while isinstance(match := from_alert(alert, config, skipped), Match):
        node = find_node(match.node) if config.selects_nodes(match.playbook) else None
        refusal = None if node is None else not_selected(match.playbook, node, config)
        if refusal is None:
            return match
        refused = refused or refusal
        skipped.append(match.playbook)
    return refused or match


def not_selected(playbook: str, node: NodeView, config: Config) -> NoMatch | None:
    """Why a playbook is not for a node, None if it is."""
    found = config.playbook(playbook)
    if found is None or all_match(found.nodes, node.labels):
        return None
    wanted = ", ".join(map(str, found.nodes))
    text = f"playbook {playbook} is for other nodes: {node.name} does not fit {wanted}"
    return NoMatch(NoMatchReason.NODE_NOT_SELECTED, text)


def from_alert(alert: Alert, config: Config, skipped: Collection[str] = ()) -> Match | NoMatch:
    """The playbook for an alert, or the reason why there is none; without those that are skipped."""
    if alert.status is AlertStatus.RESOLVED:
        return NoMatch(NoMatchReason.RESOLVED, "a resolved alert begins nothing")
    playbook = _first_match(alert, config, skipped)
    if playbook is None:
        return NoMatch(NoMatchReason.NO_PLAYBOOK, "no playbook's match fits the alert")
    node = _node_of(alert, playbook.node)
    if not node:
        return NoMatch(
            NoMatchReason.NO_NODE_LABEL,
            f"playbook {playbook.name}: the alert names no node by {_source(playbook.node)}",
        )
    return Match(playbook.name, node, _cause(alert, playbook))


def _first_match(alert: Alert, config: Config, skipped: Collection[str]) -> Playbook | None:
    for playbook in config.playbooks:
        if playbook.name in skipped:
            continue
        if any(all_match(matchers, alert.labels) for matchers in playbook.match):
            return playbook
    return None


def _source(where: NodeName) -> str:
    return f"the label {where.label}" if where.label else f"the template {where.template}"


def _node_of(alert: Alert, where: NodeName) -> str:
    if where.label is not None:
        return alert.labels.get(where.label, "").strip()
    try:
        text = _compiled(where.template or "").render(
            labels=dict(alert.labels), annotations=dict(alert.annotations)
        )
    # A template is a program of the admin's: it may divide by zero or look up what is not there.
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError):
        return ""
    return text.strip()


@lru_cache(maxsize=256)
def _compiled(source: str) -> Template:
    return _SANDBOX.from_string(source)


def _cause(alert: Alert, playbook: Playbook) -> Cause:
    wanted = _repair_labels(playbook)
    labels = {key: alert.labels[key][:MAX_VALUE] for key in wanted if alert.labels.get(key)}
    return Cause(
        kind=CauseKind.ALERT,
        name=alert.labels.get("alertname", "alert")[:MAX_TEXT] or "alert",
        since=alert.starts_at,
        fingerprint=alert.fingerprint,
        text=alert.annotations.get("summary", "")[:MAX_TEXT],
        labels=labels,
    )


def _repair_labels(playbook: Playbook) -> list[str]:
    """The labels that a repair of the playbook reads; no others go into the object."""
    repairs = [rung.repair for rung in playbook.ladder]
    mounts = [each.remount_nfs.mount_label for each in repairs if each.remount_nfs]
    gpus = [each.reset_gpu.uuid_label for each in repairs if each.reset_gpu]
    return sorted({*mounts, *gpus})
