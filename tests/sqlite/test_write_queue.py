"""Threads of one process that write to one database: who waits longest is next, and is woken when the lock is free."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import walkeeper
import walkeeper_sqlite


@pytest.fixture
def database(tmp_path: Path) -> Iterator[walkeeper_sqlite.Database]:
    with walkeeper.open(tmp_path / "wal") as ns, walkeeper_sqlite.attach(tmp_path / "app.db", ns.log("app")) as made:
        made.connect(isolation_level=None).execute("CREATE TABLE t(x)").connection.close()
        yield made


class Writer(threading.Thread):
    """Waits for the write lock, and keeps it until it is told to end."""

    def __init__(self, database: walkeeper_sqlite.Database, waited: float = 60) -> None:
        super().__init__(daemon=True)
        self._database = database
        self._waited = waited
        self.began = threading.Event()
        self.has_lock = threading.Event()
        self.end = threading.Event()
        self.refused = ""

    def run(self) -> None:
        connection = self._database.connect(isolation_level=None, timeout=self._waited)
        self.began.set()
        try:
            connection.execute("BEGIN IMMEDIATE")
            self.has_lock.set()
            self.end.wait(60)
            connection.execute("INSERT INTO t VALUES(1)")
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            self.refused = str(error)
        connection.close()


def test_who_waits_is_next_although_the_one_before_comes_again(database: walkeeper_sqlite.Database) -> None:
    """SQLite's own busy handler sleeps up to 100 ms, and whoever does not sleep has the lock each time."""
    mine = database.connect(isolation_level=None, timeout=0)
    for number in range(5):
        mine.execute("BEGIN IMMEDIATE")
        other = Writer(database)
        other.start()
        other.began.wait(60)
        assert not other.has_lock.wait(0.3)  # it has waited long enough to be next
        mine.execute("INSERT INTO t VALUES(0)")
        mine.execute("COMMIT")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            mine.execute("BEGIN IMMEDIATE")
        assert other.has_lock.wait(60)
        other.end.set()
        other.join()
        assert mine.execute("SELECT count(*) FROM t").fetchone() == (2 * number + 2,)
    mine.close()


def test_who_gives_up_leaves_the_queue_to_the_others(database: walkeeper_sqlite.Database) -> None:
    mine = database.connect(isolation_level=None, timeout=60)
    mine.execute("BEGIN IMMEDIATE")
    impatient, patient = Writer(database, 0.2), Writer(database)
    for other in (impatient, patient):
        other.start()
        other.began.wait(60)
    impatient.join(60)
    assert "locked" in impatient.refused
    mine.execute("COMMIT")
    assert patient.has_lock.wait(60)
    patient.end.set()
    patient.join()
    mine.execute("INSERT INTO t VALUES(2)")
    assert mine.execute("SELECT x FROM t ORDER BY x").fetchall() == [(1,), (2,)]
    mine.close()


def test_a_lock_that_nobody_holds_is_not_waited_for(database: walkeeper_sqlite.Database) -> None:
    """Two connections of one thread: the second is told at once that it is locked, and then has the lock."""
    one, two = (database.connect(isolation_level=None, timeout=0) for _ in range(2))
    one.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        two.execute("BEGIN IMMEDIATE")
    one.execute("ROLLBACK")
    two.execute("BEGIN IMMEDIATE")
    two.execute("INSERT INTO t VALUES(3)")
    two.execute("COMMIT")
    assert one.execute("SELECT x FROM t").fetchall() == [(3,)]
    one.close()
    two.close()
