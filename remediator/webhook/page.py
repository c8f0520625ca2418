"""The pages for people: the fleet, the operations with their timelines, why each waits, budgets, breaker.

Texts in them may come from alerts; the frame of `chassis.webapp` keeps browsers from running any.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from flask import Blueprint, Flask, Response, render_template

from chassis.contracts import OPERATION_TAINT
from chassis.webapp import (
    AuthSettings,
    RequestRefused,
    html_answer,
    install_frame,
    is_stranger,
    prefixes_with_pages,
)
from remediator import budgets
from remediator.cluster import Fleet
from remediator.config import Config
from remediator.lifecycle import steps
from remediator.operation import NodeOperation, Phase, what_next
from remediator.webhook.wording import breaker_words, choices, coded, span

_MOST_ACTIVE = 500
_MOST_ENDED = 50
_REFRESH = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class Page:
    """What the pages are made of; all of it is only read."""

    operations: Callable[[], Sequence[NodeOperation]]
    fleet: Callable[[], Fleet]
    config: Callable[[], Config]
    leads: Callable[[], bool]
    clock: Callable[[], datetime]
    protected: AuthSettings | None

    def overview(self) -> str:
        """The first page; to somebody unknown only numbers, when a token is needed for more."""
        operations, fleet, config = self.operations(), self.fleet(), self.config()
        active = sorted((each for each in operations if each.active), key=_worst_first)
        ended = sorted((each for each in operations if not each.active), key=_ended, reverse=True)
        return render_template(
            "overview.html",
            fleet=fleet,
            leads=self.leads(),
            numbers=_numbers(fleet, operations),
            active=active[:_MOST_ACTIVE],
            ended=ended[:_MOST_ENDED],
            budgets=budgets.usage(fleet, operations, config.budgets),
            breaker=breaker_words(fleet, config.breaker),
            dry_run=config.dry_run,
            stranger=is_stranger(self.protected),
            unreadable=[(name, why, _isolated_by(fleet, name)) for name, why in _problems(fleet)],
            orphans=_orphans(fleet, operations),
            taint=OPERATION_TAINT,
        )

    def operation(self, name: str) -> str:
        """One operation with its timeline.

        Raises:
            RequestRefused: There is none.
        """
        for each in self.operations():
            if each.name == name:
                playbook = self.config().playbook(each.spec.playbook)
                return render_template(
                    "operation.html",
                    operation=each,
                    playbook=playbook,
                    steps=steps(playbook) if playbook else (),
                    next=_next(each),
                )
        raise RequestRefused("there is no such operation", status=404, reason="not_found")


def protected_prefixes(auth: AuthSettings | None) -> tuple[str, ...]:
    """What needs a credential; without a password a browser has none, so `/` stays open with numbers only."""
    return prefixes_with_pages(auth, "/v1", "/operations")


def _numbers(fleet: Fleet, operations: Sequence[NodeOperation]) -> dict[str, int]:
    nodes = [each for each in fleet.nodes.values() if each.counts]
    phases = [each.status.phase for each in operations]
    return {
        "nodes": len(nodes),
        "not_ready": sum(not each.is_ready for each in nodes),
        "isolated": sum(each.operation_taint is not None for each in nodes),
        "running": sum(not each.is_final for each in phases),
        "escalated": sum(each is Phase.ESCALATED for each in phases),
    }


def _problems(fleet: Fleet) -> list[tuple[str, str]]:
    return sorted(fleet.unreadable.items())


def _isolated_by(fleet: Fleet, operation: str) -> list[str]:
    return sorted(n.name for n in fleet.nodes.values() if n.operation_taint == operation)


def _orphans(fleet: Fleet, operations: Sequence[NodeOperation]) -> list[tuple[str, str]]:
    """Nodes with the taint of an operation that is stored no more, which nobody but a person takes off."""
    known = {each.name for each in operations} | set(fleet.unreadable)
    taints = ((node.name, node.operation_taint) for node in fleet.nodes.values())
    return sorted(
        (name, owner) for name, owner in taints if owner is not None and owner not in known
    )


def _next(operation: NodeOperation) -> str:
    escalated = operation.status.phase is Phase.ESCALATED
    return what_next(operation, operation.status.reason) if escalated else ""


def _worst_first(operation: NodeOperation) -> tuple[bool, datetime, str]:
    return (operation.status.phase is not Phase.ESCALATED, *operation.age_order)


def _ended(operation: NodeOperation) -> datetime:
    return operation.status.ended_at or operation.created_at


def install_page(app: Flask, page: Page) -> None:
    """Add GET / and GET /operations/NAME."""
    install_frame(app, "remediator", refresh=_REFRESH, clock=page.clock)
    routes = Blueprint("page", __name__, template_folder="../templates")
    routes.add_app_template_filter(span, "span")
    routes.add_app_template_filter(coded, "coded")
    routes.add_app_template_filter(choices, "choices")

    @routes.get("/")
    def overview() -> Response:
        return html_answer(page.overview())

    @routes.get("/operations/<name>")
    def operation(name: str) -> Response:
        return html_answer(page.operation(name))

    app.register_blueprint(routes)
