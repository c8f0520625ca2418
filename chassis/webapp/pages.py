"""What the services' pages for people have in common: frame, style, headers, and what a stranger may see.

HTML without scripts and without anything from elsewhere. Texts may come from alerts, so templates escape them and the
browser is told to run and load nothing. Must not know what a page is about.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from importlib import resources
from typing import Any

from flask import Blueprint, Flask, Response, request

from chassis.webapp.authentication import AuthSettings

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def install_frame(
    app: Flask, title: str, *, refresh: timedelta, clock: Callable[[], datetime]
) -> None:
    """Add the template `base.html`, GET /page.css and the filter `moment`.

    A page extends the template and fills its blocks `title`, `heading`, `under` and `content`. It sets `root` to the
    way from its own URL to `/`, such as `../`, and is sent by `html_answer`.

    Args:
        app: The service's application; once each.
        title: What pages are called that do not say otherwise.
        refresh: After how long a browser loads a page anew.
        clock: What pages are as of.
    """
    frame = Blueprint("frame", __name__, template_folder="templates")
    style = resources.files("chassis.webapp").joinpath("templates", "page.css").read_text("utf-8")
    frame.add_app_template_filter(_moment, "moment")

    @frame.app_context_processor
    def common() -> dict[str, Any]:
        seconds = round(refresh.total_seconds())
        return {"now": clock(), "service": title, "refresh_seconds": seconds}

    @frame.get("/page.css")
    def css() -> Response:
        return Response(style, content_type="text/css; charset=utf-8")

    app.register_blueprint(frame)


def html_answer(text: str) -> Response:
    """A page; the browser is told to run and load nothing but the style."""
    response = Response(text, content_type="text/html; charset=utf-8")
    response.headers.update(_HEADERS)
    return response


def prefixes_with_pages(auth: AuthSettings | None, *prefixes: str) -> tuple[str, ...]:
    """The paths that need a credential: `prefixes`, and `/` where a browser can give one.

    A browser can only give a password, so without one `/` stays open; it asks `is_stranger` how much it may show.
    """
    everybody = auth is not None and not auth.basic_auth
    return prefixes if everybody else (*prefixes, "/")


def is_stranger(auth: AuthSettings | None) -> bool:
    """Whether the caller of an open page is unknown although a token is asked for elsewhere."""
    if auth is None or auth.basic_auth:
        return False  # with passwords nobody unknown gets here
    given = request.authorization
    token = given.token if given is not None and given.type == "bearer" else None
    return token is None or not auth.accepts_bearer(token)


def _moment(at: datetime | None) -> str:
    return "" if at is None else at.strftime("%Y-%m-%d %H:%M:%S UTC")
