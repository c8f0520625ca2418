"""Keeps the self-signed certificate: in a Secret that all replicas share, in files, in the webhooks' caBundle.

Every replica does the same rounds; the Secret's resourceVersion decides whose step counts. Must not
decide when a certificate is renewed: `authority` does.
"""

import base64
import contextlib
import os
import tempfile
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from structlog.typing import FilteringBoundLogger

from chassis.errors import NodemendError, PermanentError, TemporaryError
from chassis.kube_client import (
    MUTATING_WEBHOOKS,
    SECRETS,
    VALIDATING_WEBHOOKS,
    AlreadyExists,
    Conflict,
    KubeClient,
    NotFound,
    Resource,
)
from gpu_admission.authority import Held, Policy, Step, carry_out, from_secret, next_step, to_secret
from gpu_admission.config import SelfSignedSettings

_ROUND = timedelta(seconds=60)
_AGAIN = timedelta(seconds=2)
_STEPS = 6
_OURS = {"app.kubernetes.io/managed-by": "nodemend-gpu-admission"}


class SelfSigned:
    """The rounds, in a thread of their own."""

    def __init__(
        self,
        client: KubeClient,
        settings: SelfSignedSettings,
        *,
        clock: Callable[[], datetime],
        log: FilteringBoundLogger,
    ) -> None:
        """Nothing is read yet."""
        self._client = client
        self._settings = settings
        self._clock = clock
        self._log = log
        self._held: Held | None = None
        self._problem: str | None = "no round has ended yet"
        self._told = ""
        self._stopping = threading.Event()
        self._look = threading.Event()
        self._thread: threading.Thread | None = None
        self._policy = Policy(
            _names(settings), settings.lifetime, settings.authority_lifetime, _settle(settings)
        )

    @property
    def certificate_file(self) -> Path:
        """Where the server's chain lies after the first round."""
        return self._settings.directory / "tls.crt"

    @property
    def key_file(self) -> Path:
        """Where its key lies."""
        return self._settings.directory / "tls.key"

    @property
    def why_not_ready(self) -> str | None:
        """What rounds fail at; None after a good one: what is served by then goes on being served."""
        return self._problem

    def look_now(self) -> None:
        """Ask for a round now. Safe in a signal handler."""
        self._look.set()

    def start(self) -> None:
        """Begin with the rounds."""
        self._thread = threading.Thread(target=self._run, name="self-signed", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it a few seconds."""
        self._stopping.set()
        self._look.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def first(self, stop: threading.Event) -> bool:
        """Rounds until there is a certificate; False if `stop` came first.

        Raises:
            PermanentError: We may not, or the directory cannot be written.
        """
        while not stop.is_set():
            try:
                self.round()
            except TemporaryError as error:
                self._note(str(error))
            if self._held is not None:
                return True
            stop.wait(_AGAIN.total_seconds())
        return False

    def _run(self) -> None:
        wait = _ROUND
        while True:
            self._look.wait(wait.total_seconds())
            self._look.clear()
            if self._stopping.is_set():
                return
            try:
                self.round()
                wait = _ROUND
            except NodemendError as error:
                self._note(str(error))
                wait = _AGAIN

    def _note(self, text: str) -> None:
        if text != self._told:
            self._log.warning("certificate_round_failed", error=text)
        self._told = text
        if self._problem is not None:
            self._problem = text

    def round(self) -> None:
        """Bring Secret, caBundles and files up to date, in this order: callers trust first.

        Raises:
            TemporaryError: The API is away or somebody else was faster; try again.
            PermanentError: It will not work by itself.
        """
        held = self._agreed()
        missing = self._publish(held.bundle)
        self._write(held)
        self._held = held
        if missing:
            self._note(f"there is no webhook configuration named {missing[0]}; apply the manifests")
        else:
            self._problem, self._told = None, ""

    def _agreed(self) -> Held:
        """What the Secret holds once no step is due; each step is stored before the next look."""
        for _ in range(_STEPS):
            stored = self._stored()
            read = None if stored is None else self._read(stored)
            known = read or self._held  # what somebody deleted or spoiled is put back
            step, why = next_step(known, self._policy, self._clock())
            if step is Step.NOTHING and read is not None:
                return read
            held = carry_out(step, known, self._policy, self._clock())
            if self._store(held, stored):
                self._log.info("certificate_step", step=str(step), why=why)
        raise TemporaryError("the Secret did not come to rest; other replicas may be writing it")

    def _stored(self) -> dict[str, Any] | None:
        with contextlib.suppress(NotFound):
            return self._client.get(SECRETS, self._settings.secret, self._settings.namespace)
        return None

    def _read(self, stored: dict[str, Any]) -> Held | None:
        try:
            return from_secret(stored.get("data") or {})
        except PermanentError as error:
            self._log.warning("certificate_secret_unusable", error=str(error))
            return None

    def _store(self, held: Held, stored: dict[str, Any] | None) -> bool:
        settings = self._settings
        meta: dict[str, Any] = {"name": settings.secret, "namespace": settings.namespace}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": to_secret(held)}
        try:
            if stored is None:
                meta["labels"] = _OURS
                self._client.create(SECRETS, body, settings.namespace)
            else:
                body = {**stored, "data": body["data"]}
                self._client.replace(SECRETS, body, settings.namespace)
        except (AlreadyExists, Conflict):
            return False
        return True

    def _publish(self, bundle: bytes) -> list[str]:
        """Write the bundle into all webhooks; the configurations that are not there."""
        missing = []
        for resource, names in (
            (MUTATING_WEBHOOKS, self._settings.mutating_webhooks),
            (VALIDATING_WEBHOOKS, self._settings.validating_webhooks),
        ):
            missing += [name for name in names if not self._published(resource, name, bundle)]
        return missing

    def _published(self, resource: Resource, name: str, bundle: bytes) -> bool:
        try:
            body = self._client.get(resource, name)
        except NotFound:
            return False
        text = base64.b64encode(bundle).decode()
        clients = [each["clientConfig"] for each in body.get("webhooks") or ()]
        if any(each.get("caBundle") != text for each in clients):
            for each in clients:
                each["caBundle"] = text
            self._client.replace(resource, body)
            self._log.info("ca_bundle_written", resource=resource.plural, name=name)
        return True

    def _write(self, held: Held) -> None:
        folder = self._settings.directory
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _put(self.key_file, held.server.key)
            _put(self.certificate_file, held.server.certificate)
        except OSError as error:
            raise PermanentError(
                f"self_signed.directory {folder}: {error.strerror}; mount an emptyDir there"
            ) from error


def _names(settings: SelfSignedSettings) -> tuple[str, ...]:
    name = f"{settings.service}.{settings.namespace}.svc"
    return name, f"{name}.cluster.local"


def _settle(settings: SelfSignedSettings) -> timedelta:
    """Long enough for each replica's next round, and short beside a certificate's life."""
    return max(3 * _ROUND, settings.lifetime / 24)


def _put(path: Path, content: bytes) -> None:
    """Replace a file's content in one step; it is readable for its owner only."""
    with contextlib.suppress(FileNotFoundError):
        if path.read_bytes() == content:
            return
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    Path(name).replace(path)
