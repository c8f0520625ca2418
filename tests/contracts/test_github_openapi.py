"""The sandbox GitHub answers in the shapes of GitHub's own OpenAPI description.

The description comes with the npm package `@octokit/openapi`; it is fetched once into .cache/ when
there is an npm, and the tests are skipped with the way to get it when there is none.
"""

import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from sandbox.github_server import SandboxGitHub
from tests.sandbox.app_keys import app_jwt, app_keys

__all__ = ["app_jwt", "app_keys"]  # fixtures, asked for by name

PACKAGE = "@octokit/openapi@23.0.2"
CACHE = Path(__file__).parents[2] / ".cache" / "github-openapi-23.0.2.json"
MEMBER = "package/generated/api.github.com.json"
HOW = f"GitHub's OpenAPI description is not here; with npm it is fetched: npm pack {PACKAGE}"


def fetch(folder: Path) -> bytes:
    """The description out of the npm package, or a skip that says how to get it."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(HOW)
    packed = subprocess.run(
        [npm, "pack", PACKAGE, "--silent"],
        cwd=folder,
        capture_output=True,
        timeout=100,
        check=False,
    )
    archives = list(folder.glob("*.tgz"))
    if packed.returncode or not archives:
        pytest.skip(f"{HOW} (npm failed: {packed.stderr.decode()[-200:]})")
    with tarfile.open(archives[0]) as archive:
        member = archive.extractfile(MEMBER)
        assert member is not None
        return member.read()


@pytest.fixture(scope="session")
def description(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if not CACHE.exists():
        folder = tmp_path_factory.mktemp("npm")
        CACHE.parent.mkdir(exist_ok=True)
        part = folder / "part.json"
        part.write_bytes(fetch(folder))
        # Moved as a whole: several test processes may fetch at the same time.
        unfinished = CACHE.with_name(f"{CACHE.name}.{folder.name}-{folder.parent.name}")
        shutil.copyfile(part, unfinished)
        unfinished.replace(CACHE)
    return modern(json.loads(CACHE.read_bytes()))


def modern(node: Any) -> Any:
    """OpenAPI 3.0 schemas as JSON Schema: `nullable` beside anything else means "or null".

    Validators ignore `nullable`, and beside oneOf, anyOf or allOf it cannot be put into `type`.
    """
    if isinstance(node, list):
        return [modern(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    changed = {
        key: modern(value) for key, value in node.items() if key not in ("example", "examples")
    }
    if changed.get("nullable") is True:
        del changed["nullable"]
        return {"anyOf": [changed, {"type": "null"}]}
    return changed


@pytest.fixture(scope="module")
def github() -> Iterator[SandboxGitHub]:
    with SandboxGitHub() as server:
        server.state.add_team("acme", "infra", ["alice"])
        server.state.change_repository(server.repository, files={"docs/CODEOWNERS": "* @alice\n"})
        server.state.add_repository("acme/away", collaborators={server.login: "write"})
        fill(server)
        yield server


def fill(server: SandboxGitHub) -> None:
    """Issues with everything on them, so that no branch of a schema goes unseen."""
    repo, alice = server.repository, server.human("alice")
    ask(server, "POST", f"/repos/{repo}/milestones", {"title": "now", "description": "d"})
    alice.open(repo, "full", "body")
    alice.edit(repo, 1, labels=["a", "b"], assignees=["alice", "bob"], milestone=1, title="fuller")
    alice.edit(repo, 1, labels=["a"], assignees=["alice"], milestone=None)
    alice.edit(repo, 1, milestone=1)
    alice.comment(repo, 1, "hello")
    alice.close(repo, 1, "not_planned")
    alice.reopen(repo, 1)
    alice.close(repo, 1, "duplicate")
    alice.lock(repo, 1, "resolved")
    alice.open(repo, "to be moved")
    alice.transfer(repo, 2, "acme/away")
    alice.open(repo, "to be deleted")
    alice.delete(repo, 3)
    alice.open(repo, "empty")


def ask(
    server: SandboxGitHub, method: str, path: str, body: Any = None, **headers: str
) -> requests.Response:
    return requests.request(
        method,
        f"{server.url}{path}",
        json=body,
        headers={"Authorization": f"Bearer {server.token}", **headers},
        allow_redirects=False,
        timeout=20,
    )


REPO = "/repos/{owner}/{repo}"
ISSUE = f"{REPO}/issues/{{issue_number}}"
FILL = {
    "owner": "acme",
    "repo": "alerts",
    "issue_number": "1",
    "org": "acme",
    "team_slug": "infra",
    "username": "alice",
    "name": "a",
    "milestone_number": "1",
    "path": "docs/CODEOWNERS",
    "assignee": "alice",
}
LONG = {"title": "x" * 257}
CASES: list[tuple[str, str, int, Any, dict[str, str]]] = [
    ("GET", REPO, 200, None, {}),
    ("POST", f"{REPO}/issues", 201, {"title": "t", "labels": ["a"], "assignees": ["bob"]}, {}),
    ("POST", f"{REPO}/issues", 422, LONG, {}),
    ("GET", f"{REPO}/issues", 200, None, {}),
    ("GET", ISSUE, 200, None, {}),
    ("GET", ISSUE, 404, None, {"issue_number": "999"}),
    ("GET", ISSUE, 301, None, {"issue_number": "2"}),
    ("GET", ISSUE, 410, None, {"issue_number": "3"}),
    ("PATCH", ISSUE, 200, {"body": "new"}, {}),
    ("PATCH", ISSUE, 422, {"milestone": 77}, {}),
    ("PUT", f"{ISSUE}/lock", 204, {"lock_reason": "spam"}, {"issue_number": "4"}),
    ("DELETE", f"{ISSUE}/lock", 204, None, {"issue_number": "4"}),
    ("GET", f"{ISSUE}/comments", 200, None, {}),
    ("POST", f"{ISSUE}/comments", 201, {"body": "words"}, {}),
    ("POST", f"{ISSUE}/comments", 422, {"body": "x" * 65_537}, {}),
    ("GET", f"{REPO}/issues/comments", 200, None, {}),
    ("GET", f"{ISSUE}/events", 200, None, {}),
    ("GET", f"{REPO}/issues/events", 200, None, {}),
    ("GET", f"{ISSUE}/timeline", 200, None, {}),
    ("GET", f"{ISSUE}/labels", 200, None, {}),
    ("POST", f"{ISSUE}/labels", 200, {"labels": ["c"]}, {}),
    ("PUT", f"{ISSUE}/labels", 200, ["a", "c"], {}),
    ("DELETE", f"{ISSUE}/labels/{{name}}", 200, None, {"name": "c"}),
    ("POST", f"{ISSUE}/assignees", 201, {"assignees": ["bob"]}, {}),
    ("DELETE", f"{ISSUE}/assignees", 200, {"assignees": ["bob"]}, {}),
    ("GET", f"{REPO}/assignees", 200, None, {}),
    ("GET", f"{REPO}/assignees/{{assignee}}", 204, None, {}),
    ("GET", f"{REPO}/assignees/{{assignee}}", 404, None, {"assignee": "nobody"}),
    ("GET", f"{REPO}/labels", 200, None, {}),
    ("POST", f"{REPO}/labels", 201, {"name": "new", "color": "ff0000"}, {}),
    ("GET", f"{REPO}/labels/{{name}}", 200, None, {}),
    ("PATCH", f"{REPO}/labels/{{name}}", 200, {"color": "00ff00"}, {}),
    ("GET", f"{REPO}/milestones", 200, None, {}),
    ("POST", f"{REPO}/milestones", 201, {"title": "later"}, {}),
    ("POST", f"{REPO}/milestones", 422, {"title": "now"}, {}),
    ("GET", f"{REPO}/milestones/{{milestone_number}}", 200, None, {}),
    ("GET", f"{REPO}/contents/{{path}}", 200, None, {}),
    ("GET", f"{REPO}/contents/{{path}}", 200, None, {"path": "docs"}),
    ("GET", "/orgs/{org}/teams/{team_slug}/members", 200, None, {}),
    ("GET", "/users/{username}", 200, None, {}),
    ("GET", "/user", 200, None, {}),
    ("GET", "/rate_limit", 200, None, {}),
    ("GET", "/search/issues", 200, None, {"?": "q=repo:acme/alerts+is:issue+fuller"}),
    ("GET", "/search/issues", 422, None, {"?": "q=hello"}),
]


@pytest.mark.parametrize(
    ("method", "route", "status", "body", "values"),
    CASES,
    ids=[
        f"{n:02}-{method} {route} {status}" for n, (method, route, status, *_) in enumerate(CASES)
    ],
)
def test_an_answer_has_the_shape_that_github_describes(
    method: str,
    route: str,
    status: int,
    body: Any,
    values: dict[str, str],
    github: SandboxGitHub,
    description: dict[str, Any],
) -> None:
    query = f"?{values['?']}" if "?" in values else ""
    path = route.format(**{**FILL, **values}) + query

    response = ask(github, method, path, body)

    assert response.status_code == status, response.text
    validator = validator_of(description, method, route, status)
    if validator is None:
        assert status == 204 or not response.text
    else:
        assert complaints(validator, response.json()) == []


def test_an_app_and_its_tokens_have_the_shape_that_github_describes(
    description: dict[str, Any], app_keys: tuple[str, str], app_jwt: Callable[[int], str]
) -> None:
    with SandboxGitHub() as server:
        app = server.state.add_app("mender", "acme", app_keys[1])
        made = server.state.add_installation(app, "acme", repositories=[server.repository])
        headers = {"Authorization": f"Bearer {app_jwt(app.id)}"}
        for method, route, path, status in (
            ("GET", "/app", "/app", 200),
            ("GET", "/app/installations", "/app/installations", 200),
            (
                "GET",
                "/repos/{owner}/{repo}/installation",
                f"/repos/{server.repository}/installation",
                200,
            ),
            (
                "POST",
                "/app/installations/{installation_id}/access_tokens",
                f"/app/installations/{made.id}/access_tokens",
                201,
            ),
        ):
            response = ask(server, method, path, **headers)
            assert response.status_code == status, response.text
            body, described = response.json(), route
            if route == "/app/installations":
                # The description of this list asks each account to be a user and an enterprise at
                # once; the one of a single installation says which it means: either.
                [body], described = body, "/repos/{owner}/{repo}/installation"
            validator = validator_of(description, method, described, status)
            assert validator is not None
            assert complaints(validator, body) == []


def test_the_check_itself_sees_a_wrong_shape(description: dict[str, Any]) -> None:
    validator = validator_of(description, "GET", "/repos/{owner}/{repo}/labels/{name}", 200)
    assert validator is not None
    good = {"id": 1, "node_id": "x", "url": "http://x/", "name": "a", "color": "f", "default": True}

    assert complaints(validator, {**good, "description": None}) == []
    assert complaints(validator, {**good, "description": 3}) != []
    assert complaints(validator, good) != []


def validator_of(
    description: dict[str, Any], method: str, route: str, status: int
) -> Draft202012Validator | None:
    """The validator of one answer; None where GitHub describes no body."""
    paths = description["paths"]
    unnamed = re.sub(r"\{\w+\}", "{}", route)
    known = next(path for path in paths if re.sub(r"\{\w+\}", "{}", path) == unnamed)
    pointer = (
        f"/paths/{known.replace('~', '~0').replace('/', '~1')}/{method.lower()}/responses/{status}"
    )
    answer = paths[known][method.lower()]["responses"].get(str(status))
    if answer is None:
        pytest.fail(f"GitHub describes no {status} for {method} {route}")
    if "$ref" in answer:
        pointer = answer["$ref"].removeprefix("#")
        answer = description["components"]["responses"][pointer.rsplit("/", 1)[1]]
    content = answer.get("content", {})
    if not content:
        return None
    kind = "application/json" if "application/json" in content else next(iter(content))
    reference = f"urn:github#{pointer}/content/{kind.replace('/', '~1')}/schema"
    return validator_for({}, default=Draft202012Validator)(
        {"$ref": reference}, registry=registry_of(id(description), lambda: description)
    )


_REGISTRIES: dict[int, Registry[Any]] = {}


def registry_of(key: int, description: Callable[[], dict[str, Any]]) -> Registry[Any]:
    if key not in _REGISTRIES:
        resource = Resource(contents=description(), specification=DRAFT202012)
        _REGISTRIES[key] = Registry().with_resource("urn:github", resource)
    return _REGISTRIES[key]


def complaints(validator: Draft202012Validator, body: Any) -> list[str]:
    return [f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(body)]
