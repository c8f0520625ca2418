"""Which resources are served now: the built-in ones and those of the CustomResourceDefinitions in the store.

A definition counts from the moment its object is stored. Nothing here changes objects.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sandbox.kubernetes_rules import schemas
from sandbox.kubernetes_rules.resources import (
    BUILT_IN,
    CUSTOM_RESOURCE_DEFINITION,
    ResourceType,
)
from sandbox.kubernetes_server.storage import Store

_Path = tuple[str, str, str]


class Catalogue:
    """Looks definitions up in the store, and reads each only once per version of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._built_in = {(each.group, each.version, each.plural): each for each in BUILT_IN}
        self._kinds = {(each.api_version, each.kind): each for each in BUILT_IN}
        self._names = {each.qualified_plural: each for each in BUILT_IN}
        self._read: dict[str, tuple[int, tuple[ResourceType, ...]]] = {}

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        found = self._built_in.get((group, version, plural))
        if found is not None or "." not in group:
            return found
        return next(
            (each for each in self._defined(f"{plural}.{group}") if each.version == version), None
        )

    def of_kind(self, api_version: str, kind: str) -> ResourceType | None:
        """The resource of an ownerReference or another mention of a kind."""
        found = self._kinds.get((api_version, kind))
        if found is not None:
            return found
        return next(
            (
                each
                for each in self._custom()
                if (each.api_version, each.kind) == (api_version, kind)
            ),
            None,
        )

    def of_collection(self, name: str) -> ResourceType | None:
        """The resource whose objects are kept under this name; None when its definition is gone."""
        found = self._names.get(name)
        return found or next(iter(self._defined(name)), None)

    def all(self) -> tuple[ResourceType, ...]:
        return (*BUILT_IN, *self._custom())

    def kept(self) -> tuple[ResourceType, ...]:
        """Those whose objects are stored, one version each."""
        kept = {each.qualified_plural: each for each in reversed(self.all()) if each.storage}
        return tuple(kept.values())

    def schema(self, kind: ResourceType) -> Mapping[str, Any] | None:
        """The OpenAPI schema of a custom resource's version; None for built-in kinds."""
        definition = self.definition(kind)
        return None if definition is None else schemas.schema_of(definition, kind.version)

    def definition(self, kind: ResourceType) -> Mapping[str, Any] | None:
        if not kind.custom:
            return None
        collection = self._store.collection(CUSTOM_RESOURCE_DEFINITION.qualified_plural)
        record = collection.get(("", kind.qualified_plural))
        return record.body if record else None

    def _custom(self) -> Iterator[ResourceType]:
        collection = self._store.collection(CUSTOM_RESOURCE_DEFINITION.qualified_plural)
        for record in collection.records():
            yield from self._defined(record.key[1])

    def _defined(self, name: str) -> Iterable[ResourceType]:
        collection = self._store.collection(CUSTOM_RESOURCE_DEFINITION.qualified_plural)
        record = collection.get(("", name))
        if record is None:
            return ()
        known = self._read.get(name)
        if known is None or known[0] != record.version:
            known = (record.version, schemas.kinds_of(record.body))
            self._read[name] = known
        return known[1]
