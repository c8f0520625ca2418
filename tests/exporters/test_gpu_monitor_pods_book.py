"""Probe pods between what the watch has told and what was just done: none is forgotten, none is counted twice."""

from dataclasses import replace
from datetime import timedelta

from chassis.kube_watch import Change, ChangeKind
from exporters.gpu_monitor.pods_book import LastSeen, PodsBook
from exporters.probe_pods import Outcome, PodStage, PodView
from tests.exporters.probe_builders import NOW, a_pod_view

NEW = a_pod_view(stage=PodStage.WAITING)


class Watch:
    """What the watch holds, and what it tells."""

    def __init__(self) -> None:
        self.held: dict[str, PodView] = {}
        self.last = LastSeen()
        self.book = PodsBook(lambda: dict(self.held), self.last)

    def see(self, pod: PodView) -> None:
        old = self.held.get(pod.name)
        self.held[pod.name] = pod
        self.last.note(Change(ChangeKind.MODIFIED if old else ChangeKind.ADDED, pod.name, old, pod))

    def lose(self, name: str) -> None:
        self.last.note(Change(ChangeKind.DELETED, name, self.held.pop(name), None))


def test_a_pod_that_the_watch_has_not_told_of_yet_is_there() -> None:
    watch = Watch()
    watch.book.created(NEW, NOW)

    assert watch.book.look(NOW).pods == {NEW.name: NEW}


def test_a_pod_that_came_and_went_between_two_looks_has_vanished_with_its_last_words() -> None:
    watch = Watch()
    preempted = replace(NEW, trouble=Outcome.PREEMPTED)
    watch.book.created(NEW, NOW)
    for pod in (NEW, preempted):
        watch.see(pod)
    watch.lose(NEW.name)

    look = watch.book.look(NOW)

    assert (look.pods, look.vanished) == ({}, (preempted,))
    assert watch.book.look(NOW).vanished == ()


def test_a_pod_that_never_comes_counts_as_gone_at_last() -> None:
    watch = Watch()
    watch.book.created(NEW, NOW)

    assert watch.book.look(NOW + timedelta(seconds=60)).vanished == ()
    assert watch.book.look(NOW + timedelta(seconds=61)).vanished == (NEW,)


def test_a_pod_of_an_earlier_leader_is_adopted() -> None:
    watch = Watch()
    watch.see(NEW)

    assert watch.book.look(NOW).pods == {NEW.name: NEW}
    watch.lose(NEW.name)
    assert watch.book.look(NOW).vanished == (NEW,)


def test_a_settled_pod_does_not_vanish_and_is_removed_once() -> None:
    watch = Watch()
    watch.see(NEW)
    watch.book.look(NOW)
    assert not watch.book.must_be_removed(NEW)
    watch.book.settle(NEW)
    assert watch.book.must_be_removed(NEW)
    watch.book.removed(NEW)
    assert not watch.book.must_be_removed(NEW)

    watch.lose(NEW.name)

    assert watch.book.look(NOW).vanished == ()
