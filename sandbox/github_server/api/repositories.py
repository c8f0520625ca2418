"""Routes of repositories and their files."""

from typing import Any

from flask import Blueprint, Response

from sandbox.github_rules.refusals import not_found
from sandbox.github_server.answering import Call, answer, answer_page, current
from sandbox.github_server.model import Event, Permission, Repository
from sandbox.github_server.shapes import content_file, node_id, stamp

routes = Blueprint("repositories", __name__)
REPO = "/repos/<owner>/<repo>"


@routes.get(REPO)
def get(owner: str, repo: str) -> Response:
    call = current()
    return answer(_repository(call, call.repository(owner, repo)))


@routes.get(f"{REPO}/issues/events")
def events(owner: str, repo: str) -> Response:
    call = current()
    found = call.repository(owner, repo)
    newest: list[Event] = sorted(
        (event for event in call.state.events.all() if event.repository == found.id),
        key=lambda event: -event.id,
    )
    return answer_page(newest, lambda event: call.shapes.event(found, event))


@routes.get(f"{REPO}/contents/")
@routes.get(f"{REPO}/contents/<path:path>")
def contents(owner: str, repo: str, path: str = "") -> Response:
    call = current()
    found = call.repository(owner, repo)
    if path in found.files:
        return answer(_file(call, found, path))
    folder = f"{path.strip('/')}/" if path else ""
    inside = [name for name in sorted(found.files) if name.startswith(folder)]
    if not inside:
        raise not_found()
    entries = [_file(call, found, name) for name in inside if "/" not in name[len(folder) :]]
    return answer(
        [{k: v for k, v in e.items() if k not in ("content", "encoding")} for e in entries]
    )


def _file(call: Call, repo: Repository, path: str) -> dict[str, Any]:
    url = f"{call.shapes.repo_url(repo)}/contents/{path}?ref=main"
    page = f"{call.shapes.site}/{repo.full_name}/blob/main/{path}"
    return content_file(url, page, path, repo.files[path])


def _repository(call: Call, repo: Repository) -> dict[str, Any]:
    url, right = call.shapes.repo_url(repo), call.viewer.permission(repo)
    page = f"{call.shapes.site}/{repo.full_name}"
    opened = [i for i in call.state.issues.in_group(str(repo.id)) if i.state == "open"]
    return {
        "id": repo.id,
        "node_id": node_id("Repository", repo.id),
        "name": repo.name,
        "full_name": repo.full_name,
        "private": repo.private,
        "visibility": "private" if repo.private else "public",
        "owner": call.shapes.user(repo.owner),
        "html_url": page,
        "description": None,
        "fork": False,
        "url": url,
        **_addresses(url),
        **_git_addresses(call.shapes.site, repo),
        "homepage": None,
        "size": 0,
        "stargazers_count": 0,
        "watchers_count": 0,
        "forks_count": 0,
        "forks": 0,
        "watchers": 0,
        "network_count": 0,
        "subscribers_count": 0,
        "language": None,
        "license": None,
        "mirror_url": None,
        "default_branch": "main",
        "open_issues_count": len(opened),
        "open_issues": len(opened),
        "has_issues": repo.has_issues,
        **dict.fromkeys(("has_projects", "has_wiki", "has_pages", "has_discussions"), False),
        "has_downloads": False,
        "archived": repo.archived,
        "disabled": False,
        "topics": [],
        "pushed_at": stamp(repo.created_at),
        "created_at": stamp(repo.created_at),
        "updated_at": stamp(repo.created_at),
        "permissions": {
            "admin": right >= Permission.ADMIN,
            "maintain": right >= Permission.ADMIN,
            "push": right >= Permission.WRITE,
            "triage": right >= Permission.TRIAGE,
            "pull": right >= Permission.READ,
        },
    }


_ADDRESSES = (
    "archive_url=/{archive_format}{/ref} assignees_url=/assignees{/user} "
    "blobs_url=/git/blobs{/sha} branches_url=/branches{/branch} "
    "collaborators_url=/collaborators{/collaborator} comments_url=/comments{/number} "
    "commits_url=/commits{/sha} compare_url=/compare/{base}...{head} "
    "contents_url=/contents/{+path} contributors_url=/contributors "
    "deployments_url=/deployments downloads_url=/downloads events_url=/events forks_url=/forks "
    "git_commits_url=/git/commits{/sha} git_refs_url=/git/refs{/sha} git_tags_url=/git/tags{/sha} "
    "hooks_url=/hooks issue_comment_url=/issues/comments{/number} "
    "issue_events_url=/issues/events{/number} issues_url=/issues{/number} keys_url=/keys{/key_id} "
    "labels_url=/labels{/name} languages_url=/languages merges_url=/merges "
    "milestones_url=/milestones{/number} notifications_url=/notifications{?since,all} "
    "pulls_url=/pulls{/number} releases_url=/releases{/id} stargazers_url=/stargazers "
    "statuses_url=/statuses/{sha} subscribers_url=/subscribers subscription_url=/subscription "
    "tags_url=/tags teams_url=/teams trees_url=/git/trees{/sha}"
)


def _addresses(url: str) -> dict[str, str]:
    pairs = (entry.split("=", 1) for entry in _ADDRESSES.split())
    return {key: f"{url}{path}" for key, path in pairs}


def _git_addresses(site: str, repo: Repository) -> dict[str, str]:
    clone = f"{site}/{repo.full_name}.git"
    return {"clone_url": clone, "git_url": clone, "ssh_url": clone, "svn_url": clone}
