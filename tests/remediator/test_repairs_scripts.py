"""The repair scripts act once, in the announced boot only, and say how it ended."""

import shutil
import subprocess
from pathlib import Path

import pytest

from remediator.repairs import SCRIPTS, script
from tests.remediator.script_host import BOOT, ScriptHost

BUSYBOX = shutil.which("busybox")
SHELLS = {"sh": ("sh",), "bash": ("bash", "--posix"), "busybox": ("busybox", "sh")}
UUID = "GPU-11111111-2222-3333-4444-555555555555"
OTHER = "GPU-99999999-2222-3333-4444-555555555555"
ARGUMENTS = {"restart_unit": ("kubelet.service",)}


@pytest.fixture(params=SHELLS)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> ScriptHost:
    if request.param == "busybox" and BUSYBOX is None:
        pytest.skip("busybox is not installed: apt-get install busybox")
    if shutil.which(SHELLS[request.param][0]) is None:
        pytest.skip(f"{request.param} is not installed: apt-get install {request.param}")
    host = ScriptHost(tmp_path, SHELLS[request.param])
    host.write("proc/1/mountinfo", MOUNTS)
    for name in ("systemctl", "umount", "mount", "stat", "nvidia-smi"):
        host.program(name)
    return host


MOUNTS = """21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 21 0:50 / /mnt/data rw,nosuid shared:9 - nfs4 files:/data rw,vers=4.2,hard,clientaddr=10.0.0.2,addr=10.0.0.1
41 21 0:51 / /mnt/with\\040blank ro,relatime - nfs files:/b\\040c rw,vers=3,mountaddr=10.0.0.1,addr=10.0.0.1
"""


@pytest.mark.parametrize("repair", SCRIPTS)
def test_in_another_boot_than_announced_nothing_is_done(host: ScriptHost, repair: str) -> None:
    ended = host.run(repair, *ARGUMENTS.get(repair, ()), NODEMEND_BOOT_ID="an-earlier-boot")

    assert (ended.code, ended.result, host.calls) == (75, "other_boot", [])
    assert (host.root / "proc/sysrq-trigger").read_text() == ""


@pytest.mark.parametrize("repair", SCRIPTS)
def test_an_unreadable_boot_id_is_refused(host: ScriptHost, repair: str) -> None:
    (host.root / "proc/sys/kernel/random/boot_id").unlink()
    ended = host.run(repair, *ARGUMENTS.get(repair, ()))

    assert (ended.code, ended.result, host.calls) == (76, "refused", [])


@pytest.mark.parametrize("repair", SCRIPTS)
@pytest.mark.parametrize("missing", ["NODEMEND_BOOT_ID", "NODEMEND_ATTEMPT"])
def test_without_boot_id_or_attempt_nothing_is_done(
    host: ScriptHost, repair: str, missing: str
) -> None:
    ended = host.run(repair, *ARGUMENTS.get(repair, ()), **{missing: ""})

    assert (ended.code, ended.result, host.calls) == (76, "misused", [])


@pytest.mark.parametrize("repair", ["reboot", "restart_unit", "reset_gpu"])
def test_an_attempt_that_ended_is_told_again_and_not_done_again(
    host: ScriptHost, repair: str
) -> None:
    host.program("nvidia-smi", f'[ "$1" = --query-gpu=uuid ] && echo {UUID}; exit 0')
    arguments = ARGUMENTS.get(repair, ())
    first = host.run(repair, *arguments)
    acts = [call for call in host.calls if "query" not in call]
    second = host.run(repair, *arguments)

    assert (first.code, first.result) == (0, "done")
    assert second == first
    assert [call for call in host.calls if "query" not in call] == acts
    third = host.run(repair, *arguments, NODEMEND_ATTEMPT="op-1-0-2")
    assert third.code == 0
    assert [call for call in host.calls if "query" not in call] == acts * 2


def test_an_attempt_whose_end_nobody_knows_is_not_repeated(host: ScriptHost) -> None:
    """rem-N15"""
    host.program("systemctl", "exec sleep 3")
    process = host.start("reboot")
    while not host.calls:
        assert process.poll() is None
    process.kill()
    process.communicate()
    ended = host.run("reboot")

    assert (ended.code, ended.result) == (71, "repeated")
    assert host.calls == ["systemctl reboot"]


def test_two_runs_of_one_attempt_at_once_act_once(host: ScriptHost) -> None:
    host.program("systemctl", "sleep 0.3")
    running = [host.start("reboot") for _ in range(4)]
    codes = sorted(process.wait(timeout=60) for process in running)
    for process in running:
        process.communicate()

    assert host.calls == ["systemctl reboot"]
    assert codes[0] == 0
    assert set(codes) <= {0, 71}


def test_a_reboot_is_asked_of_systemd_in_the_hosts_namespace(host: ScriptHost) -> None:
    ended = host.run("reboot")

    assert (ended.code, ended.result) == (0, "done")
    assert (ended.said["boot_id"], ended.said["attempt"]) == (BOOT, "op-1-0-1")
    assert host.calls == ["systemctl reboot"]


@pytest.mark.parametrize(
    ("text", "code", "result"),
    [
        pytest.param('echo "Call to \\"Reboot\\" failed" >&2; exit 1', 76, "refused", id="refused"),
        pytest.param("echo Connection timed out; exit 1", 72, "unknown", id="no answer"),
        pytest.param("kill -15 $$", 72, "unknown", id="killed by the shutdown"),
    ],
)
def test_a_reboot_that_fails_is_told_from_one_of_which_nobody_knows(
    host: ScriptHost, text: str, code: int, result: str
) -> None:
    host.program("systemctl", text)
    ended = host.run("reboot")

    assert (ended.code, ended.result) == (code, result)


def test_a_host_that_cannot_remember_is_not_rebooted(host: ScriptHost) -> None:
    (host.root / "run").rmdir()
    (host.root / "run").write_text("no folder")
    ended = host.run("reboot")

    assert (ended.code, ended.result, host.calls) == (76, "refused", [])


def test_reboot_now_presses_b_without_any_sync_of_its_own(host: ScriptHost) -> None:
    host.program("sync", "exec sleep 600")
    ended = host.run("reboot_now")

    assert (ended.code, ended.result) == (72, "unknown")
    assert "still runs 1 s after sysrq b" in ended.detail
    assert (host.root / "proc/sysrq-trigger").read_text() == "b"
    assert host.calls == []


def test_a_unit_is_restarted_and_seen_active(host: ScriptHost) -> None:
    ended = host.run("restart_unit", "kubelet.service")

    assert (ended.code, ended.detail) == (0, "kubelet.service was restarted and is active")
    assert host.calls == [
        "systemctl restart kubelet.service",
        "systemctl is-active kubelet.service",
    ]
    assert host.left_behind == []


def test_a_unit_that_does_not_come_up_is_a_failure(host: ScriptHost) -> None:
    host.program("systemctl", '[ "$1" = restart ] || { echo activating; exit 3; }')
    ended = host.run("restart_unit", "containerd.service")

    assert (ended.code, ended.result) == (70, "failed")
    assert "is not active: activating" in ended.detail


@pytest.mark.parametrize(
    "unit", ["sshd.service", "kubelet", "--now", "kubelet.service sshd.service"]
)
def test_other_units_are_refused(host: ScriptHost, unit: str) -> None:
    ended = host.run("restart_unit", unit)

    assert (ended.code, ended.result, host.calls) == (76, "refused", [])


SMI = f"""
case $1 in
    --query-gpu=uuid) echo {UUID}; echo {OTHER} ;;
    --query-compute-apps=*) cat "$STATE/users" 2>/dev/null ;;
    --gpu-reset) echo "GPU was successfully reset." ;;
esac
exit 0
"""


@pytest.mark.parametrize(
    ("arguments", "resets"),
    [
        pytest.param((UUID,), [f"nvidia-smi --gpu-reset -i {UUID}"], id="the named one"),
        pytest.param((), ["nvidia-smi --gpu-reset"], id="all, if none is named"),
    ],
)
def test_gpus_are_reset(host: ScriptHost, arguments: tuple[str, ...], resets: list[str]) -> None:
    host.program("nvidia-smi", SMI)
    ended = host.run("reset_gpu", *arguments)

    assert (ended.code, ended.result) == (0, "done")
    assert [call for call in host.calls if "--gpu-reset" in call] == resets


@pytest.mark.parametrize(
    ("arguments", "used", "code"),
    [
        pytest.param((UUID,), UUID, 76, id="the GPU is in use"),
        pytest.param((UUID,), OTHER, 0, id="another GPU is in use"),
        pytest.param((), OTHER, 76, id="all are wanted and one is in use"),
    ],
)
def test_a_gpu_in_use_is_not_reset(
    host: ScriptHost, tmp_path: Path, arguments: tuple[str, ...], used: str, code: int
) -> None:
    host.program("nvidia-smi", SMI)
    (tmp_path / "users").write_text(f"{used}, 4711\n")
    ended = host.run("reset_gpu", *arguments)

    assert ended.code == code
    assert any("--gpu-reset" in call for call in host.calls) == (code == 0)
    assert ("4711" in ended.detail) == (code != 0)


@pytest.mark.parametrize(
    ("argument", "code"),
    [
        pytest.param("GPU-11111111-2222-3333-4444-000000000000", 76, id="one that is not there"),
        pytest.param("MIG-11111111-2222-3333-4444-000000000000", 76, id="a part of one"),
        pytest.param("GPU-1;reboot", 76, id="no UUID"),
        pytest.param("0", 76, id="an index"),
    ],
)
def test_what_is_no_gpu_here_is_not_reset(host: ScriptHost, argument: str, code: int) -> None:
    host.program("nvidia-smi", SMI)
    ended = host.run("reset_gpu", argument)

    assert ended.code == code
    assert not [call for call in host.calls if "--gpu-reset" in call]


def test_the_driver_may_live_in_a_folder_of_the_host(host: ScriptHost) -> None:
    host.program("chroot", 'shift; exec "$@"')
    host.program("nvidia-smi", SMI)
    ended = host.run("reset_gpu", UUID, NODEMEND_DRIVER_ROOT="/run/nvidia/driver")

    assert ended.code == 0
    assert f"chroot /run/nvidia/driver nvidia-smi --gpu-reset -i {UUID}" in host.calls


@pytest.mark.parametrize("repair", SCRIPTS)
def test_shellcheck_has_nothing_to_say(repair: str) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed: apt-get install shellcheck")
    found = subprocess.run(
        ["shellcheck", "--shell=sh", "--exclude=SC2086,SC2015,SC2317", "-"],
        input=script(repair),
        capture_output=True,
        text=True,
        check=False,
    )

    assert found.stdout == ""
