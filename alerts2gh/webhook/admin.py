"""The API for the admin: how things stand, dead letters, the report. It is what the commands ask a running service.

It reads the store and wakes the worker; it neither decides nor talks to GitHub.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from flask import Blueprint, Flask, Response, request
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from alerts2gh import overview
from alerts2gh.ports import Store
from chassis.webapp import RequestRefused

_MOST_IDS = 100_000


class _Wanted(BaseModel):
    """The body of a requeue: the ids of dead letters, or all."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    ids: list[int] | None = Field(default=None, min_length=1, max_length=_MOST_IDS)
    all: bool = False

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if self.all == (self.ids is not None):
            raise ValueError('send {"ids": [1, 2]} or {"all": true}')
        return self


@dataclass(frozen=True, slots=True)
class Admin:
    """What the API tells from. The callables give what may change while the service runs.

    `sight` is whether the Alertmanagers could be relied on last; `mistakes` are those of a configuration file that was
    refused, None while the file is in use.
    """

    store: Store
    version: str
    credentials: Callable[[], Iterable[str]]
    sight: Callable[[], str | None]
    mistakes: Callable[[], tuple[str, ...] | None]
    poke: Callable[[], None]
    clock: Callable[[], datetime]

    def standing(self) -> overview.Standing:
        """How things stand, with what only the running service knows."""
        mistakes = self.mistakes()
        found = overview.standing(self.store, self.credentials(), self.clock(), self.version)
        return found.model_copy(
            update={
                "sight": self.sight(),
                "config_last_reload_ok": mistakes is None,
                "config_mistakes": mistakes or (),
            }
        )

    def requeue(self, body: bytes) -> overview.Requeued:
        """Bring dead letters back and wake the worker.

        Raises:
            RequestRefused: The body does not say which.
        """
        try:
            wanted = _Wanted.model_validate_json(body)
        except ValidationError as error:
            what = "; ".join(_mistake(each["loc"], each["msg"]) for each in error.errors())
            text = f'{what}; send {{"ids": [1, 2]}} or {{"all": true}}'
            raise RequestRefused(text, status=400, reason="bad_field") from error
        done = overview.requeue(self.store, wanted.ids, self.clock())
        self.poke()
        return done


def _mistake(place: tuple[int | str, ...], what: str) -> str:
    return f"{'.'.join(map(str, place)) or 'the body'}: {what}"


def install_admin(app: Flask, admin: Admin) -> None:
    """Add GET /v1/status, /v1/dead-letters, /v1/report and POST /v1/dead-letters/requeue."""
    routes = Blueprint("admin", __name__)

    @routes.get("/v1/status")
    def status() -> Response:
        return _json(admin.standing())

    @routes.get("/v1/dead-letters")
    def dead_letters() -> Response:
        return _json(overview.DeadLetters(dead_letters=admin.store.dead_letters()))

    @routes.post("/v1/dead-letters/requeue")
    def requeue() -> Response:
        if not request.is_json:
            # A page of another site can make a browser post a form here, but not JSON.
            text = "send JSON, with Content-Type: application/json"
            raise RequestRefused(text, status=415, reason="unsupported_media_type")
        return _json(admin.requeue(request.get_data(cache=False)))

    @routes.get("/v1/report")
    def report() -> Response:
        days = _days(request.args.get("days", "30"))
        return _json(overview.report_of(admin.store, days, admin.clock()))

    app.register_blueprint(routes)


def _json(answer: BaseModel) -> Response:
    response = Response(answer.model_dump_json() + "\n", content_type="application/json")
    response.headers["Cache-Control"] = "no-store"
    return response


def _days(text: str) -> int:
    days = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0  # noqa: PLR2004 -- more than MAX_DAYS
    if not 1 <= days <= overview.MAX_DAYS:
        what = f"days must be a whole number from 1 to {overview.MAX_DAYS}"
        raise RequestRefused(what, status=400, reason="bad_field")
    return days
