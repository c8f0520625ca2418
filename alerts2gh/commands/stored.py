"""`dead-letters list|requeue`, `status` and `report`: words for what the service or the database says."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TextIO

from alerts2gh.commands.check import OK
from alerts2gh.commands.standing import Finder, Source, answered
from alerts2gh.commands.tables import columns
from alerts2gh.overview import BudgetUse, Standing
from alerts2gh.ports import DeadLetter, Refusal
from alerts2gh.report import as_csv, as_markdown

NOT_ALL = 1

REPORT_FORMATS = {"markdown": as_markdown, "csv": as_csv}


def list_dead_letters(finder: Finder, out: TextIO, err: TextIO) -> int:
    """Write what was given up; the exit status is 0, or 2 without an answer."""

    def told(source: Source) -> int:
        letters = source.dead_letters()
        out.write(columns(_letter_rows(letters)) if letters else "there are no dead letters\n")
        return OK

    return answered(finder, told, err)


def requeue_dead_letters(
    finder: Finder, ids: Sequence[int] | None, out: TextIO, err: TextIO
) -> int:
    """Bring dead letters back; all of them when `ids` is None.

    The exit status is 0, 1 (some of the ids are no dead letters) or 2 (no answer).
    """

    def told(source: Source) -> int:
        done = source.requeue(ids)
        out.write(f"{done.revived} of {done.asked} brought back to work\n")
        if done.revived == done.asked:
            return OK
        err.write("the others are no dead letters; `dead-letters list` shows their ids\n")
        return NOT_ALL

    return answered(finder, told, err)


def status(finder: Finder, out: TextIO, err: TextIO) -> int:
    """Write how things stand; the exit status is 0, or 2 without an answer."""

    def told(source: Source) -> int:
        out.write(columns(_status_rows(source.standing())))
        return OK

    return answered(finder, told, err)


def report(finder: Finder, days: int, form: str, out: TextIO, err: TextIO) -> int:
    """Write what keeps happening, in one of REPORT_FORMATS; the exit status is 0, or 2 without an answer."""

    def told(source: Source) -> int:
        out.write(REPORT_FORMATS[form](source.report(days)))
        return OK

    return answered(finder, told, err)


def _letter_rows(letters: Sequence[DeadLetter]) -> Iterator[tuple[str, ...]]:
    yield "id", "since", "repository", "incident", "reason", "what GitHub or alerts2gh said"
    for letter in letters:
        yield (
            str(letter.id),
            _moment(letter.at),
            letter.target,
            letter.incident_id or "-",
            letter.reason,
            letter.text,
        )


def _status_rows(standing: Standing) -> Iterator[tuple[str, str]]:
    yield "version", standing.version
    for name, count in sorted(standing.counts.items()):
        yield name.replace("_", " "), str(count)
    if standing.oldest_waiting_seconds is not None:
        yield "oldest waiting", f"{standing.oldest_waiting_seconds:.0f} s"
    for name, use in standing.budgets.items():
        yield f"credential {name}", _budget(use)
    for lease in standing.leases:
        yield f"target {lease.target_key}", f"{lease.owner} until {_moment(lease.expires_at)}"
    if standing.sight is not None:
        yield "alertmanagers", standing.sight.replace("_", " ")
    yield "configuration", _configuration(standing)
    for refusal in standing.refusals:
        yield f"refused ({refusal.reason})", _refusal(refusal)


def _configuration(standing: Standing) -> str:
    if standing.config_last_reload_ok is None:
        return "no service runs; read from the database"
    if standing.config_last_reload_ok:
        return "the file is in use"
    return "; ".join(
        ("the file was refused, the one before it is in use", *standing.config_mistakes)
    )


def _budget(use: BudgetUse) -> str:
    written = f"{use.writes_last_hour} writes in the last hour"
    if use.blocked_until is not None:
        return f"{written}; silent until {_moment(use.blocked_until)} ({use.blocked_reason})"
    return written


def _refusal(refusal: Refusal) -> str:
    times = "once" if refusal.count == 1 else f"{refusal.count} times"
    return f"{times}, last {_moment(refusal.last_at)}: {refusal.last_text}"


def _moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")
