"""Routes of users, organizations, teams and the rate limit."""

from typing import Any

from flask import Blueprint, Response

from sandbox.github_rules.refusals import authentication_needed, not_found, out_of_reach
from sandbox.github_server.answering import Call, answer, answer_page, current
from sandbox.github_server.ledger import Charge
from sandbox.github_server.model import Team, User
from sandbox.github_server.shapes import node_id, rate, stamp

routes = Blueprint("users", __name__)


@routes.get("/user")
def me() -> Response:
    call = current()
    if call.viewer.token is None:
        raise authentication_needed()
    if call.viewer.installation is not None:
        raise out_of_reach(app=True)
    return answer(_full_user(call, call.lookup.user(call.viewer.token.login)))


@routes.get("/users/<login>")
def get(login: str) -> Response:
    call = current()
    user = call.state.users.get("", login.lower())
    if user is None:
        raise not_found()
    return answer(_full_user(call, user))


@routes.get("/orgs/<org>")
def organization(org: str) -> Response:
    call = current()
    user = call.state.users.get("", org.lower())
    if user is None or user.kind != "Organization":
        raise not_found()
    return answer({**_full_user(call, user), "url": f"{call.shapes.root}/orgs/{user.login}"})


@routes.get("/orgs/<org>/teams/<slug>")
def team(org: str, slug: str) -> Response:
    call = current()
    found = _team(call, org, slug)
    url = f"{call.shapes.root}/orgs/{found.organization}/teams/{found.slug}"
    return answer(
        {
            "id": found.id,
            "node_id": node_id("Team", found.id),
            "url": url,
            "html_url": f"{call.shapes.site}/orgs/{found.organization}/teams/{found.slug}",
            "name": found.slug,
            "slug": found.slug,
            "description": None,
            "privacy": "closed",
            "permission": "pull",
            "members_url": f"{url}/members{{/member}}",
            "repositories_url": f"{url}/repos",
            "parent": None,
        }
    )


@routes.get("/orgs/<org>/teams/<slug>/members")
def team_members(org: str, slug: str) -> Response:
    call = current()
    return answer_page(_team(call, org, slug).members, call.shapes.user)


@routes.get("/rate_limit")
def rate_limit() -> Response:
    call = current()
    limit = call.state.switches.core_limit
    resources = {}
    for name, path in (("core", "/"), ("search", "/search/issues")):
        charge = Charge(call.viewer.budget_key, "GET", path, limit)
        resources[name] = rate(call.state.ledger.window(charge, call.now).headers(name))
    return answer({"resources": resources, "rate": resources["core"]})


def _team(call: Call, org: str, slug: str) -> Team:
    """Teams are for those who are signed in; GitHub asks for membership, the sandbox does not."""
    found = call.state.teams.get(org.lower(), slug.lower())
    if found is None or call.viewer.token is None:
        raise not_found()
    return found


def _full_user(call: Call, user: User) -> dict[str, Any]:
    born = stamp(min((repo.created_at for repo in call.state.repositories.all()), default=call.now))
    empty = ("company", "location", "email", "hireable", "bio", "twitter_username")
    return {
        **call.shapes.user(user.login),
        "name": user.name,
        "blog": "",
        **dict.fromkeys(empty),
        **dict.fromkeys(("public_repos", "public_gists", "followers", "following"), 0),
        "created_at": born,
        "updated_at": born,
    }
