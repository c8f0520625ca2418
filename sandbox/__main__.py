"""Command line of the sandbox: `nodemend-sandbox github`, `… kubernetes`, `… nodes` and `… demo`.

The only module here that reads arguments, the environment and the clock. Each command's own code is imported when it
is asked for, so that none waits for the others'.
"""

import argparse
import os
import secrets
import signal
import sys
import threading
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from chassis.errors import ConfigError, NodemendError
from sandbox.github_server.running import (
    LOGIN,
    REPOSITORY,
    TOKEN,
    GitHubServer,
    prepare,
    utc_now,
)
from sandbox.github_server.state import GitHubState

FAILED = 1
WRONG_USE = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 0 went well, 1 it failed, 2 it was called wrongly."""
    words = sys.argv[1:] if argv is None else list(argv)
    arguments = _parser(words).parse_args(words)
    commands = {
        "demo": _demo,
        "github": _serve_github,
        "kubernetes": _serve_kubernetes,
        "nodes": _simulate_nodes,
    }
    try:
        return commands[arguments.command](arguments)
    except ConfigError as error:
        sys.stderr.write(f"nodemend-sandbox: {error}\n")
        return WRONG_USE
    except NodemendError as error:
        sys.stderr.write(f"nodemend-sandbox: {error}\n")
        return FAILED


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nodemend-sandbox",
        description="An embedded GitHub, an embedded Kubernetes with simulated nodes, and a demo of Nodemend on them.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_github(commands.add_parser("github", help="serve an embedded GitHub"))
    _add_kubernetes(commands.add_parser("kubernetes", help="serve an embedded Kubernetes API"))
    nodes = commands.add_parser("nodes", help="simulate nodes with GPUs on any Kubernetes API")
    if "nodes" in words:
        from sandbox.simulated_nodes import command  # noqa: PLC0415  (see above)

        command.add_arguments(nodes)
    demo = commands.add_parser(
        "demo", help="a GPU breaks, and its node is repaired, before your eyes"
    )
    demo.add_argument(
        "--once",
        action="store_true",
        default=bool(os.environ.get("ONCE")),
        help="check the end state and exit 0 or 1 (also by ONCE=1)",
    )
    demo.add_argument(
        "--break",
        dest="break_what",
        metavar="WHAT",
        default=os.environ.get("BREAK") or None,
        help="break something underneath, to see the check fail (also by BREAK=WHAT)",
    )
    return parser


def _add_github(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listen",
        default="127.0.0.1:8090",
        metavar="HOST:PORT",
        help="where to listen; port 0 picks a free one (default %(default)s)",
    )
    parser.add_argument(
        "--database",
        default="memory",
        metavar="FILE",
        help="SQLite file that keeps everything over a restart (default: memory)",
    )
    parser.add_argument(
        "--owner",
        default=REPOSITORY.split("/")[0],
        help="owner of repositories named without one (default %(default)s)",
    )
    parser.add_argument(
        "--repo",
        action="append",
        metavar="NAME",
        help=f"a repository to have, NAME or OWNER/NAME; may be given again (default {REPOSITORY})",
    )
    parser.add_argument(
        "--user",
        action="append",
        metavar="LOGIN",
        help="somebody who can be assigned; may be given again (default alice and bob)",
    )
    parser.add_argument(
        "--login", default=LOGIN, help="whom the token belongs to (default %(default)s)"
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help=f"file with the token to accept; made when absent (default: the token {TOKEN!r})",
    )


def _add_kubernetes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listen",
        default="127.0.0.1:8091",
        metavar="HOST:PORT",
        help="where to listen; port 0 picks a free one (default %(default)s)",
    )
    parser.add_argument(
        "--nodes", type=int, default=0, metavar="N", help="ready nodes to begin with (default 0)"
    )
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        default=Path("sandbox.kubeconfig"),
        metavar="FILE",
        help="where to write the administrator's kubeconfig (default %(default)s)",
    )
    parser.add_argument(
        "--tls", action="store_true", help="serve HTTPS, with an authority of its own"
    )
    parser.add_argument(
        "--rbac", action="store_true", help="enforce roles; without it everybody may do all"
    )


def _serve_github(arguments: argparse.Namespace) -> int:
    host, port = _address(arguments.listen)
    names = arguments.repo or [REPOSITORY.split("/")[1]]
    repositories = [name if "/" in name else f"{arguments.owner}/{name}" for name in names]
    database = None if arguments.database == "memory" else arguments.database
    state = GitHubState(utc_now, database)
    prepare(
        state,
        repositories,
        people=arguments.user or ("alice", "bob"),
        login=arguments.login,
        token=_token(arguments.token_file),
    )
    server = GitHubServer(state, host, port)
    stop = _stop_signal()
    server.start()
    for name in repositories:
        sys.stdout.write(f"sandbox GitHub: {server.url}/{name}/issues\n")
    sys.stdout.flush()
    stop.wait()
    server.stop()
    return 0


def _serve_kubernetes(arguments: argparse.Namespace) -> int:
    host, port = _address(arguments.listen)
    if arguments.nodes < 0:
        raise ConfigError([f"--nodes: {arguments.nodes} is below 0; write 0 or more"])
    from sandbox.kubernetes_server import SandboxKubernetes  # noqa: PLC0415  (see above)

    stop = _stop_signal()
    server = SandboxKubernetes(
        host=host, port=port, tls=arguments.tls or arguments.rbac, rbac=arguments.rbac
    )
    server.add_nodes(arguments.nodes)
    with server:
        try:
            server.kubeconfig(arguments.kubeconfig)
        except OSError as error:
            raise ConfigError(
                [f"--kubeconfig: {arguments.kubeconfig}: {error.strerror}; name another file"]
            ) from error
        sys.stdout.write(f"sandbox Kubernetes: {server.url}\n")
        sys.stdout.write(f"kubectl --kubeconfig {arguments.kubeconfig} get nodes\n")
        sys.stdout.flush()
        stop.wait()
    return 0


def _simulate_nodes(arguments: argparse.Namespace) -> int:
    from sandbox.simulated_nodes import command  # noqa: PLC0415  (see above)

    return command.run(arguments, utc_now)


def _stop_signal() -> threading.Event:
    """Set by Ctrl-C or SIGTERM."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _demo(arguments: argparse.Namespace) -> int:
    from sandbox import demo  # noqa: PLC0415  (see above)

    return demo.run(once=arguments.once, break_what=arguments.break_what)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not (colon and port.isdigit() and int(port) < 2**16):
        raise ConfigError([f"--listen: {text!r} is not HOST:PORT; write 127.0.0.1:8090"])
    return host.strip("[]") or "127.0.0.1", int(port)


def _token(file: Path | None) -> str:
    """The token in `file`; a file that is absent is made with a new one, for the owner's eyes only.

    Raises:
        ConfigError: the file is empty or cannot be read or made.
    """
    if file is None:
        return TOKEN
    try:
        if not file.exists():
            file.touch(mode=0o600)
            file.write_text(f"ghp_{secrets.token_hex(18)}\n", encoding="utf-8")
        token = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError([f"--token-file: {file}: {error.strerror}"]) from error
    if not token:
        raise ConfigError([f"--token-file: {file} is empty; put a token in it or remove it"])
    return token


def _version() -> str:
    try:
        return version("nodemend")
    except PackageNotFoundError:
        return "unknown (not installed)"


if __name__ == "__main__":
    sys.exit(main())
