"""One request to a resource, taken apart once: what all verbs need to know about it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from sandbox.kubernetes_rules.resources import ResourceType
from sandbox.kubernetes_rules.statuses import bad_request
from sandbox.kubernetes_server import protobuf
from sandbox.kubernetes_server.access import User
from sandbox.kubernetes_server.storage import Body
from sandbox.kubernetes_server.targets import Params, Target
from sandbox.kubernetes_server.wire import Request


@dataclass(frozen=True, slots=True)
class Actor:
    """Who writes and how. `checking` is fieldValidation: Ignore, Warn or Strict."""

    user: User
    dry_run: bool = False
    checking: str = "Ignore"
    warn: Callable[[str], None] = field(default=lambda _: None)

    def user_info(self) -> dict[str, Any]:
        info: dict[str, Any] = {"username": self.user.name, "groups": list(self.user.groups)}
        if self.user.uid:
            info["uid"] = self.user.uid
        if self.user.extra:
            info["extra"] = {name: list(values) for name, values in self.user.extra.items()}
        return info


@dataclass(frozen=True, slots=True)
class Call:
    """A request whose resource is served."""

    kind: ResourceType
    target: Target
    params: Params
    request: Request
    actor: Actor
    warnings: list[str]

    @property
    def headers(self) -> Mapping[str, str]:
        return self.request.headers

    def deleting(self, options: Mapping[str, Any] | None) -> Actor:
        """Who deletes: DeleteOptions may ask for a dry run, too."""
        dry = self.actor.dry_run or "All" in ((options or {}).get("dryRun") or ())
        return replace(self.actor, dry_run=dry)

    def number(self, name: str) -> int | None:
        """A whole number from the query.

        Raises:
            Refusal: It is none (400).
        """
        try:
            return self.params.number(name)
        except ValueError:
            text = self.params.text(name)
            raise bad_request(f'invalid value "{text}" for {name}: not a number') from None

    def json(self) -> Any:
        """The body.

        Raises:
            Refusal: It is no JSON, or in an encoding that is not served (400, 415).
        """
        if not self.request.body:
            return None
        if self.headers.get("content-type", "").startswith(protobuf.MEDIA_TYPE):
            return protobuf.decoded(self.request.body)
        try:
            return orjson.loads(self.request.body)
        except ValueError as error:
            raise bad_request(f"the body of the request is no JSON: {error}") from error

    def body(self) -> Body:
        """The body as an object.

        Raises:
            Refusal: It is none (400).
        """
        found = self.json()
        if not isinstance(found, dict):
            raise bad_request("the body of the request must be an object")
        return found
