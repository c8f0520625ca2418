"""The command `import`: manifests of node-operation-controller as a part of a configuration, on stdout."""

from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from chassis.errors import ConfigError
from remediator.importing import convert, imported_text, read_manifests


def import_manifests(files: Iterable[Path], out: TextIO, err: TextIO) -> int:
    """Print what the manifests become; the exit status."""
    try:
        documents = read_manifests(files)
    except ConfigError as error:
        err.writelines(f"{mistake}\n" for mistake in error.mistakes)
        return 2
    imported = convert(documents)
    out.write(imported_text(imported))
    return 1 if imported.notes else 0
