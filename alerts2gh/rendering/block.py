"""The invisible markers in an issue's text, and the one block of it that is ours.

The first line names the incident. Between `begin` and `end` stands what alerts2gh keeps up to date; everything else
belongs to the people who work on the issue, and no byte of it is changed here.
"""

import re
from dataclasses import dataclass, replace

BEGIN = "<!-- alerts2gh:begin -->"
END = "<!-- alerts2gh:end -->"

# A marker counts only when it has its line to itself: quoted or in a sentence it is a person's text.
_ID_LINE = re.compile(r"^<!-- alerts2gh:v1:(?P<id>[0-9a-f]{32}) -->[ \t]*(?=\r?$)", re.MULTILINE)
_TOKEN_LINE = re.compile(
    r"^<!-- alerts2gh:write:(?P<token>[0-9A-Za-z._-]{1,100}) -->[ \t]*(?=\r?$)", re.MULTILINE
)
_BEGIN_LINE = re.compile(rf"^{re.escape(BEGIN)}[ \t]*(?=\r?$)", re.MULTILINE)
_END_LINE = re.compile(rf"^{re.escape(END)}[ \t]*(?=\r?$)", re.MULTILINE)
_STRAY = re.compile(rf"^(?:{re.escape(BEGIN)}|{re.escape(END)})[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
# alertmanager-to-github writes this as the last line of its issues.
_ADOPTABLE = re.compile(
    r"^<!-- \(UNIQUE ALERT ID, DO NOT MODIFY: (?P<hex>[0-9a-f]{64}) ?\) -->[ \t]*(?=\r?$)",
    re.MULTILINE,
)


def id_marker(incident_id: str) -> str:
    """Write the line that names an incident."""
    return f"<!-- alerts2gh:v1:{incident_id} -->"


def token_marker(token: str) -> str:
    """Write the line that names one write, so that it can be found when its answer was lost."""
    return f"<!-- alerts2gh:write:{token} -->"


def find_marker(body: str) -> str | None:
    """Read the incident's id in an issue's body; the topmost marker counts."""
    found = _ID_LINE.search(body)
    return found["id"] if found else None


def find_token(text: str) -> str | None:
    """Read the token of the write that made this issue or comment."""
    found = _TOKEN_LINE.search(text)
    return found["token"] if found else None


def find_adoptable(body: str) -> str | None:
    """Read the id that alertmanager-to-github left: a SHA-256 in hex of, by default, the group key."""
    found = list(_ADOPTABLE.finditer(body))
    return found[-1]["hex"] if found else None


@dataclass(frozen=True, slots=True)
class Frame:
    """A body taken apart: what stands before and after our block, and the block, None where there is none.

    `complete` tells that both the incident's marker and the block were there already.
    """

    before: str
    block: str | None
    after: str
    newline: str
    complete: bool = False

    def filled(self, block: str) -> str:
        """Put `block` between the markers."""
        inner = f"{BEGIN}\n{block}\n{END}".replace("\n", self.newline)
        return f"{self.before}{inner}{self.after}"


def frame(body: str, incident_id: str) -> Frame:
    """Find our block in a body that people may have edited in any way, and mend the markers around it."""
    newline = "\r\n" if "\r\n" in body else "\n"
    found = _with_block(body, newline) or _without_block(body, newline)
    if find_marker(found.before + found.after) == incident_id:
        return replace(found, complete=found.block is not None)
    return replace(found, before=f"{id_marker(incident_id)}{newline}{found.before}")


def _with_block(body: str, newline: str) -> Frame | None:
    begin = _BEGIN_LINE.search(body)
    end = _END_LINE.search(body, begin.end()) if begin else None
    if not begin or not end:
        return None
    block = body[begin.end() : end.start()].replace("\r\n", "\n").strip("\n")
    return Frame(body[: begin.start()], block, body[end.end() :], newline)


def _without_block(body: str, newline: str) -> Frame:
    """Choose where a new block goes.

    Where one of the two markers is gone nobody can tell where the block ended, so nothing is taken for ours: the
    left-over marker goes, the new block is put in its place, and the old text stays below it.
    """
    begin = _BEGIN_LINE.search(body)
    at = begin.start() if begin else _after_header(body)
    before, after = _STRAY.sub("", body[:at]), _STRAY.sub("", body[at:])
    if before and not before.endswith("\n"):
        before += newline
    return Frame(before, None, f"{newline}{newline}{after}" if after else "", newline)


def _after_header(body: str) -> int:
    """Where the first lines that are only our markers end."""
    at = 0
    for line in body.splitlines(keepends=True):
        if not (_ID_LINE.match(line.rstrip("\n")) or _TOKEN_LINE.match(line.rstrip("\n"))):
            break
        at += len(line)
    return at
