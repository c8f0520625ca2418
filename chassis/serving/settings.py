"""What an operator can set about serving HTTP. Must not open or check anything but the text."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo

from chassis.config import Duration, Settings
from chassis.config.fields import FOLDER

_LISTEN = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:\[\]/]*)):(?P<port>\d{1,5})")
_LAST_PORT = 65_535


def parse_listen(listen: str) -> tuple[str, int]:
    """`HOST:PORT` as host and port; the host is empty for all addresses, IPv4 and IPv6.

    Raises:
        ValueError: It is not written as HOST:PORT, [IPv6]:PORT or :PORT.
    """
    found = _LISTEN.fullmatch(listen)
    if found is None or int(found["port"]) > _LAST_PORT:
        raise ValueError("write HOST:PORT, [IPv6]:PORT or :PORT for all addresses")
    return found["v6"] or found["host"] or "", int(found["port"])


def _checked_listen(listen: str) -> str:
    parse_listen(listen)
    return listen


def _beside_configuration(path: Path, info: ValidationInfo) -> Path:
    return Path((info.context or {}).get(FOLDER, "")) / path


PEMFile = Annotated[Path, AfterValidator(_beside_configuration)]
"""A path, relative to the folder of the configuration file; read when the server starts."""


class TLSSettings(Settings):
    """PEM files of the server's certificate; with `client_ca_file`, clients must show one too."""

    cert_file: PEMFile
    key_file: PEMFile
    client_ca_file: PEMFile | None = None


class ServingSettings(Settings):
    """Where and how to serve.

    `threads` requests run at once; a client that sends its body slowly holds one of them.
    `drain` is how long a stop waits for what still runs.
    """

    listen: Annotated[str, AfterValidator(_checked_listen)] = "127.0.0.1:8080"
    tls: TLSSettings | None = None
    threads: Annotated[int, Field(ge=2, le=512)] = 32
    drain: Duration = timedelta(seconds=20)
