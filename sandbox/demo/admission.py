"""gpu_admission as an admin sets it up for the demo: its files, and its registration with the embedded Kubernetes.

Decides nothing about pods. The webhooks are those of deploy/; as nothing routes to a Service here, they are called at
an address of this machine. The embedded Kubernetes calls them for pods without GPUs, too: it evaluates no conditions.
"""

import base64
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from chassis.kube_client import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, KubeClient, Resource
from sandbox.kubernetes_server.certificates import make_certificate

PREFIX = "preferred.jp/gpu-"
CATALOGUE = "catalogue.yaml"
_AUTHORITY, _CERTIFICATE, _KEY = (
    "gpu-admission-ca.pem",
    "gpu-admission.pem",
    "gpu-admission-key.pem",
)
_FILES = {
    "mutating_webhooks.yaml": MUTATING_WEBHOOKS,
    "validating_webhooks.yaml": VALIDATING_WEBHOOKS,
}
_TIMEOUT_SECONDS = 10
"""Longer than deploy/ has it: here one small machine runs everything."""


def configuration(
    folder: Path, kubeconfig: Path, *, port: int, monitoring_port: int
) -> dict[str, Any]:
    """Write certificate and catalogue into `folder`; the service's configuration for them."""
    made = make_certificate(urlsplit(_url(port)).hostname or "", "demo-gpu-admission")
    (folder / _AUTHORITY).write_bytes(made.authority_pem)
    (folder / _CERTIFICATE).write_bytes(made.certificate_pem)
    (folder / _KEY).touch(mode=0o600)
    (folder / _KEY).write_bytes(made.key_pem)
    (folder / CATALOGUE).write_text(_shipped(CATALOGUE), "utf-8")
    tls = {"cert_file": _CERTIFICATE, "key_file": _KEY}
    return {
        "catalogue_file": CATALOGUE,
        "kubernetes": {"kubeconfig": str(kubeconfig)},
        "serving": {"listen": f"127.0.0.1:{port}", "tls": tls, "drain": "2s"},
        "monitoring": {"listen": f"127.0.0.1:{monitoring_port}", "drain": "2s"},
        "capacity": {"enabled": False},  # the catalogue sets no CPUs aside
    }


def register(client: KubeClient, folder: Path, port: int) -> None:
    """Have the API server call the service whose `configuration` was made in `folder`.

    Raises:
        KubeTemporaryError, KubePermanentError: It does not take the registration.
    """
    authority = base64.b64encode((folder / _AUTHORITY).read_bytes()).decode()
    for resource, body in registrations(_url(port), authority):
        client.create(resource, body)


def registrations(url: str, authority: str) -> Iterator[tuple[Resource, dict[str, Any]]]:
    """deploy/'s webhook configurations for a service at `url`; `authority` in base64."""
    for name, resource in _FILES.items():
        body = yaml.safe_load(_shipped(name))
        hooks = [_at(url, authority, each) for each in body["webhooks"]]
        yield resource, {**body, "webhooks": hooks}


def _at(url: str, authority: str, webhook: Mapping[str, Any]) -> dict[str, Any]:
    path = webhook["clientConfig"]["service"]["path"]
    client_config = {"url": f"{url}{path}", "caBundle": authority}
    return {**webhook, "clientConfig": client_config, "timeoutSeconds": _TIMEOUT_SECONDS}


def _shipped(name: str) -> str:
    return resources.files("sandbox.demo").joinpath(name).read_text("utf-8")


def _url(port: int) -> str:
    return f"https://127.0.0.1:{port}"
