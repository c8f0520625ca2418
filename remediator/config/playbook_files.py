"""Playbooks in files of their own, beside the configuration file that lists them under `playbook_files`.

Only reads and validates; a mistake is told with the file that it is in.
"""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationInfo

from chassis.config import SecretFile, Settings, load_settings
from chassis.config.fields import FOLDER, MISTAKES, SECRETS
from chassis.errors import ConfigError, PermanentError
from remediator.config.common import entries
from remediator.config.playbooks import Playbook

FileName = Annotated[str, Field(min_length=1)]


class PlaybookFile(Settings):
    """One such file: `playbooks`, as in the configuration, and nothing else."""

    playbooks: Annotated[tuple[Playbook, ...], entries(1)]


def with_files(data: Any, info: ValidationInfo) -> Any:
    """The configuration's data with the playbooks of its files after its own.

    What is no list of names is left as it is: its field says so. The mistakes of all files are told at once,
    together with those of the rest.

    Raises:
        ConfigError: No playbook is left that could be looked at, or nobody collects mistakes.
    """
    if not isinstance(data, dict):
        return data
    names, own = data.get("playbook_files"), data.get("playbooks", [])
    if not isinstance(names, list) or not isinstance(own, list):
        return data
    context = info.context or {}
    found: list[Any] = [*own]
    mistakes: list[str] = []
    for name in dict.fromkeys(each for each in names if isinstance(each, str) and each):
        try:
            found += _playbooks(Path(context.get(FOLDER, "")) / name, context)
        except ConfigError as error:
            mistakes += error.mistakes
    if mistakes and (MISTAKES not in context or not found):
        # What is said about a configuration without playbooks would be beside the point.
        raise ConfigError(mistakes)
    context.get(MISTAKES, []).extend(mistakes)
    return {**data, "playbooks": found}


def _playbooks(path: Path, context: dict[str, Any]) -> tuple[Playbook, ...]:
    loaded = load_settings(path, PlaybookFile)
    try:
        # Listed with the files whose change is a change of the configuration.
        context.get(SECRETS, []).append(SecretFile(path))
    except PermanentError as error:
        raise ConfigError([f"{path}: {error}"]) from error
    return loaded.playbooks
