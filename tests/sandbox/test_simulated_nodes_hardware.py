"""What simulated nodes are made of, and what the API is told of it."""

from collections import Counter
from datetime import UTC, datetime

import pytest

from sandbox.simulated_nodes import MODELS, GpuModel, NodeSpec, mixed_fleet
from sandbox.simulated_nodes.hardware import gpus_of
from sandbox.simulated_nodes.node_objects import (
    kubelet_conditions,
    lease_body,
    node_body,
    node_status,
    unknown_conditions,
    wanted_taints,
)
from sandbox.simulated_nodes.timing import Timing

NOW = datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC)
LATER = datetime(2026, 3, 4, 5, 7, 7, tzinfo=UTC)
A30 = MODELS["NVIDIA-A30"]


def test_a_mixed_fleet_has_every_model_and_nodes_without_a_gpu() -> None:
    fleet = mixed_fleet(200)

    assert {spec.gpu.product for spec in fleet if spec.gpu} == set(MODELS)
    assert any(spec.gpu is None for spec in fleet)
    assert len({spec.name for spec in fleet}) == len({spec.address for spec in fleet}) == 200


def test_no_rack_of_a_fleet_holds_more_nodes_than_asked() -> None:
    racks = Counter(each.labels["nodemend.dev/rack"] for each in mixed_fleet(50, nodes_a_rack=8))

    assert sorted(racks.values()) == [2, 8, 8, 8, 8, 8, 8]


def test_gpus_keep_their_uuids_and_no_two_nodes_share_one() -> None:
    fleet = mixed_fleet(100)
    uuids = [gpu.uuid for spec in fleet for gpu in gpus_of(spec)]

    assert len(set(uuids)) == len(uuids) == sum(spec.gpu_count for spec in fleet)
    assert uuids == [gpu.uuid for spec in fleet for gpu in gpus_of(spec)]


@pytest.mark.parametrize(("gpu", "count"), [(None, 2), (A30, 0), (A30, -1)])
def test_a_count_without_a_model_or_a_model_without_a_count_is_refused(
    gpu: GpuModel | None, count: int
) -> None:
    with pytest.raises(ValueError, match="node n1: gpu and gpu_count must come together"):
        NodeSpec("n1", gpu, count)


def test_the_labels_name_the_gpu_and_those_of_the_spec_win() -> None:
    spec = NodeSpec("n1", A30, 4, labels={"nvidia.com/gpu.count": "3", "pool": "a"})

    labels = node_body(spec, {})["metadata"]["labels"]

    assert labels["nvidia.com/gpu.product"] == "NVIDIA-A30"
    assert labels["nvidia.com/gpu.memory"] == "24576"
    assert (labels["nvidia.com/gpu.count"], labels["pool"]) == ("3", "a")


def test_a_lost_gpu_counts_in_the_capacity_but_cannot_be_allocated() -> None:
    status = node_status(NodeSpec("n1", A30, 4), "boot", 3, [])

    assert status["capacity"]["nvidia.com/gpu"] == "4"
    assert status["allocatable"]["nvidia.com/gpu"] == "3"
    assert status["nodeInfo"]["bootID"] == "boot"


def test_a_node_without_gpus_offers_none() -> None:
    assert "nvidia.com/gpu" not in node_status(NodeSpec("n1"), "boot", 0, [])["capacity"]


def test_a_condition_keeps_the_time_of_its_transition_while_its_status_stays() -> None:
    first = {each["type"]: each for each in kubelet_conditions(True, "", NOW, {})}
    again = {each["type"]: each for each in kubelet_conditions(False, "", LATER, first)}

    assert again["DiskPressure"]["lastTransitionTime"] == "2026-03-04T05:06:07Z"
    assert again["DiskPressure"]["lastHeartbeatTime"] == "2026-03-04T05:07:07Z"
    assert again["Ready"]["lastTransitionTime"] == "2026-03-04T05:07:07Z"


def test_a_silent_node_is_unknown_and_its_heartbeats_stay_old() -> None:
    before = {each["type"]: each for each in kubelet_conditions(True, "", NOW, {})}
    told = unknown_conditions(LATER, before)

    assert {each["type"] for each in told} == set(before)
    assert {each["status"] for each in told} == {"Unknown"}
    assert {each["lastHeartbeatTime"] for each in told} == {"2026-03-04T05:06:07Z"}


def test_a_lease_carries_microseconds_and_the_version_it_replaces() -> None:
    lease = lease_body("n1", "u1", 40, NOW, "17")

    assert lease["spec"] == {
        "holderIdentity": "n1",
        "leaseDurationSeconds": 40,
        "renewTime": "2026-03-04T05:06:07.000089Z",
    }
    assert lease["metadata"]["resourceVersion"] == "17"
    assert "resourceVersion" not in lease_body("n1", "u1", 40, NOW, None)["metadata"]


@pytest.mark.parametrize(
    ("ready", "keys"),
    [
        ("True", ["mine"]),
        ("False", ["mine", "node.kubernetes.io/not-ready"]),
        ("Unknown", ["mine", "node.kubernetes.io/unreachable"]),
    ],
)
@pytest.mark.parametrize("before", ["not-ready", "unreachable"])
def test_only_the_taints_of_the_node_controller_follow_readiness(
    ready: str, keys: list[str], before: str
) -> None:
    old = [
        {"key": f"node.kubernetes.io/{before}", "effect": "NoSchedule"},
        {"key": "mine", "effect": "NoSchedule", "value": "op-1"},
    ]

    taints = wanted_taints(old, ready, NOW)

    assert sorted(taint["key"] for taint in taints) == keys
    assert old[1] in taints


def test_a_faster_simulation_keeps_its_heartbeat() -> None:
    fast = Timing().faster(10)

    assert (fast.heartbeat, fast.lease_duration) == (10, 40)
    assert (fast.reboot, fast.scale) == (9, 0.1)


@pytest.mark.parametrize("speed", [0, -1])
def test_no_speed_and_no_duration_may_be_nothing(speed: float) -> None:
    with pytest.raises(ValueError, match="speed must be more than 0"):
        Timing().faster(speed)
    with pytest.raises(ValueError, match="reboot must be more than 0 seconds"):
        Timing(reboot=speed)
