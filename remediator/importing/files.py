"""Manifests from files, and the text that is printed for them.

It reads the files it is given and nothing else.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from chassis.errors import ConfigError
from remediator.importing.conversion import Imported


def read_manifests(paths: Iterable[Path]) -> list[Any]:
    """All YAML documents of these files, in order.

    Raises:
        ConfigError: A file cannot be read or is not YAML; each mistake is a line.
    """
    documents: list[Any] = []
    mistakes = []
    for path in paths:
        try:
            text = path.read_text("utf-8")
            documents += [each for each in yaml.safe_load_all(text) if each is not None]
        except UnicodeDecodeError as error:
            mistakes.append(f"{path}: not UTF-8 text (byte {error.start})")
        except OSError as error:
            mistakes.append(f"{path}: cannot be read: {error.strerror}")
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            mistakes.append(f"{path}: not YAML: {' '.join(str(error).split())}")
    if mistakes:
        raise ConfigError(mistakes)
    return documents


def imported_text(imported: Imported) -> str:
    """The configuration as YAML, below its notes as comments."""
    notes = "".join(f"# - {' '.join(note.split())}\n" for note in imported.notes)
    heading = "# Imported from node-operation-controller. Everything starts in dry run.\n"
    if notes:
        heading += "# To be looked at:\n" + notes
    body = yaml.safe_dump(dict(imported.config), sort_keys=False, width=100)
    return heading + (body if imported.config else "{}\n")
