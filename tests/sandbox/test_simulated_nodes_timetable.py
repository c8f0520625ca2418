"""The timetable of simulated nodes: order within a lane, lanes beside each other, mistakes contained."""

import threading
from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import capture_logs

from sandbox.simulated_nodes.timetable import Timetable


@pytest.fixture
def timetable() -> Iterator[Timetable]:
    made = Timetable(structlog.get_logger(), workers=4)
    made.start()
    yield made
    made.stop()


def test_tasks_of_a_lane_run_in_order_and_never_two_at_once(timetable: Timetable) -> None:
    running = threading.Lock()
    seen: list[int] = []
    done = threading.Event()

    def task(number: int) -> None:
        assert running.acquire(blocking=False)
        seen.append(number)
        running.release()
        if number == 499:
            done.set()

    for number in range(500):
        timetable.now("lane", lambda n=number: task(n))  # type: ignore[misc]

    assert done.wait(10)
    assert seen == list(range(500))


def test_a_lane_that_waits_holds_up_no_other(timetable: Timetable) -> None:
    release, other = threading.Event(), threading.Event()
    timetable.now("slow", lambda: release.wait(10) and None)
    timetable.now("quick", other.set)

    assert other.wait(10)
    release.set()


def test_what_is_due_first_runs_first_and_what_is_cancelled_never(timetable: Timetable) -> None:
    seen: list[str] = []
    done = threading.Event()
    timetable.after(0.2, "lane", lambda: (seen.append("second"), done.set())[1])
    timetable.after(0.05, "lane", lambda: seen.append("first"))
    timetable.after(0.1, "lane", lambda: seen.append("cancelled")).cancel()

    assert done.wait(10)
    assert seen == ["first", "second"]


def test_a_task_that_raises_is_logged_and_the_next_one_runs(timetable: Timetable) -> None:
    done = threading.Event()

    def mistaken() -> None:
        raise RuntimeError("a mistake")

    with capture_logs() as logs:
        timetable.now("lane", mistaken)
        timetable.now("lane", done.set)
        assert done.wait(10)

    assert [(each["event"], each["lane"]) for each in logs] == [("simulated_task_failed", "lane")]
