"""A term of leadership ends by its own clock and never comes back."""

import threading
from datetime import timedelta

import pytest

from chassis.kube_client.limiter import RateLimiter
from chassis.kube_lease import Term
from chassis.kube_lease.term import LeaseTimes


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_term_is_over_once_its_deadline_has_passed_and_stays_so() -> None:
    clock = Clock()
    term = Term(clock, 110.0)
    assert (term.is_set(), term.remaining()) == (False, 10.0)

    clock.now = 110.0
    assert not term.extend(120.0), "a renewal that came too late"
    assert term.is_set()
    assert term.remaining() == 0.0


def test_a_renewal_in_time_moves_the_deadline() -> None:
    clock = Clock()
    term = Term(clock, 110.0)
    clock.now = 109.0

    assert term.extend(119.0)
    clock.now = 118.0
    assert not term.is_set()


def test_whoever_waits_is_woken_at_the_end() -> None:
    term = Term(Clock(), 110.0)
    woken = threading.Event()

    def wait() -> None:
        if term.wait(30):
            woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    term.set()

    assert woken.wait(5)
    thread.join(5)


def test_waiting_has_an_end_of_its_own() -> None:
    assert Term(Clock(), 110.0).wait(0) is False


@pytest.mark.parametrize(
    ("lease", "renew", "retry"), [(10, 10, 2), (15, 2, 2), (15, 10, 0), (0.9, 0.5, 0.1)]
)
def test_durations_that_could_let_two_lead_are_refused(
    lease: float, renew: float, retry: float
) -> None:
    with pytest.raises(ValueError, match="lease_duration"):
        LeaseTimes(*(timedelta(seconds=each) for each in (lease, renew, retry)))


def test_a_burst_goes_at_once_and_the_rest_at_the_given_rate() -> None:
    clock, waits = Clock(), []
    limiter = RateLimiter(10, 2, monotonic=clock, sleep=waits.append)

    for _ in range(4):
        limiter.acquire()
    clock.now += 10
    limiter.acquire()

    assert waits == pytest.approx([0.1, 0.2])


def test_without_a_rate_nobody_waits() -> None:
    waits: list[float] = []
    limiter = RateLimiter(0, 1, sleep=waits.append)

    for _ in range(100):
        limiter.acquire()

    assert waits == []
