"""The HTTP face: takes Alertmanager's webhooks and says what became of each alert.

200 with the reasons once everything that a playbook takes is an operation in the cluster, or needs none;
4xx for what can never be read; 503 when the cluster cannot be reached. Never 429: it is not retried.
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from flask import Blueprint, Flask, Response, jsonify, request

from chassis.alertmanager import WebhookError, parse_webhook
from chassis.webapp import RequestRefused
from remediator.intake import Intake, Taken
from remediator.metrics import IntakeMetrics
from remediator.triggers import NoMatch


@dataclass(frozen=True, slots=True)
class Receiver:
    """From the bytes of a webhook to operations."""

    intake: Intake
    metrics: IntakeMetrics

    def take(self, body: bytes) -> dict[str, Any]:
        """The answer's JSON.

        Raises:
            RequestRefused: The body can never be taken.
            TemporaryError: The cluster cannot be reached; sending it again does no harm.
        """
        try:
            webhook = parse_webhook(body)
        except WebhookError as error:
            self.metrics.refused(error.problem.value)
            raise RequestRefused(str(error), status=400, reason=error.problem.value) from error
        answers = self.intake.alerts(webhook.alerts)
        told = [
            _told(alert.labels.get("alertname", ""), answer)
            for alert, answer in zip(webhook.alerts, answers, strict=True)
        ]
        return {"status": "accepted", "alerts": told}


def _told(alertname: str, answer: Taken | NoMatch) -> dict[str, str]:
    if isinstance(answer, NoMatch):
        return {"alertname": alertname, "result": answer.reason.value, "text": answer.text}
    return {
        "alertname": alertname,
        "result": answer.result.value,
        "node": answer.node,
        "playbook": answer.playbook,
        "operation": answer.operation,
        "text": answer.text,
    }


def install_webhook(app: Flask, receiver: Receiver) -> None:
    """Add POST /v1/webhook to the application."""
    routes = Blueprint("webhook", __name__)

    @routes.post("/v1/webhook")
    def webhook() -> Response:
        return jsonify(receiver.take(request.get_data(cache=False)))

    @routes.after_request
    def too_large(response: Response) -> Response:
        if response.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            receiver.metrics.refused("too_large")
        return response

    app.register_blueprint(routes)
