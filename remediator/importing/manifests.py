"""Careful access to manifests that somebody else wrote: each refusal says which object and which field.

Pure. The kinds are those of nodeops.k8s.preferred.jp/v1alpha1 (node-operation-controller, api/v1alpha1).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chassis.errors import PermanentError

GROUP = "nodeops.k8s.preferred.jp"
NODE_ANNOTATION = f"{GROUP}/nodename"
"""By which node-operation-controller tells a Job's pod the node's name."""
_LONGEST_NAME = 63


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object: its kind, its name, its spec."""

    kind: str
    name: str
    spec: Mapping[str, Any]

    @property
    def title(self) -> str:
        """For messages."""
        return f"{self.kind} {self.name}"

    def part(self, path: str) -> Any:
        """The value at a dotted path below spec, None if it is not there.

        Raises:
            PermanentError: Something on the way is no mapping.
        """
        here: Any = self.spec
        for key in path.split("."):
            if here is None:
                return None
            if not isinstance(here, Mapping):
                raise PermanentError(f"{self.title}: spec.{path}: a mapping is needed above {key}")
            here = here.get(key)
        return here

    def mapping(self, path: str) -> dict[str, Any]:
        """As `part`, where a mapping must be; an absent one is empty."""
        return dict(self._checked(path, Mapping, "a mapping") or {})

    def entries(self, path: str) -> list[Any]:
        """As `part`, where a list must be; an absent one is empty."""
        return list(self._checked(path, list, "a list") or [])

    def _checked(self, path: str, kind: type, words: str) -> Any:
        value = self.part(path)
        if value is not None and not isinstance(value, kind):
            raise PermanentError(f"{self.title}: spec.{path} must be {words}")
        return value


def manifest_of(document: Mapping[str, Any]) -> Manifest | None:
    """The object in a document, None if it is of another API.

    Raises:
        PermanentError: It has no name, or its spec is no mapping.
    """
    if str(document.get("apiVersion", "")).partition("/")[0] != GROUP:
        return None
    kind = str(document.get("kind", ""))
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(name, str) or not name:
        raise PermanentError(f"{kind}: metadata.name is missing")
    spec = document.get("spec", {})
    if not isinstance(spec, Mapping):
        raise PermanentError(f"{kind} {name}: spec must be a mapping")
    return Manifest(kind, name, spec)


def plain_name(name: str) -> str:
    """A Kubernetes name as a name of the configuration: no dots, at most 63 characters."""
    return re.sub(r"[^a-z0-9-]+", "-", name.lower())[:_LONGEST_NAME].strip("-") or "imported"


def matchers(labels: Mapping[str, Any]) -> list[str]:
    """A label selector of equalities as matchers.

    Raises:
        PermanentError: It is another kind of selector.
    """
    for key, value in labels.items():
        if isinstance(value, Mapping | list) or value is None:
            raise PermanentError(f"a selector maps labels to texts, and {key} is none")
    return [f"{_quoted(key)}={_quoted(str(value))}" for key, value in sorted(labels.items())]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
