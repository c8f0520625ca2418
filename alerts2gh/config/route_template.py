"""One-line Jinja2 templates that name a repository or an issue label, in a sandbox.

A template sees `labels`, `group_labels`, `annotations` and `receiver` and can neither read files nor
change what it sees. Its result depends on nothing else, so routing may render once for many alerts.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import TemplateError, Undefined, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

_METHODS = frozenset({"get", "items", "keys", "values"})
_NAMES = frozenset({"labels", "group_labels", "annotations", "receiver"})
_OTHER_FILES = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


class TemplateProblemError(ValueError):
    """A template cannot be read or rendered; the text says why."""


class Facts(Mapping[str, str]):
    """Labels or annotations as a template sees them: read only, and `kind` names them in errors."""

    def __init__(self, kind: str, values: Mapping[str, str]) -> None:
        self.kind = kind
        self._values = values

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"{self.kind}: {dict(sorted(self._values.items()))}"  # no address: it would vary


@dataclass(frozen=True, slots=True)
class Reads:
    """Which labels and annotations of an alert a result depends on; None is all of them."""

    labels: frozenset[str] | None = frozenset()
    annotations: frozenset[str] | None = frozenset()

    def __or__(self, other: "Reads") -> "Reads":
        return Reads(_union(self.labels, other.labels), _union(self.annotations, other.annotations))


def _union(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return None if one is None or other is None else one | other


class _Missing(Undefined):
    """Something that the alert lacks: false in a condition, an error in the result."""

    def __str__(self) -> str:
        return str(self._fail_with_undefined_error())


class _Environment(ImmutableSandboxedEnvironment):
    """Looks for labels before methods, so that a label may be called `items`."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if not isinstance(obj, Facts):
            return super().getattr(obj, attribute)
        if attribute in _METHODS and attribute not in obj:
            return super().getattr(obj, attribute)
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if not isinstance(obj, Facts):
            return super().getitem(obj, argument)
        if argument in obj:
            return obj[argument]
        return self.undefined(hint=f"the alert has no {argument!r} among its {obj.kind}")


def _environment() -> _Environment:
    environment = _Environment(undefined=_Missing, autoescape=False)
    # The same alert must always go the same way.
    del environment.filters["random"], environment.globals["lipsum"]
    return environment


_ENVIRONMENT = _environment()


class RouteTemplate:
    """A compiled template. Equal sources may share one; threads may render at the same time."""

    def __init__(self, source: str) -> None:
        """Compile.

        Raises:
            TemplateProblemError: It is no Jinja2, uses an unknown name, or wants another file.
        """
        self.source = source
        self.is_static = not any(mark in source for mark in ("{{", "{%", "{#"))
        self.reads = Reads()
        self._render: Callable[..., str] | None = None
        if not self.is_static:
            self._compile()

    def render(
        self,
        labels: Mapping[str, str],
        annotations: Mapping[str, str],
        group_labels: Mapping[str, str],
        receiver: str,
    ) -> str:
        """The text for one alert.

        Raises:
            TemplateProblemError: A label that it prints is absent, or it fails in another way.
        """
        if self._render is None:
            return self.source
        try:
            return self._render(
                labels=Facts("labels", labels),
                annotations=Facts("annotations", annotations),
                group_labels=Facts("group labels", group_labels),
                receiver=receiver,
            )
        # A template is a program of the admin's: it may divide by zero or recurse too deeply.
        except Exception as error:
            raise TemplateProblemError(str(error) or type(error).__name__) from error

    def _compile(self) -> None:
        try:
            tree = _ENVIRONMENT.parse(self.source)
            _check_names(tree)
            self.reads = _reads(tree)
            self._render = _ENVIRONMENT.from_string(self.source).render
        except TemplateError as error:
            raise TemplateProblemError(_first_line(error)) from error
        except RecursionError as error:
            raise TemplateProblemError("it is nested too deeply") from error


@lru_cache(maxsize=1024)  # the check of the configuration and the router compile the same ones
def route_template(source: str) -> RouteTemplate:
    """The compiled template of this source.

    Raises:
        TemplateProblemError: As `RouteTemplate`.
    """
    return RouteTemplate(source)


def template_syntax_problem(source: str) -> str | None:
    """What is wrong with the syntax of a larger template (title, body, comment), None if nothing."""
    try:
        _ENVIRONMENT.parse(source)
    except TemplateError as error:
        line = getattr(error, "lineno", None)
        return f"line {line}: {_first_line(error)}" if line else _first_line(error)
    return None


def _first_line(error: TemplateError) -> str:
    return (error.message or type(error).__name__).partition("\n")[0]


def _check_names(tree: nodes.Template) -> None:
    if any(True for _ in tree.find_all(_OTHER_FILES)):
        raise TemplateProblemError("it must not include, import or extend other templates")
    unknown = meta.find_undeclared_variables(tree) - _NAMES - set(_ENVIRONMENT.globals)
    if unknown:
        raise TemplateProblemError(
            f"it has no {min(unknown)!r}; use labels, group_labels, annotations or receiver"
        )


def _reads(tree: nodes.Template) -> Reads:
    return Reads(_keys_of(tree, "labels"), _keys_of(tree, "annotations"))


def _keys_of(tree: nodes.Template, variable: str) -> frozenset[str] | None:
    """Which keys of a variable the template looks at; None if it may look at any."""
    lookups: list[nodes.Getattr | nodes.Getitem] = [
        *tree.find_all(nodes.Getattr),
        *tree.find_all(nodes.Getitem),
    ]
    understood = {
        id(lookup.node): key
        for lookup in lookups
        if isinstance(lookup.node, nodes.Name) and lookup.node.name == variable
        if (key := _constant_key(lookup)) is not None
    }
    uses = [id(name) for name in tree.find_all(nodes.Name) if name.name == variable]
    return frozenset(understood.values()) if set(uses) <= understood.keys() else None


def _constant_key(lookup: nodes.Getattr | nodes.Getitem) -> str | None:
    if isinstance(lookup, nodes.Getattr):
        return None if lookup.attr in _METHODS else lookup.attr
    if isinstance(lookup.arg, nodes.Const) and isinstance(lookup.arg.value, str):
        return lookup.arg.value
    return None
