"""Reading files for the commands: says what is wrong in one line a mistake."""

from pathlib import Path
from typing import TextIO, TypeVar

from chassis.config import Settings, load_settings
from chassis.errors import ConfigError
from gpu_admission.catalogue import Catalogue, CatalogueSettings, compile_catalogue
from gpu_admission.config import AdmissionConfig

S = TypeVar("S", bound=Settings)


def _read(file: Path, model: type[S], err: TextIO) -> S | None:
    try:
        return load_settings(file, model)
    except ConfigError as error:
        err.writelines(f"{mistake}\n" for mistake in error.mistakes)
        return None


def read_catalogue(file: Path, err: TextIO) -> Catalogue | None:
    """The catalogue, None after its mistakes were told."""
    settings = _read(file, CatalogueSettings, err)
    return None if settings is None else compile_catalogue(settings)


def check_config(file: Path, out: TextIO, err: TextIO) -> int:
    """The command `check-config`; the exit status."""
    config = _read(file, AdmissionConfig, err)
    if config is None:
        return 2
    catalogue = read_catalogue(config.catalogue_file, err)
    if catalogue is None:
        return 2
    names = ", ".join(catalogue.names())
    out.write(f"{file}: usable\n")
    out.write(
        f"{config.catalogue_file}: usable: generation {catalogue.generation}, names {names}\n"
    )
    return 0
