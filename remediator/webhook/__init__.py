"""The HTTP face of the remediator: Alertmanager's webhook, the pages for people."""

from remediator.webhook.page import Page, install_page, protected_prefixes
from remediator.webhook.receiving import Receiver, install_webhook

__all__ = ["Page", "Receiver", "install_page", "install_webhook", "protected_prefixes"]
