"""remount_nfs takes off only what hangs, mounts it as it was, and remembers what is still missing."""

from pathlib import Path

import pytest

from tests.remediator.script_host import ScriptHost

DATA = "40 21 0:50 / /mnt/data rw,nosuid shared:9 - nfs4 files:/data rw,vers=4.2,hard,clientaddr=10.0.0.2,addr=10.0.0.1"
BLANK = "41 21 0:51 / /mnt/with\\040blank ro,relatime - nfs files:/b\\040c rw,vers=3,mountaddr=10.0.0.1,addr=10.0.0.1"
POD = "42 21 0:52 / /var/lib/kubelet/pods/u/volumes/kubernetes.io~nfs/v rw - nfs4 files:/v rw"
PART = "43 21 0:50 /sub /mnt/part rw - nfs4 files:/data rw,vers=4.2"
DEEPER = "46 21 0:54 / /x/mnt/data rw - nfs4 files:/x rw"
OTHER = "44 21 0:53 / /mnt/disk rw - ext4 /dev/sdb rw"
TABLE = (DATA, BLANK, POD, PART, OTHER, DEEPER)

# They change the table of mounts as the kernel would; which paths hang stands in a file.
STAT = """
for path; do :; done
grep -Fqx -e "$path" "$STATE/stale" 2>/dev/null && { echo "Stale file handle" >&2; exit 1; }
grep -Fqx -e "$path" "$STATE/hung" 2>/dev/null && exec sleep 30
exit 0
"""
UMOUNT = """
for path; do :; done
[ ! -e "$STATE/busy" ] || { echo "target is busy" >&2; exit 32; }
python3 - "$path" <<'END'
import os, sys
table = os.environ["NODEMEND_ROOT"] + "/proc/1/mountinfo"
lines = open(table).read().splitlines()
point = lambda line: line.split()[4].replace("\\\\040", " ")
last = max(n for n, line in enumerate(lines) if point(line) == sys.argv[1])
open(table, "w").write("".join(each + "\\n" for n, each in enumerate(lines) if n != last))
END
"""
MOUNT = """
for path; do :; done
[ ! -e "$STATE/server-is-off" ] || { echo "Connection refused" >&2; exit 32; }
point=$(printf '%s' "$path" | sed 's/ /\\\\040/g')
[ -e "$STATE/in-background" ] ||
    printf '90 21 0:99 / %s rw - nfs4 files:/new rw\\n' "$point" >>"$NODEMEND_ROOT/proc/1/mountinfo"
sed -i "\\\\|^$path\\$|d" "$STATE/hung" 2>/dev/null
exit 0
"""


@pytest.fixture
def host(tmp_path: Path) -> ScriptHost:
    host = ScriptHost(tmp_path)
    show(host, *TABLE)
    for name, text in (("stat", STAT), ("umount", UMOUNT), ("mount", MOUNT)):
        host.program(name, text)
    return host


def show(host: ScriptHost, *lines: str) -> None:
    host.write("proc/1/mountinfo", "".join(f"{line}\n" for line in lines))


def hang(tmp_path: Path, *paths: str) -> None:
    (tmp_path / "hung").write_text("".join(f"{path}\n" for path in paths))


def acts(host: ScriptHost) -> list[str]:
    return [call for call in host.calls if not call.startswith("stat ")]


MOUNT_DATA = "mount -t nfs4 -o rw,vers=4.2,hard,rw,nosuid files:/data /mnt/data"
MOUNT_BLANK = "mount -t nfs -o rw,vers=3,ro,relatime files:/b c /mnt/with blank"


def test_what_answers_is_left_alone(host: ScriptHost) -> None:
    ended = host.run("remount_nfs")

    assert (ended.code, ended.detail, acts(host)) == (0, "no NFS mount hangs", [])


def test_all_that_hang_are_mounted_again_with_their_options(
    host: ScriptHost, tmp_path: Path
) -> None:
    hang(tmp_path, "/mnt/data", "/mnt/with blank")
    ended = host.run("remount_nfs")

    assert (ended.code, ended.result) == (0, "done"), ended.detail
    assert acts(host) == [
        "umount -f -l /mnt/data",
        MOUNT_DATA,
        "umount -f -l /mnt/with blank",
        MOUNT_BLANK,
    ]
    assert list((host.root / "run/nodemend/nfs").iterdir()) == []


@pytest.mark.parametrize("path", ["/mnt/data", "/mnt/with blank"])
def test_only_the_named_one_is_taken(host: ScriptHost, tmp_path: Path, path: str) -> None:
    hang(tmp_path, "/mnt/data", "/mnt/with blank")
    ended = host.run("remount_nfs", path)

    assert ended.code == 0, ended.detail
    assert [call for call in acts(host) if call.startswith("umount")] == [f"umount -f -l {path}"]


def test_a_named_one_that_answers_is_left_alone(host: ScriptHost) -> None:
    ended = host.run("remount_nfs", "/mnt/data")

    assert (ended.code, acts(host)) == (0, [])


@pytest.mark.parametrize("path", ["/mnt/disk", "/mnt", "/mnt/dat.", "/nowhere"])
def test_a_name_that_is_no_nfs_mount_is_a_failure(host: ScriptHost, path: str) -> None:
    ended = host.run("remount_nfs", path)

    assert (ended.code, ended.detail) == (70, f"{path} is no NFS mount")
    assert acts(host) == []


def test_a_stale_handle_is_as_bad_as_no_answer(host: ScriptHost, tmp_path: Path) -> None:
    (tmp_path / "stale").write_text("/mnt/data\n")
    host.program("umount", UMOUNT + 'rm -f "$STATE/stale"')
    ended = host.run("remount_nfs")

    assert ended.code == 0, ended.detail
    assert acts(host)[-1] == MOUNT_DATA


def test_the_kubelets_own_mounts_are_only_taken_off(host: ScriptHost, tmp_path: Path) -> None:
    path = "/var/lib/kubelet/pods/u/volumes/kubernetes.io~nfs/v"
    hang(tmp_path, path)
    ended = host.run("remount_nfs")

    assert (ended.code, acts(host)) == (0, [f"umount -f -l {path}"])


def test_a_part_of_a_mount_is_taken_off_and_told_to_a_person(
    host: ScriptHost, tmp_path: Path
) -> None:
    hang(tmp_path, "/mnt/part")
    ended = host.run("remount_nfs")

    assert (ended.code, acts(host)) == (70, ["umount -f -l /mnt/part"])
    assert "by hand" in ended.detail


def test_the_hosts_fstab_is_followed_where_it_names_the_mount(
    host: ScriptHost, tmp_path: Path
) -> None:
    host.write(
        "etc/fstab", "files:/other /mnt/data/deeper nfs4 rw\nfiles:/data\t/mnt/data nfs4 ro\n"
    )
    hang(tmp_path, "/mnt/data", "/mnt/with blank")
    host.run("remount_nfs")

    assert [call for call in acts(host) if call.startswith("mount")] == [
        "mount /mnt/data",
        MOUNT_BLANK,
    ]


def test_all_of_several_mounts_on_one_point_are_taken_off(host: ScriptHost, tmp_path: Path) -> None:
    show(host, DATA, DATA.replace("40 ", "45 "), OTHER)
    hang(tmp_path, "/mnt/data")
    host.run("remount_nfs")

    assert acts(host) == ["umount -f -l /mnt/data"] * 2 + [MOUNT_DATA]


def test_what_could_not_be_mounted_is_not_taken_for_health_later(
    host: ScriptHost, tmp_path: Path
) -> None:
    hang(tmp_path, "/mnt/data")
    (tmp_path / "server-is-off").touch()
    first = host.run("remount_nfs", "/mnt/data")
    second = host.run("remount_nfs", "/mnt/data", NODEMEND_ATTEMPT="op-1-0-2")
    (tmp_path / "server-is-off").unlink()
    third = host.run("remount_nfs", "/mnt/data", NODEMEND_ATTEMPT="op-1-0-3")

    assert [each.code for each in (first, second, third)] == [70, 70, 0]
    assert "Connection refused" in second.detail
    assert acts(host) == ["umount -f -l /mnt/data", *[MOUNT_DATA] * 3]


FAILURES = {
    "it cannot be taken off": "busy",
    "mount goes into the background": "in-background",
}


@pytest.mark.parametrize("what", FAILURES.values(), ids=FAILURES)
def test_it_is_a_failure_if(host: ScriptHost, tmp_path: Path, what: str) -> None:
    hang(tmp_path, "/mnt/data")
    (tmp_path / what).touch()
    ended = host.run("remount_nfs")

    assert (ended.code, ended.result) == (70, "failed")
    assert "/mnt/data" in ended.detail


def test_what_still_does_not_answer_is_a_failure(host: ScriptHost, tmp_path: Path) -> None:
    hang(tmp_path, "/mnt/data")
    host.program("mount", MOUNT.replace('sed -i "', ': "'))
    ended = host.run("remount_nfs")

    assert ended.code == 70
    assert "was mounted and does not answer" in ended.detail
