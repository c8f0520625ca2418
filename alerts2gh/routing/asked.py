"""What a sender may ask for: the query parameters and labels of alertmanager-to-github.

Its `owner`, `repo` and `labels` in the webhook's URL, its labels `atg_owner` and `atg_repo` (when
all alerts of the group share them) and its annotation `atg_skip_auto_close` mean the same here:
https://github.com/pfnet-research/alertmanager-to-github
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chassis.alertmanager import Alert

_SKIP_AUTO_CLOSE = "atg_skip_auto_close"


@dataclass(frozen=True, slots=True)
class Word:
    """One thing asked for, and where that was said."""

    value: str = ""
    said_by: str = ""

    def __bool__(self) -> bool:
        return bool(self.value)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the sender of a webhook asked for; labels None means nothing was said about them."""

    owner: Word = Word()
    repo: Word = Word()
    labels: tuple[str, ...] | None = None


def asked_for(query: Mapping[str, Sequence[str]], common_labels: Mapping[str, str]) -> Asked:
    """Read the requests; a label goes before a query parameter of the same meaning."""
    labels = query.get("labels")
    return Asked(
        owner=_word("owner", query, common_labels),
        repo=_word("repo", query, common_labels),
        labels=tuple(labels[0].split(",")) if labels else None,
    )


def skips_auto_close(alerts: Iterable[Alert]) -> bool:
    """Whether an alert carries the annotation that leaves closing to people."""
    return any(alert.annotations.get(_SKIP_AUTO_CLOSE) == "true" for alert in alerts)


def _word(name: str, query: Mapping[str, Sequence[str]], labels: Mapping[str, str]) -> Word:
    label = f"atg_{name}"
    if labels.get(label):
        return Word(labels[label], f"the label {label}")
    given = query.get(name)
    return Word(given[0], f"the query parameter {name}") if given else Word()
