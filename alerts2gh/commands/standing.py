"""Where the commands get their answers: from the running service over HTTP or, when none listens, from the database.

SQLite lets one process in, so the service is asked first.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TextIO, TypeVar

from pydantic import BaseModel, ValidationError

from alerts2gh import overview
from alerts2gh.commands.remote import NobodyListensError, Remote
from alerts2gh.commands.tables import plain
from alerts2gh.ports import DeadLetter, Store
from alerts2gh.report import Report
from chassis.errors import NodemendError, PermanentError

OpenStore = Callable[[], Store]
M = TypeVar("M", bound=BaseModel)

NO_ANSWER = 2


class Source(Protocol):
    """What the admin may ask and do. Raises NodemendError when it cannot be had."""

    def standing(self) -> overview.Standing: ...

    def dead_letters(self) -> tuple[DeadLetter, ...]: ...

    def requeue(self, ids: Sequence[int] | None) -> overview.Requeued:
        """Bring dead letters back; all when `ids` is None."""
        ...

    def report(self, days: int) -> Report: ...


@dataclass(frozen=True, slots=True)
class FromService:
    """Asks the running service."""

    remote: Remote

    def standing(self) -> overview.Standing:
        return _read(overview.Standing, self.remote, "/v1/status")

    def dead_letters(self) -> tuple[DeadLetter, ...]:
        return _read(overview.DeadLetters, self.remote, "/v1/dead-letters").dead_letters

    def requeue(self, ids: Sequence[int] | None) -> overview.Requeued:
        wanted = {"all": True} if ids is None else {"ids": list(ids)}
        answer = self.remote.post("/v1/dead-letters/requeue", wanted)
        return _parsed(overview.Requeued, answer, self.remote)

    def report(self, days: int) -> Report:
        return _read(overview.ReportAnswer, self.remote, "/v1/report", days=str(days)).report


def _read(model: type[M], remote: Remote, path: str, **query: str) -> M:
    return _parsed(model, remote.get(path, **query), remote)


def _parsed(model: type[M], document: object, remote: Remote) -> M:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise PermanentError(
            f"{remote.address} answers as another version of alerts2gh would; use the command of that version"
        ) from error


@dataclass(frozen=True, slots=True)
class FromStore:
    """Looks into the database itself."""

    store: Store
    credentials: Sequence[str]
    now: datetime
    version: str

    def standing(self) -> overview.Standing:
        return overview.standing(self.store, self.credentials, self.now, self.version)

    def dead_letters(self) -> tuple[DeadLetter, ...]:
        return self.store.dead_letters()

    def requeue(self, ids: Sequence[int] | None) -> overview.Requeued:
        return overview.requeue(self.store, ids, self.now)

    def report(self, days: int) -> Report:
        return overview.report_of(self.store, days, self.now).report


@dataclass(frozen=True, slots=True)
class Finder:
    """Finds the source. `remote` makes the way to the service; with `only_service` the database is left alone."""

    remote: Callable[[], Remote]
    open_store: OpenStore
    credentials: Sequence[str]
    now: datetime
    version: str
    only_service: bool = False

    @contextmanager
    def source(self) -> Iterator[Source]:
        """The service if it listens, else the database.

        Raises:
            NodemendError: Neither can be used; the text says why.
        """
        try:
            remote = self.remote()
            remote.exchange("GET", "/healthz")
        except NobodyListensError as error:
            if self.only_service:
                raise
            silent = str(error)
        else:
            yield FromService(remote)
            return
        with closing(self._opened(silent)) as store:
            yield FromStore(store, self.credentials, self.now, self.version)

    def _opened(self, silent: str) -> Store:
        try:
            return self.open_store()
        except NodemendError as error:
            raise PermanentError(f"{silent}, and the database cannot be used: {error}") from error


def answered(finder: Finder, command: Callable[[Source], int], err: TextIO) -> int:
    """Run a command on what the finder finds; 2 and a line on `err` when that fails."""
    try:
        with finder.source() as source:
            return command(source)
    except NodemendError as error:
        err.write(f"{plain(str(error))}\n")
        return NO_ANSWER
