"""Which labels name the incident that an alert belongs to.

A name without any label would gather unrelated alerts in one issue, so it is never used: the
alert's name takes its place and, failing that, all its labels.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from alerts2gh.config import Identity

ALERT_NAME = "alertname"


@dataclass(frozen=True, slots=True)
class Named:
    """The labels that name an incident, and why these, in words.

    `falls_back` if the labels that were asked for are all absent.
    """

    labels: Mapping[str, str]
    why: str
    falls_back: bool = False


def name_incident(
    identity: Identity, labels: Mapping[str, str], group_labels: Mapping[str, str]
) -> Named:
    """Choose the labels. Absent and empty labels are the same, as in Alertmanager."""
    if identity.by == "per_alert":
        return Named(_present(labels), "all labels of the alert (per_alert)")
    if identity.by == "labels":
        chosen = {name: labels.get(name, "") for name in identity.labels}
        return _named(_present(chosen), f"the labels {', '.join(identity.labels)}", labels)
    return _named(_present(group_labels), "the group labels", labels)


def _named(chosen: Mapping[str, str], what: str, labels: Mapping[str, str]) -> Named:
    if chosen:
        return Named(chosen, what)
    if labels.get(ALERT_NAME):
        why = f"{ALERT_NAME}, as {what} are all absent"
        return Named({ALERT_NAME: labels[ALERT_NAME]}, why, falls_back=True)
    why = f"all labels of the alert, as {what} and {ALERT_NAME} are absent"
    return Named(_present(labels), why, falls_back=True)


def _present(labels: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in labels.items() if value}
