"""Puts the sandbox GitHub together as one Flask application. Starts nothing."""

import re
import socket
from collections.abc import Callable, Iterable
from typing import Any

from flask import Flask

from sandbox.github_server import control, pages
from sandbox.github_server.answering import DROP, install
from sandbox.github_server.api import BLUEPRINTS
from sandbox.github_server.state import GitHubState

WSGI = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
ENTERPRISE_PREFIX = "/api/v3"
_BY_ID = re.compile(r"^/repositories/(\d+)(/.*)?$")


def create_github(state: GitHubState) -> Flask:
    """The REST API (also below /api/v3), the pages, and the control routes below /_sandbox."""
    app = Flask("sandbox", template_folder="templates", static_folder=None)
    app.url_map.merge_slashes = False
    install(app, state)
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint)
    app.register_blueprint(control.create_routes(state))
    app.register_blueprint(pages.create_routes(state))
    app.wsgi_app = _front(app.wsgi_app, state)  # type: ignore[assignment]  # as Flask's docs do
    return app


def _front(inner: WSGI, state: GitHubState) -> WSGI:
    """Rewrites addresses before routing, and ends the connection where a fault asks for it."""

    def front(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path.startswith(f"{ENTERPRISE_PREFIX}/"):
            environ["SCRIPT_NAME"] = environ.get("SCRIPT_NAME", "") + ENTERPRISE_PREFIX
            path = path[len(ENTERPRISE_PREFIX) :]
        environ["PATH_INFO"] = _named(state, path)
        body = inner(environ, start_response)
        if environ.get(DROP):
            wire = environ.get("werkzeug.socket")
            if wire is not None:
                wire.shutdown(socket.SHUT_RDWR)
            raise ConnectionAbortedError("dropped by a fault")
        return body

    return front


def _named(state: GitHubState, path: str) -> str:
    """`/repositories/ID/…`, where redirects of moved issues lead, by the repository's name."""
    match = _BY_ID.match(path)
    repo = state.repository_by_id(int(match[1])) if match else None
    return f"/repos/{repo.full_name}{match[2] or ''}" if match and repo else path
