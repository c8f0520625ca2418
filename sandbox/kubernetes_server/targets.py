"""Takes a request's address apart: which resource, object and subresource, which verb, which parameters. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote

_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_TRUE = frozenset({"true", "1"})


@dataclass(frozen=True, slots=True)
class Target:
    """What the path names; `name` is empty for a whole collection."""

    group: str
    version: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Params:
    """The query of a request."""

    values: Mapping[str, str]

    def text(self, name: str) -> str:
        return self.values.get(name, "")

    def flag(self, name: str) -> bool:
        return self.values.get(name, "").lower() in _TRUE

    def has(self, name: str) -> bool:
        return name in self.values

    def number(self, name: str) -> int | None:
        """None when it is absent; ValueError when it is not a number."""
        text = self.values.get(name, "")
        return int(text) if text else None


def parse_query(query: str) -> Params:
    parsed = parse_qs(query, keep_blank_values=True)
    return Params({name: values[-1] for name, values in parsed.items()})


def parse_path(path: str) -> Target | None:
    """The resource that a path names; None for discovery and everything that is no resource."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) > 2:  # noqa: PLR2004  (api, version, resource)
        return _below("", parts[1], parts[2:])
    if parts[0] == "apis" and len(parts) > 3:  # noqa: PLR2004  (apis, group, version, resource)
        return _below(parts[1], parts[2], parts[3:])
    return None


def verb_of(method: str, target: Target, params: Params) -> str:
    """Kubernetes' name for what is asked; empty when the method means nothing here."""
    if method in {"GET", "HEAD"}:
        if target.name:
            return "get"
        return "watch" if params.flag("watch") else "list"
    if method == "DELETE":
        return "delete" if target.name else "deletecollection"
    return {"POST": "create", "PUT": "update", "PATCH": "patch"}.get(method, "")


def _below(group: str, version: str, parts: list[str]) -> Target | None:
    if parts[0] == "watch" and len(parts) > 1:
        return None  # the old way to watch is not served
    namespace = ""
    within = parts[0] == "namespaces" and len(parts) > 2  # noqa: PLR2004  (namespaces, NS, resource)
    if within and (group or parts[2] not in _NAMESPACE_SUBRESOURCES):
        namespace, parts = parts[1], parts[2:]
    resource, name, *rest = [*parts, ""] if len(parts) == 1 else parts
    return Target(group, version, resource, namespace, name, "/".join(rest))
