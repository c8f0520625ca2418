"""Control routes below /_sandbox: the request log, faults, and the hands of people. No GitHub here.

They take no credentials: the sandbox is for one's own machine. A mistake in a request is a 400 that
names it.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

import orjson
from flask import Blueprint, Response, request
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from chassis.errors import PermanentError
from sandbox.github_server.faults import Fault
from sandbox.github_server.human import Human
from sandbox.github_server.state import GitHubState

FAULT = TypeAdapter(Fault)
AVATAR = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 40">'
    '<rect width="40" height="40" rx="20" fill="hsl({hue},45%,55%)"/>'
    '<text x="20" y="26" font-family="sans-serif" font-size="18" fill="#fff" '
    'text-anchor="middle">{letter}</text></svg>'
)


class _Order(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SwitchOrder(_Order):
    """Keys left out stay as they are; lags are in seconds."""

    list_lag: float | None = None
    search_lag: float | None = None
    assignees_off: bool | None = None
    enforce_primary: bool | None = None
    enforce_secondary: bool | None = None
    check_jwt_times: bool | None = None
    core_limit: int | None = None
    search_needs_kind: bool | None = None


class UserOrder(_Order):
    login: str
    kind: Literal["User", "Bot", "Organization"] = "User"
    name: str | None = None


class RepositoryOrder(_Order):
    """A repository that is known already is changed, any other is made."""

    repository: str
    private: bool | None = None
    archived: bool | None = None
    has_issues: bool | None = None
    collaborators: dict[str, str] = {}
    files: dict[str, str] | None = None


class TokenOrder(_Order):
    token: str
    login: str
    repositories: list[str] | None = None
    read_only: bool = False
    revoke: bool = False


class HumanOrder(_Order):
    """`values`: the comment, the labels, the logins, the target repository, the reason or whatever it takes."""

    login: str
    action: str
    repository: str
    number: int = 0
    values: list[str] = []
    fields: dict[str, Any] = {}


def create_routes(state: GitHubState) -> Blueprint:
    routes = Blueprint("control", __name__, url_prefix="/_sandbox")
    orders: dict[str, Callable[[GitHubState, bytes], Any]] = {
        "switches": _switch,
        "faults": _add_fault,
        "users": _add_user,
        "repos": _add_repository,
        "tokens": _add_token,
        "human": _act,
    }

    @routes.post("/<order>")
    def obey(order: str) -> Response:
        if order not in orders:
            return _json({"error": f"no order {order!r}; there are {', '.join(orders)}"}, 404)
        return _json(orders[order](state, request.get_data()) or {}, 200)

    @routes.get("/log")
    def log() -> Response:
        entries = state.log.entries(request.args.get("after", 0, int))
        lines = b"".join(orjson.dumps(entry) + b"\n" for entry in entries)
        return Response(lines, mimetype="application/jsonl")

    @routes.delete("/faults")
    def clear_faults() -> Response:
        state.faults.clear()
        return Response(status=204)

    @routes.get("/avatars/<login>.svg")
    def avatar(login: str) -> Response:
        letter = login[0].upper() if login[0].isalnum() else "?"
        drawn = AVATAR.format(hue=sum(login.encode()) * 37 % 360, letter=letter)
        return Response(drawn, mimetype="image/svg+xml")

    @routes.errorhandler(PermanentError)
    @routes.errorhandler(ValidationError)
    def mistake(error: Exception) -> Response:
        return _json({"error": str(error)}, 400)

    return routes


def _switch(state: GitHubState, body: bytes) -> None:
    order = SwitchOrder.model_validate_json(body)
    for key in order.model_fields_set:
        value = getattr(order, key)
        setattr(state.switches, key, timedelta(seconds=value) if key.endswith("lag") else value)


def _add_fault(state: GitHubState, body: bytes) -> dict[str, int]:
    return {"id": state.faults.add(FAULT.validate_json(body))}


def _add_user(state: GitHubState, body: bytes) -> None:
    order = UserOrder.model_validate_json(body)
    state.add_user(order.login, kind=order.kind, name=order.name)


def _add_repository(state: GitHubState, body: bytes) -> None:
    order = RepositoryOrder.model_validate_json(body)
    if state.repositories.get("", order.repository.lower()) is None:
        state.add_repository(order.repository)
    for login, word in order.collaborators.items():
        state.set_collaborator(order.repository, login, word)
    state.change_repository(
        order.repository,
        private=order.private,
        archived=order.archived,
        has_issues=order.has_issues,
        files=order.files,
    )


def _add_token(state: GitHubState, body: bytes) -> None:
    order = TokenOrder.model_validate_json(body)
    if order.revoke:
        state.revoke_token(order.token)
        return
    state.add_token(
        order.token, order.login, repositories=order.repositories, read_only=order.read_only
    )


def _act(state: GitHubState, body: bytes) -> dict[str, int]:
    order = HumanOrder.model_validate_json(body)
    human = Human(state, order.login)
    if order.action == "open":
        title, *rest = order.values or [""]
        return {"number": human.open(order.repository, title, "\n".join(rest) or None).number}
    if order.action == "edit":
        human.edit(order.repository, order.number, **order.fields)
        return {"number": order.number}
    try:
        human.act(order.action, order.repository, order.number, order.values)
    except KeyError:
        raise PermanentError(f"people cannot {order.action!r}") from None
    return {"number": order.number}


def _json(body: Any, status: int) -> Response:
    return Response(orjson.dumps(body), status, mimetype="application/json")
