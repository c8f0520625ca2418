"""What the agent must know again after a restart: memories, condition states, the place in the kernel's log.

Written whole and atomically. A file that cannot be used is told and left behind: then the node's own conditions are
taken over. Judges nothing.
"""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from chassis.errors import PermanentError, TemporaryError
from exporters.verdict import ConditionState, Memory, dump_state, load_state

_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Saved:
    """The content.

    `boot_id` is that of the states; memories tell their own. `positions` are places in the kernel's log, by reader.
    """

    boot_id: str
    node_uid: str = ""
    memories: Mapping[str, Memory] = field(default_factory=dict)
    states: Mapping[str, ConditionState] = field(default_factory=dict)
    positions: Mapping[str, int] = field(default_factory=dict)
    probes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def read_state(path: Path) -> Saved | None:
    """The content of the file, None if there is none.

    Raises:
        PermanentError: It is not what this version writes; it was moved aside.
        TemporaryError: It cannot be read now.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TemporaryError(f"cannot read {path}: {error.strerror}") from error
    try:
        return _saved(orjson.loads(raw))
    except (ValueError, KeyError, TypeError, AttributeError, PermanentError) as error:
        aside = path.with_name(f"{path.name}.unusable")
        with contextlib.suppress(OSError):
            path.replace(aside)
        raise PermanentError(f"{path} is not a state file of this version: {error}") from error


def write_state(path: Path, saved: Saved) -> None:
    """Replace the file; after it returns, the content outlives a crash of the machine.

    Raises:
        TemporaryError: It cannot be written.
    """
    body = orjson.dumps(_data(saved), option=orjson.OPT_NON_STR_KEYS)
    unfinished = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise TemporaryError(f"cannot write {path}: {error.strerror}") from error


def _data(saved: Saved) -> dict[str, Any]:
    return {
        "schema": _SCHEMA,
        "boot_id": saved.boot_id,
        "node_uid": saved.node_uid,
        "memories": dict(saved.memories),
        "states": {kind: dump_state(state) for kind, state in saved.states.items()},
        "positions": dict(saved.positions),
        "probes": dict(saved.probes),
    }


def _saved(data: Any) -> Saved:
    if data["schema"] != _SCHEMA:
        raise PermanentError(f"its schema is {data['schema']}, not {_SCHEMA}")
    return Saved(
        boot_id=str(data["boot_id"]),
        node_uid=str(data["node_uid"]),
        memories={str(name): dict(each) for name, each in data["memories"].items()},
        states={str(kind): load_state(each) for kind, each in data["states"].items()},
        positions={str(name): int(each) for name, each in data["positions"].items()},
        probes={
            str(uuid): {str(k): float(v) for k, v in each.items()}
            for uuid, each in data["probes"].items()
        },
    )
