"""`route PAYLOAD`: where a webhook's alerts would be filed, and why, in plain words.

It uses the same router as the service and asks neither GitHub nor the database, so an incident that
is open elsewhere, which keeps its repository, is not seen here.
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, TextIO
from urllib.parse import parse_qs

from alerts2gh.assignment import choose
from alerts2gh.commands.check import OK, UNUSABLE, read_config
from alerts2gh.commands.tables import columns, plain
from alerts2gh.config import Config, IssuePolicy
from alerts2gh.incident import DeliveryPart, fold, new_incident
from alerts2gh.routing import Explained, Routed, Router, Unrouted, explain
from chassis.alertmanager import Webhook, WebhookError, parse_webhook
from chassis.config import format_duration

SOME_UNROUTED = 1


def route(  # noqa: PLR0913 - what it reads and writes, by name
    payload: Path,
    config_file: Path,
    *,
    query: str,
    now: datetime,
    stdin: BinaryIO,
    out: TextIO,
    err: TextIO,
) -> int:
    """Explain one webhook; the exit status is 0, 1 (alerts without a place) or 2 (no answer)."""
    config = read_config(config_file, err)
    webhook = _read_webhook(payload, stdin, err)
    if config is None or webhook is None:
        return UNUSABLE
    parameters = parse_qs(query.removeprefix("?"), keep_blank_values=True)
    routed = Router(config).route(webhook, now, parameters)
    out.writelines(_told(routed, config, now))
    return OK if isinstance(routed, Routed) and not routed.refused else SOME_UNROUTED


def _read_webhook(payload: Path, stdin: BinaryIO, err: TextIO) -> Webhook | None:
    try:
        body = stdin.read() if str(payload) == "-" else payload.read_bytes()
        return parse_webhook(body)
    except OSError as error:
        err.write(f"{payload}: cannot be read: {error.strerror}\n")
    except WebhookError as error:
        err.write(f"{payload}: {plain(str(error))}\n")
    return None


def _told(routed: Routed | Unrouted, config: Config, now: datetime) -> Iterator[str]:
    if isinstance(routed, Unrouted):
        yield _told_refusal(routed)
        return
    for number, (explained, part) in enumerate(
        zip(explain(routed), routed.parts, strict=True), start=1
    ):
        yield f"incident {number} of {len(routed.parts)}: {_alerts(explained.alerts)}\n"
        yield columns(_rows(explained, part, config, now))
        yield "\n"
    for refusal in routed.refused:
        yield _told_refusal(refusal)


def _told_refusal(refusal: Unrouted) -> str:
    return f"no place for {_alerts(refusal.alerts)} ({refusal.reason}): {refusal.text}\n"


def _rows(
    explained: Explained, part: DeliveryPart, config: Config, now: datetime
) -> Iterator[tuple[str, str]]:
    disposition = part.disposition
    matched = "matched " + ", ".join(explained.because) if explained.because else "takes the rest"
    yield _row("route", " > ".join(explained.route), matched)
    yield _row("repository", explained.repository, f"said by {explained.repository_from}")
    base_url = config.credentials[explained.credential].base_url
    yield _row("credential", explained.credential, base_url)
    yield _row("named by", _pairs(explained.named_by), explained.named_why)
    yield _row("incident id", explained.incident_id)
    labels = ", ".join(explained.issue_labels)
    yield _row("issue labels", labels, f"search_label and {explained.labels_from}")
    yield _row("milestone", disposition.milestone or "none")
    yield _row("when resolved", _closing(disposition.policy))
    yield from _assignee_rows(part, now)
    for note in explained.notes:
        yield _row("note", note)


def _row(what: str, value: str, why: str = "") -> tuple[str, str]:
    return f"  {what}", f"{value} ({why})" if why else value


def _closing(policy: IssuePolicy) -> str:
    if not policy.auto_close:
        return "stays open, as auto_close is off"
    return f"closes after {format_duration(policy.close_after)}"


def _assignee_rows(part: DeliveryPart, now: datetime) -> Iterator[tuple[str, str]]:
    """Whom each source of the chain names now; GitHub is not asked, so files, teams and rights stay open."""
    incident = fold(new_incident(part), part).incident
    for candidate in choose(part.disposition.assignees, incident, now=now):
        named = ", ".join(candidate.logins) or candidate.reason.value.replace("_", " ")
        looked_up = (
            ", ".join([f"{repository}/{path}" for repository, path in candidate.needs.files])
            or ", ".join(candidate.needs.teams)
            or candidate.detail
        )
        yield _row("assignees", named, f"{candidate.source}: {looked_up}")
    if part.disposition.assignees:
        yield _row("assigned is", "the first of these whom GitHub lets be assigned")


def _pairs(labels: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(labels.items()))


def _alerts(count: int) -> str:
    return f"{count} alert{'' if count == 1 else 's'}"
