"""Safe steps into JSON that nobody has validated: a wrong shape is as if nothing were there.

Mutating webhooks are called before the API server validates, so any pod may come. Mappings are dicts,
as JSON and YAML make them: asking for the abstract Mapping takes five times as long.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

_NOTHING: Mapping[str, Any] = MappingProxyType({})


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else _NOTHING


def items(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def mappings(value: object) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The mappings in a list, with their places in it."""
    if isinstance(value, list):
        for index, each in enumerate(value):
            if isinstance(each, dict):
                yield index, each


def text(value: object) -> str:
    """The value if it is text, else an empty one."""
    return value if isinstance(value, str) else ""
