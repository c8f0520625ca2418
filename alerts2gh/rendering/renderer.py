"""Writes the title, the body and the comments of an incident's issue.

Every text follows from the stored incident alone, so asking twice gives the same text twice. A template that fails
never holds up an issue: the built-in one takes its place and the text says so. What does not fit is left out from
the end, and counted in the text; the marker, the summary and the newest firing alerts stay.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial

from jinja2 import Template

from alerts2gh.incident import Incident, Transition
from alerts2gh.rendering import sanitising
from alerts2gh.rendering.block import BEGIN, END, frame, id_marker, token_marker
from alerts2gh.rendering.facts import Facts, facts_of
from alerts2gh.rendering.sample import sample_incidents
from alerts2gh.rendering.sizes import BODY_LIMIT, TITLE_LIMIT, cut, utf16_length
from alerts2gh.rendering.templates import (
    Sandbox,
    TemplateFaultError,
    TemplateTexts,
    compile_template,
    markdown_sandbox,
    plain_sandbox,
    run_template,
)
from chassis.errors import PermanentError

BLOCK_LIMIT = 60_000
"""Room for our block; what is left of GitHub's limit is for people's own words."""

_KNOWN = tuple(each.name for each in fields(Facts))
_GAPS = re.compile(r"\n{3,}")
_FAULT_LIMIT = 200
_NAMELESS = "Alerts"  # for an alert whose name cannot be seen
_WELL_FILLED = 0.97  # the last rows are not worth as many renderings


class TemplateMistakes(PermanentError):  # noqa: N818 - it is the list of them
    """Templates that cannot be used; one line each in `mistakes`."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


@dataclass(frozen=True, slots=True)
class _Template:
    """One source, compiled for Markdown and for plain text."""

    markdown: Template
    plain: Template


class Renderer:
    """The built-in templates and an admin's own; thread-safe, as nothing in it changes."""

    def __init__(self, builtin: TemplateTexts, own: Mapping[str, str] | None = None) -> None:
        """Compile everything and try each template on made-up incidents.

        Args:
            builtin: What `builtin_templates()` read.
            own: The admin's template files: name, as routes give it, to text.

        Raises:
            TemplateMistakes: With one line for each template that cannot be used.
        """
        sandboxes = markdown_sandbox(), plain_sandbox()
        self._title = _compiled(sandboxes, builtin.title, "built-in title")
        self._body = _compiled(sandboxes, builtin.body, "built-in body")
        self._comment = _compiled(sandboxes, builtin.comment, "built-in comment")
        self._own: dict[str, _Template] = {}
        mistakes = []
        for name, source in sorted((own or {}).items()):
            try:
                self._own[name] = _tried(_compiled(sandboxes, source, name))
            except TemplateFaultError as fault:
                mistakes.append(str(fault))
        if mistakes:
            raise TemplateMistakes(mistakes)

    def title(self, incident: Incident) -> str:
        """One line of plain text, at most 256 characters; never empty."""
        return self._titled(incident)[0]

    def new_body(self, incident: Incident, token: str | None = None) -> str:
        """Write the body of a new issue; its first line is the incident's marker."""
        markers = [id_marker(incident.id)] + ([token_marker(token)] if token else [])
        return "\n".join([*markers, BEGIN, self.whole_block(incident), END])

    def body_with_block(self, old_body: str, incident: Incident) -> str | None:
        """Bring our block in a body up to date.

        None means: leave it. Either nothing would change, or people wrote so much that not even the first line of
        our block has room.
        """
        old = frame(old_body, incident.id)
        room = BODY_LIMIT - utf16_length(old.filled(""))
        if room >= BLOCK_LIMIT and old.newline == "\n":
            block = self.whole_block(incident)
        else:
            block = self._block(incident, min(room, BLOCK_LIMIT), old.newline)
        if not block:
            return None
        return None if old.complete and old.block == block else old.filled(block)

    def block_hash(self, incident: Incident) -> str:
        """Name the text that the block would have: equal hashes, equal text (32 hex characters)."""
        text = self.whole_block(incident)
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]

    def comment(
        self, incident: Incident, transitions: Sequence[Transition], token: str | None = None
    ) -> str:
        """Tell what changed. The token, if any, is the first line."""
        marker = f"{token_marker(token)}\n" if token else ""
        facts = facts_of(incident, transitions, incident.untold_dropped)
        chosen = incident.disposition.templates.comment
        return marker + self._fitted(chosen, self._comment, facts, BODY_LIMIT - len(marker))[0]

    def _titled(self, incident: Incident) -> tuple[str, str]:
        facts = facts_of(incident)

        def write(template: _Template) -> str:
            text = run_template(template.plain, _values(facts))
            title = sanitising.title_text(text, TITLE_LIMIT)
            if not title and template is not self._title:
                raise TemplateFaultError(f"{template.plain.name}: the title is empty")
            return title or _NAMELESS

        return self._with_fallback(incident.disposition.templates.title, self._title, write)

    def whole_block(self, incident: Incident) -> str:
        """Write our block with all the room there is: what `new_body` frames and `block_hash` names."""
        return self._block(incident, BLOCK_LIMIT)

    def _block(self, incident: Incident, room: int, newline: str = "\n") -> str:
        """Our block in at most `room` UTF-16 units, counted with `newline`; empty when nothing fits."""
        chosen = incident.disposition.templates
        faults = [self._titled(incident)[1]] if chosen.title else []
        spare = 2 * _FAULT_LIMIT + 200 if chosen.title or chosen.body else 0
        facts = facts_of(incident)
        text, fault = self._fitted(chosen.body, self._body, facts, room - spare, newline)
        told = [_fault_note(each) for each in (*faults, fault) if each]
        return "\n\n".join([text, *told]) if text else ""

    def _fitted(
        self, chosen: str | None, builtin: _Template, facts: Facts, room: int, newline: str = "\n"
    ) -> tuple[str, str]:
        def write(template: _Template) -> str:
            return _longest_fitting(template.markdown, facts, room, newline)

        text, fault = self._with_fallback(chosen, builtin, write)
        if not text and chosen and not fault:
            text, fault = write(builtin), f"{chosen}: its text is empty or longer than has room"
        return text, fault

    def _with_fallback(
        self, chosen: str | None, builtin: _Template, write: Callable[[_Template], str]
    ) -> tuple[str, str]:
        """Write with the chosen template, else with the built-in one; and why not with the chosen."""
        if chosen is None:
            return write(builtin), ""
        own = self._own.get(chosen)
        if own is None:
            return write(builtin), f"{chosen}: no template of this name is loaded"
        try:
            return write(own), ""
        except TemplateFaultError as fault:
            return write(builtin), str(fault)


def _compiled(sandboxes: tuple[Sandbox, Sandbox], source: str, name: str) -> _Template:
    return _Template(*(compile_template(each, source, name, _KNOWN) for each in sandboxes))


def _tried(template: _Template) -> _Template:
    """Run once on each made-up incident: a misspelt attribute shows here, not at three in the morning."""
    for incident in sample_incidents():
        facts = facts_of(incident, incident.untold)
        for each in (template.markdown, template.plain):
            run_template(each, _values(facts))
    return template


def _values(facts: Facts) -> dict[str, object]:
    return {name: getattr(facts, name) for name in _KNOWN}


def _longest_fitting(template: Template, facts: Facts, room: int, newline: str) -> str:
    """Render with as many alerts as fit: first with all the details, else without them."""
    most = max(len(facts.alerts), len(facts.changes))

    def attempt(rows: int, *, details: bool) -> tuple[str, int]:
        text = _rendered(template, facts.shortened(rows, details=details))
        return text, utf16_length(text) + (text.count("\n") if newline == "\r\n" else 0)

    for details in (True, False):
        whole, size = attempt(most, details=details)
        if size <= room:
            return whole
        bare, least = attempt(0, details=details)
        if least <= room:
            bracket = (0, least), (most, size)
            return _most_rows(partial(attempt, details=details), bare, bracket, room)
    return ""


def _most_rows(
    attempt: Callable[[int], tuple[str, int]],
    best: str,
    bracket: tuple[tuple[int, int], tuple[int, int]],
    room: int,
) -> str:
    """Search between rows that fit and rows that do not; rows are alike, so where it is can be guessed."""
    (enough, small), (too_many, large) = bracket
    while too_many - enough > 1:
        share = (room - small) / max(1, large - small)
        guess = enough + int((too_many - enough) * share)
        rows = min(max(guess, enough + 1), too_many - 1)
        text, size = attempt(rows)
        if size > room:
            too_many, large = rows, size
        else:
            enough, small, best = rows, size, text
            if size > room * _WELL_FILLED:
                break
    return best


def _rendered(template: Template, facts: Facts) -> str:
    text = sanitising.without_control(run_template(template, _values(facts)))
    return _GAPS.sub("\n\n", "\n".join(line.rstrip() for line in text.split("\n"))).strip()


def _fault_note(fault: str) -> str:
    shown = sanitising.code(cut(fault, _FAULT_LIMIT))
    return f"A template of this route failed, so the built-in text stands in: {shown}"
