"""Takes out of a CustomResourceDefinition what only the real API server carries out. Pure.

Whoever puts a shipped definition on the embedded Kubernetes says so by calling this: by itself the server refuses it.
"""

from collections.abc import Mapping
from typing import Any

CEL = "x-kubernetes-validations"


def without_cel_rules(definition: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the definition whose schemas hold no CEL rules; a property of that name stays."""
    spec = definition["spec"]
    versions = [_version(each) for each in spec["versions"]]
    return {**definition, "spec": {**spec, "versions": versions}}


def _version(version: Mapping[str, Any]) -> dict[str, Any]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        return dict(version)
    return {**version, "schema": {"openAPIV3Schema": _stripped(schema)}}


def _stripped(schema: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in schema.items() if key != CEL}
    if "properties" in kept:
        kept["properties"] = {name: _stripped(each) for name, each in kept["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(kept.get(key), Mapping):
            kept[key] = _stripped(kept[key])
    return kept
