"""GitHub's rules as the sandbox plays them: validation, limits, filters, search, pagination.

Decisions only. Nothing here may know HTTP libraries, storage, clocks or threads; the time is an
argument. Sources: GitHub's REST documentation and public reports, named where a rule stands.
"""

from sandbox.github_rules.limits import Allowance, Window, creates_content, points_of
from sandbox.github_rules.listing import (
    IssueFilter,
    Page,
    link_header,
    matches,
    page_from,
    sort_key,
)
from sandbox.github_rules.refusals import FieldError, Refusal
from sandbox.github_rules.search import SearchQuery, parse_search
from sandbox.github_rules.validation import (
    CommentDraft,
    IssueDraft,
    IssueEdit,
    LabelDraft,
    MilestoneDraft,
    assignee_names,
    comment_draft,
    issue_draft,
    issue_edit,
    label_draft,
    label_names,
    lock_reason,
    milestone_draft,
    next_state,
)

__all__ = [
    "Allowance",
    "CommentDraft",
    "FieldError",
    "IssueDraft",
    "IssueEdit",
    "IssueFilter",
    "LabelDraft",
    "MilestoneDraft",
    "Page",
    "Refusal",
    "SearchQuery",
    "Window",
    "assignee_names",
    "comment_draft",
    "creates_content",
    "issue_draft",
    "issue_edit",
    "label_draft",
    "label_names",
    "link_header",
    "lock_reason",
    "matches",
    "milestone_draft",
    "next_state",
    "page_from",
    "parse_search",
    "points_of",
    "sort_key",
]
