"""Probe pods between what the watch has told and what we have just done; notices those that went. Knows no API.

A pod may be preempted and gone between two looks, so its last words are kept as the watch tells them.
"""

from collections import deque
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta

from chassis.kube_watch import Change
from exporters.probe_pods import PodView

_GONE_KEPT = 1000
_LAG = timedelta(seconds=60)
"""How long a pod that we created may be missing from the watch before it counts as gone."""


@dataclass(frozen=True, slots=True)
class Look:
    """The pods that there are, by name, and those that went since the last look without being settled."""

    pods: Mapping[str, PodView]
    vanished: tuple[PodView, ...]


class LastSeen:
    """How each pod last looked in the watch, whose thread calls `note`; `take` may be called from another."""

    def __init__(self) -> None:
        self._pods: dict[str, PodView] = {}
        self._gone: deque[str] = deque(maxlen=_GONE_KEPT)

    def note(self, change: Change[PodView]) -> None:
        """A change of a pod; the last state of one that is deleted stays until it is taken."""
        pod = change.new or change.old
        if pod is not None:
            self._pods[pod.uid] = pod
        if change.old is not None and (change.new is None or change.new.uid != change.old.uid):
            self._gone.append(change.old.uid)

    def is_gone(self, uid: str) -> bool:
        return uid in self._gone

    def take(self, uid: str) -> PodView | None:
        return self._pods.pop(uid, None)

    def forget_all_but(self, uids: AbstractSet[str]) -> None:
        for uid in list(self._pods):
            if uid not in uids:
                self._pods.pop(uid, None)


class PodsBook:
    """The probe pods of one term of leadership; for one thread."""

    def __init__(self, cached: Callable[[], Mapping[str, PodView]], last: LastSeen) -> None:
        self._cached = cached
        self._last = last
        self._created: dict[str, tuple[PodView, datetime]] = {}
        self._known: dict[str, PodView] = {}
        self._settled: set[str] = set()
        self._removed: set[str] = set()
        self._ended: dict[str, datetime] = {}

    def look(self, now: datetime) -> Look:
        """All pods as known now; those that an earlier leader made are among them."""
        pods = {pod.name: pod for pod in self._cached().values()}
        for name, (pod, since) in list(self._created.items()):
            if name in pods or self._last.is_gone(pod.uid) or now - since > _LAG:
                del self._created[name]
            else:
                pods[name] = pod
        uids = {pod.uid for pod in pods.values()}
        gone = [pod for uid, pod in self._known.items() if uid not in uids]
        vanished = tuple(
            self._last.take(pod.uid) or pod for pod in gone if pod.uid not in self._settled
        )
        self._last.forget_all_but(uids)
        self._known = {pod.uid: pod for pod in pods.values()}
        self._settled &= uids
        self._removed &= uids
        self._ended = {uid: since for uid, since in self._ended.items() if uid in uids}
        return Look(pods, vanished)

    def created(self, pod: PodView, now: datetime) -> None:
        """We have made it; the watch will tell of it."""
        self._created[pod.name] = (pod, now)
        self._known[pod.uid] = pod

    def settle(self, pod: PodView) -> None:
        """Nothing more is expected of it."""
        self._settled.add(pod.uid)

    def is_settled(self, pod: PodView) -> bool:
        return pod.uid in self._settled

    def removed(self, pod: PodView) -> None:
        """Its deletion was asked for."""
        self._removed.add(pod.uid)

    def must_be_removed(self, pod: PodView) -> bool:
        """Whether all is known of it and it lies there still."""
        uid = pod.uid
        return uid in self._settled and uid not in self._removed and not pod.is_deleting

    def ended_for(self, pod: PodView, now: datetime) -> timedelta:
        """How long we have known that it has ended."""
        return now - self._ended.setdefault(pod.uid, now)
