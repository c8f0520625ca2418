"""A real Kubernetes API for tests: etcd and kube-apiserver on loopback, with certificates that nobody else knows.

No controller, scheduler or kubelet runs, so nothing acts on what is stored. The programs are found as upstream's envtest
finds them. It ends only what it started, the API before its database.
"""

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sandbox import programs
from tests.chassis.certificates import Authority, an_authority

HOW_TO_GET = (
    "upstream's setup-envtest brings etcd, kube-apiserver and kubectl: `setup-envtest use`,"
    " then set KUBEBUILDER_ASSETS to the folder it names"
)
ADMINS = "system:masters"
_DEFAULT_FOLDER = Path("/usr/local/kubebuilder/bin")
_START_SECONDS = 60


def find(name: str) -> Path | None:
    """The path of one of envtest's programs; None when it is not there."""
    path = Path(os.environ.get("KUBEBUILDER_ASSETS") or _DEFAULT_FOLDER) / name
    if path.is_file():
        return path
    found = programs.find(name)
    return Path(found) if found else None


def missing(*names: str) -> str | None:
    """Why these programs cannot be used, with how to get them; None when all are there."""
    absent = [name for name in names if find(name) is None]
    return f"no {', '.join(absent)} here; {HOW_TO_GET}" if absent else None


@dataclass(frozen=True, slots=True)
class KubernetesAPI:
    """A running API server. `kubeconfig` is the administrator's."""

    folder: Path
    url: str
    authority: Authority
    kubeconfig: Path

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Write a kubeconfig for a user whom RBAC knows by this name and these groups."""
        certificate, key = _client_pem(self.authority, user, groups)
        stem = "".join(each if each.isalnum() else "-" for each in user)
        for suffix, content in ((".crt", certificate), (".key", key)):
            (self.folder / f"user-{stem}{suffix}").write_bytes(content)
        entry = {
            "client-certificate": str(self.folder / f"user-{stem}.crt"),
            "client-key": str(self.folder / f"user-{stem}.key"),
        }
        cluster = {"server": self.url, "certificate-authority": str(self.authority.file)}
        path = self.folder / f"user-{stem}.kubeconfig"
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "test", "cluster": cluster}],
                    "users": [{"name": user, "user": entry}],
                    "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
                    "current-context": "test",
                }
            )
        )
        return path

    def kubectl(
        self, *arguments: str, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator; whether it worked is in the result."""
        return subprocess.run(
            [str(find("kubectl")), f"--kubeconfig={self.kubeconfig}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=_START_SECONDS,
        )


@contextmanager
def running_kubernetes_api(folder: Path) -> Iterator[KubernetesAPI]:
    """Start both in `folder` and wait until the API is ready; stop both at the end.

    Raises:
        ProgramError: One of them ended, or was not ready in time.
    """
    authority = an_authority(folder / "certificates")
    with ExitStack() as stack:
        etcd_url = f"http://127.0.0.1:{programs.free_port()}"
        etcd = stack.enter_context(programs.running(_start_etcd(folder, etcd_url)))
        etcd.wait_until_ready(f"{etcd_url}/health")
        port = programs.free_port()
        server = _start_apiserver(folder, authority, etcd_url, port)
        stack.enter_context(programs.running(server))
        url = f"https://127.0.0.1:{port}"
        api = KubernetesAPI(folder, url, authority, folder / "user-admin.kubeconfig")
        api.kubeconfig_for("admin", [ADMINS])
        _wait_until_ready(api, server)
        yield api


def _start_etcd(folder: Path, url: str) -> programs.Program:
    peers = f"http://127.0.0.1:{programs.free_port()}"
    arguments = [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
    ]
    return programs.start("etcd", [str(find("etcd")), *arguments], folder)


def _start_apiserver(
    folder: Path, authority: Authority, etcd_url: str, port: int
) -> programs.Program:
    serving = authority.issue("kube-apiserver")
    accounts = authority.issue("service-accounts")
    arguments = [
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'apiserver'}",
        f"--tls-cert-file={serving}",
        f"--tls-private-key-file={serving.with_suffix('.key')}",
        f"--client-ca-file={authority.file}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={accounts}",
        f"--service-account-signing-key-file={accounts.with_suffix('.key')}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",  # nothing here would make the accounts
        "--allow-privileged=true",
        "--endpoint-reconciler-type=none",
    ]
    return programs.start("kube-apiserver", [str(find("kube-apiserver")), *arguments], folder)


def _wait_until_ready(api: KubernetesAPI, server: programs.Program) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        answer = api.kubectl("get", "--raw", "/readyz")
        if answer.returncode == 0:
            return
        if server.process.poll() is not None or time.monotonic() > deadline:
            raise programs.ProgramError(
                f"kube-apiserver is not ready: {answer.stderr}\n{server.tail()}"
            )
        time.sleep(0.1)


def _client_pem(authority: Authority, user: str, groups: Sequence[str]) -> tuple[bytes, bytes]:
    """A client's certificate and key: Kubernetes takes the user from CN and the groups from O."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in groups]
    name.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(name))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(pem), private
