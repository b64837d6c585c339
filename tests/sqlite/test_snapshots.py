"""Snapshots: of a database that is written to meanwhile, what restorations make of them, and truncation behind them."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlite.random_sql import Life

import walkeeper
import walkeeper_sqlite
from walkeeper.errors import NotFoundError


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
        assert walkeeper_sqlite.snapshots(log) == [taken]
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
    assert walkeeper_sqlite.snapshots(log) == taken
    assert taken
    for snapshot in taken[::-1]:
        again = tmp_path / f"{snapshot.lsn}.db"
        walkeeper_sqlite.restore(log, again)
        assert again.read_bytes() == (tmp_path / "app.db").read_bytes(), snapshot
        log.cursor(f"sqlite-snapshot-{snapshot.lsn:020}", create=False).delete()
    log.truncate(log.find(sequence_id=taken[-1].lsn))
    walkeeper_sqlite.restore(log, tmp_path / "last.db")
    assert (tmp_path / "last.db").read_bytes() == (tmp_path / "app.db").read_bytes()
