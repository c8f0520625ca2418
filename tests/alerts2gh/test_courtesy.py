"""The worker lets webhooks pass, and is never held up for good."""

import threading
import time
from datetime import timedelta

from alerts2gh.worker import Courtesy

LONG = timedelta(seconds=60)


def test_with_no_webhook_under_way_nothing_waits() -> None:
    courtesy = Courtesy(LONG)
    with courtesy.serving():
        pass

    started = time.monotonic()
    courtesy.give_way()

    assert time.monotonic() - started < 30


def test_the_worker_goes_on_when_the_last_webhook_is_answered() -> None:
    courtesy = Courtesy(LONG)
    passed = threading.Event()

    def work() -> None:
        courtesy.give_way()
        passed.set()

    with courtesy.serving():
        with courtesy.serving():
            worker = threading.Thread(target=work)
            worker.start()
        assert not passed.wait(0.05)
    worker.join(30)
    assert passed.is_set()


def test_webhooks_without_end_do_not_hold_it_up_for_good() -> None:
    courtesy = Courtesy(timedelta(milliseconds=10))
    passed = threading.Event()

    def work() -> None:
        courtesy.give_way()
        courtesy.give_way()
        passed.set()

    with courtesy.serving():
        worker = threading.Thread(target=work, daemon=True)
        worker.start()
        assert passed.wait(30)
    worker.join(30)
