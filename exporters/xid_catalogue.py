"""Reads the XID catalogue that ships with the package, or one of the user's.

The only I/O around XIDs; must not decide anything about them.
"""

from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator

from chassis.config import Settings
from chassis.config.yaml_text import parse_yaml
from chassis.errors import ConfigError
from exporters.xids import XidAction, XidCatalogue

_Code = Annotated[int, Field(ge=0, le=65535, strict=True)]


class _File(Settings):
    actions: dict[XidAction, tuple[_Code, ...]]
    names: dict[Annotated[int, Field(ge=0, le=65535)], str] = Field(default_factory=dict)

    @field_validator("actions")
    @classmethod
    def _each_code_once(
        cls, actions: dict[XidAction, tuple[int, ...]]
    ) -> dict[XidAction, tuple[int, ...]]:
        seen: dict[int, XidAction] = {}
        for action, codes in actions.items():
            for code in codes:
                if code in seen:
                    raise ValueError(
                        f"XID {code} is under {seen[code]} and {action}; keep one of them"
                    )
                seen[code] = action
        return actions


def shipped_catalogue() -> XidCatalogue:
    """The catalogue of this package."""
    with as_file(files("exporters") / "xid_catalogue.yaml") as path:
        return load_catalogue(path)


def load_catalogue(path: Path) -> XidCatalogue:
    """A catalogue from a YAML file with `actions` (action: list of codes) and `names` (code: name).

    Raises:
        ConfigError: With one line a mistake.
    """
    try:
        read = _File.model_validate(parse_yaml(path))
    except ValidationError as error:
        raise ConfigError(_lines(path, error)) from None
    actions = {code: action for action, codes in read.actions.items() for code in codes}
    return XidCatalogue(actions, read.names)


def _lines(path: Path, error: ValidationError) -> list[str]:
    def place(location: tuple[Any, ...]) -> str:
        return ".".join(str(part) for part in location if part != "[key]") or "file"

    return [
        f"{path}: {place(each['loc'])}: {each['msg'].removeprefix('Value error, ')}"
        for each in error.errors()
    ]
