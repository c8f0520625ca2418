"""Who writes next on SQLite: webhooks and the worker alternate while both wait."""

import threading
import time

from alerts2gh.store.engines import Turns


def wait_until_waiting(turns: Turns, count: int) -> None:
    deadline = time.monotonic() + 10
    while sum(turns._waiting.values()) < count:
        assert time.monotonic() < deadline, "the writers did not come"
        time.sleep(0.001)


def test_webhooks_and_the_worker_alternate_while_both_wait() -> None:
    turns, order = Turns(), []

    def write(first: bool) -> None:
        with turns.take(first=first):
            order.append(first)

    threads = [threading.Thread(target=write, args=(n < 2,)) for n in range(4)]
    with turns.take():
        for thread in threads:
            thread.start()
        wait_until_waiting(turns, 4)
        assert order == []
    for thread in threads:
        thread.join(10)
    assert order == [True, False, True, False]


def test_a_turn_that_fails_is_over() -> None:
    turns = Turns()
    try:
        with turns.take(first=True):
            raise ValueError
    except ValueError:
        pass
    with turns.take(first=True):
        assert turns._busy
    assert not turns._busy
