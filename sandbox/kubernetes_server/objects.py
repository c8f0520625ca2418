"""Makes, changes and deletes objects: the rules applied, webhooks asked, the store compared with what was read.

Used by the HTTP verbs and by the controllers. No lock is held while webhooks are asked; a write that
was overtaken starts again from the object as it is then, unless the client named a version.
"""

import secrets
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from sandbox.kubernetes_rules import defaults, statuses, validation
from sandbox.kubernetes_rules import objects as rules
from sandbox.kubernetes_rules.resources import NAMESPACE, POD, PRIORITY_CLASS, ResourceType
from sandbox.kubernetes_server.calls import Actor
from sandbox.kubernetes_server.catalogue import Catalogue
from sandbox.kubernetes_server.custom import CustomResources
from sandbox.kubernetes_server.reading import get
from sandbox.kubernetes_server.storage import Body, ChangedMeanwhileError, Key, Record, Store
from sandbox.kubernetes_server.webhooks import Admission, Webhooks

Change = Callable[[Body], Body]
_TRIES = 8
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_UNCHECKED = frozenset({"binding", "ephemeralcontainers"})
"""Subresources that change what the object's own rules keep; the caller has made the result itself."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What a deletion did: `gone` at once, or only marked (a grace period, finalizers)."""

    record: Record
    gone: bool


class Objects:
    """All writes of the sandbox Kubernetes."""

    def __init__(self, store: Store, catalogue: Catalogue, clock: Callable[[], datetime]) -> None:
        self.store = store
        self.catalogue = catalogue
        self.now = clock
        self._webhooks = Webhooks(store)
        self._custom = CustomResources(store, catalogue, clock)

    def create(self, kind: ResourceType, namespace: str, body: Body, actor: Actor) -> Record:
        """Keep a new object.

        Raises:
            Refusal: Invalid, not admitted, or there is one of this name.
        """
        self._check_namespace(kind, namespace, body)
        generated = not (body.get("metadata") or {}).get("name")
        body = self._custom.checked(kind, body, actor)
        asked = self._admission(kind, "CREATE", self._defaulted(kind, body), None, actor)
        wanted = self._webhooks.mutate(asked, actor.warn) or body
        ready: Body = {}
        for _ in range(_TRIES if generated else 1):
            ready = self._prepared(kind, namespace, wanted)
            self._webhooks.validate(self._admission(kind, "CREATE", ready, None, actor), actor.warn)
            try:
                return self._keep_new(kind, (namespace, ready["metadata"]["name"]), ready, actor)
            except ChangedMeanwhileError:
                continue
        refuse = statuses.name_taken if generated else statuses.already_exists
        raise refuse(kind, ready["metadata"]["name"])

    def update(
        self,
        kind: ResourceType,
        namespace: str,
        name: str,
        change: Change,
        actor: Actor,
        subresource: str = "",
    ) -> Record:
        """Change an object; `change` gets a copy of it, perhaps more than once.

        Raises:
            Refusal: There is none, the result is invalid or not admitted, or names another version.
        """
        for _ in range(_TRIES):
            current = get(self.store, kind, namespace, name)
            ready = self._changed(kind, current, change(current.copy()), actor, subresource)
            if ready == current.body:
                return current
            if actor.dry_run:
                return unsaved(current.key, ready)
            try:
                return self._keep(kind, current, ready)
            except ChangedMeanwhileError:
                continue
        raise statuses.conflict(kind, name)

    def delete(
        self,
        kind: ResourceType,
        namespace: str,
        name: str,
        actor: Actor,
        options: Mapping[str, Any] | None = None,
    ) -> Removal:
        """Delete an object, or begin to.

        Raises:
            Refusal: There is none, a precondition does not hold, or it is not admitted.
        """
        while True:
            current = get(self.store, kind, namespace, name)
            self._check_deletable(kind, current)
            plan = rules.deletion(current.body, options, self.now(), kind)
            asked = self._admission(kind, "DELETE", None, current.body, actor)
            self._webhooks.mutate(asked, actor.warn)
            self._webhooks.validate(asked, actor.warn)
            gone = plan.outcome == rules.Outcome.FINALISED
            if actor.dry_run or plan.outcome == rules.Outcome.UNCHANGED:
                return Removal(unsaved(current.key, plan.object), gone=gone)
            try:
                return self._remove(kind, current, plan.object, gone=gone)
            except ChangedMeanwhileError:
                continue

    # Steps of a creation.

    def _defaulted(self, kind: ResourceType, body: Body) -> Body:
        """As webhooks see a new object: with defaults, before it has a UID."""
        filled = defaults.with_defaults(body, kind)
        if kind is not POD:
            return filled
        classes = self.store.collection(PRIORITY_CLASS.qualified_plural).records()
        return defaults.with_priority(filled, (each.body for each in classes), kind)

    def _prepared(self, kind: ResourceType, namespace: str, wanted: Body) -> Body:
        ready = rules.prepare_create(
            wanted,
            kind,
            now=self.now(),
            uid=str(uuid.uuid4()),
            random_suffix="".join(secrets.choice(SUFFIX_LETTERS) for _ in range(5)),
            namespace=namespace if kind.namespaced else None,
        )
        ready = self._custom.prepared(kind, ready)
        causes = [*validation.check_create(ready, kind), *self._custom.causes(kind, ready, None)]
        if causes:
            raise statuses.invalid(kind, ready["metadata"].get("name", ""), causes)
        return ready

    def _keep_new(self, kind: ResourceType, key: Key, ready: Body, actor: Actor) -> Record:
        if actor.dry_run:
            if self.store.collection(kind.qualified_plural).get(key) is not None:
                raise ChangedMeanwhileError
            return unsaved(key, ready)
        return self.store.create(kind.qualified_plural, key, ready)

    def _check_namespace(self, kind: ResourceType, namespace: str, body: Body) -> None:
        """Nothing new comes into a namespace that is not there or is going."""
        if not kind.namespaced:
            return
        found = self.store.collection(NAMESPACE.plural).get(("", namespace))
        if found is None:
            raise statuses.not_found(NAMESPACE, namespace)
        if found.body["metadata"].get("deletionTimestamp"):
            name = (body.get("metadata") or {}).get("name", "")
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            refusal = statuses.forbidden(kind, name, why)
            cause = {"reason": "NamespaceTerminating", "field": "metadata.namespace"}
            message = f"namespace {namespace} is being terminated"
            refusal.status["details"]["causes"] = [{**cause, "message": message}]
            raise refusal

    # Steps of a change.

    def _changed(
        self, kind: ResourceType, current: Record, wanted: Body, actor: Actor, subresource: str
    ) -> Body:
        if subresource in _UNCHECKED:
            return wanted
        sub = None if subresource == "finalize" else subresource or None
        wanted = self._custom.checked(kind, wanted, actor)
        asked = self._admission(kind, "UPDATE", wanted, current.body, actor, subresource)
        wanted = self._webhooks.mutate(asked, actor.warn) or wanted
        ready = rules.prepare_update(current.body, wanted, kind, subresource=sub)
        ready = self._custom.prepared(kind, ready)
        causes = [
            *validation.check_update(current.body, ready, kind, subresource=sub),
            *self._custom.causes(kind, ready, current.body),
        ]
        if causes:
            raise statuses.invalid(kind, current.key[1], causes)
        asked = self._admission(kind, "UPDATE", ready, current.body, actor, subresource)
        self._webhooks.validate(asked, actor.warn)
        return ready

    def _keep(self, kind: ResourceType, current: Record, ready: Body) -> Record:
        """Store a change; an object under deletion that nothing holds any more goes with it."""
        if rules.may_be_removed(ready):
            return self._remove(kind, current, ready, gone=True).record
        return self.store.replace(kind.qualified_plural, current, ready)

    # Steps of a deletion.

    def _remove(self, kind: ResourceType, current: Record, last: Body, *, gone: bool) -> Removal:
        if not gone:
            return Removal(self.store.replace(kind.qualified_plural, current, last), gone=False)
        removed = self.store.delete(kind.qualified_plural, current, last)
        self._custom.definition_gone(kind, removed)
        return Removal(removed, gone=True)

    def _check_deletable(self, kind: ResourceType, current: Record) -> None:
        if kind is NAMESPACE and current.key[1] in {"default", "kube-system", "kube-public"}:
            raise statuses.forbidden(kind, current.key[1], "this namespace may not be deleted")

    def _admission(
        self,
        kind: ResourceType,
        operation: str,
        new: Body | None,
        old: Mapping[str, Any] | None,
        actor: Actor,
        subresource: str = "",
    ) -> Admission:
        metadata = (new if new is not None else old or {}).get("metadata") or {}
        return Admission(
            operation=operation,
            type=kind,
            namespace=metadata.get("namespace") or "",
            name=metadata.get("name") or "",
            user=actor.user_info(),
            new=new,
            old=dict(old) if old is not None else None,
            subresource=subresource,
            dry_run=actor.dry_run,
        )


def unsaved(key: Key, body: Body) -> Record:
    """What a dry run shows."""
    return Record(key, body, orjson.dumps(body), 0)
