"""What the garbage collector does with dependents when their owner goes. Pure.

An owner is known by its UID alone: one of the same name that came later is another.
"""

from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sweep:
    """`delete`: to be deleted in the background. `release`: to be stored as they are here, with one owner fewer."""

    delete: tuple[Object, ...] = ()
    release: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class ForegroundStep:
    """One step of a foreground deletion: `delete` these, and the owner may go once nothing blocks it."""

    delete: tuple[Object, ...]
    owner_may_go: bool


def owner_uids(obj: Object) -> frozenset[str]:
    references = obj["metadata"].get("ownerReferences") or ()
    return frozenset(each["uid"] for each in references if each.get("uid"))


def dependents(owner_uid: str, objects: Iterable[Object]) -> list[Object]:
    return [each for each in objects if owner_uid in owner_uids(each)]


def swept(objects: Iterable[Object], living: Collection[str]) -> Sweep:
    """Background: what all owners of are gone goes; what has another living owner loses the reference.

    `living` are the UIDs of all objects that exist.
    """
    delete: list[Object] = []
    release: list[dict[str, Any]] = []
    for each in objects:
        owners = owner_uids(each)
        gone = {uid for uid in owners if uid not in living}
        if owners and gone == owners:
            delete.append(each)
        elif gone:
            release.append(without_owners(each, gone))
    return Sweep(tuple(delete), tuple(release))


def foreground_step(owner_uid: str, objects: Iterable[Object]) -> ForegroundStep:
    """Of an owner with the finalizer foregroundDeletion: it waits for those that block its deletion."""
    held = dependents(owner_uid, objects)
    delete = [each for each in held if not each["metadata"].get("deletionTimestamp")]
    blocking = [each for each in held if _blocks(each, owner_uid)]
    return ForegroundStep(tuple(delete), not blocking)


def _blocks(obj: Object, owner_uid: str) -> bool:
    references = obj["metadata"].get("ownerReferences") or ()
    return any(e.get("uid") == owner_uid and e.get("blockOwnerDeletion") for e in references)


def orphaned(owner_uid: str, objects: Iterable[Object]) -> tuple[dict[str, Any], ...]:
    """Of an owner with the finalizer orphan: its dependents without the reference."""
    return tuple(without_owners(each, {owner_uid}) for each in dependents(owner_uid, objects))


def without_owners(obj: Object, uids: Collection[str]) -> dict[str, Any]:
    fresh = deepcopy(dict(obj))
    references = fresh["metadata"].pop("ownerReferences", None) or []
    kept = [each for each in references if each.get("uid") not in uids]
    if kept:
        fresh["metadata"]["ownerReferences"] = kept
    return fresh
