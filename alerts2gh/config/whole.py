"""The whole configuration file, and the surroundings of the service: database, Alertmanagers."""

from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_core import InitErrorDetails

from alerts2gh.config.github import Credential, Recovery, StormPolicy, WriteLimits
from alerts2gh.config.names import AllowedRepository, LabelName, Login, RepositoryName
from alerts2gh.config.paths import ExistingFile, ExistingFolder, NewPath, WebURL
from alerts2gh.config.policy import IssuePolicy
from alerts2gh.config.routes import Route
from alerts2gh.config.rules import mistakes_of
from alerts2gh.config.sizes import entries
from chassis.config import Duration, SecretFile, Settings
from chassis.serving import ServingSettings
from chassis.webapp import AuthSettings

MAX_WEBHOOK_BYTES = 1_000_000_000


class Database(Settings):
    """Where everything is remembered: SQLite (one process) or PostgreSQL (several replicas)."""

    sqlite_file: NewPath | None = None
    postgres_url_file: SecretFile | None = None
    lease: Duration = timedelta(seconds=30)
    max_backlog: int = Field(default=100_000, ge=1)

    @model_validator(mode="after")
    def _one_database(self) -> Self:
        if (self.sqlite_file is None) == (self.postgres_url_file is None):
            raise ValueError("give exactly one of sqlite_file and postgres_url_file")
        return self

    @field_validator("lease")
    @classmethod
    def _long_enough(cls, value: timedelta) -> timedelta:
        if value < timedelta(seconds=1):
            raise ValueError("must be at least 1s, or replicas take work from each other")
        return value


class AlertmanagerSettings(Settings):
    """An Alertmanager whose GET /api/v2/alerts open incidents are compared with."""

    url: WebURL
    bearer_token_file: SecretFile | None = None
    ca_file: ExistingFile | None = None


class Config(Settings):
    """The whole file."""

    serving: ServingSettings = ServingSettings()
    auth: AuthSettings | None = None
    max_body_bytes: int = Field(default=10_000_000, ge=10_000, le=MAX_WEBHOOK_BYTES)
    database: Database
    credentials: Annotated[dict[str, Credential], entries(1)]
    allowed_repositories: Annotated[tuple[AllowedRepository, ...], entries(1)]
    fallback_repository: RepositoryName | None = None
    adopt_authors: tuple[Login, ...] = ()
    search_label: LabelName = "alerts2gh"
    route: Route
    policy: IssuePolicy = IssuePolicy()
    storm: StormPolicy = StormPolicy()
    limits: WriteLimits = WriteLimits()
    recovery: Recovery = Recovery()
    alertmanagers: tuple[AlertmanagerSettings, ...] = ()
    reconcile_every: Duration = timedelta(minutes=1)
    templates_directory: ExistingFolder | None = None
    external_url: WebURL | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @property
    def default_credential(self) -> str:
        """The name of the credential that the root route uses, and so the fallback repository."""
        return self.route.credential or next(iter(self.credentials))

    @field_validator("reconcile_every")
    @classmethod
    def _some_time(cls, value: timedelta) -> timedelta:
        if value < timedelta(seconds=1):
            raise ValueError("must be at least 1s")
        return value

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        mistakes = [
            InitErrorDetails(type="value_error", loc=loc, input=None, ctx={"error": text})
            for loc, text in mistakes_of(self)
        ]
        if mistakes:
            raise ValidationError.from_exception_data(type(self).__name__, mistakes)
        return self
