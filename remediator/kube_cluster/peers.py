"""What Alertmanagers and Prometheus say, turned into views. Asks through `chassis.monitoring` alone.

An Alertmanager that cannot be asked, or has just restarted, makes an absence unknown.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from structlog.typing import FilteringBoundLogger

from chassis.alertmanager import Alert
from chassis.errors import NodemendError
from chassis.monitoring import Access, AlertmanagerClient, PrometheusClient
from remediator.cluster import AlertView, QueryResult, QueryView, Sight
from remediator.config import Config, Peer

SETTLE_AFTER_START = timedelta(minutes=10)
"""A restarted Alertmanager knows an alert again once Prometheus has sent it again."""
_MOST_TEXT = 300


@dataclass(frozen=True, slots=True)
class AlertSnapshot:
    """All alerts of all Alertmanagers.

    `complete` says that what is absent is gone, `answered` that what is not silenced here is so nowhere.
    """

    alerts: Mapping[str, Alert]
    silenced: Mapping[str, str]
    complete: bool
    answered: bool = True

    def view(self, fingerprint: str, as_of: datetime) -> AlertView:
        """One alert's view."""
        alert = self.alerts.get(fingerprint)
        if alert is None:
            sight = Sight.ABSENT if self.complete else Sight.UNKNOWN
            return AlertView(fingerprint, sight, as_of)
        silence = self.silenced.get(fingerprint)
        return AlertView(
            fingerprint,
            Sight.FIRING,
            as_of,
            alert.starts_at,
            silenced=silence is not None,
            silence=silence or "",
            silences_known=self.answered,
        )


class Alertmanagers:
    """All Alertmanagers together."""

    def __init__(
        self, peers: Sequence[Peer], clock: Callable[[], datetime], log: FilteringBoundLogger
    ) -> None:
        self._clients = [(peer.url, AlertmanagerClient(access_of(peer))) for peer in peers]
        self._clock = clock
        self._log = log

    def ask(self, _key: str) -> AlertSnapshot:
        """The alerts of all that answer."""
        alerts: dict[str, Alert] = {}
        silenced: dict[str, str] = {}
        answered = settled = bool(self._clients)
        for url, client in self._clients:
            try:
                started = client.started_at()
                for alert in client.alerts():
                    known = alerts.get(alert.fingerprint)
                    if known is None or known.starts_at < alert.starts_at:
                        alerts[alert.fingerprint] = alert
                silenced.update(client.silenced())
            except NodemendError as error:
                self._log.warning("alertmanager_unknown", url=url, error=str(error))
                answered = False
            else:
                settled = settled and self._clock() - started >= SETTLE_AFTER_START
        return AlertSnapshot(alerts, silenced, answered and settled, answered)


class Prometheus:
    """Queries that pass or do not."""

    def __init__(self, peer: Peer, clock: Callable[[], datetime]) -> None:
        self._client = PrometheusClient(access_of(peer))
        self._clock = clock

    def ask(self, promql: str) -> QueryView:
        """The answer to a query; no data and errors are no pass.

        It is as old as the oldest sample: what a clock that is behind calls now is old news here.
        """
        as_of = self._clock()
        try:
            samples = self._client.query(promql)
        except NodemendError as error:
            return QueryView("", QueryResult.ERROR, as_of, str(error)[:_MOST_TEXT])
        if not samples:
            return QueryView("", QueryResult.NO_DATA, as_of)
        as_of = min(as_of, *(each.at for each in samples))
        wrong = [each for each in samples if each.value == 0 or math.isnan(each.value)]
        if wrong:
            text = f"{len(wrong)} of {len(samples)} samples are 0 or NaN"
            return QueryView("", QueryResult.FAILED, as_of, text)
        return QueryView("", QueryResult.PASSED, as_of)


def access_of(peer: Peer) -> Access:
    """How a peer of the configuration is reached."""
    token = peer.bearer_token_file
    return Access(
        url=peer.url,
        timeout=peer.timeout,
        bearer_token=None if token is None else token.read,
        ca_file=peer.ca_file,
    )


def peers_of(
    config: Config, clock: Callable[[], datetime], log: FilteringBoundLogger
) -> tuple[Alertmanagers, Prometheus | None]:
    """The peers that a configuration names."""
    prometheus = None if config.prometheus is None else Prometheus(config.prometheus, clock)
    return Alertmanagers(config.alertmanagers, clock, log), prometheus
