"""Routes of GitHub Apps: the App itself, its installations, their tokens."""

from typing import Any

from flask import Blueprint, Response

from sandbox.github_rules.refusals import authentication_needed, invalid, not_found
from sandbox.github_server.answering import Call, answer, answer_page, current
from sandbox.github_server.model import App, Installation
from sandbox.github_server.shapes import stamp

routes = Blueprint("apps", __name__)


@routes.get("/app")
def get() -> Response:
    call = current()
    return answer(call.shapes.app(_app(call)))


@routes.get("/app/installations")
def installations() -> Response:
    call = current()
    app = _app(call)
    return answer_page(_installations(call, app), lambda one: _installation(call, app, one))


@routes.get("/app/installations/<int:which>")
def installation(which: int) -> Response:
    call = current()
    app = _app(call)
    return answer(_installation(call, app, _own_installation(call, app, which)))


@routes.get("/repos/<owner>/<repo>/installation")
def of_repository(owner: str, repo: str) -> Response:
    call = current()
    app = _app(call)
    name = f"{owner}/{repo}".lower()
    for one in _installations(call, app):
        covers = one.repositories is None or name in one.repositories
        if one.account.lower() == owner.lower() and covers:
            return answer(_installation(call, app, one))
    raise not_found()


@routes.get("/orgs/<owner>/installation")
@routes.get("/users/<owner>/installation")
def of_account(owner: str) -> Response:
    call = current()
    app = _app(call)
    for one in _installations(call, app):
        if one.account.lower() == owner.lower():
            return answer(_installation(call, app, one))
    raise not_found()


@routes.post("/app/installations/<int:which>/access_tokens")
def create_token(which: int) -> Response:
    call = current()
    app = _app(call)
    one = _own_installation(call, app, which)
    body = call.body()
    names = body.get("repositories")
    reach = None if names is None else [f"{one.account}/{name}".lower() for name in names]
    covered = one.repositories if one.repositories is not None else _names(call, one)
    if reach is not None and not set(reach) <= set(covered):
        raise invalid("There is at least one repository that does not exist or is not accessible.")
    wanted = (body.get("permissions") or {}).get("issues", one.issues)
    token = call.state.issue_installation_token(one, reach, read_only=wanted != "write")
    return answer(
        {
            "token": token.value,
            "expires_at": stamp(token.expires_at),
            "permissions": {"issues": wanted, "metadata": "read"},
            "repository_selection": "all" if token.repositories is None else "selected",
        },
        201,
    )


def _app(call: Call) -> App:
    if call.viewer.app is None:
        raise authentication_needed()
    return call.viewer.app


def _installations(call: Call, app: App) -> list[Installation]:
    return [one for one in call.state.installations.all() if one.app == app.id]


def _own_installation(call: Call, app: App, which: int) -> Installation:
    found = call.state.installations.get("", str(which))
    if found is None or found.app != app.id:
        raise not_found()
    return found


def _names(call: Call, one: Installation) -> list[str]:
    account = one.account.lower()
    return [r.key for r in call.state.repositories.all() if r.owner.lower() == account]


def _installation(call: Call, app: App, one: Installation) -> dict[str, Any]:
    account = call.shapes.user(one.account)
    url = f"{call.shapes.root}/app/installations/{one.id}"
    return {
        "id": one.id,
        "account": account,
        "repository_selection": "all" if one.repositories is None else "selected",
        "access_tokens_url": f"{url}/access_tokens",
        "repositories_url": f"{call.shapes.root}/installation/repositories",
        "html_url": f"{call.shapes.site}/settings/installations/{one.id}",
        "app_id": app.id,
        "app_slug": app.slug,
        "target_id": account["id"],
        "target_type": account["type"],
        "permissions": {"issues": one.issues, "metadata": "read"},
        "events": [],
        "created_at": stamp(one.created_at),
        "updated_at": stamp(one.created_at),
        "single_file_name": None,
        "suspended_at": None,
        "suspended_by": None,
    }
