"""What an API server says about itself: groups, resources, version, health. Pure: from the list of served types."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sandbox.kubernetes_rules.resources import ResourceType

MAJOR, MINOR = "1", "36"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_SUBRESOURCE_VERBS: Mapping[str, tuple[str, ...]] = {
    "status": ("get", "patch", "update"),
    "scale": ("get", "patch", "update"),
    "eviction": ("create",),
    "binding": ("create",),
    "token": ("create",),
    "log": ("get",),
    "finalize": ("update",),
}
_SUBRESOURCE_KINDS: Mapping[str, tuple[str, str, str]] = {
    "eviction": ("policy", "v1", "Eviction"),
    "binding": ("", "v1", "Binding"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}
Body = dict[str, Any]


def version() -> Body:
    return {
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": f"v{MAJOR}.{MINOR}.0-sandbox",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "linux/amd64",
    }


def api_versions(address: str) -> Body:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(types: Iterable[ResourceType]) -> Body:
    groups = [group for group in _groups(types) if group]
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(group, _versions(types, group)) for group in groups],
    }


def group(types: Iterable[ResourceType], name: str) -> Body | None:
    versions = _versions(types, name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions else None


def resource_list(types: Iterable[ResourceType], name: str, version_name: str) -> Body | None:
    """The resources of one group version; None when there are none."""
    chosen = [each for each in types if (each.group, each.version) == (name, version_name)]
    if not chosen:
        return None
    resources = [entry for each in chosen for entry in _entries(each)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{name}/{version_name}" if name else version_name,
        "resources": resources,
    }


def aggregated(types: Sequence[ResourceType], *, core: bool) -> Body:
    """All of /api or of /apis in one answer, as kubectl asks for it."""
    names = [each for each in _groups(types) if (each == "") == core]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_group_discovery(types, each) for each in names],
    }


def _groups(types: Iterable[ResourceType]) -> list[str]:
    return sorted({each.group for each in types})


def _versions(types: Iterable[ResourceType], name: str) -> list[str]:
    return list(dict.fromkeys(each.version for each in types if each.group == name))


def _group(name: str, versions: Sequence[str]) -> Body:
    entries = [{"groupVersion": f"{name}/{each}", "version": each} for each in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _entries(each: ResourceType) -> Iterable[Body]:
    yield {
        "name": each.plural,
        "singularName": each.singular,
        "namespaced": each.namespaced,
        "kind": each.kind,
        "verbs": list(_VERBS),
        "shortNames": list(each.short_names),
        "categories": list(each.categories),
    }
    for sub in sorted(each.subresources):
        kind_group, kind_version, kind = _SUBRESOURCE_KINDS.get(sub, ("", "", each.kind))
        entry: Body = {
            "name": f"{each.plural}/{sub}",
            "singularName": "",
            "namespaced": each.namespaced,
            "kind": kind,
            "verbs": list(_SUBRESOURCE_VERBS.get(sub, ("get",))),
        }
        if kind_version:
            entry |= {"group": kind_group, "version": kind_version}
        yield entry


def _group_discovery(types: Sequence[ResourceType], name: str) -> Body:
    versions = [
        {
            "version": version_name,
            "freshness": "Current",
            "resources": [
                _resource_discovery(each)
                for each in types
                if (each.group, each.version) == (name, version_name)
            ],
        }
        for version_name in _versions(types, name)
    ]
    return {"metadata": {"name": name} if name else {}, "versions": versions}


def _resource_discovery(each: ResourceType) -> Body:
    kind = {"group": each.group, "version": each.version, "kind": each.kind}
    return {
        "resource": each.plural,
        "responseKind": kind,
        "scope": "Namespaced" if each.namespaced else "Cluster",
        "singularResource": each.singular,
        "verbs": list(_VERBS),
        "shortNames": list(each.short_names),
        "categories": list(each.categories),
        "subresources": [
            {
                "subresource": sub,
                "responseKind": kind,
                "verbs": list(_SUBRESOURCE_VERBS.get(sub, ("get",))),
            }
            for sub in sorted(each.subresources)
        ],
    }
