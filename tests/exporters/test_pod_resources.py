"""What the kubelet has given to pods, asked over its socket, and which GPUs its device ids mean."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest

from chassis.errors import TemporaryError
from exporters.pod_resources import DeviceUse, PodResources, gpus_of_devices
from exporters.readings import MigDevice
from tests.exporters.check_builders import A, B, a_gpu
from tests.exporters.kubelet_peer import GPU, Kubelet


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    with Kubelet(tmp_path / "kubelet.sock") as running:
        yield running


def ask(kubelet: Kubelet, seconds: float = 10) -> DeviceUse:
    return PodResources(
        kubelet.socket, ("nvidia.com/",), deadline=timedelta(seconds=seconds)
    ).read()


def test_devices_of_pods_and_all_devices_are_told(kubelet: Kubelet) -> None:
    kubelet.allocatable = {GPU: [A, B], "nvidia.com/mig-1g.10gb": ["MIG-1"], "example.org/x": ["9"]}
    kubelet.pods = {GPU: [A], "example.org/x": ["9"]}

    assert ask(kubelet) == DeviceUse(frozenset({A, B, "MIG-1"}), frozenset({A}))
    assert sorted(kubelet.calls) == ["GetAllocatableResources", "List"]


def test_a_node_without_pods_has_nothing_allocated(kubelet: Kubelet) -> None:
    assert ask(kubelet) == DeviceUse(frozenset(), frozenset())


@pytest.mark.parametrize(("driver", "claimed"), [("gpu.nvidia.com", True), ("net.example", False)])
def test_a_dynamic_claim_on_a_gpu_driver_is_told(
    kubelet: Kubelet, driver: str, claimed: bool
) -> None:
    kubelet.claims = [driver]

    assert ask(kubelet).claimed is claimed


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNIMPLEMENTED])
def test_a_kubelet_that_refuses_is_an_error_and_no_empty_list(
    kubelet: Kubelet, code: grpc.StatusCode
) -> None:
    kubelet.fails = code

    with pytest.raises(TemporaryError, match=f"pod-resources: {code.name}"):
        ask(kubelet)


def test_no_socket_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TemporaryError, match="UNAVAILABLE"):
        PodResources(tmp_path / "none.sock", ("nvidia.com/",)).read()


def test_a_kubelet_that_is_started_again_is_asked_again(tmp_path: Path) -> None:
    socket = tmp_path / "kubelet.sock"
    asking = PodResources(socket, ("nvidia.com/",))
    for _ in range(2):
        with Kubelet(socket) as kubelet:
            kubelet.pods = {GPU: [A]}
            assert asking.read().allocated == {A}


@pytest.mark.parametrize(
    ("device", "gpu"),
    [
        pytest.param(A, A, id="a UUID is its GPU"),
        pytest.param(f"{A}::3", A, id="a share of a GPU is that GPU"),
        pytest.param("1", B, id="an index is the GPU of that index"),
        pytest.param("1::0", B, id="a share of an index too"),
        pytest.param("MIG-slice", B, id="a slice is its GPU"),
        pytest.param("MIG-GPU-bbbb/7/0", B, id="a slice by its old name is its GPU"),
        pytest.param("7", None, id="an index beyond all is none"),
        pytest.param("GPU-cccc", None, id="a GPU that NVML does not list is none"),
        pytest.param("nvidia0", None, id="a name of any other kind is none"),
    ],
)
def test_device_ids_are_mapped_to_gpus(device: str, gpu: str | None) -> None:
    gpus = (a_gpu(A), replace(a_gpu(B), mig_devices=(MigDevice("MIG-slice", "1g", None),)))

    assert gpus_of_devices({device}, gpus) == {device: gpu}
