"""One candidate of a leader election: stands, leads, renews, gives back."""

import math
import random
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from structlog.typing import FilteringBoundLogger

from chassis.errors import NodemendError
from chassis.kube_client import LEASES, AlreadyExists, Conflict, KubeClient, NotFound, Object
from chassis.kube_lease.term import (
    LEASE_DURATION,
    RENEW_DEADLINE,
    RETRY_PERIOD,
    LeaseTimes,
    Term,
)


class LeaderElection:
    """One candidate for the Lease `namespace/name`.

    `lead` runs in a thread of its own while this candidate leads. It must return soon after its
    term is set and look at it before each effect. When it returns or raises by itself, the Lease
    is given back and the candidate stands again.
    """

    def __init__(  # noqa: PLR0913 - composition in __main__, all by name
        self,
        client: KubeClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        lead: Callable[[Term], None],
        log: FilteringBoundLogger,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
        lease_duration: timedelta = LEASE_DURATION,
        renew_deadline: timedelta = RENEW_DEADLINE,
        retry_period: timedelta = RETRY_PERIOD,
    ) -> None:
        """Nothing is called before `start`.

        Args:
            client: Its rate limit must leave room for two calls each `retry_period`.
            namespace: Of the Lease.
            name: Of the Lease; it is made when there is none.
            identity: Who this is, different for each process that runs at a time. One that was
                restarted under the same identity leads at once.
            lead: What a leader does.
            log: Takes one line when leadership begins or ends.
            clock: The time that is written into the Lease.
            monotonic: Seconds that never go back.
            lease_duration: How long others wait for a silent leader.
            renew_deadline: How long a leader goes on without a successful renewal.
            retry_period: The pause between two tries.

        Raises:
            ValueError: The durations contradict each other, or the identity is empty.
        """
        if not identity:
            raise ValueError("a candidate needs an identity; empty means that nobody leads")
        self._times = LeaseTimes(lease_duration, renew_deadline, retry_period)
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._lead = lead
        self._log = log.bind(lease=f"{namespace}/{name}", identity=identity)
        self._clock = clock
        self._monotonic = monotonic
        self._stopping = threading.Event()
        self._term: Term | None = None
        self._held: Object | None = None  # the Lease as we last wrote it
        self._watched: tuple[str, float] | None = None  # another's version, and since when
        self._complaint: str | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this candidate leads right now."""
        term = self._term
        return term is not None and not term.is_set()

    def start(self) -> None:
        """Begin to stand for election."""
        self._thread = threading.Thread(target=self._run, name=f"lease-{self._name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the term, wait for `lead` to return, give the Lease back so that another leads at once.

        Waits no longer than the Lease lasts: if `lead` has not returned by then, nothing is given
        back and the Lease runs out by itself.
        """
        self._stopping.set()
        if (term := self._term) is not None:
            term.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=self._times.lease_duration.total_seconds())

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                deadline = self._deadline_from_now()
                if self._try_to_acquire():
                    self._serve(Term(self._monotonic, deadline))
            except NodemendError as error:
                self._complain(error)
            except Exception:  # noqa: BLE001 - a candidate that died in silence would never lead
                self._log.exception("lease_candidate_crashed")
            self._stopping.wait(self._pause())

    def _deadline_from_now(self) -> float:
        return self._monotonic() + self._times.renew_deadline.total_seconds()

    def _pause(self) -> float:
        # A little chance keeps candidates that started together from colliding each time.
        return self._times.retry_period.total_seconds() * (1 + 0.2 * random.random())  # noqa: S311

    def _complain(self, error: NodemendError) -> None:
        kind = type(error).__name__
        if kind != self._complaint:  # an outage is one line, not one each two seconds
            self._complaint = kind
            self._log.warning("lease_unreachable", error=str(error))

    # Standing.

    def _try_to_acquire(self) -> bool:
        """Whether the Lease is ours now.

        Raises:
            NodemendError: The API could not be asked, or refused.
        """
        try:
            found = self._client.get(
                LEASES, self._name, self._namespace, timeout=self._request_timeout()
            )
        except NotFound:
            if self._watched is not None and not self._was_silent("", self._patience()):
                return False  # somebody deleted it under a leader, who may not know yet
            return self._write(self._client.create, _new_lease(self._namespace, self._name))
        self._complaint = None
        if not self._is_free(found):
            return False
        return self._write(self._client.replace, found)

    def _request_timeout(self) -> timedelta:
        # So that one hanging request leaves time for another before the deadline.
        return self._times.renew_deadline / 3

    def _is_free(self, lease: Object) -> bool:
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") in {None, "", self._identity}:
            return True
        version = str(lease["metadata"].get("resourceVersion"))
        # Its holder may count on more than we would promise.
        promised = float(spec.get("leaseDurationSeconds") or 0)
        return self._was_silent(version, max(promised, self._patience()))

    def _patience(self) -> float:
        return self._times.lease_duration.total_seconds()

    def _was_silent(self, version: str, seconds: float) -> bool:
        """Whether we have seen nothing but this version for so long."""
        now = self._monotonic()
        if self._watched is None or self._watched[0] != version:
            self._watched = (version, now)
        return now - self._watched[1] >= seconds

    def _write(self, verb: Callable[..., Object], lease: Object) -> bool:
        """Store ourselves as the holder; False when another was faster."""
        body = {**lease, "spec": self._spec(lease.get("spec") or {})}
        try:
            self._held = verb(LEASES, body, self._namespace, timeout=self._request_timeout())
        except (Conflict, AlreadyExists):
            return False
        self._watched = None
        return True

    def _spec(self, before: dict[str, Any]) -> dict[str, Any]:
        now = _micro_time(self._clock())
        spec = {
            **before,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": math.ceil(self._patience()),
            "renewTime": now,
        }
        if before.get("holderIdentity") != self._identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(before.get("leaseTransitions") or 0) + 1
        return spec

    # Leading.

    def _serve(self, term: Term) -> None:
        """Lead until the term is over and `lead` has returned; then give the Lease back."""
        self._term = term
        if self._stopping.is_set():
            term.set()
        self._log.info("leadership_began")
        leading = threading.Thread(
            target=self._lead_once, args=(term,), name=f"lead-{self._name}", daemon=True
        )
        leading.start()
        while not term.wait(self._times.retry_period.total_seconds()):
            self._renew(term)
        # Standing again while the old leader still works would be two leaders in one process.
        leading.join(self._patience())
        while leading.is_alive() and not self._stopping.is_set():
            self._log.error("leader_does_not_stop")
            leading.join(self._patience())
        self._term = None
        self._log.info("leadership_ended")
        if not leading.is_alive():
            self._release()

    def _lead_once(self, term: Term) -> None:
        try:
            self._lead(term)
        except Exception:  # noqa: BLE001 - whatever it was, the Lease must be given back
            self._log.exception("leader_crashed")
        finally:
            term.set()

    def _renew(self, term: Term) -> None:
        deadline = self._deadline_from_now()
        try:
            renewed = self._held is not None and self._write(self._client.replace, self._held)
            if not renewed and not self._still_ours():
                term.set()
        except NotFound:
            term.set()  # deleted: another may make it anew at any moment
            return
        except NodemendError as error:
            self._complain(error)
            return
        if renewed:
            self._complaint = None
            term.extend(deadline)

    def _still_ours(self) -> bool:
        """After a conflict: somebody touched the Lease, maybe our own write whose answer was lost."""
        try:
            found = self._client.get(
                LEASES, self._name, self._namespace, timeout=self._request_timeout()
            )
        except NotFound:
            return False
        self._held = found
        return (found.get("spec") or {}).get("holderIdentity") == self._identity

    def _release(self) -> None:
        """Say that nobody leads, unless another has the Lease already."""
        try:
            # The second try is for a renewal of ours whose answer was lost.
            if not self._give_back() and self._still_ours():
                self._give_back()
        except NodemendError as error:
            self._log.info("lease_not_given_back", error=str(error))
        self._held = None

    def _give_back(self) -> bool:
        held = self._held
        if held is None or held["spec"].get("holderIdentity") != self._identity:
            return True
        spec = {**held["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
        body = {**held, "spec": spec}
        try:
            self._client.replace(LEASES, body, self._namespace, timeout=self._request_timeout())
        except Conflict:
            return False
        return True


def _new_lease(namespace: str, name: str) -> Object:
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": name, "namespace": namespace},
    }


def _micro_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
