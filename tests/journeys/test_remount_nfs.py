"""remount_nfs on a real NFS mount that really hangs: client and server in a user-mode Linux kernel."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from remediator.repairs import script

PROGRAMS = {
    "linux.uml": "user-mode-linux",
    "mount.nfs": "nfs-common",
    "rpc.nfsd": "nfs-kernel-server",
    "modprobe": "kmod",
}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MISSING = sorted(
    package for program, package in PROGRAMS.items() if not shutil.which(program, path=PATH)
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("user-mode-linux"),
    pytest.mark.skipif(
        bool(MISSING),
        reason="no user-mode Linux with NFS: apt-get install user-mode-linux nfs-common"
        " nfs-kernel-server kmod",
    ),
    pytest.mark.timeout(300),
]

# The first process of the kernel. What it prints behind @@ is read below.
INIT = """#!/bin/sh
PATH={path}
export PATH
tell() {{ echo "@@ $*"; }}
repair() {{ # ATTEMPT MOUNT...
    attempt=$1
    shift
    NODEMEND_ROOT=/ NODEMEND_BOOT_ID=$boot NODEMEND_ATTEMPT=$attempt NODEMEND_WAIT_SECONDS=3 \\
        NODEMEND_MOUNT_SECONDS=6 NODEMEND_TERMINATION_LOG=/run/log TMPDIR=/run \\
        sh {script} "$@" >/run/$attempt.out
    code=$?
    tell "$attempt $code $(cat /run/$attempt.out)"
}}
blocked() {{ # PID: whether it waits uninterruptibly, within 10 s
    tries=0
    while [ "$tries" -lt 100 ]; do
        case $(sed 's/.*) //' /proc/$1/stat 2>/dev/null) in
            D*) echo yes; return ;;
        esac
        sleep 0.1
        tries=$((tries + 1))
    done
    echo no
}}
wait_for() {{ # COMMAND...: at most 20 s
    tries=0
    until "$@" || [ "$tries" -ge 200 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
}}
is_off() {{ ! grep -q ' /mnt/data ' /proc/1/mountinfo; }}
identity() {{ awk '$5 == "/mnt/data" {{ print $1 }}' /proc/1/mountinfo; }}
options() {{ awk '$5 == "/mnt/data" {{ print $NF }}' /proc/1/mountinfo | tr , '\\n' | grep -v addr= | sort | tr '\\n' ,; }}

mount -t proc proc /proc
mount -t sysfs sysfs /sys
for folder in /run /mnt /var/lib/nfs; do mount -t tmpfs tmpfs $folder; done
mkdir -p /run/export /run/root/lib /mnt/data /var/lib/nfs/v4recovery
mount -t tmpfs tmpfs /run/export
echo hello >/run/export/file
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
ip link set lo up
ln -s /usr/lib/uml/modules /run/root/lib/modules
modprobe -d /run/root nfsd && modprobe -d /run/root nfsv4
mount -t nfsd nfsd /proc/fs/nfsd
exportfs -o rw,fsid=0,no_root_squash,insecure,no_subtree_check '*:/run/export'
rpc.mountd -N 3 2>/dev/null
rpc.nfsd -N 3 -G 2 -L 2 2
mount -t nfs4 -o hard,timeo=10,retrans=1,nosuid 127.0.0.1:/ /mnt/data
boot=$(cat /proc/sys/kernel/random/boot_id)
tell mounted $(cat /mnt/data/file)
before=$(options)

was=$(identity)
repair healthy /mnt/data
[ "$(identity)" = "$was" ] && tell untouched yes

rpc.nfsd 0
stat -f /mnt/data >/dev/null 2>&1 &
reader=$!
tell blocked $(blocked $reader)
repair server-is-off /mnt/data
is_off && tell off yes
wait_for sh -c "! grep -qs ') D' /proc/$reader/stat"
grep -qs ') D' /proc/$reader/stat || tell unblocked yes

repair still-off
rpc.nfsd -N 3 2
repair server-is-back
tell read $(cat /mnt/data/file)

rpc.nfsd 0
stat -f /mnt/data >/dev/null 2>&1 &
tell blocked-again $(blocked $!)
repair comes-back &
wait_for is_off
rpc.nfsd -N 3 2
wait %2 2>/dev/null || wait
tell read-again $(cat /mnt/data/file)
[ "$(options)" = "$before" ] && tell options-kept yes
tell mounts $(grep -c ' /mnt/data ' /proc/1/mountinfo)
tell end
poweroff -f
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the init of the kernel told, by its first word."""
    folder = tmp_path_factory.mktemp("uml")
    repair, init = folder / "remount.sh", folder / "init"
    repair.write_text(script("remount_nfs"), "utf-8")
    init.write_text(INIT.format(path=PATH, script=repair), "utf-8")
    for path in (folder, *folder.parents[:2]):
        path.chmod(path.stat().st_mode | 0o055)
    init.chmod(0o755)
    output = _boot(init, folder)
    lines = re.findall(r"^@@ (\S+) ?(.*?)\r?$", output, re.MULTILINE)
    assert ("end", "") in lines, output
    return dict(lines)


def _boot(init: Path, folder: Path) -> str:
    argv = [
        shutil.which("linux.uml", path=PATH) or "linux.uml",
        "mem=192M",
        f"uml_dir={folder}",
        "rootfstype=hostfs",
        "ro",
        f"init={init}",
        "con=null",
        "con0=fd:0,fd:1",
        "ssl=null",
        "quiet",
    ]
    ended = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240, check=False
    )
    return ended.stdout


def _end(told: dict[str, str], attempt: str) -> tuple[int, dict[str, Any]]:
    code, _, line = told[attempt].partition(" ")
    return int(code), json.loads(line)


def test_a_mount_that_answers_is_left_alone(told: dict[str, str]) -> None:
    code, said = _end(told, "healthy")

    assert told["mounted"] == "hello"
    assert (code, said["result"], said["detail"]) == (0, "done", "no NFS mount hangs")
    assert told["untouched"] == "yes"


def test_a_hanging_mount_is_taken_off_and_frees_who_waited_for_it(told: dict[str, str]) -> None:
    assert told["blocked"] == "yes"
    assert (told["off"], told["unblocked"]) == ("yes", "yes")


def test_a_server_that_stays_away_is_a_failure_however_often_it_is_tried(
    told: dict[str, str],
) -> None:
    """The second run finds no hanging mount: it must not take that for health."""
    for attempt in ("server-is-off", "still-off"):
        code, said = _end(told, attempt)
        assert (code, said["result"]) == (70, "failed")
        assert "mount /mnt/data" in said["detail"]


def test_what_was_taken_off_is_mounted_once_the_server_is_back(told: dict[str, str]) -> None:
    code, said = _end(told, "server-is-back")

    assert (code, said["result"]) == (0, "done")
    assert told["read"] == "hello"


def test_a_hanging_mount_is_mounted_again_with_its_options(told: dict[str, str]) -> None:
    code, said = _end(told, "comes-back")

    assert told["blocked-again"] == "yes"
    assert (code, said["result"]) == (0, "done")
    assert "mounted /mnt/data" in said["detail"]
    assert (told["read-again"], told["options-kept"], told["mounts"]) == ("hello", "yes", "1")
