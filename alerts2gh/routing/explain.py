"""Says in words why a part of a webhook is filed where it is, for the command `route`."""

from dataclasses import dataclass

from alerts2gh.routing.router import Origin, Routed


@dataclass(frozen=True, slots=True)
class Explained:
    """One part of a webhook and each decision about it with its reason."""

    alerts: int
    route: tuple[str, ...]
    because: tuple[str, ...]
    repository: str
    repository_from: str
    credential: str
    issue_labels: tuple[str, ...]
    labels_from: str
    named_by: dict[str, str]
    named_why: str
    incident_id: str
    auto_close: bool
    notes: tuple[str, ...]


def explain(routed: Routed) -> tuple[Explained, ...]:
    """An explanation for each part, in the order of the parts."""
    found = []
    for part, origin in zip(routed.parts, routed.origins, strict=True):
        node, disposition = origin.nodes[0], part.disposition
        found.append(
            Explained(
                alerts=len(part.alerts),
                route=node.path,
                because=node.because,
                repository=disposition.target.full_name,
                repository_from=origin.repository_from,
                credential=disposition.target.credential,
                issue_labels=disposition.issue_labels,
                labels_from=origin.labels_from,
                named_by=dict(part.labels),
                named_why=origin.named_by,
                incident_id=part.incident_id,
                auto_close=disposition.policy.auto_close,
                notes=_notes(origin, skipped=_skipped(disposition.policy.auto_close, origin)),
            )
        )
    return tuple(found)


def _skipped(auto_close: bool, origin: Origin) -> bool:  # noqa: FBT001 - private, one caller
    return origin.nodes[0].settled.policy.auto_close and not auto_close


def _notes(origin: Origin, *, skipped: bool) -> tuple[str, ...]:
    notes = list(origin.notes)
    if skipped:
        notes.append("not closed by itself: an alert is annotated atg_skip_auto_close")
    if len(origin.nodes) > 1:
        others = ", ".join(node.name for node in origin.nodes[1:])
        notes.append(
            f"also taken by {others}, for the same incident: the settings of"
            f" {origin.nodes[0].name} count, issue labels of all are set"
        )
    return tuple(notes)
