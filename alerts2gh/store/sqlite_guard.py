"""Refuses the places where SQLite would lose data: network file systems, and files in use by another process.

SQLite's write-ahead log needs shared memory and working locks: https://www.sqlite.org/wal.html
"""

import fcntl
import os
import re
from pathlib import Path
from typing import IO

from chassis.errors import PermanentError

_MOUNT_INFO = Path("/proc/self/mountinfo")
_NETWORK = frozenset(
    {
        *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs"),
        *("lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "smb3", "smbfs", "vboxsf"),
        *("fuse.ceph-fuse", "fuse.cephfs", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys"),
        *("fuse.juicefs", "fuse.mount.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
    }
)
_OCTAL = re.compile(r"\\([0-7]{3})")


def check_place(file: Path) -> None:
    """Refuse a database file whose folder cannot be used.

    Args:
        file: With symbolic links followed.

    Raises:
        PermanentError: The folder is missing or cannot be written, or lies on a network file system.
    """
    folder = file.parent
    if not folder.is_dir():
        raise PermanentError(
            f"database.sqlite_file: the folder {folder} does not exist; create it, or mount the volume there"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermanentError(
            f"database.sqlite_file: the folder {folder} cannot be written by user {os.geteuid()};"
            f" SQLite needs to make files beside {file.name}"
        )
    kind = file_system_of(folder, _mounts())
    if kind in _NETWORK:
        raise PermanentError(
            f"database.sqlite_file: {file} lies on a network file system ({kind}), where SQLite can lose data;"
            " use a local or block volume, or PostgreSQL (database.postgres_url_file)"
        )


def _mounts() -> str:
    try:
        return _MOUNT_INFO.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:  # no Linux, or /proc hidden: nothing is known, and nothing is refused
        return ""


def file_system_of(folder: Path, mounts: str) -> str | None:
    """The type of the file system that holds `folder`, by the text of /proc/self/mountinfo (proc(5)).

    Of several mounts on one place the last counts: it hides the others.
    """
    best, kind = -1, None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:  # noqa: PLR2004  the fifth field is the mount point
            continue
        point = Path(_OCTAL.sub(lambda found: chr(int(found[1], 8)), fields[4]))
        if folder.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), after.split(" ")[0]
    return kind


def hold_lock(file: Path) -> IO[str]:
    """Lock the file beside the database for as long as the returned file stays open.

    The lock is the kernel's (flock), so it goes when the process goes, however it ends; the lock file stays.

    Raises:
        PermanentError: Another process holds it, or the file cannot be made.
    """
    path = file.with_name(file.name + ".lock")
    try:
        lock = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise PermanentError(
            f"database.sqlite_file: cannot write {path}: {error.strerror}; give this user the folder"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.seek(0)
        holder = lock.read(20).strip() or "unknown"
        lock.close()
        raise PermanentError(
            f"database.sqlite_file: {file} is in use by another process (pid {holder}, lock file {path});"
            " stop that one first, or use PostgreSQL (database.postgres_url_file) for several replicas"
        ) from error
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock
