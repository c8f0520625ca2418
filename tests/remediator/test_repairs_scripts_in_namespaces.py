"""Repairs enter the host's mount namespace by the real nsenter: a host and a container in namespaces of their own."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from remediator.repairs import script
from tests.remediator.script_host import BOOT, ScriptHost

SYSTEMCTL = """#!/bin/sh
echo "systemctl $*" >>"{calls}"
"""
# The first process of the host: only its mount namespace has our systemctl. The container's has lost it.
HOST = """
mount -t tmpfs tmpfs /usr/local/sbin
cp {systemctl} /usr/local/sbin/systemctl
export PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin
unshare --mount sh {container}
code=$?
exit $code
"""
CONTAINER = """
umount /usr/local/sbin
[ ! -e /usr/local/sbin/systemctl ] || exit 99
exec sh -c "$(cat {repair})" {name} {arguments}
"""
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--propagation", "private")


def _allowed() -> bool:
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("nsenter") is None:
        return False
    tried = subprocess.run(
        [*NAMESPACES, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False
    )
    return tried.returncode == 0


@pytest.mark.parametrize(
    ("repair", "arguments", "calls"),
    [
        ("reboot", "", ["systemctl reboot"]),
        (
            "restart_unit",
            "kubelet.service",
            ["systemctl restart kubelet.service", "systemctl is-active kubelet.service"],
        ),
    ],
)
def test_systemctl_is_the_hosts_and_not_the_containers(
    tmp_path: Path, repair: str, arguments: str, calls: list[str]
) -> None:
    if not _allowed():
        pytest.skip("no namespaces: run as root with util-linux where mounting is permitted")
    host = ScriptHost(tmp_path)
    texts = {
        "systemctl": SYSTEMCTL.format(calls=tmp_path / "calls"),
        "repair": script(repair),
        "container": CONTAINER.format(repair=tmp_path / "repair", name=repair, arguments=arguments),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
        (tmp_path / name).chmod(0o755)
    outer = HOST.format(systemctl=tmp_path / "systemctl", container=tmp_path / "container")
    env = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "NODEMEND_ROOT": str(host.root),
        "NODEMEND_BOOT_ID": BOOT,
        "NODEMEND_ATTEMPT": "op-1-0-1",
        "NODEMEND_TERMINATION_LOG": str(tmp_path / "log"),
        "TMPDIR": str(tmp_path),
    }
    ended = subprocess.run(
        [*NAMESPACES, "sh", "-c", outer], env=env, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert json.loads(ended.stdout)["result"] == "done"
    assert (tmp_path / "calls").read_text("utf-8").splitlines() == calls
