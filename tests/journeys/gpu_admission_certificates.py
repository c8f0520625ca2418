"""Certificates for the webhook as cert-manager would make them: files, the CA in the webhooks; and a load to change them under."""

import base64
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from gpu_admission.authority import Held, Policy, Step, carry_out
from tests.journeys.gpu_admission_world import GPU, NAME, Answer, World, asking

SERVICE = "nodemend-gpu-admission.nodemend.svc"
NAMES = (SERVICE, f"{SERVICE}.cluster.local")
POLICY = Policy(NAMES, timedelta(hours=1), timedelta(hours=4))


def by_hand(step: Step = Step.FIRST, held: Held | None = None) -> Held:
    """An authority with a certificate for the Service, or what comes after it."""
    return carry_out(step, held, POLICY, datetime.now(UTC))


def certificate_files(folder: Path, held: Held) -> dict[str, Any]:
    """The configuration of one that serves these files; they change in one step each, key first."""
    write_files(folder, held)
    tls = {"cert_file": str(folder / "tls.crt"), "key_file": str(folder / "tls.key")}
    return {"self_signed": None, "tls": tls}


def write_files(folder: Path, held: Held) -> None:
    folder.mkdir(exist_ok=True)
    for name, content in (("tls.key", held.server.key), ("tls.crt", held.server.certificate)):
        fresh = folder / f"{name}.new"
        fresh.write_bytes(content)
        fresh.replace(folder / name)


def ca_bundle(world: World, *held: Held) -> None:
    """Write the authorities into each webhook, as cert-manager's injector does."""
    text = base64.b64encode(b"".join(each.bundle for each in held)).decode()
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        body = world.get(kind, NAME).body
        for each in body["webhooks"]:
            each["clientConfig"]["caBundle"] = text
        answer = world.replace(body)
        assert answer.code == 200, answer.message


class Load:
    """Dry-run creations by two users at once, who go on until they are told to stop."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stopping = threading.Event()
        self.answers: list[Answer] = []
        self._threads = [threading.Thread(target=self._submit) for _ in range(2)]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for each in self._threads:
            each.join()

    def _submit(self) -> None:
        pod = asking("any-24gb")
        while not self._stopping.is_set():
            self.answers.append(self._world.create(pod, dry_run=True))
            time.sleep(0.02)  # the pace of users; nothing is waited for

    def failed(self) -> list[str]:
        """Refusals, and pods that went past us because the call failed."""
        return [
            each.message or "not changed"
            for each in self.answers
            if each.code != 201 or GPU not in each.limits
        ]
