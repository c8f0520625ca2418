"""Turns pydantic's validation errors into lines that a person can act on.

Knows models only by their annotations; must not print refused values.
"""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

_Place = str | int
_MISSING = ": missing; add it"
_PARSED = {"int_parsing": "integer", "float_parsing": "number", "bool_parsing": "boolean"}


def mistake_lines(path: Path, model: type[BaseModel], error: ValidationError) -> list[str]:
    """One line a mistake: `FILE: path.to.key: what is wrong; what to do`, in order of the model."""
    lines: dict[str, None] = {}  # each once, in order
    meant: set[str] = set()
    for detail in error.errors(include_url=False):
        where, parent = _follow(model, detail["loc"])
        if detail["type"] == "extra_forbidden" and (
            near := _nearest(str(detail["loc"][-1]), parent)
        ):
            meant.add(where.removesuffix(str(detail["loc"][-1])) + near)
        message = _message(detail, parent)
        lines[f"{where}: {message}" if where else message] = None
    # A misspelt key is one mistake, not also a missing one.
    return [f"{path}: {line}" for line in lines if line.removesuffix(_MISSING) not in meant]


def _message(detail: ErrorDetails, parent: type[BaseModel] | None) -> str:
    kind, given = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return f"unknown key; {_suggestion(str(detail['loc'][-1]), parent)}"
    if kind in {"value_error", "assertion_error"}:
        return detail["msg"].split(", ", 1)[-1]
    return (
        _MISSING.removeprefix(": ")
        if kind == "missing"
        else _wrong_type(kind, detail["msg"], given)
    )


def _wrong_type(kind: str, message: str, given: object) -> str:
    if kind in _PARSED:
        return f"must be a valid {_PARSED[kind]}"
    if kind == "string_type" and isinstance(given, bool | int | float):
        return f"YAML reads this as a {_yaml_name(given)}, not as text; put it in quotes"
    if kind in {"model_type", "dict_type"}:
        return f"must be a mapping of keys, not {_kind_of(given)}"
    if kind in {"list_type", "tuple_type", "set_type", "frozen_set_type"}:
        return f"must be a list, not {_kind_of(given)}; start each entry with a dash"
    return _lower_first(message.replace("Input should be", "must be"))


def _yaml_name(given: float) -> str:
    return "boolean" if isinstance(given, bool) else "number"


def _kind_of(given: object) -> str:
    names = {dict: "a mapping", list: "a list", str: "a text", bool: "a boolean"}
    return "nothing" if given is None else names.get(type(given), "a single value")


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _suggestion(unknown: str, parent: type[BaseModel] | None) -> str:
    valid = sorted(_fields(parent))
    if near := _nearest(unknown, parent):
        return f'did you mean "{near}"?'
    return f"valid keys here: {', '.join(valid)}" if valid else "remove it"


def _nearest(unknown: str, parent: type[BaseModel] | None) -> str | None:
    valid = _fields(parent)
    if f"{unknown}_file" in valid:  # a secret written in place
        return f"{unknown}_file"
    return next(iter(difflib.get_close_matches(unknown, valid, n=1)), None)


def _fields(model: type[BaseModel] | None) -> dict[str, Any]:
    if model is None:
        return {}
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _follow(model: type[BaseModel], loc: Sequence[_Place]) -> tuple[str, type[BaseModel] | None]:
    """The path as a person writes it, and the model in which its last step was looked up.

    pydantic puts the names of union members into the location; those are steps in the type but
    not in the file, so they choose a member and are not shown.
    """
    here: Any = model
    parent: type[BaseModel] | None = None
    shown = ""
    for index, step in enumerate(loc):
        here = _strip(here)
        chosen = _member(here, step) if _is_union(here) else None
        if chosen is not None:
            here = chosen
            continue
        here = _sole_model(here)
        if step == "[key]" and index == len(loc) - 1:
            break
        parent = here if _is_model(here) else None
        shown += f"[{step}]" if isinstance(step, int) else f".{step}" if shown else step
        here = _step(here, step)
    return shown, parent


def _step(here: Any, step: _Place) -> Any:
    if _is_model(here):
        return _fields(here).get(str(step))
    arguments = [each for each in get_args(here) if each is not Ellipsis]
    origin = get_origin(here)
    if not arguments or not isinstance(origin, type):
        return None
    if issubclass(origin, Mapping):
        return arguments[-1]
    if origin is tuple and isinstance(step, int) and step < len(arguments):
        return arguments[step]
    return arguments[0]


def _strip(here: Any) -> Any:
    while get_origin(here) is Annotated:
        here = get_args(here)[0]
    if not _is_union(here):
        return here
    members = [each for each in get_args(here) if each is not NoneType]
    return _strip(members[0]) if len(members) == 1 else here


def _member(union: Any, step: _Place) -> Any:
    for each in map(_strip, get_args(union)):
        if getattr(each, "__name__", None) == step or (_is_model(each) and _tagged(each, step)):
            return each
    return None


def _tagged(model: type[BaseModel], tag: _Place) -> bool:
    return any(
        get_origin(annotation) is Literal and tag in get_args(annotation)
        for annotation in _fields(model).values()
    )


def _sole_model(here: Any) -> Any:
    if not _is_union(here):
        return here
    models = [each for each in map(_strip, get_args(here)) if _is_model(each)]
    return models[0] if len(models) == 1 else here


def _is_union(here: Any) -> bool:
    return get_origin(here) in {Union, UnionType}


def _is_model(here: Any) -> bool:
    return isinstance(here, type) and issubclass(here, BaseModel)
