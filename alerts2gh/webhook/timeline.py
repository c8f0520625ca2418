"""Takes what the remediator tells of its node operations, commits it and answers; the worker tells it in the issues.

An entry may come before its alert, and again: both are fine, so the sender may repeat whatever it is not sure of.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import orjson
from flask import Blueprint, Flask, Response, jsonify, request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from structlog.typing import FilteringBoundLogger

from alerts2gh.metrics import TimelineMetrics
from alerts2gh.ports import Store
from chassis.contracts import TimelineEntry
from chassis.webapp import RequestRefused

MAX_ENTRIES = 1000
_MISTAKES_TOLD = 5


class TimelineProblem(StrEnum):
    """Why a post to /v1/timeline is refused; none of it is kept then."""

    BAD_JSON = "bad_json"
    BAD_ENTRY = "bad_entry"


class _Several(BaseModel):
    model_config = ConfigDict(extra="forbid")

    entries: tuple[TimelineEntry, ...] = Field(min_length=1, max_length=MAX_ENTRIES)


@dataclass(frozen=True, slots=True)
class TimelineIntake:
    """From the bytes of a post to durable entries."""

    store: Store
    poke: Callable[[], None]
    clock: Callable[[], datetime]
    metrics: TimelineMetrics
    log: FilteringBoundLogger

    def take(self, body: bytes) -> int:
        """Commit the entries; how many of them were new.

        Raises:
            RequestRefused: At least one of them can never be taken; none was.
            TemporaryError: The store cannot take them now.
        """
        try:
            entries = read_entries(body)
        except RequestRefused:
            self.metrics.refused()
            raise
        new = self.store.add_timeline(entries, self.clock())
        self.metrics.accepted(new, known=len(entries) - new)
        if new:
            self.poke()
        self.log.debug("timeline_accepted", entries=len(entries), new=new)
        return new


def read_entries(body: bytes) -> Sequence[TimelineEntry]:
    """Read one entry, or several as `{"entries": […]}`.

    Raises:
        RequestRefused: It is something else; the text names each mistake and where it is.
    """
    try:
        raw = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestRefused(
            f"the body is no JSON: {error}", reason=TimelineProblem.BAD_JSON.value
        ) from error
    try:
        if isinstance(raw, dict) and "entries" in raw:
            return _Several.model_validate_json(body, strict=True).entries
        return (TimelineEntry.model_validate_json(body, strict=True),)
    except ValidationError as error:
        raise RequestRefused(_told(error), reason=TimelineProblem.BAD_ENTRY.value) from error


def _told(error: ValidationError) -> str:
    mistakes = [
        f"{_written(each['loc'])}: {each['msg']}"
        for each in error.errors(include_url=False, include_input=False)
    ]
    more = len(mistakes) - _MISTAKES_TOLD
    told = "; ".join(mistakes[:_MISTAKES_TOLD]) + (f"; and {more} more" if more > 0 else "")
    return f"not an entry of a timeline, nothing was kept: {told}"


def _written(place: Sequence[str | int]) -> str:
    """A place as a person writes it: `entries[3].phase`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return text.removeprefix(".") or "the body"


def install_timeline(app: Flask, intake: TimelineIntake) -> None:
    """Add POST /v1/timeline to a service's application."""
    routes = Blueprint("timeline", __name__)

    @routes.post("/v1/timeline")
    def timeline() -> Response:
        return jsonify({"new": intake.take(request.get_data(cache=False))})

    app.register_blueprint(routes)
