"""A file system that really hangs: mounted through /dev/fuse, it takes every question and answers none.

Run as a program it mounts itself and serves; `hanging_mount` does so for a test. Who asks it for anything waits in the
kernel, beyond SIGKILL, until this program ends. Not for anything but tests.
"""

import contextlib
import ctypes
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_INIT = 26
_IN_HEADER = struct.Struct("=IIQQIIIHH")
_OUT_HEADER = struct.Struct("=IiQ")
_INIT_OUT = struct.Struct("=IIIIHHIIHHI28x")
_DETACH = 2
_READ_BYTES = 1 << 20
_LIBC = ctypes.CDLL(None, use_errno=True)


def cannot_hang() -> str | None:
    """Why no such file system can be mounted here, None if it can."""
    if os.geteuid() != 0:
        return "mounting needs root"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse: {error.strerror}; load the kernel's module fuse"
    return None


@contextlib.contextmanager
def hanging_mount(point: Path, kind: str) -> Iterator[subprocess.Popen[bytes]]:
    """The file system at `point`, of type `fuse.KIND`, served by the process that it gives; gone afterwards."""
    point.mkdir()
    server = subprocess.Popen([sys.executable, __file__, str(point), kind], stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == b"serving\n", "the file system could not be mounted"
        yield server
    finally:
        _LIBC.umount2(os.fsencode(point), _DETACH)
        server.kill()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()


def _mount(point: str, kind: str) -> int:
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
    arguments = (b"nas:/hanging", point.encode(), f"fuse.{kind}".encode(), 0, options.encode())
    if _LIBC.mount(*arguments) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return device


def _serve(device: int) -> None:
    while True:
        request = os.read(device, _READ_BYTES)
        _, opcode, unique, *_ = _IN_HEADER.unpack_from(request)
        if opcode == _INIT:
            body = _INIT_OUT.pack(7, 31, 65536, 0, 12, 9, 65536, 1, 16, 0, 0)
            os.write(device, _OUT_HEADER.pack(_OUT_HEADER.size + len(body), 0, unique) + body)
            sys.stdout.write("serving\n")
            sys.stdout.flush()


if __name__ == "__main__":
    _serve(_mount(sys.argv[1], sys.argv[2]))
