"""What custom resources need beyond built-in kinds: their schema applied, unknown fields said, definitions established."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from sandbox.kubernetes_rules import schemas
from sandbox.kubernetes_rules.resources import CUSTOM_RESOURCE_DEFINITION, ResourceType
from sandbox.kubernetes_rules.statuses import Cause, bad_request
from sandbox.kubernetes_server.calls import Actor
from sandbox.kubernetes_server.catalogue import Catalogue
from sandbox.kubernetes_server.storage import Body, ChangedMeanwhileError, Record, Store


class CustomResources:
    """Does nothing for kinds that are built in, except for CustomResourceDefinitions themselves."""

    def __init__(self, store: Store, catalogue: Catalogue, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._catalogue = catalogue
        self._now = clock

    def checked(self, kind: ResourceType, body: Body, actor: Actor) -> Body:
        """The body as sent, its unknown fields told as the client asked (fieldValidation).

        Raises:
            Refusal: There are some, and the client is strict (400).
        """
        if kind is CUSTOM_RESOURCE_DEFINITION:
            return schemas.with_definition_defaults(body)
        schema = self._catalogue.schema(kind)
        if schema is None or actor.checking == "Ignore":
            return body
        unknown = [
            f'unknown field "{path}"' for path in _missing(body, schemas.completed(body, schema))
        ]
        if unknown and actor.checking == "Strict":
            raise bad_request(f"strict decoding error: {', '.join(unknown)}")
        for each in unknown:
            actor.warn(each)
        return body

    def prepared(self, kind: ResourceType, ready: Body) -> Body:
        if kind is CUSTOM_RESOURCE_DEFINITION:
            return self._established(ready)
        schema = self._catalogue.schema(kind)
        return ready if schema is None else schemas.completed(ready, schema)

    def causes(self, kind: ResourceType, ready: Body, old: Mapping[str, Any] | None) -> list[Cause]:
        """What the schema, or the rules of definitions, have against an object that changes."""
        if ready == old:
            return []
        if kind is CUSTOM_RESOURCE_DEFINITION:
            return schemas.definition_causes(ready)
        schema = self._catalogue.schema(kind)
        return [] if schema is None else schemas.check_object(ready, schema)

    def definition_gone(self, kind: ResourceType, definition: Record) -> None:
        """A definition takes all objects of its kind with it."""
        if kind is not CUSTOM_RESOURCE_DEFINITION:
            return
        name = definition.key[1]
        for record in self._store.collection(name).records():
            try:
                self._store.delete(name, record)
            except ChangedMeanwhileError:
                continue  # whoever was faster has removed it; nobody can write it any more

    def _established(self, definition: Body) -> Body:
        """One that is wrong stays as it is: `causes` says what is wrong."""
        if schemas.definition_causes(definition):
            return definition
        return schemas.established(definition, self._now())


def _missing(sent: Any, kept: Any, path: str = "") -> Iterator[str]:
    """The paths of what was sent and is not kept."""
    if isinstance(sent, dict) and isinstance(kept, dict):
        for name, value in sent.items():
            inner = f"{path}.{name}" if path else name
            if name in kept:
                yield from _missing(value, kept[name], inner)
            else:
                yield inner
    elif isinstance(sent, list) and isinstance(kept, list):
        for number, (one, other) in enumerate(zip(sent, kept, strict=False)):
            yield from _missing(one, other, f"{path}[{number}]")
