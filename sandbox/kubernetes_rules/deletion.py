"""What a DELETE makes of an object: gone, or waiting for its grace period and its finalizers. Pure."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from sandbox.kubernetes_rules.field_checks import one_of
from sandbox.kubernetes_rules.resources import ResourceType
from sandbox.kubernetes_rules.statuses import Refusal, conflict, invalid

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_FINALIZER_OF_POLICY = {"Orphan": ORPHAN, "Foreground": FOREGROUND, "Background": None}
_ORPHANS_BY_DEFAULT = frozenset({"Job"})
_ENDED = frozenset({"Succeeded", "Failed"})
_USUAL_GRACE = 30
_OPTIONS = ResourceType("meta.k8s.io", "v1", "DeleteOptions", "deleteoptions", "deleteoptions")


class Outcome(StrEnum):
    """What has become of the object."""

    FINALISED = "finalised"  # to be removed now
    TERMINATING = "terminating"  # to be stored as it is in the result
    UNCHANGED = "unchanged"  # was terminating already


@dataclass(frozen=True, slots=True)
class Deletion:
    """`object` is what the client gets and, while terminating, what is stored."""

    outcome: Outcome
    object: dict[str, Any]


def rfc3339(instant: datetime) -> str:
    """As Kubernetes writes times: UTC, whole seconds."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def deletion(
    obj: Mapping[str, Any],
    options: Mapping[str, Any] | None,
    now: datetime,
    kind: ResourceType,
) -> Deletion:
    """What `obj` becomes by a DELETE with these DeleteOptions.

    Raises:
        Refusal: 409 for a precondition that does not hold, 422 for options that make no sense.
    """
    asked = options or {}
    _check_options(asked)
    _check_preconditions(obj, asked.get("preconditions") or {}, kind)
    fresh = deepcopy(dict(obj))
    _put_finalizers(fresh, asked.get("propagationPolicy"), kind)
    grace = _grace(fresh, asked.get("gracePeriodSeconds"), kind)
    _mark(fresh, grace, now)
    if kind.kind == "Namespace" and (fresh.get("spec") or {}).get("finalizers"):
        fresh["metadata"].pop("deletionGracePeriodSeconds", None)
        fresh["status"] = {**(fresh.get("status") or {}), "phase": "Terminating"}
    if may_be_removed(fresh):
        return Deletion(Outcome.FINALISED, fresh)
    return Deletion(Outcome.UNCHANGED if fresh == obj else Outcome.TERMINATING, fresh)


def may_be_removed(obj: Mapping[str, Any]) -> bool:
    """Deleted, and nothing holds it any more: no grace left, no finalizer. Asked after each update, too."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if obj.get("kind") == "Namespace" and (obj.get("spec") or {}).get("finalizers"):
        return False
    return not meta.get("deletionGracePeriodSeconds")


def _check_options(options: Mapping[str, Any]) -> None:
    policy = options.get("propagationPolicy")
    allowed = ("Foreground", "Background", "Orphan", "nil")
    causes = one_of(policy, allowed, "propagationPolicy")
    if causes:
        raise invalid(_OPTIONS, "", causes)


def _check_preconditions(
    obj: Mapping[str, Any], wanted: Mapping[str, Any], kind: ResourceType
) -> None:
    meta = obj["metadata"]
    uid, version = wanted.get("uid"), wanted.get("resourceVersion")
    if uid and uid != meta.get("uid"):
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({meta.get('uid')})."
            " The object might have been deleted and then recreated"
        )
        raise _unmet(kind, meta["name"], why)
    if version and version != meta.get("resourceVersion"):
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record"
            f" ({meta.get('resourceVersion')}). The object might have been modified"
        )
        raise _unmet(kind, meta["name"], why)


def _unmet(kind: ResourceType, name: str, why: str) -> Refusal:
    refusal = conflict(kind, name, why, word=kind.qualified_kind)
    refusal.status["details"]["kind"] = kind.kind
    return refusal


def _put_finalizers(obj: dict[str, Any], policy: str | None, kind: ResourceType) -> None:
    """The policy becomes a finalizer, which the garbage collector takes off when it has done its part."""
    meta = obj["metadata"]
    held = list(meta.get("finalizers") or [])
    if policy is None:
        if meta.get("deletionTimestamp") or set(held) & {ORPHAN, FOREGROUND}:
            return
        policy = "Orphan" if kind.kind in _ORPHANS_BY_DEFAULT and not kind.custom else "Background"
    wanted = _FINALIZER_OF_POLICY.get(policy)
    held = [each for each in held if each == wanted or each not in {ORPHAN, FOREGROUND}]
    if wanted and wanted not in held:
        held.append(wanted)
    meta.pop("finalizers", None)
    if held:
        meta["finalizers"] = held


def _grace(obj: Mapping[str, Any], asked: Any, kind: ResourceType) -> int:
    if (kind.group, kind.kind) != ("", "Pod"):
        return 0
    spec = obj.get("spec") or {}
    ended = (obj.get("status") or {}).get("phase") in _ENDED
    if not spec.get("nodeName") or ended:
        return 0
    usual = spec.get("terminationGracePeriodSeconds", _USUAL_GRACE)
    seconds = int(usual if asked is None else asked)
    return max(seconds, 1) if seconds < 0 else seconds


def _mark(obj: dict[str, Any], grace: int, now: datetime) -> None:
    """A second deletion can only shorten the grace of the first."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp"):
        meta["deletionTimestamp"] = rfc3339(now + timedelta(seconds=grace))
        meta["deletionGracePeriodSeconds"] = grace
        if meta.get("generation"):
            meta["generation"] += 1
        return
    earlier = int(meta.get("deletionGracePeriodSeconds") or 0)
    if grace < earlier:
        due = datetime.fromisoformat(meta["deletionTimestamp"])
        meta["deletionTimestamp"] = rfc3339(due - timedelta(seconds=earlier - grace))
        meta["deletionGracePeriodSeconds"] = grace
