"""Generated pods before and after our change, judged by the real scheduler: nodes(after) = nodes(before) and nodes(models).

The scheduler picks one node; to learn all that it would take, each pod is submitted once a node, with a toleration that opens
this one node alone. What `explain` tells (gpu_admission.fitting) and the tests' own model of scheduling must say the same.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from gpu_admission.fitting import fits
from tests.gpu_admission.admitting import GPU, LABEL, settings_of, with_model
from tests.gpu_admission.pod_shapes import OTHER_LABEL, pods
from tests.gpu_admission.scheduling_model import node_takes
from tests.gpu_admission.test_mutation_properties import L4, amounts, has_card, wanted_cards
from tests.journeys.gpu_admission_world import (
    HIGH,
    P,
    World,
    a_node,
    a_pod,
    a_world,
    add_node,
    landed,
)
from tests.journeys.service import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
CASES = 30
ONLY = "only"
NODES: dict[str, dict[str, str]] = {
    "node-0": {LABEL: "Tesla-V100-SXM2-16GB", "zone": "a", "memory": "256"},
    "node-1": {LABEL: "Tesla-V100-SXM2-32GB", "zone": "b", "memory": "512"},
    "node-2": {LABEL: "NVIDIA-A30", "zone": "a", "memory": "much"},
    "node-3": {LABEL: "NVIDIA-A100-SXM4-80GB", "zone": "b", "memory": "512"},
    "node-4": {OTHER_LABEL: "l4", "zone": "a", "memory": "512"},
    "node-5": {LABEL: "GeForce-256"},
}
CATALOGUE = settings_of(models=with_model("l4", variants=[L4]), defaults={"raw_gpu": "allow"})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with a_world(tmp_path_factory.mktemp("scheduler"), scheduler=True) as one:
        replica = one.a_replica("replica-0")
        replica.catalogue({key: CATALOGUE[key] for key in CATALOGUE if key != "cpu_policy"})
        one.start(replica, probe="any")
        for name, labels in NODES.items():
            node = a_node(name, gpus=1000, cpus="1000")
            node["metadata"]["labels"].update(labels)
            node["status"]["capacity"]["pods"] = node["status"]["allocatable"]["pods"] = "1000"
            add_node(one, node, [{"key": ONLY, "value": name, "effect": "NoSchedule"}])
        for name in NODES:  # the scheduler has seen all of them as they are
            one.made(as_submitted({"spec": {"priority": 0, **a_pod()["spec"]}}, name, name))
            assert landed(one, name) == name
        one.clear("Pod")
        yield one


def generated() -> list[dict[str, Any]]:
    """Always the same pods: with one of our keys, and with something to say about nodes."""
    found: list[dict[str, Any]] = []

    @settings(
        max_examples=400,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(pods)
    def collect(pod: dict[str, Any]) -> None:
        if _is_a_case(pod) and pod not in found:
            found.append(deepcopy(pod))

    collect()
    return found


def _is_a_case(pod: dict[str, Any]) -> bool:
    spec = pod["spec"]
    everything = {"operator": "Exists"}
    return (
        bool(wanted_cards(spec))
        and everything not in spec.get("tolerations", [])
        and ("affinity" in spec or bool(spec.get("nodeSelector")))
        and not _mixes(spec)
    )


def _mixes(spec: dict[str, Any]) -> bool:
    """Our key beside the nodes' own in one container is refused, and no question for the scheduler."""
    return any(
        GPU in amounts(each) and len(amounts(each)) > 1
        for each in (*spec["containers"], *spec.get("initContainers", []))
    )


def as_submitted(pod: dict[str, Any], name: str, node: str) -> dict[str, Any]:
    """As a person writes it, for one node alone."""
    spec = deepcopy(pod["spec"])
    if spec.pop("priority") > 0:
        spec["priorityClassName"] = HIGH
    opening = {"key": ONLY, "operator": "Equal", "value": node, "effect": "NoSchedule"}
    spec["tolerations"] = [*spec.get("tolerations", []), opening]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def without_us(pod: dict[str, Any]) -> dict[str, Any]:
    """The same with the nodes' own resource, of any model."""
    plain = deepcopy(pod)
    for each in (*plain["spec"]["containers"], *plain["spec"].get("initContainers", [])):
        for part in each.get("resources", {}).values():
            ours = [key for key in part if key.startswith(P)]
            amount = sum(int(part.pop(key)) for key in ours)
            if amount:
                part[GPU] = str(amount)
    return plain


def _is_valid(world: World, pod: dict[str, Any]) -> bool:
    """Some of the pods that webhooks meet are refused by the API server afterwards."""
    return world.create(as_submitted(without_us(pod), "try", "node-0"), dry_run=True).code == 201


def test_a_pod_fits_where_it_fitted_and_its_gpus_are_and_nowhere_else(world: World) -> None:
    cases = [each for each in generated() if _is_valid(world, each)][:CASES]
    assert len(cases) == CASES
    nodes = {each["metadata"]["name"]: each for each in world.items("Node")}
    questions = [
        (f"{when}-{number}-{node}", as_submitted(each, f"{when}-{number}-{node}", node))
        for number, pod in enumerate(cases)
        for when, each in (("before", without_us(pod)), ("after", pod))
        for node in NODES
    ]
    with ThreadPoolExecutor(4) as people:
        answers = dict(
            zip(
                (name for name, _ in questions),
                people.map(lambda one: world.create(one[1]), questions),
                strict=True,
            )
        )
    taken = [name for name, answer in answers.items() if answer.code == 201]
    decided = decisions(world, len(taken))

    refused = 0
    for number, pod in enumerate(cases):
        before = {each for each in NODES if decided[f"before-{number}-{each}"]}
        after = {each for each in NODES if decided.get(f"after-{number}-{each}")}
        cards = wanted_cards(pod["spec"])
        assert cards is not None
        assert after == {each for each in before if has_card(nodes[each], cards)}, pod
        stored = [answers[f"after-{number}-{each}"] for each in NODES]
        if any(each.code != 201 for each in stored):
            refused += 1
            assert all(400 <= each.code < 500 for each in stored)
            assert after == set()
            continue
        for node, answer in zip(NODES, stored, strict=True):
            # The same pod, by what people are told beforehand and by the tests' model.
            told = {each.node for each in fits(answer.body, nodes.values(), ()) if not each.why_not}
            assert told == {node} & after, answer.spec
            model = {name for name, each in nodes.items() if node_takes(each, answer.spec)}
            assert model == {node} & after, answer.spec
    landed = [name for name in taken if name.startswith("after") and decided[name]]
    assert refused < CASES / 2
    assert len(landed) > CASES / 2


def decisions(world: World, number: int) -> dict[str, str]:
    """The node of each pod, empty once the scheduler has found none."""
    found: dict[str, str] = {}

    def all_decided() -> bool:
        for each in world.items("Pod"):
            node = each["spec"].get("nodeName", "")
            conditions = each["status"].get("conditions") or ()
            if node or any(one["type"] == "PodScheduled" for one in conditions):
                found[each["metadata"]["name"]] = node
        return len(found) == number

    wait_until(f"{number} decisions of the scheduler", all_decided, 200)
    return found
