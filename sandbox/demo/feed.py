"""Where the demo's alerts come from, seen by the story; and the source that needs nothing installed."""

import json
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Protocol

from sandbox.demo.story import Check

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sign:
    """Something to be seen on the way from the GPU to the alert: awaited as `what`, then told."""

    what: str
    told: str
    shown: Callable[[], bool]


class Feed(Protocol):
    """Makes the alert fire and resolve. Breaking and healing return at once; `signs` says what then shows."""

    node: str
    """The node whose GPU breaks."""

    def launch(self) -> None:
        """Start what it needs and return at once."""

    def wait(self, tell: Tell) -> None:
        """Tell what runs where, as it gets ready. Raises ProgramError: something does not."""

    def break_gpu(self) -> None: ...

    def heal_gpu(self) -> None: ...

    def signs(self, *, broken: bool) -> tuple[Sign, ...]: ...

    def checks(self) -> tuple[Check, ...]: ...

    def stop(self) -> None: ...


class RecordedFeed:
    """Posts webhooks that a real Alertmanager once sent; each later firing starts a minute after the one before."""

    node = "gpu-n1"

    def __init__(self, webhook_url: str, token: str) -> None:
        self._url = webhook_url
        self._token = token
        self._times = 0

    def launch(self) -> None:
        """Nothing to start."""

    def wait(self, tell: Tell) -> None:
        tell(
            "Alerts come from recorded webhooks, as Prometheus and Alertmanager are not installed."
        )

    def stop(self) -> None:
        """Nothing to stop."""

    def break_gpu(self) -> None:
        self._times += 1
        self._post("firing.json")

    def heal_gpu(self) -> None:
        self._post("resolved.json")

    def signs(self, *, broken: bool) -> tuple[Sign, ...]:  # noqa: ARG002  (as Feed)
        """None: there is no node behind a recording."""
        return ()

    def checks(self) -> tuple[Check, ...]:
        """None, as for `signs`."""
        return ()

    def _post(self, name: str) -> None:
        body = resources.files("sandbox").joinpath("recorded", name).read_text(encoding="utf-8")
        webhook = json.loads(body)
        for alert in webhook["alerts"]:
            for key in ("startsAt", "endsAt"):
                alert[key] = _later(alert[key], minutes=self._times - 1)
        request = urllib.request.Request(  # noqa: S310 -- loopback
            self._url,
            data=json.dumps(webhook).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"},
        )
        with urllib.request.urlopen(request, timeout=10):  # noqa: S310
            pass


def _later(instant: str, minutes: int) -> str:
    if instant.startswith("0001"):
        return instant
    hours, rest = instant[11:13], instant[14:16]
    total = int(hours) * 60 + int(rest) + minutes
    return f"{instant[:11]}{total // 60:02d}:{total % 60:02d}{instant[16:]}"
