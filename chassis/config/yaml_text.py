"""YAML text to plain data, refusing what YAML lets slip: duplicate keys, keys that are no text.

Knows nothing of settings; every refusal is one line with the line number.
"""

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from chassis.errors import ConfigError

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader whose mappings have text keys, each once, and whose texts can be stored."""

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        value = super().construct_scalar(node)
        if isinstance(value, str) and _UNSTORABLE.search(value):
            line = node.start_mark.line + 1
            raise _Mistake(line, "a text holds NUL or half a surrogate pair; remove the escape")
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - the signature is PyYAML's
        if isinstance(node, yaml.MappingNode):
            self._check_keys(node)
        return super().construct_mapping(node, deep=deep)

    def _check_keys(self, node: yaml.MappingNode) -> None:
        seen: dict[str, int] = {}
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            line = key.start_mark.line + 1
            if key.tag != "tag:yaml.org,2002:str":
                raise _Mistake(line, _not_text(key))
            if key.value in seen:
                raise _Mistake(
                    line,
                    f'key "{key.value}" is already on line {seen[key.value]}; keep one of them',
                )
            seen[key.value] = line


class _Mistake(Exception):  # noqa: N818 - never leaves this module
    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


def _not_text(key: yaml.Node) -> str:
    if not isinstance(key, yaml.ScalarNode):
        return "a key must be text, not a list or mapping"
    kind = key.tag.rpartition(":")[2]
    return f"YAML reads the key {key.value} as {kind}, not as text; put it in quotes"


def parse_yaml(path: Path) -> Any:
    """The plain data in a YAML file; an empty file is an empty mapping.

    Raises:
        ConfigError: The file cannot be read or is not one strict YAML document.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: not UTF-8 text (byte {error.start})"]) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError([f"{path}: cannot be read: {reason}"]) from error
    try:
        # _StrictLoader is a SafeLoader: it makes plain data only.
        loaded = yaml.load(text, Loader=_StrictLoader)  # noqa: S506
    except _Mistake as error:
        raise ConfigError([f"{path}: line {error.line}: {error}"]) from error
    except yaml.YAMLError as error:
        raise ConfigError([f"{path}: {_plain_words(error)}"]) from error
    except RecursionError as error:
        raise ConfigError([f"{path}: nested too deeply"]) from error
    except ValueError as error:  # a scalar that looks like a date or number but is none
        raise ConfigError([f"{path}: {error}; put the value in quotes"]) from error
    return {} if loaded is None else loaded


def _plain_words(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.reader.ReaderError):
        return f"character {error.position} (U+{int(error.character):04X}) is not allowed in YAML"
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"not YAML: {error}"
    mark = error.problem_mark or error.context_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    problem = error.problem or error.context or "not YAML"
    hint = "; indent with spaces" if "'\\t'" in problem else ""
    return f"{place}not YAML: {problem}{hint}"
