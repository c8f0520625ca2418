"""The pages for people: the fleet, the operations with their timelines, why each waits, budgets, breaker.

HTML without scripts and without anything from elsewhere. Texts may come from alerts, so the templates escape
them and the browser is told to run and load nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from typing import Any

from flask import Blueprint, Flask, Response, render_template, request

from chassis.webapp import AuthSettings, RequestRefused
from remediator import budgets
from remediator.cluster import Fleet
from remediator.config import Config
from remediator.operation import NodeOperation, Phase

_MOST_ACTIVE = 500
_MOST_ENDED = 50
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


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
        operations, fleet = self.operations(), self.fleet()
        active = sorted((each for each in operations if each.active), key=_worst_first)
        ended = sorted((each for each in operations if not each.active), key=_ended, reverse=True)
        return render_template(
            "overview.html",
            fleet=fleet,
            leads=self.leads(),
            numbers=_numbers(fleet, operations),
            active=active[:_MOST_ACTIVE],
            ended=ended[:_MOST_ENDED],
            budgets=budgets.usage(fleet, operations, self.config().budgets),
            stranger=self._is_stranger(),
        )

    def operation(self, name: str) -> str:
        """One operation with its timeline.

        Raises:
            RequestRefused: There is none.
        """
        for each in self.operations():
            if each.name == name:
                return render_template("operation.html", operation=each)
        raise RequestRefused("there is no such operation", status=404, reason="not_found")

    def _is_stranger(self) -> bool:
        """With basic authentication nobody unknown comes here."""
        auth = self.protected
        if auth is None or auth.basic_auth:
            return False
        given = request.authorization
        token = given.token if given is not None and given.type == "bearer" else None
        return token is None or not auth.accepts_bearer(token)


def protected_prefixes(auth: AuthSettings | None) -> tuple[str, ...]:
    """What needs a credential; without a password a browser has none, so `/` stays open with numbers only."""
    everybody = auth is not None and not auth.basic_auth
    return ("/v1", "/operations") if everybody else ("/v1", "/operations", "/")


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


def _worst_first(operation: NodeOperation) -> tuple[bool, datetime, str]:
    return (operation.status.phase is not Phase.ESCALATED, *operation.age_order)


def _ended(operation: NodeOperation) -> datetime:
    return operation.status.ended_at or operation.created_at


def install_page(app: Flask, page: Page) -> None:
    """Add GET / and GET /operations/NAME."""
    routes = Blueprint("page", __name__, template_folder="../templates")
    style = resources.files("remediator").joinpath("templates", "page.css").read_text("utf-8")
    routes.add_app_template_filter(_moment, "moment")

    @routes.context_processor
    def common() -> dict[str, Any]:
        return {"now": page.clock()}

    @routes.get("/")
    def overview() -> Response:
        return _html(page.overview())

    @routes.get("/operations/<name>")
    def operation(name: str) -> Response:
        return _html(page.operation(name))

    @routes.get("/page.css")
    def css() -> Response:
        return Response(style, content_type="text/css; charset=utf-8")

    app.register_blueprint(routes)


def _html(text: str) -> Response:
    response = Response(text, content_type="text/html; charset=utf-8")
    response.headers.update(_HEADERS)
    return response


def _moment(at: datetime | None) -> str:
    return "" if at is None else at.strftime("%Y-%m-%d %H:%M:%S UTC")
