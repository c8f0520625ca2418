"""What the tests of deploy/ run against: the programs that will read these files, and a Kubernetes API."""

from collections.abc import Iterator

import pytest

from sandbox import programs
from tests import kubernetes_api
from tests.kubernetes_api import KubernetesAPI, running_kubernetes_api

ACCOUNTS_ONLY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}
"""An audit policy: what service accounts do."""


def _program(name: str) -> str:
    path = programs.find(name)
    if path is None:
        pytest.skip(f"{name} is not installed. {programs.HOW_TO_GET[name]}")
    return path


@pytest.fixture(scope="session")
def promtool() -> str:
    return _program("promtool")


@pytest.fixture(scope="session")
def amtool() -> str:
    return _program("amtool")


@pytest.fixture(scope="session")
def kubectl() -> str:
    why_not = kubernetes_api.missing("kubectl")
    if why_not is not None:
        pytest.skip(why_not)
    return str(kubernetes_api.find("kubectl"))


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesAPI]:
    why_not = kubernetes_api.missing("etcd", "kube-apiserver", "kubectl")
    if why_not is not None:
        pytest.skip(why_not)
    folder = tmp_path_factory.mktemp("kubernetes")
    with running_kubernetes_api(folder, audit_policy=ACCOUNTS_ONLY) as api:
        yield api
