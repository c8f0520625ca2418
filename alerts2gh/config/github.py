"""The ways into GitHub and how fast they may be used."""

from datetime import timedelta
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from alerts2gh.config.paths import ExistingFile, WebURL
from alerts2gh.config.sizes import entries
from chassis.config import Duration, SecretFile, Settings


class AppCredential(Settings):
    """A GitHub App installation."""

    app_id: int = Field(gt=0)
    installation_id: int = Field(gt=0)
    private_key_file: SecretFile


class Credential(Settings):
    """One way into GitHub. `base_url` is the REST root; GitHub Enterprise Server's ends in /api/v3."""

    base_url: WebURL = "https://api.github.com"
    token_file: SecretFile | None = None
    app: AppCredential | None = None
    ca_file: ExistingFile | None = None
    timeout: Duration = timedelta(seconds=15)

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        if (self.token_file is None) == (self.app is None):
            raise ValueError("give exactly one of token_file and app")
        return self

    @field_validator("base_url")
    @classmethod
    def _no_web_page(cls, value: str) -> str:
        if value in {"https://github.com", "https://www.github.com"}:
            raise ValueError("this is the website; leave base_url out for github.com")
        return value

    @field_validator("timeout")
    @classmethod
    def _some_time(cls, value: timedelta) -> timedelta:
        if value < timedelta(milliseconds=100):
            raise ValueError("must be at least 100ms")
        return value


class WriteLimits(Settings):
    """The budget of writes for one credential, with head-room below GitHub's published limits.

    GitHub allows about 80 content-creating requests a minute and 500 an hour, and asks for a second
    between writes:
    https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
    """

    writes_per_second: float = Field(default=1.0, gt=0)
    writes_per_minute: int = Field(default=120, ge=1)
    writes_per_hour: int = Field(default=3000, ge=1)
    content_per_minute: int = Field(default=60, ge=1)
    content_per_hour: int = Field(default=400, ge=1)


class Recovery(Settings):
    """How a write with an unknown outcome is cleared up.

    After an unanswered create the issues are listed at each of `look_after`, and only when the last
    list has not shown it is it created again; `audit_after` later they are listed once more, for a
    list that lagged even longer.
    """

    look_after: Annotated[tuple[Duration, ...], entries(1, 10)] = (
        timedelta(seconds=5),
        timedelta(seconds=60),
    )
    audit_after: Duration = timedelta(minutes=15)
    retry_after: Duration = timedelta(seconds=5)
    retry_at_most: Duration = timedelta(minutes=10)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if list(self.look_after) != sorted(self.look_after):
            raise ValueError("look_after must go from the shortest to the longest")
        if self.retry_at_most < self.retry_after:
            raise ValueError("retry_at_most must not be shorter than retry_after")
        return self


class StormPolicy(Settings):
    """More than `incidents` new incidents in `window` in a repository are told in one rollup issue."""

    enabled: bool = True
    incidents: int = Field(default=20, ge=2)
    window: Duration = timedelta(minutes=5)
    split_after: Duration = timedelta(hours=1)

    @field_validator("window")
    @classmethod
    def _some_time(cls, value: timedelta) -> timedelta:
        if not value:
            raise ValueError("must be longer than 0s; `enabled: false` switches the rollup off")
        return value
