"""Certificates of our own making, on a real API server: two replicas from nothing, and an authority that ends under load."""

import base64
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from cryptography import x509

from gpu_admission.authority import Step, carry_out, to_secret
from tests.gpu_admission.served import Served
from tests.journeys.gpu_admission_certificates import (
    POLICY,
    Load,
    by_hand,
    ca_bundle,
    certificate_files,
    write_files,
)
from tests.journeys.gpu_admission_world import DEPLOY, NAME, NAMESPACE, World, a_world, rendered
from tests.journeys.service import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
SECRET = "nodemend-gpu-admission-tls"
CREATIONS = 200


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with a_world(tmp_path_factory.mktemp("certificates")) as one:
        yield one


@pytest.fixture
def world(started: World) -> Iterator[World]:
    """As nobody had ever started gpu_admission there."""
    yield started
    started.without_replicas()


def bundles(world: World) -> list[str]:
    """The caBundle of each webhook."""
    return [
        each["clientConfig"].get("caBundle", "")
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        for each in world.get(kind, NAME).body["webhooks"]
    ]


def authorities(world: World) -> int:
    """How many authorities callers trust; the same in each webhook."""
    (bundle,) = set(bundles(world))
    return len(x509.load_pem_x509_certificates(base64.b64decode(bundle))) if bundle else 0


def secret(world: World) -> dict[str, str]:
    found: dict[str, str] = world.get("Secret", SECRET, NAMESPACE).body.get("data", {})
    return found


def test_two_replicas_make_one_authority_and_the_api_server_trusts_both(world: World) -> None:
    assert authorities(world) == 0
    replicas = [world.a_replica(name) for name in ("first-0", "first-1")]

    world.start(*replicas)

    assert authorities(world) == 1
    assert len({each.folder.joinpath("tls", "tls.crt").read_bytes() for each in replicas}) == 1
    for each in replicas:
        world.doorway.lead_only_to(each.port)
        wait_until("an answer by each alone", world.answers)
        assert each.metric('gpu_admission_reviews_total{endpoint="/mutate-pods"')
    stored = secret(world)
    assert {"ca.crt", "ca.key", "tls.crt", "tls.key"} <= set(stored)
    for each in replicas:
        assert each.folder.joinpath("tls", "tls.key").stat().st_mode & 0o077 == 0
    trusted = bundles(world)
    world.apply(rendered(DEPLOY / "base"))
    assert bundles(world) == trusted, "applied again, the manifests leave the authorities alone"


def test_an_authority_that_ends_is_followed_by_another_without_one_failed_call(
    world: World,
) -> None:
    """The successor is trusted first and signs later; both replicas change while pods are created."""
    hold(world, ending_soon())
    replicas = [world.a_replica(name) for name in ("replica-0", "replica-1")]
    for each in replicas:
        shorten(each)
    world.start(*replicas)
    first = served_by(replicas)
    assert authorities(world) == 2, "the successor is to be trusted before it signs"

    with Load(world) as load:
        wait_until("the first to change", lambda: nudged(replicas, first) >= 1, 120)
        wait_until("both to change", lambda: nudged(replicas, first) == 2, 60)
        creations(load, 50)
        wait_until("enough of them", lambda: len(load.answers) > CREATIONS, 120)

    assert load.failed() == []
    assert len(load.answers) > CREATIONS
    assert changes(replicas) == [["certificate_changed"]] * 2


def test_cert_managers_certificate_is_renewed_without_one_failed_call(world: World) -> None:
    """New files twice: of the same authority, and of another one that callers trust already."""
    first = by_hand()
    folder = world.folder / "held"
    replica = world.a_replica("renewed", **certificate_files(folder, first))
    ca_bundle(world, first)
    world.start(replica)

    with Load(world) as load:
        for held in (by_hand(Step.CERTIFICATE, first), by_hand()):
            ca_bundle(world, first, held)
            creations(load, 40)  # the API server knows by then
            before = len(changes([replica])[0])
            write_files(folder, held)
            wait_until("the change", partial(_has_more, replica, before), 60)
        creations(load, 50)
        wait_until("enough of them", lambda: len(load.answers) > CREATIONS, 120)

    assert load.failed() == []


def test_a_replica_that_is_taken_away_fails_no_call(world: World) -> None:
    """As in a rollout: its Service leads elsewhere, it is asked to end, and its last callers hear of it."""
    first, second = world.a_replica("leaving"), world.a_replica("staying")
    world.start(first, second)

    with Load(world) as load:
        creations(load, 20)
        world.doorway.ports = (second.port,)
        assert first.terminate() == 0
        creations(load, 20)

    assert load.failed() == []


def creations(load: Load, more: int) -> None:
    """So many since now."""
    seen = len(load.answers)
    wait_until(f"{more} creations", lambda: len(load.answers) > seen + more, 120)


def _has_more(replica: Served, before: int) -> bool:
    return len(changes([replica])[0]) > before


def ending_soon() -> dict[str, str]:
    """An authority with little more left than its successor's time to become known, and a good certificate."""
    now, left = datetime.now(UTC), timedelta(seconds=240)
    held = carry_out(Step.FIRST, None, POLICY, now - POLICY.authority_lifetime + left)
    return to_secret(carry_out(Step.CERTIFICATE, held, POLICY, now))


def hold(world: World, data: dict[str, str]) -> None:
    body = {"kind": "Secret", "metadata": {"name": SECRET}, "type": "Opaque", "data": data}
    world.made(body, NAMESPACE)


def shorten(replica: Served) -> None:
    """Certificates that last as briefly as is allowed."""
    text = replica.config_file.read_text("utf-8")
    lines = "  lifetime: 1h\n  authority_lifetime: 4h\n"
    replica.config_file.write_text(text.replace("self_signed:\n", f"self_signed:\n{lines}"))


def served_by(replicas: list[Served]) -> list[bytes]:
    return [each.folder.joinpath("tls", "tls.crt").read_bytes() for each in replicas]


def nudged(replicas: list[Served], first: list[bytes]) -> int:
    """How many serve another certificate; they are asked to look, which they do each minute anyway."""
    for each in replicas:
        each.hang_up()
    time.sleep(0.5)  # not at each turn
    changed = [new != old for new, old in zip(served_by(replicas), first, strict=True)]
    return sum(
        change and bool(found) for change, found in zip(changed, changes(replicas), strict=True)
    )


def changes(replicas: list[Served]) -> list[list[str]]:
    return [
        [each["event"] for each in replica.log() if each.get("event") == "certificate_changed"]
        for replica in replicas
    ]
