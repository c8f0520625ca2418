"""Lists and runs the benchmarks: `python -m bench` for all, `python -m bench serving` for one."""

import argparse
import ast
import importlib
import os
import platform
import signal
import sys
from pathlib import Path


def benchmarks() -> dict[str, str]:
    """Names of the modules here that define `run`, with the first line of what they say."""
    found: dict[str, str] = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text())
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        if "run" in names and not path.name.startswith("_"):
            found[path.stem] = (ast.get_docstring(tree) or "").split("\n", 1)[0]
    return found


def machine() -> str:
    """The shape of this machine, without its name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cpus = len(os.sched_getaffinity(0))
    python = platform.python_version()
    return f"{cpus} CPUs ({platform.machine()}), {memory:.0f} GiB memory, Linux, Python {python}"


def main(arguments: list[str]) -> int:
    known = benchmarks()
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known) or "none yet")
    parser.add_argument("--list", action="store_true", help="say what there is and end")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(known)}")
    if options.list:
        print("\n".join(f"{name:<12} {says}" for name, says in known.items()))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # started servers end with us
    print(f"Machine: {machine()}.", flush=True)
    for name in options.names or known:
        print(f"\n## {name}\n", flush=True)
        print(importlib.import_module(f"bench.{name}").run(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
