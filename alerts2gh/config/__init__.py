"""The configuration of alerts2gh: what an admin may write, and what each key means.

It only describes and validates. Reading files and reloading is chassis.config's work, matching is
routing's.
"""

from alerts2gh.config.assignees import (
    MAX_ASSIGNEES,
    AssigneeSource,
    FromCodeowners,
    FromLabel,
    OnCall,
    OwnerMap,
    OwnerRule,
    RotationOverride,
    RoundRobin,
    StaticAssignees,
)
from alerts2gh.config.github import AppCredential, Credential, Recovery, StormPolicy, WriteLimits
from alerts2gh.config.names import (
    MAX_LABEL_LENGTH,
    MAX_LABELS,
    AllowList,
    RepositoryName,
    clean_label,
    is_repository_name,
)
from alerts2gh.config.policy import (
    ClosedWhileFiring,
    CommentOn,
    FlappingPolicy,
    IssuePolicy,
    PolicyOverride,
)
from alerts2gh.config.route_template import (
    Reads,
    RouteTemplate,
    TemplateProblemError,
    route_template,
)
from alerts2gh.config.routes import Identity, Route, TemplateNames
from alerts2gh.config.rules import Place, walk, written
from alerts2gh.config.whole import AlertmanagerSettings, Config, Database

__all__ = [
    "MAX_ASSIGNEES",
    "MAX_LABELS",
    "MAX_LABEL_LENGTH",
    "AlertmanagerSettings",
    "AllowList",
    "AppCredential",
    "AssigneeSource",
    "ClosedWhileFiring",
    "CommentOn",
    "Config",
    "Credential",
    "Database",
    "FlappingPolicy",
    "FromCodeowners",
    "FromLabel",
    "Identity",
    "IssuePolicy",
    "OnCall",
    "OwnerMap",
    "OwnerRule",
    "Place",
    "PolicyOverride",
    "Reads",
    "Recovery",
    "RepositoryName",
    "RotationOverride",
    "RoundRobin",
    "Route",
    "RouteTemplate",
    "StaticAssignees",
    "StormPolicy",
    "TemplateNames",
    "TemplateProblemError",
    "WriteLimits",
    "clean_label",
    "is_repository_name",
    "route_template",
    "walk",
    "written",
]
