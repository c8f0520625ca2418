"""The Flask application every service starts from: health, metrics, authentication, one error shape."""

from chassis.webapp.answers import RequestRefused
from chassis.webapp.application import create_app
from chassis.webapp.authentication import AuthSettings, BasicAuth

__all__ = ["AuthSettings", "BasicAuth", "RequestRefused", "create_app"]
