"""The verbs of ports.Tracker.

Each is one HTTP request, and one more for each page, for each redirect inside GitHub, for an
installation token that ran out (hourly), and for milestones whose numbers are not known yet. None
is repeated, and nothing GitHub can answer raises. It must not decide what an outcome means for an
incident.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from structlog.typing import FilteringBoundLogger

from alerts2gh.config import Credential
from alerts2gh.github_answers import RequestKind
from alerts2gh.github_tracker import reading
from alerts2gh.github_tracker.client import Call, Client, Endpoint, OnResponse, Reply
from alerts2gh.github_tracker.credentials import AppToken, NoTokenError
from alerts2gh.github_tracker.milestones import Milestones, without_value
from alerts2gh.incident import IssueState, Target
from alerts2gh.ports import Answer, Outcome, TrackedComment, TrackedIssue


class GitHubTracker:
    """GitHub for one credential; may be used by many threads at once.

    Args:
        credential_name: For logs.
        credential: Where GitHub is and how to get in.
        now: The clock, tz-aware UTC.
        log: Debug lines for each answer, warnings for what GitHub left out.
        on_response: Told of each HTTP request: endpoint, status (None without one), rate limit.
    """

    def __init__(
        self,
        credential_name: str,
        credential: Credential,
        *,
        now: Callable[[], datetime],
        log: FilteringBoundLogger,
        on_response: OnResponse,
    ) -> None:
        self._log = log.bind(credential_name=credential_name)
        self._client = Client(credential, now=now, log=self._log, on_response=on_response)
        self._milestones = Milestones(self._client, now)

    def login(self) -> Answer[str]:
        """The author of what this credential writes; an App's is its slug with `[bot]`."""
        tokens = self._client.tokens
        if not isinstance(tokens, AppToken):
            return self._client.call(Call(Endpoint.USER, "GET", ("user",))).read(reading.login)
        try:
            grant = tokens.app_grant()
        except NoTokenError as error:
            return error.verdict.answer()
        call = Call(Endpoint.APP, "GET", ("app",))
        return self._client.call(call, grant).read(reading.app_login)

    def create_issue(
        self, target: Target, title: str, body: str, labels: Sequence[str], milestone: str | None
    ) -> Answer[TrackedIssue]:
        """Open an issue.

        What GitHub silently left out (labels, milestone) is told in `text` of a DONE answer.

        An unknown milestone does not keep the issue from being opened.
        """
        document: dict[str, Any] = {"title": title, "body": body, "labels": list(labels)}
        if milestone is not None:
            found = self._milestones.number(target, milestone)
            if found.outcome is not Outcome.DONE:
                return without_value(found)
            if found.value is not None:
                document["milestone"] = found.value
        segments = _issues(target)
        call = Call(Endpoint.ISSUE_CREATE, "POST", segments, RequestKind.CREATE, document=document)
        reply = self._client.call(call)
        if "milestone" in document and reply.verdict.outcome is Outcome.INVALID:
            self._milestones.forget(target)  # it may have been deleted since
        answer = _as_issue(reply, target)
        missing = [*_missing_labels(answer.value, labels), *_missing_milestone(reply, milestone)]
        return self._told(answer, target, missing)

    def get_issue(self, target: Target, number: int, etag: str = "") -> Answer[TrackedIssue]:
        """Read an issue.

        With an `etag` that still holds the outcome is NOT_MODIFIED and costs no rate limit.
        """
        headers = {"If-None-Match": etag} if etag else {}
        call = Call(Endpoint.ISSUE_GET, "GET", _issues(target, number), headers=headers)
        return _as_issue(self._client.call(call), target)

    def edit_issue(  # noqa: PLR0913 -- the fields of an issue
        self,
        target: Target,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        state: IssueState | None = None,
        state_reason: str | None = None,
        labels: Sequence[str] | None = None,
    ) -> Answer[TrackedIssue]:
        """Change the given fields and no others.

        `labels` replaces all labels; those left out are told in `text`.
        """
        given = {
            "title": title,
            "body": body,
            "state": None if state is None else state.value,
            "state_reason": state_reason,
            "labels": None if labels is None else list(labels),
        }
        document = {key: value for key, value in given.items() if value is not None}
        segments = _issues(target, number)
        call = Call(Endpoint.ISSUE_EDIT, "PATCH", segments, RequestKind.WRITE, document=document)
        answer = _as_issue(self._client.call(call), target)
        return self._told(answer, target, _missing_labels(answer.value, labels or ()))

    def list_issues(
        self, target: Target, *, label: str, since: datetime | None, state: str = "all"
    ) -> Answer[tuple[TrackedIssue, ...]]:
        """All issues with `label` (all there are, if it is empty), newest first, pull requests left out.

        `since` is about their last change.
        """
        parameters = {
            **({"labels": label} if label else {}),
            "state": state,
            "sort": "created",
            "direction": "desc",
            "per_page": 100,
            **_since(since),
        }
        call = Call(Endpoint.ISSUE_LIST, "GET", _issues(target), parameters=parameters)
        return self._client.pages(call, lambda it: reading.issues(it, target.full_name))

    def add_comment(self, target: Target, number: int, body: str) -> Answer[TrackedComment]:
        segments = _issues(target, number, "comments")
        document = {"body": body}
        call = Call(Endpoint.COMMENT_CREATE, "POST", segments, RequestKind.WRITE, document=document)
        return self._client.call(call).read(reading.comment)

    def list_comments(
        self, target: Target, number: int, since: datetime | None
    ) -> Answer[tuple[TrackedComment, ...]]:
        """All comments, oldest first; `since` is about their last change."""
        parameters = {"per_page": 100, **_since(since)}
        segments = _issues(target, number, "comments")
        call = Call(Endpoint.COMMENT_LIST, "GET", segments, parameters=parameters)
        return self._client.pages(call, reading.comments)

    def add_assignees(
        self, target: Target, number: int, logins: Sequence[str]
    ) -> Answer[TrackedIssue]:
        """Assign people.

        GitHub drops the unassignable silently: compare `assignees` of the answer.
        """
        segments = _issues(target, number, "assignees")
        document = {"assignees": list(logins)}
        call = Call(Endpoint.ASSIGNEES_ADD, "POST", segments, RequestKind.WRITE, document=document)
        return _as_issue(self._client.call(call), target)

    def assignable(self, target: Target, login: str) -> Answer[bool]:
        """Whether the login can be assigned.

        A repository out of sight answers as for a stranger: False.
        """
        segments = ("repos", target.owner, target.repo, "assignees", login)
        verdict = self._client.call(Call(Endpoint.ASSIGNABLE, "GET", segments)).verdict
        if verdict.outcome is Outcome.NOT_FOUND:
            return replace(verdict, outcome=Outcome.DONE).answer(value=False)
        return verdict.answer(True if verdict.outcome is Outcome.DONE else None)

    def add_labels(
        self, target: Target, number: int, labels: Sequence[str]
    ) -> Answer[tuple[str, ...]]:
        """Add labels; the value is all labels that the issue has afterwards."""
        segments = _issues(target, number, "labels")
        document = {"labels": list(labels)}
        call = Call(Endpoint.LABELS_ADD, "POST", segments, RequestKind.WRITE, document=document)
        return self._client.call(call).read(reading.label_names)

    def remove_label(self, target: Target, number: int, label: str) -> Answer[tuple[str, ...]]:
        """Remove a label.

        The value is what is left. DONE without a value when the issue did not have it.
        """
        segments = _issues(target, number, "labels", label)
        reply = self._client.call(
            Call(Endpoint.LABEL_REMOVE, "DELETE", segments, RequestKind.WRITE)
        )
        verdict = reply.verdict
        if verdict.outcome is Outcome.NOT_FOUND and "label" in verdict.text.lower():
            return replace(verdict, outcome=Outcome.DONE).answer()
        return reply.read(reading.label_names)

    def read_file(self, target: Target, path: str) -> Answer[str]:
        """The text of a file (up to 1 MB) on the default branch.

        INVALID for a directory or a larger file.
        """
        segments = ("repos", target.owner, target.repo, "contents", *path.strip("/").split("/"))
        verdict = self._client.call(Call(Endpoint.CONTENTS, "GET", segments)).verdict
        if verdict.outcome is not Outcome.DONE:
            return verdict.answer()
        try:
            return verdict.answer(reading.file_text(verdict.document))
        except reading.UnexpectedShapeError as error:
            text = f"{path} can't be read: {error}"
            return replace(verdict, outcome=Outcome.INVALID).answer(text=text)

    def team_members(self, organisation: str, slug: str) -> Answer[tuple[str, ...]]:
        """The logins of a team's members, those of its child teams included."""
        segments = ("orgs", organisation, "teams", slug, "members")
        call = Call(Endpoint.TEAM_MEMBERS, "GET", segments, parameters={"per_page": 100})
        return self._client.pages(call, reading.logins)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def _told(
        self, answer: Answer[TrackedIssue], target: Target, missing: Sequence[str]
    ) -> Answer[TrackedIssue]:
        if answer.value is None or not missing:
            return answer
        self._log.warning(
            "github_left_out",
            repository=target.full_name,
            number=answer.value.number,
            left_out=list(missing),
        )
        return replace(answer, text="left out: " + ", ".join(missing))


def _issues(target: Target, number: int | None = None, *rest: str) -> tuple[str, ...]:
    one = () if number is None else (str(number),)
    return ("repos", target.owner, target.repo, "issues", *one, *rest)


def _as_issue(reply: Reply, target: Target) -> Answer[TrackedIssue]:
    # Only a read's ETag is known to be that of the next read.
    etag = reply.headers.get("etag", "") if reply.kind is RequestKind.READ else ""
    return reply.read(lambda it: reading.issue(it, target.full_name, etag))


def _since(since: datetime | None) -> dict[str, str]:
    return {} if since is None else {"since": since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}


def _missing_labels(issue: TrackedIssue | None, asked: Sequence[str]) -> list[str]:
    """Labels that were asked for and are not there.

    GitHub's label names don't know upper and lower case.
    """
    there = {label.lower() for label in issue.labels} if issue is not None else set()
    return [f"label {label!r}" for label in asked if label.lower() not in there]


def _missing_milestone(reply: Reply, title: str | None) -> list[str]:
    document = reply.verdict.document
    if title is None or (isinstance(document, dict) and document.get("milestone")):
        return []
    return [f"milestone {title!r} (no open one has this title, or no right to set it)"]
