"""The pages for people: what is open and what it waits for, the queue, GitHub's limits, what was given up or refused.

HTML without scripts and without anything from elsewhere. Everything in it may come from an alert, so the templates
escape it, links lead only to http and https, and the browser is told to run and load nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

from flask import Blueprint, Flask, Response, render_template, request

from alerts2gh.incident import Incident
from alerts2gh.issue_plan import Step
from alerts2gh.overview import IncidentLine, Standing, incident_line
from alerts2gh.ports import DeadLetter, Store
from chassis.webapp import AuthSettings, RequestRefused

_MOST_OPEN = 200
_MOST_CLOSED = 20
_MOST_LETTERS = 100
_MOST_MEMBERS = 500
_STATES = ("open", "unfiled", "rolled_up", "dead")
_CLOSED = ("closed",)
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Page:
    """What the pages are made of. `plan` is what comes next for an incident; it must not change anything."""

    store: Store
    standing: Callable[[], Standing]
    plan: Callable[[Incident], Step]
    auth: AuthSettings | None
    clock: Callable[[], datetime]

    def overview(self) -> str:
        """The first page; to somebody unknown only numbers, when a token is needed for more."""
        standing = self.standing()
        if self._unknown():
            return render_template("counts.html", standing=standing)
        letters = self.store.dead_letters()
        return render_template(
            "overview.html",
            standing=standing,
            incidents=self._lines(_STATES, _MOST_OPEN, self.plan),
            closed=self._lines(_CLOSED, _MOST_CLOSED, None),
            letters=letters[:_MOST_LETTERS],
            more_letters=len(letters) - _MOST_LETTERS,
        )

    def _unknown(self) -> bool:
        """Whether the caller has to be taken for a stranger. With basic authentication none gets here."""
        if self.auth is None or self.auth.basic_auth:
            return False
        given = request.authorization
        token = given.token if given is not None and given.type == "bearer" else None
        return token is None or not self.auth.accepts_bearer(token)

    def _lines(
        self, states: Sequence[str], most: int, plan: Callable[[Incident], Step] | None
    ) -> list[IncidentLine]:
        found = self.store.incidents(limit=most, states=states)
        lines = [incident_line(each, plan) for each in found]
        if states is _CLOSED:
            return lines
        return sorted(lines, key=lambda line: (not line.firing, line.since))

    def incident(self, incident_id: str) -> str:
        """Everything about one incident.

        Raises:
            RequestRefused: There is none.
        """
        incident, waiting = self.store.load(incident_id)
        if incident is None:
            raise RequestRefused("there is no such incident", status=404, reason="not_found")
        members = sorted(
            incident.members.values(), key=lambda m: (not m.firing, m.starts_at, m.fingerprint)
        )
        return render_template(
            "incident.html",
            incident=incident,
            line=incident_line(incident, self.plan),
            waiting=len(waiting),
            members=members[:_MOST_MEMBERS],
            more_members=len(members) - _MOST_MEMBERS,
            timeline=[row.entry for row in self.store.timeline_of(incident_id)],
            letters=_letters_of(incident_id, self.store.dead_letters()),
        )


def _letters_of(incident_id: str, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
    return [letter for letter in letters if letter.incident_id == incident_id]


def protected_prefixes(auth: AuthSettings | None) -> tuple[str, ...]:
    """What needs a credential. A browser can only give a password, so without one `/` stays open, with numbers only."""
    everybody = auth is not None and not auth.basic_auth
    return ("/v1", "/incidents") if everybody else ("/v1", "/incidents", "/")


def install_page(app: Flask, page: Page) -> None:
    """Add GET / and GET /incidents/ID."""
    routes = Blueprint("page", __name__, template_folder="../templates")
    style = resources.files("alerts2gh").joinpath("templates", "page.css").read_text("utf-8")
    routes.add_app_template_filter(_web_address, "web_address")
    routes.add_app_template_filter(_moment, "moment")
    routes.add_app_template_filter(_words, "words")
    routes.add_app_template_filter(_duration, "duration")

    @routes.context_processor
    def common() -> dict[str, Any]:
        return {"now": page.clock()}

    @routes.get("/")
    def overview() -> Response:
        return _html(page.overview())

    @routes.get("/incidents/<incident_id>")
    def incident(incident_id: str) -> Response:
        return _html(page.incident(incident_id))

    @routes.get("/page.css")
    def css() -> Response:
        return Response(style, content_type="text/css; charset=utf-8")

    app.register_blueprint(routes)


def _html(text: str) -> Response:
    response = Response(text, content_type="text/html; charset=utf-8")
    response.headers.update(_HEADERS)
    return response


def _web_address(url: str) -> str:
    """The URL when it leads to a web page, else nothing: `javascript:` in a link would be run."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return url if parts.scheme in {"http", "https"} and parts.netloc else ""


def _moment(at: datetime | None) -> str:
    return "" if at is None else at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _words(name: object) -> str:
    return str(name).replace("_", " ")


_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def _duration(seconds: float) -> str:
    """The two largest units of it."""
    rest, parts = max(0, round(seconds)), []
    for size, unit in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"
