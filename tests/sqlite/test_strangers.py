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


def killed_again(file: Path) -> Path:
    script = "import os, sys, walkeeper, walkeeper_sqlite; "
    script += "database = walkeeper_sqlite.attach(sys.argv[1], walkeeper.open(sys.argv[2]).log('app')); "
    script += "database.connect(isolation_level=None).execute('INSERT INTO t(x) VALUES(1)'); "
    script += "os._exit(0)"
    subprocess.run([sys.executable, "-c", script, str(file), str(file.parent / "wal")], check=True)
    return file


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
    assert list(file.parent.glob("*-comparing*")) == []
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


def changed_unseen(file: Path) -> None:
    """Another byte in a page that no restart redoes, and the mtime that it had: a comparison would find it."""
    mtime = file.stat().st_mtime_ns
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(mtime, mtime))


@pytest.mark.parametrize("more", [CHECKPOINT, DISCONNECT], ids=["checkpointed", "unconnected"])
def test_a_crash_alone_compares_nothing(tmp_path: Path, more: str) -> None:
    """A file of gigabytes is known to be as it was left."""
    file = killed(tmp_path, more=more)
    changed_unseen(file)
    with walkeeper.open(tmp_path / "wal") as ns:
        walkeeper_sqlite.attach(file, ns.log("app")).close()


def test_a_program_that_wrote_and_was_killed_is_noticed(tmp_path: Path) -> None:
    """Its commit is in the WAL, which has more of them than the log."""
    file = killed(tmp_path)
    run_by(file, WRITES, closes=False)
    assert_refused(file, 40)


def test_a_commit_that_is_in_the_log_alone_hides_none_of_theirs(tmp_path: Path) -> None:
    """The process was killed before the WAL had its last commit: theirs stands where that would be."""
    file = killed(tmp_path, rows=38)  # the last one needs no new page
    wal = file.with_name("app.db-wal")
    frames = (wal.stat().st_size - 32) // (24 + 4096)
    with open(wal, "r+b") as content:
        content.seek(32 + (frames - 1) * (24 + 4096))
        content.write(bytes(24))
    run_by(file, WRITES, closes=False)
    assert_refused(file, 38)


def test_commits_of_another_machine_hide_none_of_theirs(tmp_path: Path) -> None:
    file = killed(tmp_path)
    run_by(file, WRITES, closes=False)
    other_machine(tmp_path, 1)
    assert_refused(file, 41)


def test_a_wal_that_another_program_began_is_noticed(tmp_path: Path) -> None:
    """The process was killed behind a checkpoint that emptied its WAL."""
    file = killed(tmp_path, more="connection.execute('PRAGMA wal_checkpoint(TRUNCATE)')")
    run_by(file, WRITES, closes=False)
    assert_refused(file, 40)


def test_a_wal_that_another_program_began_anew_is_noticed(tmp_path: Path) -> None:
    more = "connection.execute('PRAGMA locking_mode=EXCLUSIVE'); connection.execute('DELETE FROM t WHERE id > 40'); "
    file = killed(tmp_path, more=more + CHECKPOINT)
    run_by(file, f"{WRITES}; PRAGMA wal_checkpoint(RESTART); UPDATE t SET x = 2 WHERE id = 3", closes=False)
    assert_refused(file, 40)


def test_an_older_copy_of_the_log_hides_none_of_theirs(tmp_path: Path) -> None:
    """That it is refused leaves what is known of the file."""
    file = closed(tmp_path)
    shutil.copytree(tmp_path / "wal", tmp_path / "older")
    with walkeeper.open(tmp_path / "wal") as ns, walkeeper_sqlite.attach(file, ns.log("app")) as database:
        connection = database.connect(isolation_level=None)
        connection.execute("INSERT INTO t(x) VALUES(1)")
        connection.close()
    run_by(killed_again(file), WRITES)
    with (
        walkeeper.open(tmp_path / "older") as ns,
        pytest.raises(InvalidError, match=r"older copy of the log|changed without the VFS"),
    ):
        walkeeper_sqlite.attach(file, ns.log("app"))
    assert_refused(file, 42)


def test_a_follower_takes_no_file_that_a_program_wrote_to(tmp_path: Path) -> None:
    file = killed(tmp_path, more=CHECKPOINT)
    run_by(file, WRITES)
    with walkeeper.open(tmp_path / "wal") as ns:
        for _ in range(2):
            with pytest.raises(InvalidError, match="changed without the VFS walkeeper"):
                walkeeper_sqlite.follow(file, ns.log("app"))
    assert_refused(file, 40)


@pytest.mark.parametrize("sql", [READS, WRITES])
def test_a_file_that_a_killed_follower_left(tmp_path: Path, sql: str) -> None:
    log = closed(tmp_path).parent / "wal"
    script = "import os, sys, walkeeper, walkeeper_sqlite; ns = walkeeper.open(sys.argv[1], read_only=True); "
    script += "follower = walkeeper_sqlite.follow(sys.argv[2], ns.log('app', create=False)); "
    script += "follower.wait_for(int(sys.argv[3]), 60); os._exit(0)"
    with walkeeper.open(log) as ns:
        last = ns.log("app").info().next.sequence_id - 1
    file = tmp_path / "copy.db"
    subprocess.run([sys.executable, "-c", script, str(log), str(file), str(last)], check=True)
    run_by(file, sql)
    with walkeeper.open(log) as ns:
        if sql == WRITES:
            with pytest.raises(InvalidError, match="changed without the VFS walkeeper"):
                walkeeper_sqlite.follow(file, ns.log("app"))
        else:
            walkeeper_sqlite.follow(file, ns.log("app")).close()
            assert rows_of(file) == 40


def test_a_file_that_was_being_redone_is_made_anew(tmp_path: Path) -> None:
    """It cannot be told what others did to it: it has what the log has, and nothing else."""
    file = killed(tmp_path, more=f"{CHECKPOINT}; connection.execute('DELETE FROM t WHERE id = 40')")
    noted(file, 3)
    run_by(file, "UPDATE t SET x = 'theirs' WHERE id = 2")
    assert attached_rows(file) == 39


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
    """The file as a checkpoint that was killed leaves it (2), or a restart (3)."""
    path = file.with_name("app.db-wk")
    content = bytearray(path.read_bytes())
    assert content[8192:8200] == b"wksqlive"
    content[8204:8208] = struct.pack("<I", state)
    content[8260:8264] = struct.pack("<I", crc32c(bytes(content[8192:8260])))
    path.write_bytes(content)


def test_a_checkpoint_that_was_killed_is_gone_on_with(tmp_path: Path) -> None:
    file = killed(tmp_path)
    noted(file, 2)
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


def other_machine(place: Path, commits: int) -> None:
    with (
        walkeeper.open(place / "wal") as ns,
        walkeeper_sqlite.attach(place / "other.db", ns.log("app")) as database,
    ):
        connection = database.connect(isolation_level=None)
        for _ in range(commits):
            connection.execute("INSERT INTO t(x) VALUES(randomblob(300))")
        connection.close()


def test_a_file_that_another_machine_left_behind_is_brought_on(tmp_path: Path) -> None:
    """Somebody looked at the old file; another machine has committed since."""
    file = killed(tmp_path)
    run_by(file, READS)
    other_machine(tmp_path, 20)
    assert attached_rows(file) == 60


@pytest.mark.parametrize("rows", [1, 0])
@pytest.mark.parametrize("sql", ["", READS, WRITES])
def test_a_file_whose_commits_were_truncated(tmp_path: Path, rows: int, sql: str) -> None:
    """The last snapshot is what it is compared with. 0 rows: the records that are left begin behind what it has."""
    file = killed(tmp_path)
    assert attached_rows(file) == 40
    more = f"database.connect(isolation_level=None).executescript('INSERT INTO t(x) VALUES(1);' * {rows})"
    script = "import os, sys, walkeeper, walkeeper_sqlite; "
    script += "database = walkeeper_sqlite.attach(sys.argv[1], walkeeper.open(sys.argv[2]).log('app')); "
    subprocess.run([sys.executable, "-c", f"{script}{more}; os._exit(0)", str(file), str(tmp_path / "wal")], check=True)
    if sql:
        run_by(file, sql)
        os.utime(file)
    with (
        walkeeper.open(tmp_path / "wal") as ns,
        walkeeper_sqlite.attach(tmp_path / "other.db", ns.log("app")) as database,
    ):
        before = ns.log("app").info().next.sequence_id
        database.snapshot()
        database.truncate(timedelta(0))
        assert ns.log("app").info().first.sequence_id == before
    if sql == WRITES:
        assert_refused(file, 40 + rows)
    else:
        assert attached_rows(file) == 40 + rows


def ahead_of_its_log(place: Path) -> Path:
    """With group acknowledgement the WAL has commits while the log writes them. The log is an earlier copy here."""
    more = "subprocess.run(['cp', '-r', place + '/wal', place + '/earlier'], check=True); "
    more += "[connection.execute('INSERT INTO t(x) VALUES(?)', ('theirs' if n == 2 else '',)) for n in range(3)]"
    file = killed(place, "group", more=more)
    shutil.rmtree(place / "wal")
    os.rename(place / "earlier", place / "wal")
    return file


@pytest.mark.parametrize("copied", [False, True])
def test_commits_that_nobody_was_told_of_are_not_in_a_copy(tmp_path: Path, copied: bool) -> None:
    """The WAL has them, and the file does not: it was not opened by another program."""
    file = ahead_of_its_log(tmp_path)
    if copied:
        os.utime(file)
    assert attached_rows(file) == 40


def test_commits_that_nobody_was_told_of_are_not_gone_on_from(tmp_path: Path) -> None:
    """A program that looks at the file moves them into it."""
    file = ahead_of_its_log(tmp_path)
    run_by(file, READS)
    assert_refused(file, 40)


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
    content[8260:8264] = struct.pack("<I", crc32c(bytes(content[8192:8260])))
    path.write_bytes(content)
    file.with_name("app.db-wal").unlink()
    os.utime(file, ns=(1, 1))
    assert attached_rows(file) == 40
