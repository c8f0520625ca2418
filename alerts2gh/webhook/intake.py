"""The HTTP face: takes Alertmanager's webhooks, commits them, answers.

The status is the retry contract: 200 once it is durable; 4xx only for what this delivery can never achieve, with what to
change; 503 for what may work soon. Never 429: Alertmanager does not retry it.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus

from flask import Blueprint, Flask, Response, jsonify, request
from structlog.typing import FilteringBoundLogger

from alerts2gh.config import CommentOn, IssuePolicy
from alerts2gh.incident import (
    REFUSED_ALERTNAME,
    DeliveryPart,
    Disposition,
    Target,
    incident_id,
    label_key,
)
from alerts2gh.metrics import WebhookMetrics
from alerts2gh.ports import Refusal, Store
from alerts2gh.routing import Routed, Router, Unrouted, keep_filed_targets
from alerts2gh.webhook.repeats import Remembered, Repeats, name_of
from chassis.alertmanager import (
    Alert,
    AlertStatus,
    Webhook,
    WebhookError,
    fingerprint,
    parse_webhook,
)
from chassis.errors import TemporaryError
from chassis.webapp import RequestRefused

_TELL_REFUSALS_EVERY = timedelta(minutes=1)


@dataclass(slots=True)
class Intake:
    """From the bytes of a webhook to a durable delivery. `router` gives the one of the present configuration.

    `serving` is entered while a webhook is handled.
    """

    store: Store
    router: Callable[[], Router]
    fallback: Callable[[], Target | None]
    search_label: Callable[[], str]
    poke: Callable[[], None]
    clock: Callable[[], datetime]
    metrics: WebhookMetrics
    log: FilteringBoundLogger
    serving: Callable[[], AbstractContextManager[None]] = nullcontext
    _repeats: Repeats = field(default_factory=Repeats)
    _told: dict[str, datetime] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, body: bytes, query: Mapping[str, Sequence[str]]) -> int:
        """Commit a webhook; the number of incidents it belongs to.

        One that repeats what is durable and folded already is taken without a commit.
        Alerts without a place in a webhook whose others have one are counted and told like a refused webhook.

        Raises:
            RequestRefused: This delivery can never be taken; it has been counted and told.
            TemporaryError: The store cannot take it now.
        """
        now, router = self.clock(), self.router()
        name = name_of(body, query)
        known = self._repeats.find(name, router)
        if known is not None and self.store.is_known(known.repeats):
            self._count(known.alerts, now)
            return len(known.repeats)
        try:
            webhook = parse_webhook(body)
        except WebhookError as error:
            raise self._refused(error.problem.value, str(error), now) from error
        routed = router.route(webhook, now, query)
        if isinstance(routed, Unrouted):
            raise self._refused(routed.reason.value, routed.text, now)
        committed = self._commit(webhook, routed, router, now)
        if not routed.refused:  # else it has to be told each time
            self._repeats.remember(name, committed)
        return len(committed.repeats)

    def _commit(
        self, webhook: Webhook, routed: Routed, router: Router, now: datetime
    ) -> Remembered:
        repeats = self.store.accept(_where_filed(routed.parts, self.store))
        alerts = Counter([alert.status.value for alert in webhook.alerts])
        self._count(alerts, now)
        for refused in routed.refused:
            self.metrics.refused(refused.reason.value)
            self._tell(refused.reason.value, refused.text, now)
        self.poke()
        self.log.debug("webhook_accepted", receiver=webhook.receiver, parts=len(repeats))
        return Remembered(router, repeats, alerts)

    def _count(self, alerts: Mapping[str, int], since: datetime) -> None:
        self.metrics.accepted(alerts, (self.clock() - since).total_seconds())

    def _refused(self, reason: str, text: str, now: datetime) -> RequestRefused:
        self.metrics.refused(reason)
        self._tell(reason, text, now)
        return RequestRefused(text, status=400, reason=reason)

    def refused_too_large(self, limit: int) -> None:
        """Count and tell a body over the limit; the application has answered it already."""
        text = (
            f"the webhook is larger than max_body_bytes ({limit}); group by more labels, set max_alerts on the "
            "receiver in Alertmanager, or raise max_body_bytes"
        )
        self.metrics.refused("too_large")
        self._tell("too_large", text, self.clock())

    def _tell(self, reason: str, text: str, now: datetime) -> None:
        """Keep one incident in the fallback repository up to date, at most once a minute a reason."""
        try:
            refusal = self.store.count_refusal(reason, text, now)
            fallback = self.fallback()
            with self._lock:
                recently = now - self._told.get(reason, now - timedelta(days=1))
                if fallback is None or recently < _TELL_REFUSALS_EVERY:
                    return
                self._told[reason] = now
            self.store.accept([refusal_part(refusal, fallback, self.search_label(), now)])
            self.poke()
        except TemporaryError as error:
            self.log.warning("refusal_not_told", reason=reason, error=str(error))


def refusal_part(
    refusal: Refusal, fallback: Target, search_label: str, now: datetime
) -> DeliveryPart:
    """The refusals of one reason as an alert of the incident "alerts2gh refused N webhooks"."""
    labels = {"alertname": REFUSED_ALERTNAME}
    alert_labels = {**labels, "reason": refusal.reason}
    alert = Alert(
        status=AlertStatus.FIRING,
        labels=alert_labels,
        annotations={
            "summary": f"alerts2gh refused {refusal.count} webhooks: {refusal.reason}",
            "description": refusal.last_text,
        },
        starts_at=now.replace(minute=0, second=0, microsecond=0),
        ends_at=None,
        generator_url="",
        fingerprint=fingerprint(alert_labels),
    )
    policy = IssuePolicy(auto_close=False, comment_on=CommentOn.NOTHING)
    return DeliveryPart(
        incident_id=incident_id(fallback, labels),
        label_key=label_key(labels),
        disposition=Disposition(fallback, "refused", policy, issue_labels=(search_label,)),
        labels=labels,
        alerts=(alert,),
        received_at=now,
        receiver="alerts2gh",
        group_labels=labels,
        common_annotations={"summary": alert.annotations["summary"]},
    )


def _where_filed(parts: Sequence[DeliveryPart], store: Store) -> tuple[DeliveryPart, ...]:
    """Keep what is open where it is filed, when the routes have changed since."""
    filed = store.find_filed({part.label_key for part in parts})
    routed = {part.incident_id for part in parts}
    left_behind = [each for each in filed if each.id not in routed]
    if not left_behind:
        return tuple(parts)
    members: dict[str, Collection[str]] = {}
    for each in left_behind:
        incident, _ = store.load(each.id)
        members[each.id] = frozenset(incident.members) if incident else frozenset()
    return keep_filed_targets(parts, filed, members)


def install_webhook(app: Flask, intake: Intake, max_body_bytes: int) -> None:
    """Add POST /v1/webhook to a service's application."""
    routes = Blueprint("webhook", __name__)

    @routes.post("/v1/webhook")
    def webhook() -> Response:
        with intake.serving():
            query = {name: request.args.getlist(name) for name in request.args}
            incidents = intake.take(request.get_data(cache=False), query)
        return jsonify({"status": "accepted", "incidents": incidents})

    @routes.after_request
    def too_large(response: Response) -> Response:
        if response.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            intake.refused_too_large(max_body_bytes)
        return response

    app.register_blueprint(routes)
