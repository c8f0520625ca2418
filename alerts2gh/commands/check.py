"""`check-config FILE`: whether a configuration can be used, one line a mistake."""

from pathlib import Path
from typing import TextIO

from alerts2gh.config import Config, walk
from chassis.config import load_settings
from chassis.errors import ConfigError

OK, UNUSABLE = 0, 2


def check_config(file: Path, out: TextIO, err: TextIO) -> int:
    """Say whether the file can be used; the exit status is 0 or 2."""
    config = read_config(file, err)
    if config is None:
        return UNUSABLE
    routes = sum(1 for _ in walk(config.route))
    out.write(
        f"{file}: can be used: {routes} route{'s' if routes > 1 else ''}, credentials"
        f" {', '.join(sorted(config.credentials))}, may write to"
        f" {', '.join(config.allowed_repositories)}\n"
    )
    return OK


def read_config(file: Path, err: TextIO) -> Config | None:
    """The configuration, or None once every mistake in it has been written to `err`."""
    try:
        return load_settings(file, Config)
    except ConfigError as error:
        err.writelines(f"{mistake}\n" for mistake in error.mistakes)
        return None
