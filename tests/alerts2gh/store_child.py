"""A process that accepts parts from four threads as fast as it can and prints each one's number once acknowledged.

Run as `python -m tests.alerts2gh.store_child DATABASE FIRST [careless]`; killed by the test. `careless` is the
control: it acknowledges what is only queued.
"""

import os
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from threading import Thread

from alerts2gh.config import Database
from alerts2gh.store import SQLStore, open_store
from alerts2gh.store.inbox import Inbox
from alerts2gh.store.new_parts import NewPart
from tests.alerts2gh.store_builders import NOW, a_part, an_alert


def accept_forever(store: SQLStore, first: int) -> None:
    for n in count(first, 4):
        store.accept([a_part(f"A{n}", *[an_alert(f"node-{each}") for each in range(1 + n % 50)])])
        os.write(1, f"{n}\n".encode())


def _only_queue(_inbox: Inbox[NewPart], _rows: Sequence[NewPart], _size: int) -> None:
    return None


if __name__ == "__main__":
    database = Database(sqlite_file=Path(sys.argv[1]))
    if "careless" in sys.argv:
        Inbox.commit = _only_queue  # type: ignore[method-assign,assignment]  # the control run
    opened = open_store(database, now=lambda: NOW)
    for thread in range(4):
        Thread(target=accept_forever, args=(opened, int(sys.argv[2]) + thread)).start()
