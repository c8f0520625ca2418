"""Says what GitHub would act on in a Markdown text, by rules written apart from those of the code under test.

The structure is markdown-it-py's reading (CommonMark with tables); the patterns are GitHub's documented ones, taken
wider than GitHub takes them.
"""

import re
from collections.abc import Iterator
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

_PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
_LIVE = {
    "mention": re.compile(r"@[a-z0-9]", re.IGNORECASE),
    "reference": re.compile(r"#[0-9]|\bgh-[0-9]", re.IGNORECASE),
    "commit": re.compile(r"(?<![0-9a-z])[0-9a-f]{7,40}(?![0-9a-z])", re.IGNORECASE),
    "address": re.compile(r"[a-z]://|\bwww\.", re.IGNORECASE),
}
_TRACE = re.compile(
    r"^https?://[^/]+/+[^/]+/+[^/]+/+(issues|pull|discussions|commit)/", re.IGNORECASE
)


def tokens(markdown: str) -> Iterator[Token]:
    for token in _PARSER.parse(markdown):
        yield token
        yield from token.children or ()


def texts(markdown: str) -> Iterator[str]:
    """Yield the runs of text outside code and links: where GitHub looks for mentions and references."""
    for block in _PARSER.parse(markdown):
        run, depth = "", 0
        for token in block.children or ():
            depth += {"link_open": 1, "link_close": -1}.get(token.type, 0)
            if token.type in {"text", "text_special", "softbreak"} and not depth:
                run += token.content or "\n"
            else:
                yield run
                run = ""
        yield run


def html(markdown: str) -> list[str]:
    return [t.content.strip() for t in tokens(markdown) if t.type in {"html_inline", "html_block"}]


def addresses(markdown: str) -> list[str]:
    return [str(t.attrs["href"]) for t in tokens(markdown) if t.type == "link_open"]


def dangers(markdown: str) -> list[str]:
    """List everything in a text that calls, links back, loads or breaks out."""
    found = [
        f"{name}: {run!r}"
        for run in texts(markdown)
        for name, pattern in _LIVE.items()
        if pattern.search(run)
    ]
    found += [f"html: {each!r}" for each in html(markdown)]
    found += [f"image: {t.attrs}" for t in tokens(markdown) if t.type == "image"]
    for url in addresses(markdown):
        if not url.lower().startswith(("http://", "https://")) or _TRACE.match(
            unquote(unquote(url))
        ):
            found.append(f"link: {url!r}")
    return found


def table_shape(markdown: str) -> list[int]:
    """Count the cells of each row of all tables."""
    shape: list[int] = []
    for token in _PARSER.parse(markdown):
        if token.type == "tr_open":
            shape.append(0)
        elif token.type in {"td_open", "th_open"}:
            shape[-1] += 1
    return shape
