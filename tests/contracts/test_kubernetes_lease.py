"""Of several candidates at most one leads at any moment, whatever happens to the API or to the leader."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import structlog

from chassis.kube_client import LEASES, KubeClient
from chassis.kube_lease import LeaderElection, Term
from tests.contracts.kubernetes_peers import KubernetesPeer, now, wait_for

TIMES = {
    "lease_duration": timedelta(seconds=3),
    "renew_deadline": timedelta(seconds=2),
    "retry_period": timedelta(milliseconds=300),
}


class Candidate:
    """Leads by writing down when: `spans` are the times of the first and the last look at each term."""

    def __init__(self, client: KubeClient, lease: str, identity: str) -> None:
        self.spans: list[tuple[float, float]] = []
        self.leading = threading.Event()
        self.work: Callable[[Term], None] = self._until_the_end
        self.election = LeaderElection(
            client,
            namespace="default",
            name=lease,
            identity=identity,
            lead=self._lead,
            log=structlog.get_logger(),
            clock=now,
            **TIMES,
        )

    def _lead(self, term: Term) -> None:
        self.work(term)

    def _until_the_end(self, term: Term) -> None:
        began = seen = time.monotonic()
        self.leading.set()
        while not term.wait(0.01):
            seen = time.monotonic()
        self.leading.clear()
        self.spans.append((began, seen))


@contextmanager
def candidates(peer: KubernetesPeer, lease: str, count: int) -> Iterator[list[Candidate]]:
    with ExitStack() as stack:
        made = [Candidate(peer.client(), lease, f"c{number}") for number in range(count)]
        for each in made:
            stack.callback(each.election.stop)
            each.election.start()
        yield made


def the_leader(all_of_them: list[Candidate]) -> Candidate:
    def only_one() -> Candidate | None:
        leading = [each for each in all_of_them if each.leading.is_set()]
        return leading[0] if leading else None

    leader: Candidate = wait_for(only_one, "one leads")
    return leader


def assert_no_overlap(all_of_them: list[Candidate]) -> None:
    spans = sorted(span for each in all_of_them for span in each.spans)
    for earlier, later in pairwise(spans):
        assert earlier[1] <= later[0], f"two led at a time: {spans}"


def test_one_of_three_leads_and_the_others_take_over_in_turn(
    kubernetes_peer: KubernetesPeer,
) -> None:
    with candidates(kubernetes_peer, "turns", 3) as everybody:
        left = list(everybody)
        while left:
            leader = the_leader(left)
            assert [each for each in left if each.election.is_leader] == [leader]
            stopped = time.monotonic()
            leader.election.stop()
            left.remove(leader)
            if left:
                the_leader(left)
                # Given back, not run out.
                assert time.monotonic() - stopped < TIMES["lease_duration"].total_seconds() / 2

    assert_no_overlap(everybody)
    assert len([span for each in everybody for span in each.spans]) == 3


def test_the_lease_says_who_leads_and_that_nobody_does(
    kubernetes_peer: KubernetesPeer, kube: KubeClient
) -> None:
    with candidates(kubernetes_peer, "told", 1) as everybody:
        the_leader(everybody)
        spec = kube.get(LEASES, "told", "default")["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("c0", 3)

    assert not kube.get(LEASES, "told", "default")["spec"].get("holderIdentity")


def test_a_leader_that_cannot_renew_stops_before_another_may_lead(
    kubernetes_peer: KubernetesPeer,
) -> None:
    with kubernetes_peer.relayed() as (client, relay), ExitStack() as stack:
        isolated = Candidate(client, "isolated", "isolated")
        stack.callback(isolated.election.stop)
        isolated.election.start()
        the_leader([isolated])
        other = Candidate(kubernetes_peer.client(), "isolated", "other")
        stack.callback(other.election.stop)
        other.election.start()

        cut = time.monotonic()
        relay.cut()
        wait_for(lambda: not isolated.election.is_leader, "it gives up")
        gave_up = time.monotonic() - cut
        the_leader([other])
        relay.mend()
        wait_for(lambda: isolated.spans, "its work has ended")

    assert gave_up <= TIMES["renew_deadline"].total_seconds() + 0.5
    assert_no_overlap([isolated, other])


def test_a_killed_api_ends_the_term_and_somebody_leads_once_it_is_back(
    kubernetes_peer: KubernetesPeer,
) -> None:
    with candidates(kubernetes_peer, "killed", 2) as everybody:
        leader = the_leader(everybody)
        kubernetes_peer.kill()
        wait_for(lambda: not leader.election.is_leader, "the term ends without the API")
        wait_for(lambda: leader.spans, "its work ends")
        kubernetes_peer.restart()
        the_leader(everybody)

    assert_no_overlap(everybody)


def test_a_short_outage_does_not_end_the_term(kubernetes_peer: KubernetesPeer) -> None:
    with kubernetes_peer.relayed() as (client, relay):
        candidate = Candidate(client, "short", "c0")
        candidate.election.start()
        try:
            the_leader([candidate])
            relay.cut()
            time.sleep(0.5)  # the outage itself, not a wait for something
            relay.mend()
            until = time.monotonic() + 2 * TIMES["renew_deadline"].total_seconds()
            wait_for(lambda: time.monotonic() > until, "two deadlines pass")
            assert candidate.election.is_leader
            assert candidate.spans == []
        finally:
            candidate.election.stop()


def test_a_paused_api_ends_the_term_in_time(kubernetes_peer: KubernetesPeer) -> None:
    with candidates(kubernetes_peer, "paused-api", 2) as everybody:
        leader = the_leader(everybody)
        began = time.monotonic()
        kubernetes_peer.pause()
        try:
            wait_for(lambda: leader.spans, "its work ends")
            assert time.monotonic() - began < TIMES["renew_deadline"].total_seconds() + 0.5
        finally:
            kubernetes_peer.resume()
        the_leader(everybody)

    assert_no_overlap(everybody)


PAUSED_LEADER = """
import sys, time
from datetime import UTC, datetime, timedelta
from pathlib import Path
import structlog
from chassis.kube_client import KubeClient, KubeSettings
from chassis.kube_lease import LeaderElection

def lead(term):
    while not term.is_set():
        print(f"effect {time.monotonic()}", flush=True)
        time.sleep(0.01)
    print("over", flush=True)

structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=sys.stderr))
client = KubeClient(KubeSettings(kubeconfig=Path(sys.argv[1])), structlog.get_logger())
LeaderElection(
    client, namespace="default", name="paused", identity="paused", lead=lead,
    log=structlog.get_logger(), clock=lambda: datetime.now(UTC),
    lease_duration=timedelta(seconds=3), renew_deadline=timedelta(seconds=2),
    retry_period=timedelta(milliseconds=300),
).start()
time.sleep(120)
"""


def test_a_leader_that_slept_through_its_lease_does_nothing_when_it_wakes(
    kubernetes_peer: KubernetesPeer, tmp_path: Path
) -> None:
    output = tmp_path / "effects"
    with output.open("wb") as file:
        child = subprocess.Popen(
            [sys.executable, "-c", PAUSED_LEADER, str(kubernetes_peer.kubeconfig)],
            stdout=file,
            cwd=Path(__file__).parents[2],
        )
    other = Candidate(kubernetes_peer.client(), "paused", "other")
    try:
        wait_for(lambda: b"effect" in output.read_bytes(), "the child leads", 30)
        other.election.start()
        child.send_signal(signal.SIGSTOP)
        the_leader([other])
        took_over = time.monotonic()
        child.send_signal(signal.SIGCONT)
        wait_for(lambda: b"over" in output.read_bytes(), "the child notices")
    finally:
        other.election.stop()
        child.kill()
        child.wait()

    effects = [float(line.split()[1]) for line in output.read_text().splitlines() if " " in line]
    # One effect may have begun before the pause; none begins after waking.
    assert [each for each in effects if each > took_over] == []


def test_work_that_ends_by_itself_gives_the_lease_back(
    kubernetes_peer: KubernetesPeer, kube: KubeClient
) -> None:
    def crash(_term: Term) -> None:
        raise RuntimeError("a bug")

    candidate = Candidate(kube, "crashes", "c0")
    candidate.work = crash
    candidate.election.start()
    try:

        def released() -> bool:
            found: list[dict[str, Any]] = kube.list(LEASES, "default").items
            mine = [each["spec"] for each in found if each["metadata"]["name"] == "crashes"]
            return bool(mine) and not mine[0].get("holderIdentity")

        wait_for(released, "nobody leads")
        candidate.work = candidate._until_the_end
        the_leader([candidate])
    finally:
        candidate.election.stop()


def test_a_lease_deleted_under_its_leader_makes_no_second_one(
    kubernetes_peer: KubernetesPeer, kube: KubeClient
) -> None:
    with candidates(kubernetes_peer, "deleted", 2) as everybody:
        the_leader(everybody)
        time.sleep(0.7)  # so that the other has seen the lease held
        kube.delete(LEASES, "deleted", "default")
        wait_for(lambda: any(each.spans for each in everybody), "the leader steps down")
        the_leader(everybody)

    assert_no_overlap(everybody)
