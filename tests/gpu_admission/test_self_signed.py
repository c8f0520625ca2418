"""The self-signed certificate in a cluster: shared by replicas, put back when spoiled, written where callers look."""

import base64
import ssl
import stat
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from chassis.errors import NodemendError, PermanentError
from chassis.kube_client import MUTATING_WEBHOOKS, NAMESPACES, SECRETS, KubeClient, KubeSettings
from chassis.telemetry import get_logger
from gpu_admission.config import SelfSignedSettings
from gpu_admission.kube_cluster import SelfSigned
from sandbox.kubernetes_server import SandboxKubernetes

NAME = "nodemend-gpu-admission"


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def cluster() -> Iterator[SandboxKubernetes]:
    with SandboxKubernetes(controllers=False, scheduler=False) as running:
        yield running


@pytest.fixture
def client(cluster: SandboxKubernetes, tmp_path: Path) -> Iterator[KubeClient]:
    settings = KubeSettings(kubeconfig=cluster.kubeconfig(tmp_path / "kubeconfig"))
    made = KubeClient(settings, get_logger("test"))
    for namespace in ("nodemend",):
        made.create(
            NAMESPACES,
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        )
    yield made
    made.close()


def a_webhook() -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [
            {
                "name": f"{name}.nodemend.dev",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Ignore",
                "clientConfig": {"service": {"name": NAME, "namespace": "nodemend", "path": "/"}},
                "rules": [
                    {
                        "apiGroups": ["none.example.com"],
                        "apiVersions": ["*"],
                        "operations": ["CREATE"],
                        "resources": ["nothing"],
                    }
                ],
            }
            for name in ("a", "b")
        ],
    }


def a_replica(client: KubeClient, folder: Path, clock: Clock) -> SelfSigned:
    settings = SelfSignedSettings(directory=folder, validating_webhooks=())
    return SelfSigned(client, settings, clock=clock, log=get_logger("test"))


def bundles(client: KubeClient) -> set[bytes]:
    body = client.get(MUTATING_WEBHOOKS, NAME)
    return {base64.b64decode(each["clientConfig"]["caBundle"]) for each in body["webhooks"]}


def test_replicas_that_start_at_once_serve_one_authority(
    client: KubeClient, tmp_path: Path
) -> None:
    client.create(MUTATING_WEBHOOKS, a_webhook())
    replicas = [a_replica(client, tmp_path / str(number), Clock()) for number in range(4)]
    threads = [threading.Thread(target=each.first, args=(threading.Event(),)) for each in replicas]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    chains = {each.certificate_file.read_bytes() for each in replicas}
    assert len(chains) == 1
    assert len(bundles(client)) == 1
    [authority] = x509.load_pem_x509_certificates(bundles(client).pop())
    assert x509.load_pem_x509_certificate(chains.pop()).issuer == authority.subject


def test_the_files_are_a_pair_that_only_the_owner_reads(client: KubeClient, tmp_path: Path) -> None:
    replica = a_replica(client, tmp_path / "tls", Clock())
    replica.round()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(replica.certificate_file, replica.key_file)
    for path in (replica.certificate_file, replica.key_file):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_configuration_that_comes_later_gets_the_bundle_and_until_then_it_is_said(
    client: KubeClient, tmp_path: Path
) -> None:
    replica = a_replica(client, tmp_path, Clock())
    replica.round()
    assert replica.why_not_ready is not None
    assert NAME in replica.why_not_ready

    client.create(MUTATING_WEBHOOKS, a_webhook())
    replica.round()

    assert replica.why_not_ready is None
    assert len(bundles(client)) == 1


@pytest.mark.parametrize("how", ["deleted", "spoiled"])
def test_what_somebody_does_to_the_secret_is_undone(
    client: KubeClient, tmp_path: Path, how: str
) -> None:
    replica = a_replica(client, tmp_path, Clock())
    replica.round()
    before = client.get(SECRETS, f"{NAME}-tls", "nodemend")
    if how == "deleted":
        client.delete(SECRETS, f"{NAME}-tls", "nodemend")
    else:
        client.replace(SECRETS, {**before, "data": {"tls.crt": "bm8="}}, "nodemend")

    replica.round()

    assert client.get(SECRETS, f"{NAME}-tls", "nodemend")["data"] == before["data"]


def test_through_a_change_of_authority_the_bundle_holds_old_and_new(
    client: KubeClient, tmp_path: Path
) -> None:
    client.create(MUTATING_WEBHOOKS, a_webhook())
    clock = Clock()
    replica = a_replica(client, tmp_path, clock)
    replica.round()
    [first] = x509.load_pem_x509_certificates(bundles(client).pop())

    clock.now = first.not_valid_after_utc - timedelta(days=100)
    replica.round()
    assert len(x509.load_pem_x509_certificates(bundles(client).pop())) == 2
    assert served(replica).issuer == first.subject

    clock.now += timedelta(days=5)
    replica.round()
    both = x509.load_pem_x509_certificates(bundles(client).pop())
    assert first in both
    assert len(both) == 2
    assert served(replica).issuer != first.subject


def served(replica: SelfSigned) -> x509.Certificate:
    return x509.load_pem_x509_certificate(replica.certificate_file.read_bytes())


def test_while_the_api_is_away_what_is_served_stays(
    cluster: SandboxKubernetes, client: KubeClient, tmp_path: Path
) -> None:
    replica = a_replica(client, tmp_path, Clock())
    replica.round()
    before = served(replica)
    cluster.control.fail(100)

    with pytest.raises(NodemendError):
        replica.round()

    assert served(replica) == before


def test_a_directory_that_cannot_be_written_is_named(client: KubeClient, tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")

    with pytest.raises(PermanentError, match="mount an emptyDir"):
        a_replica(client, taken / "below", Clock()).round()
