"""A PostgreSQL server of its own for a test run: in a temporary folder, on a Unix socket, gone afterwards."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

HOW_TO_GET_IT = "no PostgreSQL server here; get it by: apt-get install postgresql"
_START_SECONDS = 60


def binaries() -> Path | None:
    """The folder that holds initdb and postgres, if there is one."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), reverse=True)
    on_path = shutil.which("postgres")
    candidates = [*found, *([Path(on_path).resolve()] if on_path else [])]
    return next((each.parent for each in candidates if (each.parent / "initdb").exists()), None)


class PostgresServer:
    """Runs as `postgres` (or `nobody`) when the tests run as root, since PostgreSQL refuses root."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="nodemend-pg-", dir="/tmp"))
        self._as_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = _unprivileged()
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self._as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._initialise()
            self.start()
        except BaseException:
            self.remove()
            raise

    def _initialise(self) -> None:
        options = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"]
        made = subprocess.run(
            [self._programs / "initdb", "-D", self.folder / "data", "--no-sync", *options],
            capture_output=True,
            text=True,
            cwd=self.folder,
            check=False,
            **self._as_user,
        )
        assert made.returncode == 0, made.stderr

    def start(self) -> None:
        settings = [f"unix_socket_directories={self.folder}", "listen_addresses=", "fsync=off"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._programs / "postgres",
                    *("-D", self.folder / "data"),
                    *[word for setting in settings for word in ("-c", setting)],
                ],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self._as_user,
            )
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
            except psycopg.OperationalError:
                log = (self.folder / "log").read_text(errors="replace")
                assert self._process is not None
                assert self._process.poll() is None, log
                assert time.monotonic() < deadline, log
                time.sleep(0.02)
            else:
                return

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def new_database(self) -> str:
        """The URL of a new empty database."""
        name = f"test_{uuid4().hex}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        return self.url(name)

    def stop(self) -> None:
        """End the server at once, connections and all."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_START_SECONDS)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)


def _unprivileged() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise AssertionError("PostgreSQL refuses to run as root, and there is no other user here")
