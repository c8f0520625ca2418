"""The routing tree: which alerts go where, and how an incident is named. Matching is routing's."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from alerts2gh.config.assignees import AssigneeSource
from alerts2gh.config.names import MAX_LABEL_LENGTH, MAX_LABELS, clean_label, is_repository_name
from alerts2gh.config.policy import PolicyOverride
from alerts2gh.config.route_template import TemplateProblemError, route_template
from alerts2gh.config.sizes import entries
from chassis.config import MatcherList, Settings


def _repository(value: str) -> str:
    if _is_static(value) and not is_repository_name(value):
        raise ValueError(
            "write OWNER/REPO or a template for it, like example-org/{{ labels.cluster }}-ops"
        )
    return value


def _issue_label(value: str) -> str:
    if _is_static(value) and (not value or clean_label(value) != value):
        raise ValueError(
            f"GitHub takes no such label; write 1 to {MAX_LABEL_LENGTH} characters"
            " without commas, control characters or white space around"
        )
    return value


def _is_static(template: str) -> bool:
    try:
        return route_template(template).is_static
    except TemplateProblemError as error:
        raise ValueError(f"cannot use this template: {error}") from error


def _template_name(value: str) -> str:
    if value.startswith("/") or ".." in value.split("/") or "\\" in value or not value:
        raise ValueError("write the name of a file inside templates_directory")
    return value


RepositoryTemplate = Annotated[str, AfterValidator(_repository)]
IssueLabelTemplate = Annotated[str, AfterValidator(_issue_label)]
TemplateName = Annotated[str, AfterValidator(_template_name)]


class TemplateNames(Settings):
    """Template files for title, body and comment; None is the built-in one."""

    title: TemplateName | None = None
    body: TemplateName | None = None
    comment: TemplateName | None = None


class Identity(Settings):
    """Which labels name an incident. `per_alert` makes one incident of each alert."""

    by: Literal["group_labels", "labels", "per_alert"] = "group_labels"
    labels: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _labels_when_asked(self) -> Self:
        if (self.by == "labels") != bool(self.labels):
            raise ValueError("give labels together with `by: labels`, and at least one")
        if len(set(self.labels)) != len(self.labels) or "" in self.labels:
            raise ValueError("labels must be label names, each once")
        return self


class Route(Settings):
    """One node of the routing tree, as in Alertmanager: the first child that matches takes alerts.

    What a route leaves out, it has from its parent.
    """

    name: str | None = Field(default=None, min_length=1, max_length=100)
    matchers: MatcherList = ()
    continue_: bool = Field(default=False, alias="continue")
    credential: str | None = None
    repository: RepositoryTemplate | None = None
    issue_labels: Annotated[tuple[IssueLabelTemplate, ...], entries(0, MAX_LABELS - 1)] | None = (
        None
    )
    milestone: str | None = None
    identity: Identity | None = None
    policy: PolicyOverride = PolicyOverride()
    templates: TemplateNames | None = None
    assignees: tuple[AssigneeSource, ...] | None = None
    routes: tuple["Route", ...] = ()

    @field_validator("milestone")
    @classmethod
    def _one_line(cls, value: str | None) -> str | None:
        if value and (value != value.strip() or not value.isprintable()):
            raise ValueError("must be one line without white space around")
        return value
