"""Stands in for Prometheus and Alertmanager where they are not installed: from the exporter's metrics to webhooks.

It knows the one rule that `rules` has, and neither groups, silences nor repeats. Only the demo uses it.
"""

import contextlib
import hashlib
import json
import threading
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from sandbox.demo.monitoring import rules
from sandbox.demo.services import ALERT, Receivers

_LOOK_SECONDS = 0.5
_METRIC = "nodemend_node_condition"
_NEVER = "0001-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class _Firing:
    """An alert about a node; `ended` is empty while it fires."""

    node: str
    started: str
    ended: str = ""


class AlertFeed:
    """Looks at the metrics and tells both receivers what fires and what is over, until they take it."""

    description = (
        "Prometheus and Alertmanager are not both installed, so a small feed stands in for them:"
        " it reads the metrics and sends what they would send."
    )
    reads = "the feed"

    def __init__(self, metrics_url: str, receivers: Receivers) -> None:
        self._metrics_url = metrics_url
        token = receivers.token_file.read_text("utf-8")
        self._receivers: Mapping[str, str] = {
            receivers.issues_webhook: f"Bearer {token}",
            receivers.repairs_webhook: "",
        }
        self._alerts: dict[str, _Firing] = {}
        self._told: dict[tuple[str, str], _Firing] = {}
        self._values: dict[str, list[bool]] = {}
        self._looked = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="alert-feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait(self) -> None:
        """Wait for its first look at the metrics."""
        self._looked.wait()

    def stop(self) -> None:
        self._stopping.set()
        self._looked.set()
        if self._thread.is_alive():
            self._thread.join()

    def changes(self, node: str) -> int:
        """How often the metric has changed."""
        return max(0, len(self._values.get(node, ())) - 1)

    def alerted(self) -> set[str]:
        """The nodes for which the alert has fired."""
        return set(self._alerts)

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            with contextlib.suppress(OSError, ValueError):  # the next look may do better
                self._look()
                self._looked.set()
            for url in self._receivers:
                self._tell(url)

    def _look(self) -> None:
        with urllib.request.urlopen(self._metrics_url, timeout=5) as answer:  # noqa: S310 -- loopback
            text = str(answer.read(), "utf-8")
        for node, is_true in _states(text).items():
            values = self._values.setdefault(node, [is_true])
            if values[-1] is not is_true:
                values.append(is_true)
            self._judge(node, is_true=is_true)

    def _judge(self, node: str, *, is_true: bool) -> None:
        known = self._alerts.get(node)
        fires = known is not None and not known.ended
        if is_true and not fires:
            self._alerts[node] = _Firing(node, _now())
        elif known is not None and fires and not is_true:
            self._alerts[node] = _Firing(node, known.started, _now())

    def _tell(self, url: str) -> None:
        for node, alert in self._alerts.items():
            if self._told.get((url, node)) != alert:
                with contextlib.suppress(OSError):  # it is told again at the next look
                    self._post(url, _webhook(alert))
                    self._told[url, node] = alert

    def _post(self, url: str, body: Mapping[str, Any]) -> None:
        headers = {"Content-Type": "application/json"}
        if authorization := self._receivers[url]:
            headers["Authorization"] = authorization
        data = json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, headers=headers)  # noqa: S310 -- loopback
        with urllib.request.urlopen(request, timeout=10):  # noqa: S310
            pass


def _states(text: str) -> dict[str, bool]:
    """Whether the condition is true, by node."""
    samples = (
        sample
        for family in text_string_to_metric_families(text)
        if family.name == _METRIC
        for sample in family.samples
    )
    wanted = {"condition": ALERT, "status": "true"}
    return {
        sample.labels["node"]: sample.value == 1
        for sample in samples
        if wanted.items() <= sample.labels.items()
    }


def _webhook(alert: _Firing) -> dict[str, Any]:
    """What Alertmanager would send."""
    rule = rules()["groups"][0]["rules"][0]
    named: Callable[[str], str] = lambda text: text.replace("{{ $labels.node }}", alert.node)  # noqa: E731
    labels = {"alertname": ALERT, "condition": ALERT, "node": alert.node, **rule["labels"]}
    annotations = {key: named(text) for key, text in rule["annotations"].items()}
    status = "resolved" if alert.ended else "firing"
    group = {"alertname": ALERT, "node": alert.node}
    told = {
        "status": status,
        "labels": labels,
        "annotations": annotations,
        "startsAt": alert.started,
        "endsAt": alert.ended or _NEVER,
        "generatorURL": "",
        "fingerprint": hashlib.sha256(json.dumps(labels).encode()).hexdigest()[:16],
    }
    return {
        "version": "4",
        "groupKey": f'{{}}:{{alertname="{ALERT}", node="{alert.node}"}}',
        "truncatedAlerts": 0,
        "status": status,
        "receiver": "demo",
        "groupLabels": group,
        "commonLabels": labels,
        "commonAnnotations": annotations,
        "externalURL": "",
        "alerts": [told],
    }


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
