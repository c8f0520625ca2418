"""Finds, starts and stops the real programs that the demo and the tests run against.

Prometheus, Alertmanager, our own services. It ends only what it started.
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_STOP_SECONDS = 10
HOW_TO_GET = {
    "prometheus": "Debian: apt-get install --no-install-recommends prometheus",
    "prometheus-alertmanager": "Debian: apt-get install --no-install-recommends prometheus-alertmanager",
    "amtool": "Debian: apt-get install --no-install-recommends prometheus-alertmanager",
    "promtool": "Debian: apt-get install --no-install-recommends prometheus",
    "postgres": "Debian: apt-get install --no-install-recommends postgresql",
}
_OTHER_NAMES = {"prometheus-alertmanager": ("alertmanager",)}


class ProgramError(Exception):
    """A program did not start, or ended by itself; the text has the end of what it printed."""


def find(name: str) -> str | None:
    """The path of a program, also under the name its project gives it; None when it is not installed."""
    for candidate in (name, *_OTHER_NAMES.get(name, ())):
        if path := shutil.which(candidate):
            return str(path)
    return None


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port that nothing listens on just now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


@dataclass(slots=True)
class Program:
    """A running child process and where it writes."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path

    def tail(self, lines: int = 15) -> str:
        """The last lines it printed."""
        text = self.output.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def wait_until_ready(self, url: str, seconds: float = 30) -> None:
        """Wait for a 2xx at `url`.

        Raises:
            ProgramError: It ended, or was not ready in time.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise ProgramError(
                    f"{self.name} ended with {self.process.returncode}:\n{self.tail()}"
                )
            if answers(url):
                return
            time.sleep(0.05)
        raise ProgramError(f"{self.name} was not ready at {url} in {seconds} s:\n{self.tail()}")

    def stop(self) -> int:
        """Ask it to end, insist after ten seconds; its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def answers(url: str) -> bool:
    """Whether a 2xx is to be had at `url` now."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 -- loopback, our own
            return bool(200 <= answer.status < 300)  # noqa: PLR2004
    except (urllib.error.URLError, OSError):
        return False


def start(
    name: str, arguments: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> Program:
    """Start a program whose output goes to a file in `folder`."""
    output = folder / f"{name}.log"
    with output.open("ab") as file:
        process = subprocess.Popen(
            list(arguments),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=dict(environment) if environment is not None else None,
            start_new_session=True,  # Ctrl-C reaches the demo alone, which then stops them in order
        )
    return Program(name, process, output)


@contextlib.contextmanager
def running(program: Program) -> Iterator[Program]:
    """Stop the program at the end of the block, whatever happens in it."""
    try:
        yield program
    finally:
        program.stop()


def start_alerts2gh(config: Path, folder: Path, name: str = "alerts2gh") -> Program:
    """`alerts2gh serve` from this installation, as a child process."""
    return start(
        name, [sys.executable, "-m", "alerts2gh", "serve", "--config", str(config)], folder
    )


def start_remediator(config: Path, folder: Path, name: str = "remediator") -> Program:
    """`remediator serve` from this installation, as a child process; it leads under its name."""
    command = [sys.executable, "-m", "remediator", "serve", "--config", str(config)]
    return start(name, command, folder, {**os.environ, "POD_NAME": name})


def start_gpu_admission(config: Path, folder: Path, name: str = "gpu-admission") -> Program:
    """`gpu-admission serve` from this installation, as a child process."""
    command = [sys.executable, "-m", "gpu_admission", "serve", "--config", str(config)]
    return start(name, command, folder)


def start_exporter(service: str, config: Path, folder: Path, name: str | None = None) -> Program:
    """`exporters SERVICE` from this installation, as a child process; it is named for the service."""
    command = [sys.executable, "-m", "exporters", service, "--config", str(config)]
    return start(name or service, command, folder)


def start_prometheus(config: Path, folder: Path, port: int) -> Program:
    """A Prometheus on loopback with its data in `folder`."""
    binary = _binary("prometheus")
    return start(
        "prometheus",
        [
            binary,
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'prometheus-data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--web.enable-lifecycle",
        ],
        folder,
    )


def start_alertmanager(
    config: Path,
    folder: Path,
    port: int,
    *,
    cluster: Sequence[str] = (),
    name: str = "alertmanager",
) -> Program:
    """An Alertmanager on loopback; `cluster` are gossip flags, without them it is alone."""
    binary = _binary("prometheus-alertmanager")
    return start(
        name,
        [
            binary,
            f"--config.file={config}",
            f"--storage.path={folder / f'{name}-data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            *(cluster or ("--cluster.listen-address=",)),
        ],
        folder,
    )


def start_github(folder: Path, port: int, *, repositories: Sequence[str] = ()) -> Program:
    """The sandbox GitHub in a process of its own, with its usual token."""
    wanted = [word for name in repositories for word in ("--repo", name)]
    command = [sys.executable, "-m", "sandbox", "github", "--listen", f"127.0.0.1:{port}", *wanted]
    return start("github", command, folder)


@contextlib.contextmanager
def running_postgres() -> Iterator[str]:
    """A PostgreSQL of its own with its usual settings (so with fsync); the URL of its one database.

    It listens on a Unix socket in a temporary folder. As it refuses root, root runs it as another user.

    Raises:
        ProgramError: It is not installed, or did not start.
    """
    programs = _postgres_programs()
    with tempfile.TemporaryDirectory(prefix="nodemend-pg-", dir="/tmp") as name:
        folder = Path(name)
        user = _unprivileged_user() if os.geteuid() == 0 else None
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        with _Postgres(programs, folder, user) as url:
            yield url


class _Postgres:
    """The server of `running_postgres`."""

    def __init__(self, programs: Path, folder: Path, user: pwd.struct_passwd | None) -> None:
        self._programs = programs
        self._folder = folder
        self._user: dict[str, Any] = (
            {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        )
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> str:
        options = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"]
        self._call("initdb", "-D", str(self._folder / "data"), "--no-sync", *options)
        settings = ["-c", f"unix_socket_directories={self._folder}", "-c", "listen_addresses="]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self._folder / "data"), *settings],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                **self._user,
            )
        try:
            self._wait()
        except ProgramError:
            self.__exit__()
            raise
        return f"postgresql://postgres@/postgres?host={self._folder}"

    def _wait(self) -> None:
        for _ in range(600):
            with contextlib.suppress(ProgramError):
                self._call("pg_isready", "-h", str(self._folder))
                return
            time.sleep(0.05)
        told = (self._folder / "log").read_text(errors="replace")
        raise ProgramError(f"postgres was not ready in time:\n{told}")

    def _call(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=self._folder, check=False, **self._user
        )
        if done.returncode != 0:
            raise ProgramError(f"{program} ended with {done.returncode}:\n{done.stderr}")

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # its fast shutdown: connections are cut
            self._process.wait(_STOP_SECONDS)


def _postgres_programs() -> Path:
    """The folder with postgres and initdb; Debian keeps it off the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), reverse=True)
    on_path = shutil.which("postgres")
    for each in (*found, *([Path(on_path).resolve()] if on_path else [])):
        if (each.parent / "initdb").exists():
            return each.parent
    raise ProgramError(f"postgres is not installed. {HOW_TO_GET['postgres']}")


def _unprivileged_user() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise ProgramError("postgres refuses to run as root, and there is no other user here")


def _binary(name: str) -> str:
    path = find(name)
    if path is None:
        raise ProgramError(f"{name} is not installed. {HOW_TO_GET[name]}")
    return path
