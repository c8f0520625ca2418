"""Jinja2, fenced in: an admin's template can arrange what is known, and nothing else.

What an expression prints is made harmless Markdown, unless one of the filters here made it already; so there are no
macros and no blocks of text in variables, whose result could no longer be told from an alert's own words. Loops and
output are bounded. A mistake is found when the template is loaded, as far as that can be seen.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import StrictUndefined, Template, TemplateError, nodes
from jinja2.exceptions import SecurityError, TemplateRuntimeError, TemplateSyntaxError
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from alerts2gh.rendering import sanitising
from alerts2gh.rendering.facts import PLAIN_TYPES
from alerts2gh.rendering.sanitising import Markdown
from chassis.errors import PermanentError

MAX_STEPS = 200_000
MAX_OUTPUT = 1_000_000
MAX_SOURCE = 100_000

_FILTERS = (
    "abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "int", "items",
    "join", "last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr",
    "replace", "reverse", "round", "select", "selectattr", "sort", "string", "sum", "title",
    "trim", "truncate", "unique", "upper",
)  # fmt: skip
_TEXT_METHODS = frozenset(
    {"endswith", "lower", "lstrip", "removeprefix", "removesuffix", "rstrip", "split"}
    | {"startswith", "strip", "title", "upper"}
)
_REFUSED = (
    nodes.Macro,
    nodes.CallBlock,
    nodes.FilterBlock,
    nodes.AssignBlock,
    nodes.Include,
    nodes.Import,
    nodes.FromImport,
    nodes.Extends,
    nodes.Block,
)
_FAULTS = (
    TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)


class TemplateFaultError(PermanentError):
    """A template that cannot be loaded, or that failed on an incident. The text says where."""


@dataclass(frozen=True, slots=True)
class TemplateTexts:
    """The sources of a title, a body and a comment."""

    title: str
    body: str
    comment: str


def builtin_templates() -> TemplateTexts:
    """Read the templates that come with alerts2gh."""
    folder = files("alerts2gh") / "templates"
    title, body, comment = (
        (folder / f"{name}.md.j2").read_text("utf-8") for name in ("title", "body", "comment")
    )
    return TemplateTexts(title, body, comment)


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja2 without a way to files, to modules, to endless loops or to texts of a gigabyte."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def __init__(self, finalize: Callable[[Any], str], filters: Mapping[str, Any]) -> None:
        super().__init__(
            undefined=StrictUndefined,
            finalize=finalize,
            autoescape=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.globals.clear()
        self.filters = {name: self.filters[name] for name in _FILTERS} | dict(filters)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Allow arithmetic with numbers only: text times a number is how memory is filled."""
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if not numbers or operator == "**":
            raise SecurityError(f"{operator} works with numbers only here, and ** not at all")
        return super().call_binop(context, operator, left, right)

    def wrap_str_format(self, value: Any) -> None:
        """Give no safe str.format either: its widths make any amount of text."""

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Leave out the text methods that can make any amount of text."""
        if isinstance(obj, str):
            return attr in _TEXT_METHODS
        if type(obj) in PLAIN_TYPES:  # the common case, and the general answer takes a while
            return not attr.startswith("_")
        return super().is_safe_attribute(obj, attr, value)


def markdown_sandbox() -> Sandbox:
    """Make the environment of bodies and comments."""
    return Sandbox(
        _as_markdown,
        {
            "code": lambda value: sanitising.code(_text(value)),
            "cell": lambda value: sanitising.cell(_text(value)),
            "lines": lambda value: sanitising.lines(_text(value)),
            "link": _as_link,
            "urlencode": _as_query,
        },
    )


def plain_sandbox() -> Sandbox:
    """Make the environment of titles, which are plain text; the Markdown filters do nothing there."""
    same = dict.fromkeys(("code", "cell", "lines"), _text)
    return Sandbox(_text, {**same, "link": lambda _url, text: _text(text), "urlencode": _as_query})


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _as_markdown(value: Any) -> str:
    return value if isinstance(value, Markdown) else sanitising.inline(_text(value))


def _as_link(url: Any, text: Any, limit: int = sanitising.URL_LIMIT) -> Markdown:
    return sanitising.link(_text(url), _text(text), limit)


def _as_query(value: Any) -> str:
    return quote(sanitising.clean(_text(value)), safe="")


def compile_template(sandbox: Sandbox, source: str, name: str, known: Iterable[str]) -> Template:
    """Compile a template.

    Raises:
        TemplateFaultError: It is too long, is no Jinja2, uses what is refused here, or names something unknown.
    """
    if len(source) > MAX_SOURCE:
        raise TemplateFaultError(f"{name}: longer than {MAX_SOURCE:,} characters; shorten it")
    try:
        tree = sandbox.parse(source, name)
        _refuse(tree, name)
        _refuse_unknown(find_undeclared_variables(tree), name, sorted(known))
        for loop in tree.find_all(nodes.For):
            loop.body.insert(0, _step(loop.lineno))
        tree.set_environment(sandbox)
        code = sandbox.compile(tree, name)
    except TemplateSyntaxError as error:
        raise TemplateFaultError(f"{name}:{error.lineno}: {error.message}") from error
    except TemplateError as error:
        raise TemplateFaultError(f"{name}: {error}") from error
    return sandbox.template_class.from_code(sandbox, code, {})


def _refuse(tree: nodes.Template, name: str) -> None:
    for node in tree.find_all(_REFUSED):
        kind = type(node).__name__
        raise TemplateFaultError(
            f"{name}:{node.lineno}: {kind} is not available; write the text where it is used"
        )


def _refuse_unknown(used: set[str], name: str, known: list[str]) -> None:
    unknown = sorted(used.difference(known))
    if unknown:
        raise TemplateFaultError(
            f"{name}: nothing is called {unknown[0]!r}; use {', '.join(known)}"
        )


def _step(line: int) -> nodes.Output:
    call = nodes.Call(nodes.Name("_step", "load"), [], [], None, None)
    output = nodes.Output([call])
    return output.set_lineno(line, override=True)  # type: ignore[return-value]  # it returns itself


def run_template(template: Template, values: Mapping[str, Any]) -> str:
    """Render. What is longer than MAX_OUTPUT stops soon after it; the caller has to cut or to refuse it.

    Raises:
        TemplateFaultError: The template failed on these values, or its loops went on for too long.
    """
    steps = 0

    def step() -> Markdown:
        nonlocal steps
        steps += 1
        if steps > MAX_STEPS:
            raise TemplateRuntimeError(f"more than {MAX_STEPS:,} steps in loops")
        return Markdown("")

    pieces: list[str] = []
    room = MAX_OUTPUT
    try:
        for piece in template.generate(**values, _step=step):
            pieces.append(piece)
            room -= len(piece)
            if room < 0:
                break
    except _FAULTS as error:
        raise TemplateFaultError(f"{template.name}: {error or type(error).__name__}") from error
    return "".join(pieces)
