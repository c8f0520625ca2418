"""Paths in the configuration file; relative ones start at the file's folder, as for secrets."""

import os
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, ValidationInfo

from chassis.config.fields import FOLDER


def _from_folder(value: Path, info: ValidationInfo) -> Path:
    return Path((info.context or {}).get(FOLDER, "")) / value


def _existing_file(value: Path, info: ValidationInfo) -> Path:
    path = _from_folder(value, info)
    if not path.is_file() or not os.access(path, os.R_OK):
        raise ValueError(f"cannot read the file {path}; correct the path or put the file there")
    return path


def _existing_folder(value: Path, info: ValidationInfo) -> Path:
    path = _from_folder(value, info)
    if not path.is_dir():
        raise ValueError(f"{path} is not a folder; correct the path or make the folder")
    return path


def _web_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or any(character.isspace() for character in value):
        raise ValueError("not a web address; write it like https://HOST[:PORT]/PATH")
    return value.rstrip("/")


NewPath = Annotated[Path, AfterValidator(_from_folder)]
ExistingFile = Annotated[Path, AfterValidator(_existing_file)]
ExistingFolder = Annotated[Path, AfterValidator(_existing_folder)]
WebURL = Annotated[str, AfterValidator(_web_url)]
