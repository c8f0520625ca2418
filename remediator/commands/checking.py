"""Reading configurations for the commands: says what is wrong in one line a mistake."""

from pathlib import Path
from typing import TextIO

from chassis.config import load_settings
from chassis.errors import ConfigError
from remediator.config import Config


def read_config(file: Path, err: TextIO) -> Config | None:
    """The configuration, None after its mistakes were told."""
    try:
        return load_settings(file, Config)
    except ConfigError as error:
        err.writelines(f"{mistake}\n" for mistake in error.mistakes)
        return None


def check_config(file: Path, out: TextIO, err: TextIO) -> int:
    """The command `check-config`; the exit status."""
    config = read_config(file, err)
    if config is None:
        return 2
    dry = [each.name for each in config.playbooks if config.dry_run or each.dry_run]
    out.write(f"{file}: {len(config.playbooks)} playbooks, {len(config.budgets)} budgets: usable\n")
    if dry:
        out.write(f"in dry run, so that nothing is touched: {', '.join(dry)}\n")
    return 0
