"""Playbooks in files of their own, beside the configuration file that lists them under `playbook_files`.

Only reads and validates; a mistake is told with the file that it is in.
"""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationInfo

from chassis.config import SecretFile, Settings, load_settings
from chassis.config.fields import FOLDER, SECRETS
from chassis.errors import ConfigError, PermanentError
from remediator.config.common import entries
from remediator.config.playbooks import Playbook

FileName = Annotated[str, Field(min_length=1)]


class PlaybookFile(Settings):
    """One such file: `playbooks`, as in the configuration, and nothing else."""

    playbooks: Annotated[tuple[Playbook, ...], entries(1)]


def with_files(data: Any, info: ValidationInfo) -> Any:
    """The configuration's data with the playbooks of its files after its own.

    What is no list of names is left as it is: its field says so.

    Raises:
        ConfigError: A file cannot be used.
    """
    if not isinstance(data, dict):
        return data
    names, own = data.get("playbook_files"), data.get("playbooks", [])
    if not isinstance(names, list) or not isinstance(own, list):
        return data
    context = info.context or {}
    found = [
        playbook
        for name in names
        if isinstance(name, str) and name
        for playbook in _playbooks(Path(context.get(FOLDER, "")) / name, context)
    ]
    return {**data, "playbooks": [*own, *found]}


def _playbooks(path: Path, context: dict[str, Any]) -> tuple[Playbook, ...]:
    loaded = load_settings(path, PlaybookFile)
    try:
        # Listed with the files whose change is a change of the configuration.
        context.get(SECRETS, []).append(SecretFile(path))
    except PermanentError as error:
        raise ConfigError([f"{path}: {error}"]) from error
    return loaded.playbooks
