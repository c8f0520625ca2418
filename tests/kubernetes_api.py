"""A real Kubernetes API for tests: etcd and kube-apiserver on loopback, with certificates that nobody else knows.

No kubelet runs, and controllers and scheduler only when asked for, so nothing else acts on what is stored. The API can be
killed, paused and started again. The programs are found as upstream's envtest finds them. It ends only what it started,
the API before its database.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

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
_AUDIT_POLICY, _AUDIT_LOG = "audit-policy.json", "audit.log"
_EGRESS = "egress.json"
_CONTROLLERS = (
    "*",
    "-node-lifecycle-controller",  # would taint nodes that no kubelet speaks for
    "-ttl-controller",  # would write to each new node at some moment
    "-persistentvolume-attach-detach-controller",  # nothing here has volumes
)


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


@dataclass(slots=True)
class _Servers:
    """The processes, replaced when one is started again."""

    etcd_url: str
    port: int
    etcd: programs.Program
    api: programs.Program | None = None


@dataclass(frozen=True, slots=True)
class KubernetesAPI:
    """A running API server. `kubeconfig` is the administrator's."""

    folder: Path
    url: str
    authority: Authority
    kubeconfig: Path
    _servers: _Servers

    def kill(self) -> None:
        """End the API server as a crash would; what it stored stays."""
        api = self._running()
        api.process.kill()
        api.process.wait()

    def pause(self) -> None:
        """Let it stop in the middle of whatever it does; connections stay open."""
        self._running().process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Go on after `pause`."""
        self._running().process.send_signal(signal.SIGCONT)

    def restart(self, *, new_history: bool = False) -> None:
        """Start the API server again on its port, running or not; wait until it is ready.

        Args:
            new_history: With an empty database, so that resource versions start over.
        """
        self.stop_api()
        if new_history:
            self._servers.etcd.stop()
            shutil.rmtree(self.folder / "etcd")
            self._servers.etcd = _start_etcd(self.folder, self._servers.etcd_url)
            self._servers.etcd.wait_until_ready(f"{self._servers.etcd_url}/health")
        self.start_api()

    def start_api(self) -> None:
        """Start the API server and wait until it is ready.

        Raises:
            ProgramError: It ended, or was not ready in time.
        """
        servers = self._servers
        servers.api = _start_apiserver(self.folder, self.authority, servers.etcd_url, servers.port)
        _wait_until_ready(self, servers.api)

    def stop_api(self) -> None:
        """Stop the API server, paused or not."""
        if self._servers.api is not None:
            if self._servers.api.process.poll() is None:
                self._servers.api.process.send_signal(signal.SIGCONT)
            self._servers.api.process.kill()  # its own way to stop waits for open watches
            self._servers.api.stop()

    def stop_etcd(self) -> None:
        """Stop the database, after the API."""
        self._servers.etcd.stop()

    def audited(self) -> list[dict[str, Any]]:
        """What was asked of the API so far, if it was started with an audit policy: audit.k8s.io/v1 Events."""
        lines = (self.folder / _AUDIT_LOG).read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def _running(self) -> programs.Program:
        assert self._servers.api is not None, "the API server was not started"
        return self._servers.api

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
def running_kubernetes_api(
    folder: Path,
    *,
    controllers: bool = False,
    scheduler: bool = False,
    audit_policy: Mapping[str, Any] | None = None,
    egress: Path | None = None,
) -> Iterator[KubernetesAPI]:
    """Start both in `folder` and wait until the API is ready; stop both at the end.

    Args:
        folder: Takes data, certificates and logs.
        controllers: Start the controller-manager, too, without the node lifecycle controller.
        scheduler: Start the scheduler, too.
        audit_policy: What `audited` tells, as an audit.k8s.io/v1 Policy; nothing is audited without.
        egress: A Unix socket whose CONNECT proxy the API server calls Services through; there is no cluster network.

    Raises:
        ProgramError: One of them ended, or was not ready in time.
    """
    authority = an_authority(folder / "certificates")
    if audit_policy is not None:
        (folder / _AUDIT_POLICY).write_text(json.dumps(audit_policy))
    if egress is not None:
        (folder / _EGRESS).write_text(json.dumps(_egress_through(egress)))
    with ExitStack() as stack:
        etcd_url = f"http://127.0.0.1:{programs.free_port()}"
        port = programs.free_port()
        servers = _Servers(etcd_url, port, _start_etcd(folder, etcd_url))
        url = f"https://127.0.0.1:{port}"
        api = KubernetesAPI(folder, url, authority, folder / "user-admin.kubeconfig", servers)
        stack.callback(api.stop_etcd)
        servers.etcd.wait_until_ready(f"{etcd_url}/health")
        api.kubeconfig_for("admin", [ADMINS])
        stack.callback(api.stop_api)
        api.start_api()
        if controllers:
            stack.enter_context(programs.running(_start_controllers(api)))
        if scheduler:
            stack.enter_context(programs.running(_start_scheduler(api)))
        yield api


def _start_controllers(api: KubernetesAPI) -> programs.Program:
    key = (api.folder / "certificates" / "service-accounts.key").resolve()
    arguments = [
        f"--kubeconfig={api.kubeconfig}",
        f"--controllers={','.join(_CONTROLLERS)}",
        f"--service-account-private-key-file={key}",
        f"--root-ca-file={api.authority.file}",
        *_component_flags(api),
    ]
    command = [str(find("kube-controller-manager")), *arguments]
    return programs.start("kube-controller-manager", command, api.folder)


def _start_scheduler(api: KubernetesAPI) -> programs.Program:
    arguments = [f"--kubeconfig={api.kubeconfig}", *_component_flags(api)]
    command = [str(find("kube-scheduler")), *arguments]
    return programs.start("kube-scheduler", command, api.folder)


def _component_flags(api: KubernetesAPI) -> list[str]:
    """Without election: there is one of each, and it must not leave when the API is away."""
    return [
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={programs.free_port()}",
        f"--authentication-kubeconfig={api.kubeconfig}",
        f"--authorization-kubeconfig={api.kubeconfig}",
        "--authentication-tolerate-lookup-failure=true",
    ]


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
    serving = _issued_once(authority, "kube-apiserver")
    accounts = _issued_once(authority, "service-accounts")
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
        *_audit_flags(folder),
        *_egress_flags(folder),
    ]
    return programs.start("kube-apiserver", [str(find("kube-apiserver")), *arguments], folder)


def _audit_flags(folder: Path) -> list[str]:
    if not (folder / _AUDIT_POLICY).exists():
        return []
    return [
        f"--audit-policy-file={folder / _AUDIT_POLICY}",
        f"--audit-log-path={folder / _AUDIT_LOG}",
        "--audit-log-mode=blocking-strict",  # what was answered is in the log
    ]


def _egress_flags(folder: Path) -> list[str]:
    file = folder / _EGRESS
    return [f"--egress-selector-config-file={file}"] if file.exists() else []


def _egress_through(socket: Path) -> dict[str, Any]:
    transport = {"uds": {"udsName": str(socket)}}
    connection = {"proxyProtocol": "HTTPConnect", "transport": transport}
    return {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": "cluster", "connection": connection}],
    }


def _issued_once(authority: Authority, name: str) -> Path:
    """A certificate that an API server started again has, too: tokens signed before stay good."""
    path = authority.folder / f"{name}.crt"
    return path if path.exists() else authority.issue(name)


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
