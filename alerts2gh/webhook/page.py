"""The pages for people: what is open and what it waits for, the queue, GitHub's limits, what was given up or refused.

Everything in them may come from an alert: links lead only to http and https, and the frame of `chassis.webapp` keeps
browsers from running anything.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from flask import Blueprint, Flask, Response, render_template

from alerts2gh.incident import Incident
from alerts2gh.issue_plan import Step
from alerts2gh.overview import IncidentLine, Standing, incident_line
from alerts2gh.ports import DeadLetter, Store
from chassis.webapp import (
    AuthSettings,
    RequestRefused,
    html_answer,
    install_frame,
    is_stranger,
    prefixes_with_pages,
)

_MOST_OPEN = 200
_MOST_CLOSED = 20
_MOST_LETTERS = 100
_MOST_MEMBERS = 500
_STATES = ("open", "unfiled", "rolled_up", "dead")
_CLOSED = ("closed",)
_REFRESH = timedelta(seconds=30)


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
        if is_stranger(self.auth):
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
    """What needs a credential; without a password a browser has none, so `/` stays open with numbers only."""
    return prefixes_with_pages(auth, "/v1", "/incidents")


def install_page(app: Flask, page: Page) -> None:
    """Add GET / and GET /incidents/ID."""
    install_frame(app, "alerts2gh", refresh=_REFRESH, clock=page.clock)
    routes = Blueprint("page", __name__, template_folder="../templates")
    routes.add_app_template_filter(_web_address, "web_address")
    routes.add_app_template_filter(_words, "words")
    routes.add_app_template_filter(_duration, "duration")

    @routes.get("/")
    def overview() -> Response:
        return html_answer(page.overview())

    @routes.get("/incidents/<incident_id>")
    def incident(incident_id: str) -> Response:
        return html_answer(page.incident(incident_id))

    app.register_blueprint(routes)


def _web_address(url: str) -> str:
    """The URL when it leads to a web page, else nothing: `javascript:` in a link would be run."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return url if parts.scheme in {"http", "https"} and parts.netloc else ""


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
