"""The HTTP face of alerts2gh: it takes what is sent, commits it and answers; it never talks to GitHub."""

from alerts2gh.webhook.admin import Admin, install_admin
from alerts2gh.webhook.intake import Intake, install_webhook, refusal_part
from alerts2gh.webhook.page import Page, install_page, protected_prefixes
from alerts2gh.webhook.timeline import TimelineIntake, TimelineProblem, install_timeline

__all__ = [
    "Admin",
    "Intake",
    "Page",
    "TimelineIntake",
    "TimelineProblem",
    "install_admin",
    "install_page",
    "install_timeline",
    "install_webhook",
    "protected_prefixes",
    "refusal_part",
]
