"""Builders for the tests of gpu_admission's decisions: catalogues, pods, and pods as patched."""

from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from gpu_admission.catalogue import (
    Catalogue,
    CatalogueSettings,
    NamespaceView,
    PriorityClasses,
    compile_catalogue,
)
from gpu_admission.mutation import Decision, Denied, Mutated, mutate
from sandbox.kubernetes_rules.json_patch import apply_operations

CATALOGUES = Path(__file__).parent / "catalogues"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
P = "preferred.jp/gpu-"
GPU = "nvidia.com/gpu"
LABEL = "nvidia.com/gpu.product"
ANNOTATION = "preferred.jp/gpu-selection"
CPU_RESOURCE = "preferred.jp/cpu-for-high-priority-cpu-pods"
HIGH, LOW = 1000, 0
TEAM = NamespaceView("team", {})


def settings_of(name: str = "cluster", **overrides: Any) -> dict[str, Any]:
    """A catalogue's file as data, with whole sections replaced."""
    data: dict[str, Any] = yaml.safe_load((CATALOGUES / f"{name}.yaml").read_text("utf-8"))
    return {**data, **overrides}


def catalogue_of(name: str = "cluster", **overrides: Any) -> Catalogue:
    """A compiled catalogue."""
    return compile_catalogue(CatalogueSettings.model_validate(settings_of(name, **overrides)))


def with_model(model: str, **changes: Any) -> list[dict[str, Any]]:
    """The models of the cluster, one of them changed."""
    models: list[dict[str, Any]] = settings_of()["models"]
    return [{**each, **changes} if each["id"] == model else each for each in models]


CLUSTER = catalogue_of()


def a_container(name: str = "train", **limits: Any) -> dict[str, Any]:
    """A container; `gpu_any_24gb="1"` is our key, in limits and (as the API server does it) requests."""
    wanted = {_key(key): value for key, value in limits.items()}
    resources = {"limits": wanted, "requests": dict(wanted)}
    return {
        "name": name,
        "image": "example/train:1",
        **({"resources": resources} if limits else {}),
    }


def _key(name: str) -> str:
    if name.startswith("gpu_"):
        return P + name.removeprefix("gpu_").replace("_", "-")
    return {"nvidia": GPU, "mncore": "preferred.jp/mncore"}.get(name, name)


def a_pod(
    *containers: dict[str, Any],
    priority: int | None = LOW,
    init: list[dict[str, Any]] | None = None,
    metadata: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod as the webhook sees it."""
    whole: dict[str, Any] = {"containers": list(containers) or [a_container()], **spec}
    if init is not None:
        whole["initContainers"] = init
    if priority is not None:
        whole["priority"] = priority
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train-0", **(metadata or {})},
        "spec": whole,
    }


def asking(key: str, amount: Any = "1", **pod: Any) -> dict[str, Any]:
    """A pod of one container with one key, which may be as odd as you like."""
    limits = {P + key: amount}
    resources = {"limits": limits, "requests": dict(limits)}
    return a_pod({"name": "train", "image": "example/train:1", "resources": resources}, **pod)


def required(*terms: Any) -> dict[str, Any]:
    """An affinity with these required terms."""
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"nodeAffinity": {key: {"nodeSelectorTerms": list(terms)}}}


def term(*expressions: tuple[str, str, list[str]], **more: Any) -> dict[str, Any]:
    """One node selector term."""
    found = [{"key": key, "operator": op, "values": values} for key, op, values in expressions]
    return {"matchExpressions": found, **more}


def decide(
    pod: dict[str, Any],
    catalogue: Catalogue = CLUSTER,
    namespace: NamespaceView = TEAM,
    now: datetime = NOW,
    priorities: PriorityClasses | None = None,
) -> Decision:
    """The decision; and the pod that was given must be as before."""
    before = deepcopy(pod)
    decision = mutate(pod, namespace, catalogue, now, priorities or PriorityClasses())
    assert pod == before
    return decision


def patched(pod: dict[str, Any], decision: Decision) -> dict[str, Any]:
    """The pod after the decision's patch, applied strictly as an API server does."""
    assert not isinstance(decision, Denied), decision
    if not isinstance(decision, Mutated):
        return pod
    return apply_operations(pod, [dict(each) for each in decision.patch])


def admitted(
    pod: dict[str, Any], catalogue: Catalogue = CLUSTER, namespace: NamespaceView = TEAM, **how: Any
) -> dict[str, Any]:
    """The pod as it is stored."""
    return patched(pod, decide(pod, catalogue, namespace, **how))


def refused(
    pod: dict[str, Any], catalogue: Catalogue = CLUSTER, namespace: NamespaceView = TEAM, **how: Any
) -> Denied:
    """The denial; anything else is a failure."""
    decision = decide(pod, catalogue, namespace, **how)
    assert isinstance(decision, Denied), decision
    return decision


def models_of(pod: dict[str, Any], **how: Any) -> list[str]:
    """The ids of the variants that the pod may have."""
    decision = decide(pod, **how)
    assert isinstance(decision, Mutated), decision
    assert decision.selection is not None
    return [variant.id for variant in decision.selection.variants]
