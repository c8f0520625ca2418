"""What NVML tells, asked of a fake libnvidia-ml in a real child: each answer, each refusal, each way to hang."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from exporters.killable_child import ChildEnd, EndKind
from exporters.nvml_reader import pcie
from exporters.nvml_reader.reading import last_call, parse_reading
from exporters.readings import (
    DriverReading,
    DriverStatus,
    GpuReading,
    MigDevice,
    NvmlError,
    PcieLink,
)
from tests.exporters.driver_peers import (
    PYTHON,
    FakeNode,
    gpu_uuid,
    needs_compiler,
    shared_folder,
)

pytestmark = needs_compiler


@pytest.fixture
def node(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> FakeNode:
    return FakeNode.build(tmp_path, shared_folder(tmp_path_factory))


def read_gpu(node: FakeNode, scenario: Mapping[str, object], *, old: bool = False) -> GpuReading:
    reading = node.read(scenario, old=old)
    assert reading.status is DriverStatus.READ
    return reading.gpus[0]


def test_a_healthy_gpu_tells_everything(node: FakeNode) -> None:
    assert node.read({}) == DriverReading(
        DriverStatus.READ,
        driver_version="570.86.15",
        cuda_version="12.8",
        count=1,
        gpus=(
            GpuReading(
                index=0,
                uuid=gpu_uuid(),
                model="NVIDIA Fake 100",
                pci_bus_id="0000:3b:00.0",
                memory_total_bytes=85899345920,
                memory_used_bytes=0,
                retired_pages_pending=False,
                row_remap_pending=False,
                row_remap_failed=False,
                link=PcieLink(16, 16, 4, 4),
                utilization=0,
                recovery_action=0,
                processes=(),
                exclusive_process=False,
                mig_enabled=False,
            ),
        ),
    )


ANSWERS: list[tuple[Mapping[str, object], str, object]] = [
    ({"retired_pending": 1}, "retired_pages_pending", True),
    ({"retired_pending": "none"}, "retired_pages_pending", None),
    ({"remap_pending": 1}, "row_remap_pending", True),
    ({"remap_failed": 1}, "row_remap_failed", True),
    ({"mig": 1, "slices": 1}, "row_remap_pending", None),
    ({"recovery_action": 2}, "recovery_action", 2),
    ({"recovery_action": "none"}, "recovery_action", None),
    ({"processes": "41,42", "mps_processes": "42,43"}, "processes", (41, 42, 43)),
    ({"nvmlDeviceGetMPSComputeRunningProcesses": 3, "processes": "7"}, "processes", (7,)),
    ({"nvmlDeviceGetComputeRunningProcesses": 3}, "processes", None),
    ({"compute_mode": 0}, "exclusive_process", False),
    ({"compute_mode": 2}, "exclusive_process", True),
    ({"compute_mode": 3}, "exclusive_process", True),
    ({"utilization": 97}, "utilization", 97),
    ({"utilization": "none"}, "utilization", None),
    ({"link_generation_idle": 1}, "link", PcieLink(16, 16, 1, 4)),
    ({"link_width": 8}, "link", PcieLink(8, 16, 4, 4)),
    ({"link_generation_gpu_max": 3}, "link", PcieLink(16, 16, 4, 3)),
    ({"link_generation_max": "none"}, "link", PcieLink(16, 16, 4, 5)),
    ({"nvmlDeviceGetMigMode": 3}, "mig_enabled", None),
    ({"bus_id": "00000001:AB:00.0"}, "pci_bus_id", "0001:ab:00.0"),
    ({"name": "Grüße"}, "model", "Grüße"),
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[GpuReading, ...]:
    """A node with a GPU for each row of ANSWERS, read once."""
    node = FakeNode.build(tmp_path_factory.mktemp("node"), shared_folder(tmp_path_factory))
    scenario = {
        f"{key}@{index}": value
        for index, (settings, _, _) in enumerate(ANSWERS)
        for key, value in settings.items()
    }
    return node.read({"gpus": len(ANSWERS), **scenario}).gpus


@pytest.mark.parametrize(
    "index", range(len(ANSWERS)), ids=[json.dumps(settings) for settings, _, _ in ANSWERS]
)
def test_each_answer_arrives_and_what_is_not_supported_is_none(
    answers: tuple[GpuReading, ...], index: int
) -> None:
    _, field, value = ANSWERS[index]

    assert (getattr(answers[index], field), answers[index].errors) == (value, ())


@pytest.mark.parametrize("code", [4, 15, 16, 999])
def test_an_error_of_one_call_costs_its_field_alone_and_is_kept(node: FakeNode, code: int) -> None:
    gpu = read_gpu(node, {"nvmlDeviceGetMemoryInfo": code, "recoveryAction": code})

    assert (gpu.memory_used_bytes, gpu.recovery_action, gpu.row_remap_pending) == (
        None,
        None,
        False,
    )
    assert gpu.errors == (
        NvmlError(code, "nvmlDeviceGetMemoryInfo"),
        NvmlError(code, "nvmlDeviceGetFieldValues"),
    )


def test_a_name_that_is_no_text_costs_the_name_alone(node: FakeNode) -> None:
    environment = node.environment({"gpus": 1})
    Path(environment["NODEMEND_FAKE_DRIVER"]).write_bytes(b"name=\xff\xfe\n")

    done = subprocess.run(
        [PYTHON, "-m", "exporters.nvml_reader.child"],
        env=environment,
        capture_output=True,
        check=True,
    )
    gpu = json.loads(done.stdout)["gpus"][0]

    assert (gpu["model"], gpu["errors"]) == ("", [{"code": 999, "call": "nvmlDeviceGetName"}])


@pytest.mark.parametrize("call", ["nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID"])
def test_a_lost_gpu_leaves_the_others_readable(node: FakeNode, call: str) -> None:
    reading = node.read({"gpus": 8, f"{call}@5": 15})

    assert reading.count == 8
    assert [gpu.index for gpu in reading.gpus] == [0, 1, 2, 3, 4, 6, 7]
    assert reading.errors == ((5, NvmlError(15, call.removesuffix("_v2"))),)


def test_the_slices_of_a_gpu_are_listed(node: FakeNode) -> None:
    reading = node.read({"gpus": 2, "mig@1": 1, "slices@1": 2})

    memory = 9728 << 20
    assert [(gpu.mig_enabled, gpu.mig_devices) for gpu in reading.gpus] == [
        (False, ()),
        (
            True,
            (
                MigDevice(gpu_uuid(1, 1), "1g.10gb", memory),
                MigDevice(gpu_uuid(1, 2), "1g.10gb", memory),
            ),
        ),
    ]


def test_an_old_driver_without_the_later_functions_is_read(node: FakeNode) -> None:
    gpu = read_gpu(node, {"processes": "41", "link_width": 8}, old=True)

    assert (gpu.errors, gpu.mig_enabled, gpu.recovery_action) == ((), None, None)
    assert (gpu.processes, gpu.link) == ((41,), PcieLink(8, 16, 4, 4))


@pytest.mark.parametrize("code", [4, 9, 12, 15, 18, 999])
def test_an_nvml_that_does_not_start_has_failed_where_a_gpu_is_in_the_machine(
    node: FakeNode, code: int
) -> None:
    node.add_pci_device()

    assert node.read({"nvmlInitWithFlags": code}) == DriverReading(
        DriverStatus.FAILED, NvmlError(code, "nvmlInitWithFlags")
    )


def test_a_missing_library_has_failed_where_a_gpu_is_in_the_machine(node: FakeNode) -> None:
    node.add_pci_device(pci_class="0x030000")

    reading = node.read({}, without="libnvidia-ml.so.1")

    assert reading == DriverReading(DriverStatus.FAILED, NvmlError(12, "nvmlInitWithFlags"))


@pytest.mark.parametrize("pci_class", [None, "0x040300"], ids=["no device", "its sound device"])
def test_a_missing_library_without_a_gpu_is_not_installed(
    node: FakeNode, pci_class: str | None
) -> None:
    if pci_class:
        node.add_pci_device(pci_class=pci_class)

    reading = node.read({}, without="libnvidia-ml.so.1")

    assert reading == DriverReading(DriverStatus.NOT_INSTALLED)


def test_a_driver_that_is_not_loaded_and_no_gpu_is_not_installed(node: FakeNode) -> None:
    assert node.read({"nvmlInitWithFlags": 9}).status is DriverStatus.NOT_INSTALLED


def test_a_machine_whose_buses_cannot_be_read_is_not_declared_free_of_gpus(node: FakeNode) -> None:
    (node.root / "sys/bus/pci/devices").rmdir()

    reading = node.read({}, without="libnvidia-ml.so.1")

    assert reading.status is DriverStatus.FAILED


def test_no_gpu_left_is_a_count_of_zero(node: FakeNode) -> None:
    reading = node.read({"gpus": 0})

    assert (reading.status, reading.count, reading.gpus) == (DriverStatus.READ, 0, ())


@pytest.mark.parametrize(
    "call",
    [
        "nvmlInitWithFlags",
        "nvmlDeviceGetCount_v2",
        "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetFieldValues",
    ],
)
def test_a_call_that_hangs_is_timed_out_and_named(node: FakeNode, call: str) -> None:
    reading = node.read({call: "hang"}, seconds=1.5)

    assert reading == DriverReading(DriverStatus.TIMED_OUT, NvmlError(10, call.removesuffix("_v2")))
    assert node.pool.stuck == 0


def test_a_crash_of_the_library_is_a_failure(node: FakeNode) -> None:
    reading = node.read({"nvmlDeviceGetCount_v2": "crash"})

    assert reading == DriverReading(DriverStatus.FAILED, NvmlError(999, "nvmlDeviceGetCount"))


def test_read_nvml_prints_one_line(node: FakeNode) -> None:
    done = subprocess.run(
        [PYTHON, "-m", "exporters", "read-nvml", "--root", str(node.root)],
        env=node.environment({"gpus": 2}),
        capture_output=True,
        check=True,
    )

    assert done.stdout.count(b"\n") == 1
    assert json.loads(done.stdout)["count"] == 2


# How the child's end is taken.


@pytest.mark.parametrize("kind", [EndKind.STUCK, EndKind.BUSY])
def test_a_child_that_cannot_be_killed_is_a_stuck_driver(kind: EndKind) -> None:
    end = ChildEnd(kind, stderr=b"nvmlInitWithFlags\nnvmlDeviceGetUUID\n")

    assert parse_reading(end) == DriverReading(
        DriverStatus.STUCK, NvmlError(10, "nvmlDeviceGetUUID")
    )


@pytest.mark.parametrize(
    ("stdout", "stderr", "told"),
    [
        (b"", b"", "the child ended with 2"),
        (b"{}", b"Traceback\nNameError: no\n", "NameError: no"),
        (b'{"status": "excellent"}', b"", "the child ended with 2"),
    ],
    ids=["nothing", "an object of another kind", "an unknown status"],
)
def test_an_answer_that_cannot_be_read_is_a_failure(
    stdout: bytes, stderr: bytes, told: str
) -> None:
    end = ChildEnd(EndKind.EXITED, 2, stdout, stderr)

    assert parse_reading(end) == DriverReading(DriverStatus.FAILED, NvmlError(999, told))


@pytest.mark.parametrize(
    ("stderr", "call"),
    [(b"", ""), (b"warning: x\n", ""), (b"nvmlA\nnvmlB_v2\nlibnvidia says no\n", "nvmlB_v2")],
)
def test_the_last_call_is_found_among_other_words(stderr: bytes, call: str) -> None:
    assert last_call(stderr) == call


# sysfs.


def put_link(folder: Path, *, width: str, speed: str, most_width: str, most_speed: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "current_link_width").write_text(f"{width}\n")
    (folder / "current_link_speed").write_text(f"{speed}\n")
    (folder / "max_link_width").write_text(f"{most_width}\n")
    (folder / "max_link_speed").write_text(f"{most_speed}\n")


def put_gpu(root: Path, port_speed: str, port_width: str) -> None:
    port = root / "sys/devices/pci0000:3a/0000:3a:00.0"
    port_is = {"width": "8", "speed": "8.0 GT/s PCIe"}
    put_link(port, **port_is, most_width=port_width, most_speed=port_speed)
    put_link(
        port / "0000:3b:00.0",
        width="8",
        speed="2.5 GT/s PCIe",
        most_width="16",
        most_speed="32.0 GT/s PCIe",
    )
    bus = root / "sys/bus/pci/devices"
    bus.mkdir(parents=True, exist_ok=True)
    (bus / "0000:3b:00.0").symlink_to(port / "0000:3b:00.0")


@pytest.mark.parametrize(
    ("port_speed", "port_width", "link"),
    [
        ("8.0 GT/s PCIe", "8", PcieLink(8, 8, 1, 3)),
        ("64.0 GT/s PCIe", "16", PcieLink(8, 16, 1, 5)),
        ("Unknown", "255", PcieLink(8, 16, 1, 5)),
    ],
    ids=["a Gen3 x8 slot", "a slot that can do more", "a port that does not tell"],
)
def test_what_the_port_cannot_do_is_no_maximum(
    tmp_path: Path, port_speed: str, port_width: str, link: PcieLink
) -> None:
    put_gpu(tmp_path, port_speed, port_width)

    assert pcie.read_link(tmp_path, "0000:3b:00.0") == link


def test_the_port_limits_what_nvml_calls_the_maximum(node: FakeNode) -> None:
    put_gpu(node.root, "8.0 GT/s PCIe", "8")

    assert read_gpu(node, {"link_generation": 3, "link_width": 8}).link == PcieLink(8, 8, 3, 3)


def test_a_device_that_sysfs_does_not_have_tells_nothing(tmp_path: Path) -> None:
    assert pcie.read_link(tmp_path, "0000:3b:00.0") == PcieLink(None, None, None, None)
    assert pcie.find_gpus(tmp_path) is None
