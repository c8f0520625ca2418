"""`replay FILE|DIR`: sends recorded webhooks to the running service, or says what they would do to GitHub.

The dry run's work is the worker's own, on a copy; here are only its words.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from alerts2gh.commands.check import OK, UNUSABLE
from alerts2gh.commands.remote import Remote, Reply
from alerts2gh.commands.tables import plain
from alerts2gh.incident import IssueState
from alerts2gh.issue_plan import Action
from alerts2gh.worker import Noted, Taken, is_new
from chassis.errors import NodemendError

SOME_REFUSED = 1


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A dry run: `take` accepts a body (raises NodemendError when refused), `settle` does what can be done now.

    `notes` are asked at the end: what the reader should know of how it was found out.
    """

    take: Callable[[bytes], int]
    settle: Callable[[], Iterable[Taken]]
    notes: Callable[[], Iterable[str]]


def replay(remote: Callable[[], Remote], paths: Sequence[Path], out: TextIO, err: TextIO) -> int:
    """Post each file; the exit status is 0, 1 (some refused) or 2 (nothing to send, or no service)."""
    try:
        files = _files(paths)
        service = remote()
        replies = [
            _told_reply(file, service.exchange("POST", "/v1/webhook", file.read_bytes()), out)
            for file in files
        ]
    except NodemendError as error:
        err.write(f"{plain(str(error))}\n")
        return UNUSABLE
    except OSError as error:
        err.write(f"{error.filename}: cannot be read: {error.strerror}\n")
        return UNUSABLE
    if not files:
        err.write("there is no *.json in what was named\n")
        return UNUSABLE
    return OK if all(replies) else SOME_REFUSED


def _told_reply(file: Path, reply: Reply, out: TextIO) -> bool:
    if reply.ok:
        count = reply.document.get("incidents", 0)
        out.write(f"{file}: taken, {count} incident{'' if count == 1 else 's'}\n")
    else:
        out.write(f"{file}: {plain(reply.text)}\n")
    return reply.ok


def rehearse(
    prepare: Callable[[], Rehearsal], paths: Sequence[Path], out: TextIO, err: TextIO
) -> int:
    """Say what the files would do to GitHub now; the exit status is as of `replay`."""
    try:
        files = _files(paths)
        if not files:
            err.write("there is no *.json in what was named\n")
            return UNUSABLE
        rehearsal = prepare()
        taken = [_taken(rehearsal, file, out) for file in files]
        out.writelines(f"{line}\n" for line in _told(list(rehearsal.settle())))
        out.writelines(f"note: {plain(note)}\n" for note in rehearsal.notes())
    except NodemendError as error:
        err.write(f"{plain(str(error))}\n")
        return UNUSABLE
    except OSError as error:
        err.write(f"{error.filename}: cannot be read: {error.strerror}\n")
        return UNUSABLE
    return OK if all(taken) else SOME_REFUSED


def _files(paths: Iterable[Path]) -> list[Path]:
    """The files themselves, and *.json of the folders, in the order of their names."""
    return [
        file
        for path in paths
        for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])
    ]


def _taken(rehearsal: Rehearsal, file: Path, out: TextIO) -> bool:
    body = file.read_bytes()
    try:
        count = rehearsal.take(body)
    except NodemendError as error:
        out.write(f"{file}: would be refused: {plain(str(error))}\n")
        return False
    out.write(f"{file}: would be taken, {count} incident{'' if count == 1 else 's'}\n")
    return True


def _told(taken: Sequence[Taken]) -> Iterator[str]:
    writes = [(each, noted) for each in taken for noted in each.writes]
    yield ""
    yield "would be done to GitHub now:" if writes else "nothing would be done to GitHub now"
    for each, noted in writes:
        yield f"  {_write(noted)} ({each.step.reason})"
        yield from (f"      {line}" for line in _details(noted))
    rest = {each.incident.id: each for each in taken}
    yield ""
    for each in rest.values():
        yield plain(f"then {_name(each)}: {_rest(each)}")


def _name(taken: Taken) -> str:
    issue = taken.incident.issue
    named = ", ".join(f"{name}={value}" for name, value in sorted(taken.incident.labels.items()))
    place = taken.incident.disposition.target.full_name
    if issue is None:
        return f"incident {named} in {place} (no issue)"
    return f"incident {named} ({_issue(issue.repository, issue.number)})"


def _rest(taken: Taken) -> str:
    step = taken.step
    if step.action in {Action.NOTHING, Action.SLEEP}:
        what = f"nothing to do, {step.reason}"
    else:
        what = f"{step.action} ({step.reason}) waits"
    if taken.wake_at is None:
        return what
    return f"{what}; looked at again at {taken.wake_at:%Y-%m-%d %H:%M:%S UTC}"


def _issue(repository: str, number: int | None) -> str:
    if number is None or is_new(number):
        return f"the new issue in {repository}"
    return f"{repository}#{number}"


def _write(noted: Noted) -> str:
    issue = _issue(noted.target.full_name, noted.number)
    words = {
        "create_issue": f"create an issue in {noted.target.full_name}",
        "edit_issue": _edit(noted, issue),
        "add_comment": f"comment on {issue}",
        "add_assignees": f"assign {', '.join(noted.fields.get('assignees', ()))} to {issue}",
        "add_labels": f"label {issue} {', '.join(noted.fields.get('labels', ()))}",
        "remove_label": f"take the label {', '.join(noted.fields.get('labels', ()))} off {issue}",
    }
    return plain(words[noted.what])


def _edit(noted: Noted, issue: str) -> str:
    state = noted.fields.get("state")
    if state is IssueState.CLOSED:
        return f"close {issue} as {noted.fields.get('state_reason', 'completed')}"
    if state is IssueState.OPEN:
        return f"reopen {issue}"
    return f"change the text of {issue}"


def _details(noted: Noted) -> Iterator[str]:
    fields = noted.fields
    if "title" in fields:
        yield plain(f"title: {fields['title']}")
    if noted.what == "create_issue":
        yield plain(f"labels: {', '.join(fields.get('labels', ())) or 'none'}")
        if fields.get("milestone"):
            yield plain(f"milestone: {fields['milestone']}")
    if noted.what == "add_comment":
        yield from (plain(line) for line in _readable(fields["body"]))


def _readable(body: str) -> list[str]:
    """The first lines of a comment, without our marker."""
    lines = [line for line in body.splitlines() if line.strip() and not line.startswith("<!--")]
    return lines[:3] + ([f"… and {len(lines) - 3} lines more"] if len(lines) > 3 else [])  # noqa: PLR2004
