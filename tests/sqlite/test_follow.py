"""follow(): files that stock SQLite reads, in this process and others, while another database is written."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlite.random_sql import Life, content_of

import walkeeper
import walkeeper_sqlite
from walkeeper.errors import ClosedError, DirectoryLockedError, InvalidError, NotFoundError, TimeoutError
from walkeeper_sqlite import _follow, _native


@pytest.fixture
def ns(tmp_path: Path) -> Iterator[walkeeper.Namespace]:
    with walkeeper.open(tmp_path / "wal") as namespace:
        yield namespace


READING = """
    import sqlite3, sys
    reads = 0
    sums = set()
    while not sys.stdin.closed:
        connection = sqlite3.connect(sys.argv[1], timeout=10)
        for _ in range(50):
            total, count = connection.execute("SELECT sum(x), count(*) FROM t").fetchone()
            assert total in (None, 0), (total, count)
            sums.add(count)
            reads += 1
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.close()
        print(reads, len(sums), flush=True)
        if sys.stdin.readline() == "":
            break
"""


def test_readers_of_other_processes_see_each_commit_whole(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    with walkeeper_sqlite.attach(tmp_path / "app.db", ns.log("app")) as database:
        connection = database.connect(isolation_level=None)
        connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x, y)")
        with walkeeper_sqlite.follow(tmp_path / "copy.db", ns.log("app")) as follower:
            command = [sys.executable, "-c", textwrap.dedent(READING), str(tmp_path / "copy.db")]
            readers = [
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
            ]
            for _ in range(10):
                for _ in range(60):  # the sum stays zero
                    value = random.randrange(1000)
                    connection.execute("BEGIN")
                    connection.execute("INSERT INTO t(x, y) VALUES(?, randomblob(?))", (value, value))
                    connection.execute("INSERT INTO t(x, y) VALUES(?, randomblob(?))", (-value, value))
                    connection.execute("COMMIT")
                for reader in readers:
                    assert reader.stdin is not None
                    assert reader.stdout is not None
                    reader.stdin.write("go on\n")
                    reader.stdin.flush()
                    assert int(reader.stdout.readline().split()[0]) > 0
            for reader in readers:
                reader.communicate()
                assert reader.returncode == 0
            follower.wait_for(walkeeper_sqlite.last_lsn(connection), timeout=30)
            mine = sqlite3.connect(tmp_path / "copy.db")
            assert content_of(mine) == content_of(connection)
            mine.close()
        connection.close()
    assert (tmp_path / "copy.db").read_bytes() == (tmp_path / "app.db").read_bytes()


@pytest.mark.parametrize("page_size", [512, 4096, 65536])
def test_a_follower_has_the_same_bytes_whatever_sql_there_is(
    tmp_path: Path, ns: walkeeper.Namespace, page_size: int
) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    stop = threading.Event()
    with walkeeper_sqlite.attach(tmp_path / "app.db", ns.log("app"), page_size=page_size) as database:
        life = Life(database, seed, steps=120)
        failures: list[BaseException] = []

        def read() -> None:
            try:
                while not stop.is_set():
                    connection = sqlite3.connect(tmp_path / "copy.db", timeout=10)
                    content_of(connection)
                    connection.close()
            except BaseException as error:
                failures.append(error)

        with walkeeper_sqlite.follow(tmp_path / "copy.db", ns.log("app")) as follower:
            reader = threading.Thread(target=read)
            reader.start()
            life.live()
            follower.wait_for(database.status().lsn, timeout=60)
            stop.set()
            reader.join()
            assert not failures, failures
    assert (tmp_path / "copy.db").read_bytes() == (tmp_path / "app.db").read_bytes()


def test_a_database_that_shrinks_and_grows_is_followed(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    """Pages that come back are not what they were: nowhere is their earlier image a base."""
    with walkeeper_sqlite.attach(tmp_path / "app.db", ns.log("app")) as database:
        connection = database.connect(isolation_level=None)
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("PRAGMA secure_delete=OFF")  # pages that are let go of keep what they had
        with walkeeper_sqlite.follow(tmp_path / "copy.db", ns.log("app")) as follower:
            connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
            for number in range(3):
                connection.execute("BEGIN")
                connection.executemany("INSERT INTO t(x) VALUES(zeroblob(3000))", [()] * 50)
                connection.execute("COMMIT")
                if number < 2:
                    connection.execute("DELETE FROM t")
                    connection.execute("VACUUM")
            follower.wait_for(walkeeper_sqlite.last_lsn(connection), timeout=30)
        connection.close()
    assert (tmp_path / "copy.db").read_bytes() == (tmp_path / "app.db").read_bytes()


def test_many_frames_in_one_wal_are_found_by_their_index(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    """A reader keeps the WAL from being emptied: more frames than a region of the wal-index has."""
    with walkeeper_sqlite.attach(tmp_path / "app.db", ns.log("app"), page_size=512) as database:
        connection = database.connect(isolation_level=None)
        connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        connection.execute("INSERT INTO t(x) VALUES(0)")
        with walkeeper_sqlite.follow(tmp_path / "copy.db", ns.log("app")) as follower:
            follower.wait_for(walkeeper_sqlite.last_lsn(connection), timeout=30)
            keeping = sqlite3.connect(tmp_path / "copy.db", isolation_level=None)
            keeping.execute("BEGIN")
            assert keeping.execute("SELECT count(*) FROM t").fetchone() == (1,)
            for _ in range(4):
                connection.execute("BEGIN")
                connection.executemany("INSERT INTO t(x) VALUES(randomblob(400))", [()] * 3000)
                connection.execute("COMMIT")
            follower.wait_for(walkeeper_sqlite.last_lsn(connection), timeout=60)
            assert (tmp_path / "copy.db-wal").stat().st_size > 9000 * 512
            reading = sqlite3.connect(tmp_path / "copy.db", isolation_level=None)
            assert reading.execute("SELECT count(*) FROM t").fetchone() == (12_001,)
            assert reading.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert keeping.execute("SELECT count(*) FROM t").fetchone() == (1,)
            reading.close()
            keeping.close()
        connection.close()


def test_a_follower_goes_on_where_it_ended(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    log = ns.log("app")
    with pytest.raises(NotFoundError, match="attach"):
        walkeeper_sqlite.follow(tmp_path / "copy.db", log)
    with walkeeper_sqlite.attach(tmp_path / "app.db", log) as database:
        connection = database.connect(isolation_level=None)
        connection.execute("CREATE TABLE t(x)")
        for number in range(3):
            with walkeeper_sqlite.follow(tmp_path / "copy.db", log) as follower:
                connection.execute("INSERT INTO t VALUES(1)")
                lsn = walkeeper_sqlite.last_lsn(connection)
                follower.wait_for(lsn, timeout=30)
                assert follower.lsn == lsn
                with pytest.raises(TimeoutError):
                    follower.wait_for(lsn + 1, timeout=0.05)
            with pytest.raises(ClosedError):
                follower.wait_for(lsn + 1)
            reader = sqlite3.connect(tmp_path / "copy.db")
            assert reader.execute("SELECT count(*) FROM t").fetchone() == (number + 1,)
            if number == 1:
                with pytest.raises(DirectoryLockedError):
                    walkeeper_sqlite.follow(tmp_path / "copy.db", log)
            reader.close()
        connection.close()
    shutil.copy(tmp_path / "copy.db", tmp_path / "strange.db")
    with pytest.raises(InvalidError):
        walkeeper_sqlite.follow(tmp_path / "strange.db", log)


def test_a_program_that_writes_to_a_follower_is_noticed(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    with walkeeper_sqlite.attach(tmp_path / "app.db", ns.log("app")) as database:
        connection = database.connect(isolation_level=None)
        connection.execute("CREATE TABLE t(x)")
        follower = walkeeper_sqlite.follow(tmp_path / "copy.db", ns.log("app"))
        wrong = sqlite3.connect(tmp_path / "copy.db", isolation_level=None)
        wrong.execute("INSERT INTO t VALUES(1)")
        wrong.close()
        connection.execute("INSERT INTO t VALUES(2)")
        with pytest.raises(InvalidError, match="another program wrote"):
            follower.wait_for(walkeeper_sqlite.last_lsn(connection), timeout=30)
        with pytest.raises(InvalidError, match="another program wrote"):
            follower.close()
        connection.close()
    with pytest.raises(InvalidError, match="changed without the VFS"):
        walkeeper_sqlite.follow(tmp_path / "copy.db", ns.log("app"))


def test_closing_a_follower_whose_file_a_reader_keeps(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ns: walkeeper.Namespace
) -> None:
    """The record that could not be given to the file is given to it when it is followed again."""

    class Locked:
        asked = threading.Event()

        def __getattr__(self, name: str) -> Any:
            return getattr(_native.lib, name)

        def wk_follower_record(self, *given: object) -> int:
            self.asked.set()
            return int(_native.lib.WK_LOCKED)

    with walkeeper_sqlite.attach(tmp_path / "app.db", ns.log("app")) as database:
        connection = database.connect(isolation_level=None)
        connection.execute("CREATE TABLE t(x)")
        follower = walkeeper_sqlite.follow(tmp_path / "copy.db", ns.log("app"))
        monkeypatch.setattr(_follow, "lib", Locked())
        connection.execute("INSERT INTO t VALUES(1)")
        assert Locked.asked.wait(30)
        follower.close()
        monkeypatch.undo()
        with walkeeper_sqlite.follow(tmp_path / "copy.db", ns.log("app")) as follower:
            follower.wait_for(walkeeper_sqlite.last_lsn(connection), timeout=30)
        connection.close()
    assert (tmp_path / "copy.db").read_bytes() == (tmp_path / "app.db").read_bytes()
