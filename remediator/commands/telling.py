"""The commands that only look: status and explain. They change nothing."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO, TextIO

from structlog.typing import FilteringBoundLogger

from chassis.alertmanager import Alert, parse_webhook
from chassis.errors import NodemendError, PermanentError
from chassis.kube_client import Forbidden
from remediator import budgets
from remediator.cluster import AlertView, Fleet, NodeView, Observation, QueryView
from remediator.commands.people import Desk
from remediator.config import Config, Playbook
from remediator.gates import GateCase, before_isolation
from remediator.kube_cluster.peers import peers_of
from remediator.lifecycle import steps
from remediator.operation import NodeOperation, OperationSpec, Phase, Trigger
from remediator.triggers import Match, NoMatch, taken_by

_MOST_TEXT = 100


def status(desk: Desk) -> int:
    """What is active, why it waits, what is switched off."""
    desk.cluster.read_all()
    fleet = desk.cluster.fleet()
    _tell_switches(fleet, desk)
    operations = sorted(desk.cluster.operations(), key=lambda each: each.age_order)
    active = [each for each in operations if each.active]
    rows: list[tuple[str, ...]] = [("OPERATION", "NODE", "PLAYBOOK", "PHASE", "RUNG", "WHY")]
    rows += [_row(each) for each in active]
    _table(rows, desk.out)
    desk.out.write(f"{len(active)} active, {len(operations) - len(active)} ended\n")
    if any(each.status.phase is Phase.ESCALATED for each in active):
        desk.out.write(
            "Escalated ones wait for a person: when the node is well, `remediator release NODE`\n"
        )
    for use in budgets.usage(fleet, operations, desk.config.budgets):
        place = f" in {use.domain}" if use.domain else ""
        desk.out.write(
            f"budget {use.budget}{place}: {use.taken} of {use.limit} taken, {use.total} in all\n"
        )
    if desk.config.external_url:
        desk.out.write(f"{desk.config.external_url}\n")
    return 0


def _tell_switches(fleet: Fleet, desk: Desk) -> None:
    out, place = desk.out, desk.config.leader
    if not fleet.state_known:
        out.write(
            f"pause and breaker cannot be read: ConfigMap {place.state} in namespace"
            f" {place.namespace}, which you may have no right to\n"
        )
    if fleet.pause is not None:
        why = f": {fleet.pause.text}" if fleet.pause.text else ""
        out.write(f"paused by {fleet.pause.by}{why}; `remediator resume` ends it\n")
    if fleet.breaker.open:
        out.write(f"the breaker is open: {fleet.breaker.text}\n")
    out.writelines(
        f"{name} cannot be read: {problem}\n" for name, problem in sorted(fleet.unreadable.items())
    )


def _row(operation: NodeOperation) -> tuple[str, ...]:
    now = operation.status
    why = f"{now.reason.value}: {now.message}" if now.message else now.reason.value
    why = " ".join(why.split())
    why = why if len(why) <= _MOST_TEXT else why[: _MOST_TEXT - 1] + "…"
    spec = operation.spec
    return (operation.name, spec.node, spec.playbook, now.phase.value, now.rung_name, why)


def _table(rows: list[tuple[str, ...]], out: TextIO) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        padded = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        out.write("  ".join(padded).rstrip() + "\n")


def read_payload(file: Path, stdin: BinaryIO) -> tuple[Alert, ...]:
    """The alerts of a webhook's body in a file, or `-` for stdin.

    Raises:
        PermanentError: It cannot be read or is no webhook.
    """
    try:
        body = stdin.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise PermanentError(f"{file}: cannot be read: {error.strerror}") from error
    return parse_webhook(body).alerts


def explain(
    alerts: Iterable[Alert],
    config: Config,
    desk: Desk | None,
    out: TextIO,
    log: FilteringBoundLogger,
) -> int:
    """What each alert would begin now; `desk` is None to leave the cluster out."""
    all_taken = True
    if desk is not None:
        desk.cluster.read_all()
    for alert in alerts:
        out.write(f"alert {alert.labels.get('alertname', alert.fingerprint)}\n")
        match = taken_by(alert, config, _nodes_of(desk))
        if isinstance(match, NoMatch):
            out.write(f"  begins nothing: {match.text} ({match.reason.value})\n")
            all_taken = False
            continue
        all_taken = _explain_match(match, config, desk, out, log) and all_taken
    return 0 if all_taken else 1


def _nodes_of(desk: Desk | None) -> Callable[[str], NodeView | None]:
    """How nodes are looked up; without a cluster a playbook is taken to be for every node."""
    return (lambda _: None) if desk is None else desk.cluster.live_node


def _explain_match(
    match: Match, config: Config, desk: Desk | None, out: TextIO, log: FilteringBoundLogger
) -> bool:
    playbook = config.playbook(match.playbook)
    if playbook is None:
        raise PermanentError(f"the configuration has no playbook {match.playbook}")
    dry = " (dry run: it would only say so)" if config.dry_run or playbook.dry_run else ""
    out.write(f"  playbook {playbook.name} on node {match.node}{dry}\n")
    fits = True
    if desk is not None:
        fits = _explain_gates(match, playbook, desk, log)
    out.writelines(f"  {number}. {step}\n" for number, step in enumerate(steps(playbook), 1))
    return fits


def _explain_gates(match: Match, playbook: Playbook, desk: Desk, log: FilteringBoundLogger) -> bool:
    node = desk.cluster.live_node(match.node)
    if node is None:
        desk.out.write(f"  begins nothing: no node is called {match.node} (unknown_node)\n")
        return False
    if not node.counts:
        desk.out.write("  begins nothing: the node is virtual or scaled in (excluded_node)\n")
        return False
    active = [each for each in desk.cluster.of_node(node.name) if each.active]
    if active:
        desk.out.write(f"  would join {active[0].name} ({active[0].status.phase.value})\n")
        return True
    held = before_isolation(_gate_case(match, playbook, node, desk, log))
    for each in held:
        until = f", until {each.until:%Y-%m-%d %H:%M UTC}" if each.until else ""
        text = "a person must say yes" if each.gate == "approval" else each.text
        desk.out.write(f"  held now by {each.gate}: {text}{until}\n")
    if not held:
        desk.out.write("  no gate holds it now\n")
    return True


def _gate_case(
    match: Match, playbook: Playbook, node: NodeView, desk: Desk, log: FilteringBoundLogger
) -> GateCase:
    now, config = desk.clock(), desk.config
    alertmanagers, prometheus = peers_of(config, desk.clock, log)
    alerts: dict[str, AlertView] = {}
    if config.alertmanagers:
        snapshot = alertmanagers.ask("")
        fingerprint = match.cause.fingerprint
        alerts = {fingerprint: snapshot.view(fingerprint, now)}
    queries: dict[str, QueryView] = {}
    if prometheus is not None:
        for guard in playbook.gates.guards:
            queries[guard.name] = prometheus.ask(guard.expr.replace("{{ node }}", node.name))
    spec = OperationSpec(node.name, playbook.name, Trigger.ALERT, 1, causes=(match.cause,))
    operation = NodeOperation("explained", "", "", now + timedelta(days=1), spec)
    observation = Observation(now, node, alerts=alerts, queries=queries)
    others = desk.cluster.operations()
    fleet = desk.cluster.fleet()
    return GateCase(operation, playbook, node, observation, config, fleet, others, desk.clock())


def told(error: NodemendError) -> str:
    """An error as one line for a person."""
    line = " ".join(str(error).split())
    if isinstance(error, Forbidden):
        return f"{line}; docs/deploying.md has the roles for people"
    return line
