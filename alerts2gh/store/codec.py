"""Incidents, members and deliveries as JSON, and back.

Writing leaves dataclasses and times to orjson, since a delivery may hold a thousand alerts. Reading goes by the
types' annotations: unknown fields (of a newer version) are skipped, lacking ones (of an older) get their default.
"""

import dataclasses
import json
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import orjson
from pydantic import AwareDatetime, BaseModel

from chassis.errors import PermanentError

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
_Decode = Callable[[Any], Any]

_MICROSECOND = timedelta(microseconds=1)
_FRAGMENTS_KEPT = 512
_fragments: dict[int, tuple[BaseModel, orjson.Fragment]] = {}


def encode(value: object) -> bytes:
    """Write a dataclass or model, or mappings and sequences of them, as JSON."""
    try:
        return orjson.dumps(value, default=_plain)
    except TypeError:
        # orjson refuses half a surrogate pair; the slower library writes it as \udXXX, and reads it back.
        return json.dumps(value, default=_plainer, separators=(",", ":")).encode("ascii")


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return _fragment(value)
    if isinstance(value, timedelta):
        return value // _MICROSECOND
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be stored")


def _fragment(model: BaseModel) -> orjson.Fragment:
    """The JSON of a settings object, made once: the same few policies come with every delivery.

    The entry holds the object itself, so its id() cannot be another's while it is here.
    """
    kept = _fragments.get(id(model))
    if kept is not None and kept[0] is model:
        return kept[1]
    fragment = orjson.Fragment(orjson.dumps(_fields_of(model), default=_plain_inside))
    if len(_fragments) >= _FRAGMENTS_KEPT:
        _fragments.clear()
    _fragments[id(model)] = (model, fragment)
    return fragment


def _plain_inside(value: object) -> object:
    return _fields_of(value) if isinstance(value, BaseModel) else _plain(value)


def _fields_of(model: BaseModel) -> dict[str, object]:
    return {name: getattr(model, name) for name in type(model).model_fields}


def _plainer(value: object) -> object:
    if isinstance(value, date):  # a datetime is one, too
        return value.isoformat()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return _plain_inside(value)


def decode(kind: type[T], document: bytes) -> T:
    """Read what `encode` wrote for a `kind`.

    Raises:
        PermanentError: It is no JSON, or lacks a field that has no default.
    """
    with reading(kind):
        return decode_raw(kind, from_json(document))


def decode_raw(kind: type[T], raw: Any) -> T:
    """Like `decode`, from parsed JSON, which becomes part of the result; use inside `reading`."""
    return cast("T", _decoder(cast("Any", kind))(raw))


def decode_model(kind: type[M], document: bytes) -> M:
    """Read the JSON of a model that checks its fields itself; fields it does not know are skipped.

    Raises:
        PermanentError: It is no JSON, or the model refuses it.
    """
    with reading(kind):
        raw = from_json(document)
        return kind.model_validate({name: raw[name] for name in kind.model_fields if name in raw})


@contextmanager
def reading(kind: type) -> Iterator[None]:
    """Raise PermanentError for what is wrong with a stored document."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise PermanentError(f"a stored {kind.__name__} cannot be read: {error}") from error


def from_json(document: bytes) -> Any:
    try:
        return orjson.loads(document)
    except orjson.JSONDecodeError:
        return json.loads(document)  # half a surrogate pair, see encode


@cache
def _decoder(hint: Any) -> _Decode:
    """How to read a value of the annotated type."""
    origin = get_origin(hint)
    if origin in {Union, types.UnionType}:
        return _optional(hint)
    if origin is tuple:
        return _tuple_of(_decoder(get_args(hint)[0]))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_of(_decoder(get_args(hint)[1]))
    if hint in {str, int, float, bool}:
        return _as_it_is
    if isinstance(hint, type):
        return _decoder_of_class(hint)
    raise TypeError(f"no way to read a {hint}")


def _decoder_of_class(kind: type) -> _Decode:
    if issubclass(kind, Enum):
        return {member.value: member for member in kind}.__getitem__
    if issubclass(kind, date):  # a datetime is one, too
        return kind.fromisoformat
    if kind is AwareDatetime:  # how a model asks for a time zone; its values are datetimes
        return datetime.fromisoformat
    if issubclass(kind, timedelta):
        return lambda raw: raw * _MICROSECOND
    if issubclass(kind, BaseModel):
        return _fields_decoder(kind, kind.model_construct, kind.model_fields)
    if dataclasses.is_dataclass(kind):
        return _fields_decoder(kind, kind, [f.name for f in dataclasses.fields(kind)])
    raise TypeError(f"no way to read a {kind.__name__}")


def _fields_decoder(kind: type, build: Callable[..., Any], names: Any) -> _Decode:
    hints = get_type_hints(kind)
    plan = [(name, _decoder(hints[name])) for name in names]
    read = [(name, each) for name, each in plan if each is not _as_it_is]
    known = frozenset(name for name, _ in plan)

    def build_from(raw: Any) -> Any:
        given = raw if raw.keys() <= known else {name: raw[name] for name in known & raw.keys()}
        for name, each in read:
            if name in given:
                given[name] = each(given[name])
        return build(**given)

    return build_from


def _optional(hint: Any) -> _Decode:
    inner = [each for each in get_args(hint) if each is not types.NoneType]
    if len(inner) != 1:
        raise TypeError(f"no way to tell the types of {hint} apart")
    read = _decoder(inner[0])
    if read is _as_it_is:
        return read
    return lambda raw: None if raw is None else read(raw)


def _tuple_of(read: _Decode) -> _Decode:
    return tuple if read is _as_it_is else lambda raw: tuple([read(each) for each in raw])


def _mapping_of(read: _Decode) -> _Decode:
    if read is _as_it_is:
        return read  # the parser made the dict, nobody else has it
    return lambda raw: {key: read(value) for key, value in raw.items()}


def _as_it_is(raw: Any) -> Any:
    return raw
