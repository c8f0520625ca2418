"""Turns what an alert says into Markdown that only shows it.

Labels and annotations come from whoever can write a metric. On GitHub a text can do things: `@name` calls people,
`#12` and the address of an issue leave a trace in that issue, a picture is fetched, HTML and table bars break the
page. Everything from an alert goes through here, and comes out with the same words and without the power.

The rules of GitHub's Markdown: https://github.github.com/gfm/ and, for what it links by itself,
https://docs.github.com/en/get-started/writing-on-github/working-with-advanced-formatting/autolinked-references-and-urls
"""

import re
from functools import lru_cache
from urllib.parse import quote, unquote, urlsplit

from alerts2gh.rendering.sizes import cut, utf16_length

ZERO_WIDTH_SPACE = "\u200b"
"""Stands after a sign that GitHub would act on. It reads the same and is no letter of a name or number."""

VALUE_LIMIT = 1_000
CODE_LIMIT = 300
URL_LIMIT = 2_000
LINES_LIMIT = 2_000
_SHOWN_URL = 80
_REMEMBERED = 4096  # the same labels are written again with every state of an incident

_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE = re.compile(r"\s+")

_TOKEN = re.compile(
    r"(?P<url>https?://[^\s<>\"'`|\\^{}]+)"
    r"|(?P<scheme>:)(?=//)"
    r"|(?P<word>[0-9a-z][0-9a-z-]*)"
    r"|(?P<sign>[\\`*_\[\]!~$|<>&@#])",
    re.IGNORECASE,
)
_SIGNS = {
    "<": "&lt;",
    ">": "&gt;",
    "&": "&amp;",
    "|": "&#124;",
    "@": "@" + ZERO_WIDTH_SPACE,
    "#": "\\#" + ZERO_WIDTH_SPACE,
}
_COMMIT = re.compile(r"\b[0-9a-f]{7,40}\b", re.IGNORECASE)
_GH_NUMBER = re.compile(r"\b(gh-)(?=\d|$)", re.IGNORECASE)
_LIST_OR_RULE = re.compile(r"[-+=:]")
_NUMBERED = re.compile(r"(\d{1,9})(?=[.)](?:\s|$))")
_REFERENCE_PATH = re.compile(
    r"^/+[^/]+/+[^/]+/+(?:issues|pull|pulls|discussions|commit|commits|compare)/", re.IGNORECASE
)
_TITLE_SIGN = re.compile(r"@|#(?=\d)|\bgh-(?=\d)", re.IGNORECASE)


class Markdown(str):
    """Finished Markdown, put into a page as it is. Only this package makes it."""

    __slots__ = ()


def clean(text: str) -> str:
    """Remove what cannot be seen: control characters, direction marks, tags. Line ends become LF."""
    text = _LINE_ENDS.sub("\n", text)
    return _SURROGATE.sub("\ufffd", _UNSEEN.sub("", text))


def without_control(text: str) -> str:
    """Keep a finished text free of what GitHub or a database refuses; zero-width spaces stay."""
    return _SURROGATE.sub("\ufffd", _CONTROL.sub("", _LINE_ENDS.sub("\n", text)))


def one_line(text: str) -> str:
    """Clean, and put all on one line with single spaces."""
    return _SPACE.sub(" ", clean(text)).strip()


def title_text(text: str, limit: int) -> str:
    """Make a title: one plain line of at most `limit` UTF-16 units. Titles are not Markdown."""
    plain = _TITLE_SIGN.sub(lambda found: found[0] + ZERO_WIDTH_SPACE, one_line(text))
    return cut(plain, limit)


@lru_cache(maxsize=_REMEMBERED)
def inline(text: str, limit: int = VALUE_LIMIT) -> Markdown:
    """Make harmless Markdown of one line, fit for a paragraph, a list or a table cell."""
    return Markdown(_escaped(cut(one_line(text), limit)))


def lines(text: str, limit: int = LINES_LIMIT) -> Markdown:
    """Make harmless Markdown that keeps the line ends; several empty lines become one."""
    each = [_SPACE.sub(" ", line).strip() for line in cut(clean(text).strip(), limit).split("\n")]
    kept = [line for at, line in enumerate(each) if line or each[at - 1]]
    return Markdown("\n".join(_escaped(line) for line in kept))


@lru_cache(maxsize=_REMEMBERED)
def code(text: str, limit: int = CODE_LIMIT) -> Markdown:
    """Make a code span, in which GitHub acts on nothing."""
    plain = cut(one_line(text), limit)
    if not plain:
        return Markdown("")
    # A comment end cannot act inside a code span; it is broken all the same, so that markers stay unique.
    plain = plain.replace("<!--", f"<!{ZERO_WIDTH_SPACE}--").replace(
        "-->", f"--{ZERO_WIDTH_SPACE}>"
    )
    longest = max((len(run) for run in re.findall("`+", plain)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if "`" in (plain[0], plain[-1]) else ""
    return Markdown(f"{fence}{pad}{plain}{pad}{fence}")


@lru_cache(maxsize=_REMEMBERED)
def cell(text: str, limit: int = CODE_LIMIT) -> Markdown:
    """Make a code span for a table cell, where a bar needs a backslash even inside code."""
    # In front of that backslash must stand no other: readers differ in which of the two escapes.
    apart = code(text, limit).replace("\\|", f"\\{ZERO_WIDTH_SPACE}|")
    return Markdown(apart.replace("|", "\\|"))


def safe_url(url: str, limit: int = URL_LIMIT) -> str | None:
    """Quote an address that may be clicked; None for anything but plain http(s).

    User names and passwords in it, and white space, are refused. The answer holds nothing that ends a Markdown link.
    """
    if clean(url) != url or _SPACE.search(url) or utf16_length(url) > limit:
        return None
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        return None
    if not usable or "@" in parts.netloc:
        return None
    return quote(url, safe="!#$%&'()*+,/:;=?@[]~-._")


def leaves_a_trace(url: str) -> bool:
    """Whether a link to `url` would show up in another issue, pull request, discussion or commit.

    Any host counts: GitHub Enterprise Server has its own.
    """
    return bool(_REFERENCE_PATH.match(unquote(unquote(urlsplit(url).path))))


def link(url: str, text: str, limit: int = URL_LIMIT) -> Markdown:
    """Make a link, or show the address as code when it is not safe to click. Empty for an empty address."""
    wanted = url.strip()
    if not wanted:
        return Markdown("")
    safe = safe_url(wanted, limit)
    if safe is None or leaves_a_trace(safe):
        return Markdown(f"{inline(text)}: {code(wanted.replace('|', '%7C'))}")
    return _linked(safe, one_line(text))


def issue_link(url: str, number: int) -> Markdown:
    """Link an issue of our own, where the trace it leaves is wanted."""
    safe = safe_url(url)
    return Markdown(f"[\\#{number}](<{safe}>)" if safe else f"\\#{ZERO_WIDTH_SPACE}{number}")


def _linked(safe: str, text: str) -> Markdown:
    # Links do not nest, so an address in the text of one is taken apart first.
    shown = _TOKEN.sub(_neutral, cut(text, _SHOWN_URL).replace("://", f":{ZERO_WIDTH_SPACE}//"))
    return Markdown(f"[{shown}](<{safe.replace('&', '&amp;')}>)")


def _escaped(line: str) -> str:
    """Escape one line. What would start a list, a rule or a heading counts only at its start."""
    if _LIST_OR_RULE.match(line):
        return "\\" + line[0] + _TOKEN.sub(_neutral, line[1:])
    numbered = _NUMBERED.match(line)
    if numbered:
        end = numbered.end()
        return f"{numbered[1]}\\{line[end]}" + _TOKEN.sub(_neutral, line[end + 1 :])
    return _TOKEN.sub(_neutral, line)


def _neutral(found: re.Match[str]) -> str:
    token = found[0]
    match found.lastgroup:
        case "url":
            return _bare_url(token)
        case "scheme":
            return token + ZERO_WIDTH_SPACE
        case "word":
            return _word(token)
        case _:
            return _SIGNS.get(token, "\\" + token)


def _word(word: str) -> str:
    if _COMMIT.search(word):
        return code(word)
    end = ZERO_WIDTH_SPACE if word.lower().endswith("www") else ""
    return _GH_NUMBER.sub(rf"\1{ZERO_WIDTH_SPACE}", word) + end


def _bare_url(text: str) -> str:
    """An address inside a sentence; the full stop after it is not part of it."""
    url = text.rstrip(".,;:!?*_~])")
    rest = _TOKEN.sub(_neutral, text[len(url) :])
    safe = safe_url(url)
    if safe is None or leaves_a_trace(safe):
        return code(url) + rest
    return _linked(safe, url.split("://", 1)[1]) + rest
