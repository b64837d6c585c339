"""Snapshots: of a database that is written to meanwhile, what restorations make of them, and truncation behind them."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlite.flaky_log import FlakyLog
from sqlite.random_sql import Life

import walkeeper
import walkeeper_sqlite
from walkeeper.errors import CursorHoldsError, InvalidError, NotFoundError
from walkeeper_sqlite._snapshots import truncate


@pytest.fixture
def ns(tmp_path: Path) -> Iterator[walkeeper.Namespace]:
    with walkeeper.open(tmp_path / "wal") as namespace:
        yield namespace


def rows_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    (count,) = connection.execute("SELECT count(*) FROM t").fetchone()
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    return int(count)


def test_a_snapshot_is_where_a_restoration_begins(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    log = ns.log("app")
    with walkeeper_sqlite.attach(tmp_path / "app.db", log) as database:
        connection = database.connect(isolation_level=None)
        connection.executescript("CREATE TABLE t(x); INSERT INTO t VALUES(1);")
        early = walkeeper_sqlite.last_lsn(connection)
        told: list[tuple[int, int]] = []
        taken = database.snapshot(progress=lambda done, all_of_them: told.append((done, all_of_them)))
        assert told
        assert taken.lsn == early + 1
        connection.execute("INSERT INTO t VALUES(2)")
        first, second = walkeeper_sqlite.snapshots(log)
        assert (first.lsn, first.end_lsn, second) == (0, 0, taken)
        assert database.truncate(timedelta(days=1)) is None
        walkeeper_sqlite.restore(log, tmp_path / "early.db", to=early)
        assert database.truncate(timedelta(0)) == taken
        assert log.info().first.sequence_id == taken.lsn
        walkeeper_sqlite.restore(log, tmp_path / "all.db")
        walkeeper_sqlite.restore(log, tmp_path / "then.db", to=log.info().last.sequence_id - 1)
        with pytest.raises(NotFoundError):
            walkeeper_sqlite.restore(log, tmp_path / "gone.db", to=early)
        connection.close()
    assert [rows_of(tmp_path / f"{name}.db") for name in ("early", "then", "all")] == [1, 1, 2]
    assert (tmp_path / "all.db").read_bytes() == (tmp_path / "app.db").read_bytes()
    (tmp_path / "app.db").unlink()
    with walkeeper_sqlite.attach(tmp_path / "app.db", log):
        pass
    assert rows_of(tmp_path / "app.db") == 2


def test_a_snapshot_reads_the_file_where_the_wal_was_begun_anew(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    """The pages are in the WAL when it begins, which is begun anew, and written over, before it has read them."""
    log = ns.log("app")
    with walkeeper_sqlite.attach(tmp_path / "app.db", log) as database:
        connection = database.connect(isolation_level=None)
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        connection.executemany("INSERT INTO t(x) VALUES(randomblob(1000))", [()] * 4000)
        connection.execute("PRAGMA wal_checkpoint(FULL)").fetchall()  # the file has all; readers need no frame

        def write(done: int, all_of_them: int) -> None:
            if done == 256:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                connection.executemany("UPDATE t SET x = randomblob(1000) WHERE id = ?", [(n,) for n in range(1, 4000)])

        database.snapshot(progress=write)
        connection.close()
    walkeeper_sqlite.restore(log, tmp_path / "again.db")
    assert (tmp_path / "again.db").read_bytes() == (tmp_path / "app.db").read_bytes()


@pytest.mark.parametrize("number", range(4))
def test_a_snapshot_while_another_connection_writes(tmp_path: Path, ns: walkeeper.Namespace, number: int) -> None:
    log, seed = ns.log("app"), random.randrange(1 << 32)
    print(f"seed {seed}")
    with walkeeper_sqlite.attach(tmp_path / "app.db", log, page_size=(512, 1024, 4096, 65536)[number]) as database:
        life = Life(database, seed, steps=60, exclusive=False, vacuum=False)
        failures: list[BaseException] = []

        def write() -> None:
            try:
                life.live()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        taken = []
        while thread.is_alive():
            taken.append(database.snapshot())
        thread.join()
        assert not failures, failures
    assert walkeeper_sqlite.snapshots(log)[1:] == taken
    assert taken
    for snapshot, name in zip(taken[::-1], log.cursors()[::-1], strict=False):
        again = tmp_path / f"{snapshot.lsn}.db"
        walkeeper_sqlite.restore(log, again)
        assert again.read_bytes() == (tmp_path / "app.db").read_bytes(), snapshot
        log.cursor(name, create=False).delete()
    log.truncate(log.find(sequence_id=taken[-1].lsn), force=True)
    walkeeper_sqlite.restore(log, tmp_path / "last.db")
    assert (tmp_path / "last.db").read_bytes() == (tmp_path / "app.db").read_bytes()


def test_commits_during_a_snapshot_are_restored_from_the_one_before(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    """So truncation keeps the one before until the newer one has ended for long enough."""
    log = ns.log("app")
    with walkeeper_sqlite.attach(tmp_path / "app.db", log) as database:
        connection = database.connect(isolation_level=None)
        connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        connection.executemany("INSERT INTO t(x) VALUES(zeroblob(100000))", [()] * 20)
        between: list[int] = []

        def write(done: int, all_of_them: int) -> None:
            while not between or clock_of(log) == started:
                connection.execute("INSERT INTO t(x) VALUES(1)")
                between.append(walkeeper_sqlite.last_lsn(connection))

        started = clock_of(log)
        taken = database.snapshot(progress=write)
        connection.close()
    assert taken.lsn < between[0] < taken.end_lsn
    middle = datetime.fromtimestamp(taken.time_ms / 1000, timezone.utc)
    assert taken.time_ms < taken.end_time_ms
    kept = truncate(log, timedelta(0), now=middle)
    assert kept is not None
    assert kept.lsn == 0
    recording = Recording(log)
    walkeeper_sqlite.restore(recording.as_log(), tmp_path / "between.db", to=between[0])
    assert set(recording.starts) == {0, 1}, "it is not looked for in the log"
    assert rows_of(tmp_path / "between.db") == 21
    assert truncate(log, timedelta(0), now=middle + timedelta(milliseconds=taken.end_time_ms - taken.time_ms)) == taken
    with pytest.raises(NotFoundError):
        walkeeper_sqlite.restore(log, tmp_path / "gone.db", to=between[0])


class Recording(FlakyLog):
    """Knows where readers began."""

    def __init__(self, log: walkeeper.Log) -> None:
        super().__init__(log)
        self.starts: list[int] = []

    def reader(self, **options: Any) -> Any:
        self.starts.append(options["sequence_id"])
        return super().reader(**options)


def clock_of(log: walkeeper.Log) -> int:
    return log.info().last.txid


def test_two_snapshots_at_once_are_both_whole(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    """Parts of two among each other would make neither of them whole."""
    log = ns.log("app")
    with walkeeper_sqlite.attach(tmp_path / "app.db", log) as database:
        connection = database.connect(isolation_level=None)
        connection.execute("CREATE TABLE t(x)")
        connection.executemany("INSERT INTO t(x) VALUES(zeroblob(100000))", [()] * 20)
        others: list[threading.Thread] = []

        def another(done: int, all_of_them: int) -> None:
            if not others:
                others.append(threading.Thread(target=database.snapshot))
                others[0].start()
                others[0].join(0.2)

        database.snapshot(progress=another)
        others[0].join()
        connection.close()
    _, earlier, later = walkeeper_sqlite.snapshots(log)
    assert earlier.end_lsn < later.lsn


def test_the_log_keeps_what_a_database_begins_with(tmp_path: Path) -> None:
    """A log that lets go of old segments by itself keeps the snapshot with which it begins."""
    with walkeeper.open(tmp_path / "wal") as ns:
        log = ns.log("app", retention_seconds=1, segment_seconds=1)
        with walkeeper_sqlite.attach(tmp_path / "app.db", log) as database:
            connection = database.connect(isolation_level=None)
            connection.execute("CREATE TABLE t(x)")
            connection.close()
        [first] = walkeeper_sqlite.snapshots(log)
        assert (first.lsn, log.cursor(log.cursors()[0], create=False).position.sequence_id) == (0, 0)
        assert [name.startswith("sqlite-snapshot-") for name in log.cursors()] == [True]
        with pytest.raises(CursorHoldsError):
            log.truncate(log.info().next)
        with walkeeper_sqlite.attach(tmp_path / "app.db", log):
            assert walkeeper_sqlite.snapshots(log) == [first]
        stranger = sqlite3.connect(tmp_path / "stranger.db")
        stranger.execute("CREATE TABLE t(x)")
        stranger.close()
        with pytest.raises(InvalidError):
            walkeeper_sqlite.attach(tmp_path / "stranger.db", log)
        assert walkeeper_sqlite.snapshots(log) == [first]


def test_the_log_keeps_everything_while_a_database_is_taken_over(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    flaky = FlakyLog(ns.log("app"))
    held: list[int] = []

    def look() -> None:
        held.extend(flaky.log.cursor(name, create=False).position.sequence_id for name in flaky.log.cursors())

    flaky.before = look
    walkeeper_sqlite.attach(tmp_path / "app.db", flaky.as_log()).close()
    assert held == [0]
    [cursor] = flaky.log.cursors()
    assert cursor.startswith("sqlite-snapshot-")


def test_an_attachment_that_is_refused_leaves_no_cursor(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    log = ns.log("orders")
    with log.writer() as writer:
        writer.append(b"order 1")
    with pytest.raises(InvalidError):
        walkeeper_sqlite.attach(tmp_path / "app.db", log)
    assert log.cursors() == []
