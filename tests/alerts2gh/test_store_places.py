"""A SQLite file is only opened where it is safe, and by one process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from alerts2gh.config import Database
from alerts2gh.store import SQLStore, open_store
from alerts2gh.store.engines import postgres_engine
from alerts2gh.store.sqlite_guard import check_place, file_system_of
from chassis.config import SecretFile
from chassis.errors import PermanentError
from tests.alerts2gh.store_builders import NOW, a_part

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:40 / /data rw,relatime shared:2 - nfs4 server:/export rw
31 30 0:41 / /data/local rw,relatime - xfs /dev/sdb rw
32 22 0:42 / /with\\040space rw - fuse.sshfs host:/x rw
33 22 0:43 / /over rw - xfs /dev/sdc rw
34 22 0:44 / /over rw master:3 propagate_from:2 - 9p share rw
35 22 0:45 / /database rw - cifs //server/share rw
not a mount
"""


def open_at(file: Path) -> SQLStore:
    return open_store(Database(sqlite_file=file), now=lambda: NOW)


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/srv", "ext4"),
        ("/data", "nfs4"),
        ("/data/x/y", "nfs4"),
        ("/data/local/x", "xfs"),
        ("/data/localx", "nfs4"),
        ("/with space", "fuse.sshfs"),
        ("/over/x", "9p"),
        ("/database", "cifs"),
        ("/databases", "ext4"),
    ],
)
def test_a_folder_is_on_the_innermost_and_last_mount(folder: str, kind: str) -> None:
    assert file_system_of(Path(folder), MOUNTS) == kind


def test_nothing_is_known_without_mounts() -> None:
    assert file_system_of(Path("/srv"), "") is None


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"30 22 0:40 / {tmp_path} rw - nfs4 server:/export rw\n")
    monkeypatch.setattr("alerts2gh.store.sqlite_guard._MOUNT_INFO", mounts)

    with pytest.raises(PermanentError, match=r"a\.db lies on a network file system \(nfs4\)"):
        open_at(tmp_path / "a.db")
    assert not (tmp_path / "a.db").exists()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match=r"the folder .*/none does not exist; create it"):
        open_at(tmp_path / "none" / "a.db")


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere

    with pytest.raises(PermanentError, match="cannot be written by user"):
        check_place(tmp_path / "a.db")


def test_a_lock_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.db.lock").mkdir()

    with pytest.raises(PermanentError, match=r"cannot write .*/a\.db\.lock: Is a directory"):
        open_at(tmp_path / "a.db")


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    file.write_text("my diary, and long enough for a page of a database\n" * 100)
    before = file.read_bytes()

    with pytest.raises(PermanentError, match=r"a\.db cannot be used: file is not a database"):
        open_at(file)
    assert file.read_bytes() == before


def test_a_second_process_is_refused_and_told_which_one_is_in_the_way(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    (tmp_path / "link.db").symlink_to(file)
    store = open_at(file)
    code = (
        "import sys; from tests.alerts2gh.test_store_places import open_at; from pathlib import Path;"
        "open_at(Path(sys.argv[1]))"
    )

    second = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "link.db"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )

    assert f"in use by another process (pid {os.getpid()}, lock file {file}.lock)" in second.stderr
    assert "stop that one first" in second.stderr
    store.close()
    open_at(file).close()


def test_a_failed_opening_gives_the_lock_back(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    file.write_text("no database " * 1000)
    with pytest.raises(PermanentError, match="not a database"):
        open_at(file)
    file.unlink()

    open_at(file).close()


def test_a_commit_means_an_fsync(tmp_path: Path) -> None:
    store = open_at(tmp_path / "a.db")
    with store._connections.read("looking") as connection:
        found = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        ]
    store.close()

    assert found == ["wal", 2, 1, 5000]


def test_the_folder_may_have_a_percent_sign(tmp_path: Path) -> None:
    folder = tmp_path / "100% full?#x"
    folder.mkdir()
    store = open_at(folder / "a.db")
    store.accept([a_part()])
    store.close()

    assert (folder / "a.db").exists()


@pytest.mark.parametrize(
    "text", ["mysql://user:hunter2@host/db", "hunter2", "postgresql://user:hunter2@host:port/db"]
)
def test_a_wrong_postgres_url_is_refused_without_telling_it(tmp_path: Path, text: str) -> None:
    secret = tmp_path / "url"
    secret.write_text(text)

    with pytest.raises(PermanentError, match="must hold a URL like postgresql://") as caught:
        postgres_engine(SecretFile(secret))
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
