"""Reading configurations for the commands: says what is wrong in one line a mistake."""

import argparse
from collections.abc import Iterator
from os import pathsep
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


def config_of(arguments: argparse.Namespace, kubeconfig: Path | None, err: TextIO) -> Config | None:
    """What a command for people works by, None after its mistakes were told.

    Without a file the defaults hold, and no playbook is known. `kubeconfig` is the caller's own, for when
    neither the command line nor the file names one.
    """
    config: Config | None = Config.model_construct(playbooks=())
    if arguments.config is not None:
        config = read_config(arguments.config, err)
    if config is None:
        return None
    given = config.kubernetes
    file = arguments.kubeconfig or given.kubeconfig or kubeconfig
    known = file is None or any(Path(each).is_file() for each in str(file).split(pathsep))
    if not known and not arguments.offline:
        err.write(f"there is no kubeconfig {file}; name one with --kubeconfig\n")
        return None
    way = {"kubeconfig": file, "context": arguments.context or given.context}
    return config.model_copy(update={"kubernetes": given.model_copy(update=way)})


def check_config(file: Path, out: TextIO, err: TextIO) -> int:
    """The command `check-config`; the exit status."""
    config = read_config(file, err)
    if config is None:
        return 2
    playbooks = _counted(len(config.playbooks), "playbook")
    out.write(f"{file}: usable: {playbooks}, {_counted(len(config.budgets), 'budget')}\n")
    out.writelines(f"{note}\n" for note in _notes(config))
    return 0


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _notes(config: Config) -> Iterator[str]:
    """What is allowed and may still not be what was meant."""
    if dry := [each.name for each in config.playbooks if config.dry_run or each.dry_run]:
        yield f"in dry run, so that nothing is touched: {', '.join(dry)}"
    if not config.budgets:
        yield "no budgets: only rate_limit and breaker bound how many nodes are out of service"
    if not config.breaker.enabled:
        yield "the breaker is switched off: nothing stops repairs when much of the fleet fails at once"
    if not config.alertmanagers:
        yield "no alertmanagers: silences hold nothing back, and no alert proves anything"
    yield from _unused(config)


def _unused(config: Config) -> Iterator[str]:
    windows = {name for each in config.playbooks for name in each.gates.windows}
    rungs = [rung for each in config.playbooks for rung in each.ladder]
    templates = {rung.repair.template for rung in rungs}
    for section, names, used in (
        ("windows", config.windows, windows),
        ("job_templates", config.job_templates, templates),
    ):
        if left := [name for name in names if name not in used]:
            yield f"{section}: no playbook uses {', '.join(left)}"
