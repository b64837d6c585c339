"""Programs without the VFS that open a database whose process was killed: they may read, and a write is noticed."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import textwrap
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import walkeeper
import walkeeper_sqlite
from tests.models.crc32c import crc32c
from walkeeper.errors import InvalidError

KILLED = """
import os, signal, subprocess, sys, walkeeper, walkeeper_sqlite
place, acknowledge, rows, more = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
ns = walkeeper.open(place + "/wal")
database = walkeeper_sqlite.attach(place + "/app.db", ns.log("app"), acknowledge=acknowledge)
connection = database.connect(isolation_level=None)
connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
for number in range(rows):
    connection.execute("INSERT INTO t(x) VALUES(randomblob(300))")
exec(more)
os.kill(os.getpid(), signal.SIGKILL)
"""
CHECKPOINT = "connection.execute('PRAGMA wal_checkpoint')"
DISCONNECT = "connection.close()"
READS = "SELECT count(*) FROM t"
WRITES = "INSERT INTO t(x) VALUES('theirs')"
MODES = ["strict", "group"]


def killed(place: Path, acknowledge: str = "strict", rows: int = 40, more: str = "") -> Path:
    """The database file of a process that was killed behind so many commits."""
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(place), acknowledge, str(rows), more]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    return place / "app.db"


def run_by(file: Path, sql: str, *, closes: bool = True) -> None:
    """What another program runs: it closes the file, or is killed."""
    script = "import os, sqlite3, sys; connection = sqlite3.connect(sys.argv[1]); "
    script += "connection.executescript(sys.argv[2]); "
    script += "connection.close()" if closes else "os._exit(0)"
    subprocess.run([sys.executable, "-c", script, str(file), sql], check=True)


def rows_of(file: Path) -> int:
    connection = sqlite3.connect(file)
    (rows,) = connection.execute("SELECT count(*) FROM t").fetchone()
    connection.close()
    return int(rows)


def attached_rows(file: Path) -> int:
    """As attaching finds it, and as the log makes it elsewhere."""
    with walkeeper.open(file.parent / "wal") as ns:
        log = ns.log("app")
        with walkeeper_sqlite.attach(file, log) as database:
            connection = database.connect()
            (rows,) = connection.execute("SELECT count(*) FROM t").fetchone()
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            connection.close()
        restored = file.with_name("restored.db")
        restored.unlink(missing_ok=True)
        walkeeper_sqlite.restore(log, restored)
        assert restored.read_bytes() == file.read_bytes()
    return int(rows)


def assert_refused(file: Path, rows: int) -> None:
    """It stays as it is, each time; moved away, it is made from the log."""
    with walkeeper.open(file.parent / "wal") as ns:
        for _ in range(2):
            with pytest.raises(InvalidError, match="changed without the VFS walkeeper"):
                walkeeper_sqlite.attach(file, ns.log("app"))
    connection = sqlite3.connect(file)
    assert connection.execute("SELECT count(*) FROM t WHERE x = 'theirs'").fetchone() == (1,)
    connection.close()
    assert not file.with_name("app.db-comparing").exists()
    for path in file.parent.glob("app.db*"):
        path.unlink()
    assert attached_rows(file) == rows


@pytest.mark.parametrize("more", ["", CHECKPOINT, DISCONNECT], ids=["as it is", "checkpointed", "unconnected"])
@pytest.mark.parametrize("acknowledge", MODES)
def test_a_program_that_only_read_leaves_the_database_as_it_is(tmp_path: Path, acknowledge: str, more: str) -> None:
    """SQLite moves the WAL into the file, and deletes it, when that program closes it."""
    file = killed(tmp_path, acknowledge, more=more)
    run_by(file, READS)
    assert not file.with_name("app.db-wal").exists()
    assert attached_rows(file) == 40


@pytest.mark.parametrize("more", ["", CHECKPOINT, DISCONNECT], ids=["as it is", "checkpointed", "unconnected"])
@pytest.mark.parametrize("acknowledge", MODES)
def test_a_program_that_wrote_is_noticed(tmp_path: Path, acknowledge: str, more: str) -> None:
    file = killed(tmp_path, acknowledge, more=more)
    run_by(file, WRITES)
    assert_refused(file, 40)


@pytest.mark.parametrize("more", ["", CHECKPOINT, DISCONNECT], ids=["as it is", "checkpointed", "unconnected"])
def test_a_crash_alone_compares_nothing(tmp_path: Path, more: str) -> None:
    """A file of gigabytes is known to be as it was left. A directory stands where the comparison would be made."""
    file = killed(tmp_path, more=more)
    file.with_name("app.db-comparing").mkdir()
    assert attached_rows(file) == 40


def test_a_program_that_wrote_and_was_killed_is_noticed(tmp_path: Path) -> None:
    """Its commit is in the WAL, which has more of them than the log."""
    file = killed(tmp_path)
    run_by(file, WRITES, closes=False)
    assert_refused(file, 40)


def test_a_change_that_the_next_commits_would_have_covered_is_noticed(tmp_path: Path) -> None:
    """Redo would put the log's pages over the row, and nobody would know that there was one."""
    file = killed(tmp_path, rows=3)
    run_by(file, "UPDATE t SET x = 'theirs' WHERE id = 3")
    assert_refused(file, 3)


def test_a_program_that_shortened_the_database_is_noticed(tmp_path: Path) -> None:
    file = killed(tmp_path, rows=60, more=CHECKPOINT)
    run_by(file, "DELETE FROM t WHERE id > 3; UPDATE t SET x = 'theirs' WHERE id = 3; VACUUM")
    assert_refused(file, 60)


def noted(file: Path, state: int) -> None:
    """The file as a checkpoint that was killed leaves it (2), and one of which nothing is known (0)."""
    path = file.with_name("app.db-wk")
    content = bytearray(path.read_bytes())
    assert content[8192:8200] == b"wksqlive"
    content[8204:8208] = struct.pack("<I", state)
    content[8252:8256] = struct.pack("<I", crc32c(bytes(content[8192:8252])))
    path.write_bytes(content)


def test_a_checkpoint_that_was_killed_is_gone_on_with(tmp_path: Path) -> None:
    file = killed(tmp_path)
    noted(file, 2)
    file.with_name("app.db-comparing").mkdir()
    assert attached_rows(file) == 40


def test_a_program_that_read_behind_a_killed_checkpoint_changes_nothing(tmp_path: Path) -> None:
    file = killed(tmp_path)
    noted(file, 2)
    run_by(file, READS)
    assert attached_rows(file) == 40


def test_a_program_that_wrote_behind_a_killed_checkpoint_is_noticed(tmp_path: Path) -> None:
    file = killed(tmp_path)
    noted(file, 2)
    run_by(file, WRITES)
    assert_refused(file, 40)


def test_a_file_that_another_machine_left_behind_is_brought_on(tmp_path: Path) -> None:
    """Somebody looked at the old file; another machine has committed since."""
    file = killed(tmp_path)
    run_by(file, READS)
    with (
        walkeeper.open(tmp_path / "wal") as ns,
        walkeeper_sqlite.attach(tmp_path / "other.db", ns.log("app")) as database,
    ):
        connection = database.connect(isolation_level=None)
        for _ in range(20):
            connection.execute("INSERT INTO t(x) VALUES(randomblob(300))")
        connection.close()
    assert attached_rows(file) == 60


@pytest.mark.parametrize("rows", [1, 0])
@pytest.mark.parametrize("looked", [False, True])
def test_a_file_whose_commits_were_truncated(tmp_path: Path, rows: int, looked: bool) -> None:
    """It is made anew; but there is nothing to compare it with where somebody had it. 0 rows: the records that are left
    begin behind what the file has."""
    file = killed(tmp_path)
    assert attached_rows(file) == 40
    more = f"database.connect(isolation_level=None).executescript('INSERT INTO t(x) VALUES(1);' * {rows})"
    script = "import os, sys, walkeeper, walkeeper_sqlite; "
    script += "database = walkeeper_sqlite.attach(sys.argv[1], walkeeper.open(sys.argv[2]).log('app')); "
    subprocess.run([sys.executable, "-c", f"{script}{more}; os._exit(0)", str(file), str(tmp_path / "wal")], check=True)
    if looked:
        run_by(file, READS)
        os.utime(file)
    with (
        walkeeper.open(tmp_path / "wal") as ns,
        walkeeper_sqlite.attach(tmp_path / "other.db", ns.log("app")) as database,
    ):
        before = ns.log("app").info().next.sequence_id
        database.snapshot()
        database.truncate(timedelta(0))
        assert ns.log("app").info().first.sequence_id == before
    if looked:
        with walkeeper.open(tmp_path / "wal") as ns, pytest.raises(InvalidError, match="does not have the commits any"):
            walkeeper_sqlite.attach(file, ns.log("app"))
        assert rows_of(file) == 40 + rows
    else:
        assert attached_rows(file) == 40 + rows


@pytest.mark.parametrize("looked", [False, True])
def test_commits_that_nobody_was_told_of_are_not_gone_on_from(tmp_path: Path, looked: bool) -> None:
    """With group acknowledgement the WAL has them while the log writes them. A log without them is an earlier copy."""
    more = "subprocess.run(['cp', '-r', place + '/wal', place + '/earlier'], check=True); "
    more += "[connection.execute('INSERT INTO t(x) VALUES(?)', ('theirs' if n == 2 else '',)) for n in range(3)]"
    file = killed(tmp_path, "group", more=more)
    shutil.rmtree(tmp_path / "wal")
    os.rename(tmp_path / "earlier", tmp_path / "wal")
    if looked:
        run_by(file, READS)
        assert_refused(file, 40)
    else:
        assert attached_rows(file) == 40


def closed(place: Path) -> Path:
    """The database file of a process that closed it."""
    with walkeeper.open(place / "wal") as ns, walkeeper_sqlite.attach(place / "app.db", ns.log("app")) as database:
        connection = database.connect(isolation_level=None)
        connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        for number in range(40):
            connection.execute("INSERT INTO t(x) VALUES(?)", (number,))
        connection.close()
    return place / "app.db"


@pytest.mark.parametrize("ended", [closed, killed])
def test_a_copied_directory_is_gone_on_with(tmp_path: Path, ended: Callable[[Path], Path]) -> None:
    """The copies have other times."""
    (tmp_path / "here").mkdir()
    ended(tmp_path / "here")
    subprocess.run(["cp", "-r", tmp_path / "here", tmp_path / "there"], check=True)
    assert attached_rows(tmp_path / "there/app.db") == 40


def test_a_file_that_was_closed_and_read_by_a_program_that_was_killed_is_gone_on_with(tmp_path: Path) -> None:
    """It leaves an empty WAL."""
    file = closed(tmp_path)
    run_by(file, READS, closes=False)
    assert file.with_name("app.db-wal").exists()
    assert attached_rows(file) == 40


@pytest.mark.parametrize("closes", [False, True])
def test_a_file_that_was_closed_and_changed_fences_nobody(tmp_path: Path, closes: bool) -> None:
    file = closed(tmp_path)
    run_by(file, WRITES, closes=closes)
    with (
        walkeeper.open(tmp_path / "wal") as ns,
        walkeeper_sqlite.attach(tmp_path / "other.db", ns.log("app")) as database,
    ):
        connection = database.connect(isolation_level=None)
        with pytest.raises(InvalidError, match="changed without the VFS walkeeper"):
            walkeeper_sqlite.attach(file, ns.log("app"))
        connection.execute("INSERT INTO t(x) VALUES(1)")
        connection.close()
    assert_refused(file, 41)


def test_a_file_of_another_boot_is_not_compared(tmp_path: Path) -> None:
    """A power cut may have taken its mtime, and a WAL that was not synced."""
    file = killed(tmp_path)
    path = file.with_name("app.db-wk")
    content = bytearray(path.read_bytes())
    content[8208] ^= 1
    content[8252:8256] = struct.pack("<I", crc32c(bytes(content[8192:8252])))
    path.write_bytes(content)
    file.with_name("app.db-wal").unlink()
    os.utime(file, ns=(1, 1))
    assert attached_rows(file) == 40
