"""The Flask application every service starts from: health, metrics, authentication, one error shape."""

from chassis.webapp.answers import RequestRefused
from chassis.webapp.application import Readiness, create_app
from chassis.webapp.authentication import AuthSettings, BasicAuth
from chassis.webapp.exposition import MetricsHook
from chassis.webapp.pages import html_answer, install_frame, is_stranger, prefixes_with_pages

__all__ = [
    "AuthSettings",
    "BasicAuth",
    "MetricsHook",
    "Readiness",
    "RequestRefused",
    "create_app",
    "html_answer",
    "install_frame",
    "is_stranger",
    "prefixes_with_pages",
]
