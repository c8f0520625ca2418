"""What Alertmanager sends and how it writes conditions: webhook version 4, alerts, matchers.

Pure data and decisions: no clock, no input or output, no logging.
"""

from chassis.alertmanager.alerts import Alert, AlertStatus, FieldError, fingerprint
from chassis.alertmanager.api import (
    parse_api_alerts,
    parse_api_silencers,
    parse_api_silences,
    parse_api_start,
)
from chassis.alertmanager.matchers import (
    Matcher,
    MatcherError,
    all_match,
    parse_matcher,
    parse_matchers,
)
from chassis.alertmanager.webhook import Webhook, WebhookError, WebhookProblem, parse_webhook

__all__ = [
    "Alert",
    "AlertStatus",
    "FieldError",
    "Matcher",
    "MatcherError",
    "Webhook",
    "WebhookError",
    "WebhookProblem",
    "all_match",
    "fingerprint",
    "parse_api_alerts",
    "parse_api_silencers",
    "parse_api_silences",
    "parse_api_start",
    "parse_matcher",
    "parse_matchers",
    "parse_webhook",
]
