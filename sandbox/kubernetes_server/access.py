"""Who asks (tokens, impersonation) and whether RBAC lets them. Reads roles from the store; keeps the tokens."""

import hashlib
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sandbox.kubernetes_server.storage import Store

ADMINS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
_RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class User:
    """Who asks, as RBAC sees it."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def named_user(name: str, groups: Iterable[str] = ()) -> User:
    """Somebody who has shown who he is; a service account gets the groups that it always has."""
    own = tuple(groups)
    parts = name.split(":")
    if parts[:2] == ["system", "serviceaccount"] and len(parts) == 4:  # noqa: PLR2004
        own += ("system:serviceaccounts", f"system:serviceaccounts:{parts[2]}")
    return User(name, (*own, AUTHENTICATED))


ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token's user, its end, and the objects (collection, namespace, name, UID) it is bound to."""

    user: User
    expires: datetime | None = None
    bound_to: tuple[tuple[str, str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Attributes:
    """What somebody wants to do; `path` is for requests that are no resource."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class Tokens:
    """Only hashes of tokens are kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, Token] = {}

    def issue(self, token: Token, text: str | None = None) -> str:
        text = text or f"sandbox-{secrets.token_urlsafe(24)}"
        with self._lock:
            self._known[_hash(text)] = token
        return text

    def revoke(self, text: str) -> None:
        with self._lock:
            self._known.pop(_hash(text), None)

    def user(self, text: str, store: Store, now: datetime) -> User | None:
        """Whose token this is; None for one that is unknown, over, or bound to what is gone."""
        token = self._known.get(_hash(text))
        if token is None or (token.expires is not None and token.expires <= now):
            return None
        if not all(_exists(store, each) for each in token.bound_to):
            return None
        return token.user


def allowed(store: Store, user: User, wanted: Attributes) -> bool:
    """Kubernetes' RBAC: a binding whose subject is the user and whose role has a rule for it."""
    if ADMINS in user.groups:
        return True
    if not wanted.resource and wanted.verb == "get" and _public(wanted.path):
        return True
    return any(_rule_allows(rule, wanted) for rule in _rules_of(store, user, wanted.namespace))


def _rules_of(store: Store, user: User, namespace: str) -> Iterator[Mapping[str, Any]]:
    for record in store.collection(f"clusterrolebindings.{_RBAC}").records():
        if _binds(record.body, user, ""):
            yield from _role_rules(store, record.body["roleRef"], "")
    if not namespace:
        return
    for record in store.collection(f"rolebindings.{_RBAC}").records(namespace):
        if _binds(record.body, user, namespace):
            yield from _role_rules(store, record.body["roleRef"], namespace)


def _binds(binding: Mapping[str, Any], user: User, namespace: str) -> bool:
    return any(_is_subject(each, user, namespace) for each in binding.get("subjects") or ())


def _is_subject(subject: Mapping[str, Any], user: User, namespace: str) -> bool:
    name = subject.get("name", "")
    match subject.get("kind"):
        case "User":
            return bool(name == user.name)
        case "Group":
            return name in user.groups
        case "ServiceAccount":
            owner = subject.get("namespace") or namespace
            return bool(user.name == f"system:serviceaccount:{owner}:{name}")
    return False


def _role_rules(store: Store, ref: Mapping[str, Any], namespace: str) -> list[Mapping[str, Any]]:
    cluster = ref.get("kind") == "ClusterRole"
    collection = store.collection(f"{'clusterroles' if cluster else 'roles'}.{_RBAC}")
    record = collection.get(("" if cluster else namespace, ref.get("name", "")))
    if record is None:
        return []
    return [*(record.body.get("rules") or ()), *_aggregated(store, record.body)]


def _aggregated(store: Store, role: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
    for selector in selectors:
        wanted = (selector.get("matchLabels") or {}).items()
        for record in store.collection(f"clusterroles.{_RBAC}").records():
            if wanted and wanted <= (record.body["metadata"].get("labels") or {}).items():
                yield from record.body.get("rules") or ()


def _rule_allows(rule: Mapping[str, Any], wanted: Attributes) -> bool:
    if not _has(rule.get("verbs"), wanted.verb):
        return False
    if not wanted.resource:
        return any(_path_matches(each, wanted.path) for each in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames")
    return (
        _has(rule.get("apiGroups"), wanted.group)
        and _resource_matches(rule.get("resources") or (), wanted)
        and (not names or wanted.name in names)
    )


def _resource_matches(resources: Iterable[str], wanted: Attributes) -> bool:
    full = f"{wanted.resource}/{wanted.subresource}" if wanted.subresource else wanted.resource
    any_of = f"*/{wanted.subresource}" if wanted.subresource else "*"
    return any(each in {"*", full, any_of} for each in resources)


def _has(values: Iterable[str] | None, value: str) -> bool:
    return any(each in {"*", value} for each in values or ())


def _path_matches(pattern: str, path: str) -> bool:
    if pattern.endswith("*"):
        return path.startswith(pattern[:-1])
    return path == pattern


def _public(path: str) -> bool:
    open_to_all = ("/healthz", "/livez", "/readyz", "/version", "/api", "/apis", "/openapi")
    return path.startswith(open_to_all)


def _exists(store: Store, bound: tuple[str, str, str, str]) -> bool:
    collection, namespace, name, uid = bound
    record = store.collection(collection).get((namespace, name))
    return record is not None and (not uid or record.body["metadata"].get("uid") == uid)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
