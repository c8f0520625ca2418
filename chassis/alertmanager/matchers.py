r"""Label matchers as Alertmanager writes them: `severity="critical"`, `{node=~"gpu-.*",team!=""}`.

Pure. Regular expressions are Python's `re`, anchored on both sides as in Prometheus; what Python
would read differently from RE2 (POSIX classes, `\pL`) is refused rather than guessed.
"""

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from chassis.errors import PermanentError

_OPERATOR = re.compile(r"=~|!~|!=|=")
_BARE_NAME = re.compile(r"[^\s{}!=~,\\\"'`]+")
_BARE_VALUE = re.compile(r"[^{},\"'`]*")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_EXAMPLE = """write it like severity="critical" or node=~"gpu-.*\""""


class MatcherError(PermanentError):
    """A text is no matcher; the message says where and how to write it."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on one label. A label that is absent counts as the empty text."""

    name: str
    op: str
    value: str
    _pattern: re.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.op not in {"=", "!=", "=~", "!~"}:
            raise MatcherError(f"{self.op!r} is no operator; use =, !=, =~ or !~")
        pattern = _compiled(self.value) if self.op.endswith("~") else None
        object.__setattr__(self, "_pattern", pattern)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels fulfil this condition."""
        value = labels.get(self.name, "")
        if self._pattern is None:
            return (value == self.value) is (self.op == "=")
        return (self._pattern.fullmatch(value) is not None) is (self.op == "=~")

    def __str__(self) -> str:
        bare = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.name)
        return f"{self.name if bare else _quote(self.name)}{self.op}{_quote(self.value)}"


def all_match(matchers: Iterable[Matcher], labels: Mapping[str, str]) -> bool:
    """Whether the labels fulfil every condition; no condition is fulfilled by all labels."""
    return all(matcher.matches(labels) for matcher in matchers)


def parse_matcher(text: str) -> Matcher:
    """Read exactly one matcher.

    Raises:
        MatcherError: The text is none, or more than one.
    """
    found = parse_matchers(text)
    if len(found) != 1:
        raise MatcherError(f"{text!r} holds {len(found)} matchers, one is wanted")
    return found[0]


def parse_matchers(text: str) -> tuple[Matcher, ...]:
    r"""Read matchers separated by commas, with or without braces around; `{}` matches all labels.

    Names and values may be in double quotes with the escapes \n \t \r \" \\; a name in quotes
    may hold any character.

    Raises:
        MatcherError: The text is something else.
    """
    inner = text.strip()
    if inner.startswith("{") != inner.endswith("}"):
        raise MatcherError(f"{text!r}: a brace has no partner")
    braces = inner.startswith("{")
    inner = inner[1:-1].strip() if braces else inner
    if not inner and not braces:
        raise MatcherError(f"an empty text is no matcher; {_EXAMPLE}, or {{}} for all")
    return _Reader(text, inner).all()


class _Reader:
    """Walks once over the text between the braces."""

    def __init__(self, whole: str, inner: str) -> None:
        self._whole = whole
        self._text = inner
        self._at = 0

    def all(self) -> tuple[Matcher, ...]:
        found = []
        while self._at < len(self._text):
            found.append(self._one())
            self._skip_space()
            if self._at < len(self._text) and not self._take(","):
                raise self._error("a comma is missing")
            self._skip_space()  # a comma at the end is allowed, as in Alertmanager
        return tuple(found)

    def _one(self) -> Matcher:
        name = self._quoted() if self._peek() == '"' else self._bare(_BARE_NAME)
        if not name:
            raise self._error(f"a label name is missing; {_EXAMPLE}")
        self._skip_space()
        operator = _OPERATOR.match(self._text, self._at)
        if operator is None:
            raise self._error(f"after {name!r} one of =, !=, =~, !~ is missing; {_EXAMPLE}")
        self._at = operator.end()
        self._skip_space()
        value = self._quoted() if self._peek() == '"' else self._bare_value()
        try:
            return Matcher(name, operator[0], value)
        except MatcherError as error:
            raise self._error(str(error)) from error

    def _bare_value(self) -> str:
        if self._peek() in {"=", "~"}:
            raise self._error(f"{self._peek()!r} follows an operator; put the value in quotes")
        if self._peek() in {"'", "`"}:
            raise self._error("use double quotes")
        return self._bare(_BARE_VALUE)

    def _bare(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found[0].strip()

    def _quoted(self) -> str:
        found = _QUOTED.match(self._text, self._at)
        if found is None:
            raise self._error("a double quote has no partner")
        self._at = found.end()
        return _ESCAPE.sub(self._unescaped, found[0][1:-1])

    def _unescaped(self, found: re.Match[str]) -> str:
        character = _ESCAPES.get(found[1])
        if character is None:
            raise self._error(f"{found[0]!r} is no escape; write a backslash as two")
        return character

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, character: str) -> bool:
        taken = self._peek() == character
        self._at += taken
        return taken

    def _skip_space(self) -> None:
        while self._peek().isspace():
            self._at += 1

    def _error(self, problem: str) -> MatcherError:
        return MatcherError(f"{self._whole!r}: {problem}")


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            # Python warns where a set means something else elsewhere, as in [[:alpha:]].
            warnings.simplefilter("error")
            # RE2's \d, \w and \s are ASCII.
            return re.compile(pattern, re.ASCII)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise MatcherError(f"{pattern!r} is no regular expression here: {error}") from error


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r") + '"'
