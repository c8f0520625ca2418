"""GitHub-flavoured Markdown as safe HTML for the sandbox's pages.

Of raw HTML only a few harmless tags pass, each without attributes; comments vanish as at GitHub,
anything else is shown as text. Images become links, so that a page loads nothing from elsewhere.
"""

import html
import re
from collections.abc import MutableMapping, Sequence
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

_ALLOWED: Final = (
    r"</?(?:details|summary|sub|sup|kbd|b|i|em|strong|code|ins|del)>|<details open>|<br ?/?>"
)
_COMMENT: Final = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_PIECES: Final = re.compile(f"({_ALLOWED})")
_BARE_LINK: Final = re.compile(r"https?://[^\s<>\"']*[^\s<>\"'.,;:!?)]")
_MENTION: Final = re.compile(r"(?<![\w/`])@([A-Za-z0-9][A-Za-z0-9-]{0,38})\b")

Env = MutableMapping[str, Any]


class _SafeRenderer(RendererHTML):
    def html_block(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        return _sanitised(tokens[idx].content)

    def html_inline(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        return _sanitised(tokens[idx].content)

    def image(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        source = html.escape(str(tokens[idx].attrs.get("src", "")))
        return f'<a rel="nofollow" href="{source}">image: {html.escape(tokens[idx].content)}</a>'

    def text(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        text = html.escape(tokens[idx].content, quote=False)
        return text if _inside_link(tokens, idx) else _with_links(text)

    def link_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Env) -> str:
        tokens[idx].attrSet("rel", "nofollow")
        return self.renderToken(tokens, idx, options, env)


def render(text: str | None) -> str:
    """HTML of `text`, safe to put into a page as it is."""
    return str(_RENDERER.render(text or ""))


def _sanitised(raw: str) -> str:
    pieces = _PIECES.split(_COMMENT.sub("", raw))
    return "".join(
        piece if index % 2 else html.escape(html.unescape(piece), quote=False)
        for index, piece in enumerate(pieces)
    )


def _with_links(text: str) -> str:
    def link(match: re.Match[str]) -> str:
        return f'<a rel="nofollow" href="{match[0]}">{match[0]}</a>'

    parts = re.split(f"({_BARE_LINK.pattern})", text)
    return "".join(
        link(match)
        if (match := _BARE_LINK.fullmatch(part))
        else _MENTION.sub(r'<strong class="mention">@\1</strong>', part)
        for part in parts
    )


def _inside_link(tokens: Sequence[Token], idx: int) -> bool:
    kinds = [token.type for token in tokens[:idx]]
    return kinds.count("link_open") > kinds.count("link_close")


def _renderer() -> MarkdownIt:
    options = {"html": True, "linkify": False, "typographer": False}
    parser = MarkdownIt("commonmark", options, renderer_cls=_SafeRenderer)
    return parser.enable(["table", "strikethrough"])


_RENDERER: Final = _renderer()
