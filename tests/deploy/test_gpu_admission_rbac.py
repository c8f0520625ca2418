"""gpu_admission with nothing but its service account's token: it is refused nothing, and has no right that it does not use.

Compared both ways with the API server's own audit log, for the base and for the overlay with cert-manager.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.exporters_cluster import Audit, allowed, apply, namespace_exists, wait_for_rights
from tests.gpu_admission.served import Served
from tests.journeys.gpu_admission_certificates import by_hand, ca_bundle, certificate_files
from tests.journeys.gpu_admission_world import (
    ACCOUNT,
    CPU_RESOURCE,
    DEPLOY,
    NAME,
    NAMESPACE,
    World,
    a_node,
    a_world,
    add_node,
    rendered,
)
from tests.journeys.service import wait_until
from tests.kubernetes_api import KubernetesAPI

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
WHO = f"--as=system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
SECRET = "nodemend-gpu-admission-tls"


def catalogue() -> dict[str, Any]:
    shipped = yaml.safe_load((DEPLOY / "base" / "catalogue.yaml").read_text("utf-8"))
    return {**shipped, "cpu_policy": {"capacity": [{"cpus": 2}]}}


@pytest.fixture
def base(tmp_path: Path) -> Iterator[World]:
    with a_world(tmp_path) as one:
        add_node(one, a_node("n1"))
        yield one


@pytest.fixture
def overlay(tmp_path: Path) -> Iterator[World]:
    deployed = DEPLOY / "overlays" / "cert-manager"
    with a_world(tmp_path, deployed, leave_out=("Certificate", "Issuer")) as one:
        add_node(one, a_node("n1"))
        yield one


def rights_of(folder: Path) -> set[tuple[str, str, str, str]]:
    return allowed(rendered(folder))


def test_with_a_certificate_of_its_own_making(base: World) -> None:
    rights = rights_of(DEPLOY / "base")
    wait_for_rights(base.api, ACCOUNT, rights - named(DEPLOY / "base"))
    audit = Audit(base.api, ACCOUNT)
    served = base.a_replica("replica-0")
    served.catalogue(catalogue())

    base.start(served)
    keeps_capacity(base)
    before = base.get("Secret", SECRET, NAMESPACE).body["data"]
    spoiled = {**base.get("Secret", SECRET, NAMESPACE).body, "data": {}}
    assert base.replace(spoiled, NAMESPACE).code == 200
    served.hang_up()
    wait_until("it to be put back", lambda: secret_of(base) == before)

    wait_until("each right to be used", lambda: rights <= audit.deeds(), 30)
    assert audit.refusals() == []
    assert audit.deeds() == rights


def secret_of(world: World) -> Any:
    return world.get("Secret", SECRET, NAMESPACE).body.get("data")


def keeps_capacity(world: World) -> None:
    wait_until(
        "the node's capacity",
        lambda: CPU_RESOURCE in world.get("Node", "n1").body["status"]["capacity"],
        30,
    )


def named(folder: Path) -> set[tuple[str, str, str, str]]:
    """Rights for objects of one name, about which a question without a name is answered with no."""
    return allowed(
        {**role, "rules": [each for each in role["rules"] if "resourceNames" in each]}
        for role in rendered(folder)
        if role["kind"].endswith("Role")
    )


def test_with_a_certificate_from_cert_manager_it_needs_less(overlay: World) -> None:
    folder = DEPLOY / "overlays" / "cert-manager"
    rights = rights_of(folder)
    assert not {"secrets", "mutatingwebhookconfigurations"} & {each[2] for each in rights}
    wait_for_rights(overlay.api, ACCOUNT, rights)
    audit = Audit(overlay.api, ACCOUNT)
    held = by_hand()
    served: Served = overlay.a_replica(
        "replica-0", **certificate_files(overlay.folder / "held", held)
    )
    served.catalogue(catalogue())
    ca_bundle(overlay, held)

    overlay.start(served)
    keeps_capacity(overlay)

    wait_until("each right to be used", lambda: rights <= audit.deeds(), 30)
    assert audit.refusals() == []
    assert audit.deeds() == rights


def test_nothing_of_others_can_be_changed(kubernetes: KubernetesAPI) -> None:
    """What the roles do not say, put as questions."""
    namespace_exists(kubernetes)
    apply(kubernetes, [each for each in rendered(DEPLOY / "base") if "Role" in each["kind"]])
    question = ("auth", "can-i", "get", f"secrets/{SECRET}", f"--namespace={NAMESPACE}", WHO)
    wait_until("the roles", lambda: kubernetes.kubectl(*question).stdout.strip() == "yes")
    for verb, what in (
        ("update", "mutatingwebhookconfigurations.admissionregistration.k8s.io/other"),
        ("delete", f"mutatingwebhookconfigurations.admissionregistration.k8s.io/{NAME}"),
        ("get", "secrets/other"),
        ("list", "secrets"),
        ("patch", "nodes/n1"),
        ("delete", "pods/any"),
        ("create", "pods"),
        ("get", "secrets/nodemend-gpu-admission-tls --namespace=default"),
    ):
        words = [verb, *what.split()]
        if not any(each.startswith("--namespace") for each in words):
            words.append(f"--namespace={NAMESPACE}")
        done = kubernetes.kubectl("auth", "can-i", WHO, *words)
        assert done.stdout.strip() == "no", (verb, what)
