"""JSON from outside to plain data, without the characters that databases and UTF-8 refuse.

Pure. The fast reader takes all ordinary input; the slow one runs only where an escape may hide
NUL or half a surrogate pair.
"""

import json
import re
from typing import Any, NoReturn

import orjson

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_MENDABLE_ESCAPE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")


def read_json(body: bytes) -> Any:
    """The value in `body`; NUL and lone surrogates in texts become U+FFFD.

    Raises:
        ValueError: Not JSON, with the reason.
    """
    if not _MENDABLE_ESCAPE.search(body):
        return orjson.loads(body)
    try:
        return _without_unstorable(json.loads(body.decode(), parse_constant=_no_constant))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _without_unstorable(value: Any) -> Any:
    if isinstance(value, str):
        return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, list):
        return [_without_unstorable(each) for each in value]
    if isinstance(value, dict):
        return {_without_unstorable(key): _without_unstorable(each) for key, each in value.items()}
    return value
