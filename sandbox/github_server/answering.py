"""From a request to an answer: who calls, limits, faults, conditional requests, the log.

The routes themselves are in `api`; they find their `Call` here and raise `Refusal` to say no.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import orjson
from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException

from sandbox.github_rules import Page, Refusal, link_header, page_from
from sandbox.github_rules.limits import READ_METHODS
from sandbox.github_rules.refusals import moved, not_found, primary_limit, secondary_limit
from sandbox.github_server.access import Viewer, identify
from sandbox.github_server.faults import Fault, FaultKind
from sandbox.github_server.issue_records import Actor, Gone, find_issue
from sandbox.github_server.ledger import Charge, limit_headers
from sandbox.github_server.lookup import StateLookup
from sandbox.github_server.model import Issue, Permission, Repository
from sandbox.github_server.request_log import telling_fields
from sandbox.github_server.shapes import Shapes
from sandbox.github_server.state import GitHubState

DROP = "sandbox.drop"  # in the WSGI environment: send nothing, end the connection
NO_ANSWER = 0  # the status in the log of a dropped connection
NOT_API = ("pages", "control")


class Call:
    """One request to the API."""

    def __init__(self, state: GitHubState) -> None:
        self.state = state
        self.now = state.clock()
        self.effects_before = state.effects
        self.viewer = Viewer()
        self.fault: Fault | None = None
        self.number: int | None = (request.view_args or {}).get("number")
        root = request.url_root.rstrip("/")
        self.lookup = StateLookup(state)
        self.shapes = Shapes(root, request.host_url.rstrip("/"), self.lookup)

    @property
    def charge(self) -> Charge:
        limit = self.state.switches.core_limit
        return Charge(self.viewer.budget_key, request.method, request.path, limit)

    @property
    def took_effect(self) -> bool:
        return self.state.effects > self.effects_before

    def body(self) -> dict[str, Any]:
        body = self.json()
        if not isinstance(body, dict):
            raise Refusal(400, "Body should be a JSON object")
        return body

    def json(self) -> Any:
        data = request.get_data()
        if not data:
            return {}
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError:
            raise Refusal(400, "Problems parsing JSON") from None

    def repository(self, owner: str, name: str) -> Repository:
        """The repository, if the caller may see it."""
        repo = self.state.repositories.get("", f"{owner}/{name}".lower())
        if repo is None:
            raise not_found()
        self.viewer.need_read(repo)
        return repo

    def issue(self, repo: Repository, number: int) -> Issue:
        """The issue; one that moved to a place the caller cannot see is not found."""
        self.viewer.need_issues(repo)
        try:
            return find_issue(self.state, repo, number)
        except Gone as gone:
            raise self._moved(gone) from gone

    def writing(self, repo: Repository, least: Permission = Permission.READ) -> Actor:
        """The actor for a write to the issues of `repo`, once it is clear that it may go ahead."""
        self.viewer.need_write(repo, least)
        self.viewer.need_issues(repo)
        home = self.viewer.installation
        app = self.state.apps.get("", str(home.app)) if home else None
        return self.viewer.actor(repo, app)

    def _moved(self, gone: Gone) -> Refusal:
        target = self.state.repository_by_id(gone.trail.to_repository or 0)
        if target is None or self.viewer.permission(target) < Permission.READ:
            return not_found()
        rest = request.path.split(f"/issues/{gone.trail.number}", 1)[-1]
        path = f"/repositories/{target.id}/issues/{gone.trail.to_number}{rest}"
        return moved(f"{self.shapes.root}{path}")


def current() -> Call:
    call: Call = g.call
    return call


def answer(body: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(body), status, mimetype="application/json")


def answer_page(entries: Sequence[Any], shape: Callable[[Any], Any]) -> Response:
    """One page of `entries`, shaped, with GitHub's Link header."""
    page = page_from(request.args)
    response = answer([shape(entry) for entry in page.cut(list(entries))])
    return with_links(response, page, len(entries))


def with_links(response: Response, page: Page, total: int) -> Response:
    links = link_header(request.base_url, request.args.to_dict(), page, total)
    if links:
        response.headers["Link"] = links
    return response


def refuse(refusal: Refusal) -> Response:
    response = answer(refusal.as_json(), refusal.status)
    response.headers.update(refusal.headers)
    return response


def install(app: Flask, state: GitHubState) -> None:
    """Put the handling of API calls around the routes of `app`."""
    app.before_request(partial(_begin, state))
    app.after_request(_end)
    app.register_error_handler(Refusal, refuse)
    app.register_error_handler(HTTPException, _refuse_route)


def _begin(state: GitHubState) -> Response | None:
    if request.blueprint in NOT_API:
        return None
    g.call = call = Call(state)
    call.viewer = identify(state, request.headers.get("Authorization"), call.now)
    call.fault = state.faults.pick(request.method, request.path, call.now)
    if call.fault is not None and call.fault.when == "before":
        spoiled = _apply(call, call.fault)
        if spoiled is not None:
            return spoiled
    state.ledger.spend(call.charge, call.now, enforce=state.switches.enforce_primary)
    if state.switches.enforce_secondary:
        state.ledger.spend_secondary(call.charge, call.now)
    return None


def _end(response: Response) -> Response:
    call: Call | None = g.get("call")
    if call is None:
        return response
    response = _conditional(call, response)
    if call.fault is not None and call.fault.when == "after":
        response = _apply(call, call.fault) or response
    return _log(call, response)


def _refuse_route(error: HTTPException) -> Response:
    return refuse(Refusal(error.code or 500, error.name))


def _apply(call: Call, fault: Fault) -> Response | None:
    """The answer in place of the right one; None to go on (latency)."""
    if fault.kind is FaultKind.LATENCY:
        call.state.closing.wait(fault.seconds)
        return None
    if fault.kind in (FaultKind.DROP, FaultKind.TIMEOUT):
        request.environ[DROP] = True
        return Response(status=502)
    if fault.kind is FaultKind.ERROR:
        return refuse(Refusal(fault.status or 502, fault.message or "Server Error"))
    status = fault.status or 403
    headers: dict[str, str] = {}
    if fault.retry_after is not None:
        headers["retry-after"] = str(fault.retry_after)
    if fault.kind is FaultKind.SECONDARY_LIMIT:
        return refuse(secondary_limit(status, headers))
    if fault.headers:
        headers |= limit_headers(fault.seconds, call.now)
    return refuse(primary_limit(status, call.viewer.budget_key, headers))


def _conditional(call: Call, response: Response) -> Response:
    """Give reads an ETag; answer 304 where the caller has that version already."""
    if request.method != "GET" or response.status_code != 200:  # noqa: PLR2004  (OK)
        return response
    response.headers["ETag"] = f'W/"{hashlib.sha256(response.get_data()).hexdigest()}"'
    wanted = request.headers.get("If-None-Match", "")
    if response.headers["ETag"] not in [tag.strip() for tag in wanted.split(",")]:
        return response
    call.state.ledger.refund(call.charge, call.now)
    unchanged = Response(status=304)
    unchanged.headers["ETag"] = response.headers["ETag"]
    return unchanged


def _log(call: Call, response: Response) -> Response:
    """Log before a held answer is let go: a client that gave up can look already."""
    dropped = bool(request.environ.get(DROP))
    data = request.get_data()
    entry = call.state.log.add(
        at=call.now,
        method=request.method,
        path=request.path,
        query=request.query_string.decode("latin-1"),
        login=call.viewer.login,
        status=NO_ANSWER if dropped else response.status_code,
        took_effect=call.took_effect,
        fault=call.fault.kind.value if call.fault else None,
        number=call.number,
        body_sha256=hashlib.sha256(data).hexdigest() if data else None,
        fields=_fields(data) if request.method not in READ_METHODS else {},
    )
    if dropped and call.fault is not None and call.fault.kind is FaultKind.TIMEOUT:
        call.state.closing.wait(call.fault.seconds)
    response.headers["X-GitHub-Request-Id"] = f"SANDBOX:{entry.seq}"
    hides = call.fault is not None and not call.fault.headers
    if "x-ratelimit-limit" not in response.headers and not hides:
        window = call.state.ledger.window(call.charge, call.now)
        response.headers.update(window.headers(call.charge.resource))
    return response


def _fields(data: bytes) -> dict[str, Any]:
    try:
        return telling_fields(orjson.loads(data or b"{}"))
    except orjson.JSONDecodeError:
        return {}
