"""From a file to frozen settings, or to one line for every mistake in it.

Must not print a value that it refuses: someone may have written a secret there.
"""

from pathlib import Path
from typing import TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from chassis.config.fields import FOLDER, MISTAKES, SECRETS, SecretFile
from chassis.config.mistakes import mistake_lines
from chassis.config.yaml_text import parse_yaml
from chassis.errors import ConfigError
from chassis.telemetry import redact_text

M = TypeVar("M", bound=BaseModel)


class Settings(BaseModel):
    """Base of every settings model: unknown keys are refused, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def load_settings(path: Path, model: type[M]) -> M:
    """Read a YAML file into `model`. Relative paths of secrets start at the file's folder.

    Raises:
        ConfigError: With one line a mistake: `FILE: path.to.key: what is wrong; what to do`.
    """
    settings, _ = load_with_secrets(path, model)
    return settings


def load_with_secrets(path: Path, model: type[M]) -> tuple[M, tuple[SecretFile, ...]]:
    """Like `load_settings`, and the secret files that the settings refer to."""
    data = parse_yaml(path)
    if not isinstance(data, dict):
        raise ConfigError([f"{path}: must be a mapping of keys, not a {type(data).__name__}"])
    secrets: list[SecretFile] = []
    # The folder is taken before symbolic links are followed: a Kubernetes volume swaps the
    # link `..data`, and a path through it stays right while a resolved one goes stale.
    further: list[str] = []  # about the files that this one names: told after its own
    context = {FOLDER: path.absolute().parent, SECRETS: secrets, MISTAKES: further}
    try:
        settings = model.model_validate(data, context=context)
    except ValidationError as error:
        raise ConfigError([*mistake_lines(path, model, error), *further]) from None
    if further:
        raise ConfigError(further)
    return settings, tuple(secrets)


def dump_settings(settings: BaseModel) -> str:
    """The settings as one line of JSON with sorted keys, for the log at the start.

    Secret files appear as their paths; credentials inside URLs are masked.
    """
    plain = settings.model_dump(mode="json")
    return redact_text(orjson.dumps(plain, option=orjson.OPT_SORT_KEYS).decode())
