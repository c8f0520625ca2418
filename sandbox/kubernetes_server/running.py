"""Runs a sandbox Kubernetes in this process: composes its parts, starts and stops it, seeds it with nodes."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sandbox.kubernetes_rules.resources import NODE, ResourceType
from sandbox.kubernetes_server import certificates, kubeconfigs, seeding
from sandbox.kubernetes_server.access import ADMINS, Token, Tokens, named_user
from sandbox.kubernetes_server.audit import AuditEntry
from sandbox.kubernetes_server.catalogue import Catalogue
from sandbox.kubernetes_server.cluster import Cluster
from sandbox.kubernetes_server.control import Control
from sandbox.kubernetes_server.controllers import Controllers
from sandbox.kubernetes_server.objects import Objects
from sandbox.kubernetes_server.service import Service
from sandbox.kubernetes_server.storage import Body, Event, Store
from sandbox.kubernetes_server.wire import WireServer

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


class SandboxKubernetes:
    """An embedded Kubernetes API on a port of this machine. Use as a context manager.

    Args:
        controllers: Whether garbage collection, Jobs, PodDisruptionBudgets, namespace deletion and
            the removal of pods of deleted nodes run.
        scheduler: Whether pending pods are put on nodes.
        tls: HTTPS with a certificate authority of its own, which `kubeconfig` carries. By default only
            with `rbac`: kubectl sends no token over plain HTTP.
        rbac: Whether roles are enforced; else everybody with a known token, or none, may do all.
        history: How many changes of each kind a new watch may start from; then it is 410.
        clock: The time on objects; waiting is in real time.
        host, port: Where to listen; 0 is a free port.
        bookmark_seconds: How often a watch gets a bookmark if it wants them.
    """

    def __init__(  # noqa: PLR0913  (all optional, all by keyword)
        self,
        *,
        controllers: bool = True,
        scheduler: bool = True,
        tls: bool | None = None,
        rbac: bool = False,
        history: int = 1000,
        clock: Clock = utc_now,
        host: str = "127.0.0.1",
        port: int = 0,
        bookmark_seconds: float = 60.0,
    ) -> None:
        self._switches = {"controllers": controllers, "scheduler": scheduler}
        self._clock = clock
        self._tls = certificates.make_tls(host) if (rbac if tls is None else tls) else None
        store = Store(history)
        catalogue = Catalogue(store)
        self._cluster = Cluster(
            store=store,
            catalogue=catalogue,
            objects=Objects(store, catalogue, clock),
            tokens=Tokens(),
            control=Control(store),
            rbac=rbac,
            bookmark_seconds=bookmark_seconds,
        )
        service = Service(self._cluster, clock)
        context = self._tls.context if self._tls else None
        self._server = WireServer(service.handle, host, port, context)
        self._controllers: Controllers | None = None
        seeding.seed(self._cluster.objects)
        self._admin_token = self.token("admin", [ADMINS])

    # Where, and as whom.

    @property
    def url(self) -> str:
        host = f"[{self._server.host}]" if ":" in self._server.host else self._server.host
        return f"{'https' if self._tls else 'http'}://{host}:{self._server.port}"

    @property
    def authority_pem(self) -> bytes | None:
        """The certificate of the authority; None without TLS."""
        return self._tls.authority_pem if self._tls else None

    @property
    def control(self) -> Control:
        return self._cluster.control

    def token(self, user: str, groups: Iterable[str] = ()) -> str:
        """A new token for this user, with no end."""
        return self._cluster.tokens.issue(Token(named_user(user, groups)))

    def kubeconfig(
        self, path: Path, *, user: str = "admin", groups: Iterable[str] | None = None
    ) -> Path:
        """Write a kubeconfig for a user (the administrator) to `path`; the server must have started."""
        token = self._admin_token if user == "admin" else self.token(user, groups or ())
        return kubeconfigs.write_kubeconfig(
            path, url=self.url, token=token, user=user, authority_pem=self.authority_pem
        )

    def client_settings(self) -> dict[str, Any]:
        """What an HTTP client needs: `url`, `token`, and `authority_pem` with TLS."""
        return {"url": self.url, "token": self._admin_token, "authority_pem": self.authority_pem}

    def log(
        self, after: int = 0, keep: Callable[[AuditEntry], bool] = lambda _: True
    ) -> list[AuditEntry]:
        return self.control.log(after, keep)

    def listen(self, listener: Callable[[str, Event], None]) -> None:
        """Tell `listener` of each change from now on, by the kind's name as in `nodes` or `jobs.batch`.

        It is called in the order of the versions, while the store is locked: it must only take note.
        """
        self._cluster.store.listen(listener)

    # The hands of the tests: no request, no admission webhook of theirs in between.

    def put(self, body: Mapping[str, Any]) -> Body:
        """Create an object as the system would; the answer is a copy of what is kept.

        Raises:
            Refusal: It is invalid or there.
        """
        kind = self._kind(body)
        namespace = str(body["metadata"].get("namespace") or "default") if kind.namespaced else ""
        complete = seeding.complete(kind, namespace, dict(body))
        return self._cluster.objects.create(kind, namespace, complete, seeding.SYSTEM).copy()

    def objects(self, plural: str, namespace: str = "") -> list[Body]:
        """Copies of all objects of a kind, named as in `nodes` or `jobs.batch`."""
        collection = self._cluster.store.collection(plural)
        return [record.copy() for record in collection.records(namespace)]

    def object(self, plural: str, name: str, namespace: str = "") -> Body | None:
        record = self._cluster.store.collection(plural).get((namespace, name))
        return record.copy() if record else None

    def versions(self, plural: str, name: str, namespace: str = "") -> list[Body]:
        """Copies of all that an object has been, oldest first, as a watch from the start would tell.

        Raises:
            ForgottenError: `history` was too short for it.
        """
        events = self._cluster.store.collection(plural).events_after(0)
        return [each.record.copy() for each in events if each.record.key == (namespace, name)]

    def add_nodes(self, count: int, template: Mapping[str, Any] | None = None) -> list[str]:
        """Make nodes `node-00000` and so on, going on after those that there are; their names.

        `template` is a Node; without a status the nodes are ready and have 8 CPUs and 32 GiB. The
        taint that every new node gets is taken away, as if a kubelet had reported.
        """
        start = len(self._cluster.store.collection(NODE.plural))
        names = [f"node-{number:05d}" for number in range(start, start + count)]
        seeding.add_nodes(self._cluster.objects, names, template or {})
        return names

    # Life.

    def start(self, *, keep: bool = True) -> None:
        """Listen, on the same port as before. Without `keep` the objects and the history are lost."""
        if not keep:
            self._cluster.store.clear()
            seeding.seed(self._cluster.objects)
        self._server.start()
        self._controllers = Controllers(self._cluster, **self._switches)
        self._controllers.start()

    def stop(self, *, forget_history: bool = False) -> None:
        """Cut all connections and stop listening, as a killed server; `start` brings it back."""
        self.control.end_epoch()
        self._server.stop()
        if self._controllers is not None:
            self._controllers.stop()
            self._controllers = None
        if forget_history:
            self._cluster.store.forget_history()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.control.clear_faults()
        self.stop()

    def _kind(self, body: Mapping[str, Any]) -> ResourceType:
        found = self._cluster.catalogue.of_kind(body["apiVersion"], body["kind"])
        if found is None:
            raise LookupError(f"no kind {body['kind']} in {body['apiVersion']} is served")
        return found
