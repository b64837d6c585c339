"""A database whose log is on bookies: commits go on over its segments, and end where the control plane ends them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import walkeeper
import walkeeper_sqlite
from walkeeper_bookie.cluster import LocalCluster

ROOT = Path(__file__).resolve().parents[2]
PATHS = [str(ROOT / "bookie"), str(ROOT / "adapters/sqlite")]


@pytest.fixture(scope="module")
def bookies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([*PATHS, os.environ.get("PYTHONPATH", "")]))
        with LocalCluster(tmp_path_factory.mktemp("bookies"), 3) as made:
            made.start()
            yield made


@pytest.fixture
def ns(bookies: LocalCluster) -> Iterator[walkeeper.Namespace]:
    with walkeeper.open(bookies.metadata) as namespace:
        yield namespace


@pytest.mark.parametrize("acknowledge", ["strict", "group"])
def test_commits_go_on_over_segments(
    tmp_path: Path, ns: walkeeper.Namespace, acknowledge: walkeeper_sqlite.Acknowledge
) -> None:
    """Small ones, and one whose records are in several segments."""
    log = ns.log(f"segments-{acknowledge}", segment_bytes=100_000)
    with walkeeper_sqlite.attach(tmp_path / "app.db", log, acknowledge=acknowledge) as database:
        connection = database.connect(isolation_level=None)
        connection.execute("CREATE TABLE t(x)")
        for number in range(300):
            connection.execute("INSERT INTO t VALUES(?)", (os.urandom(1000 + number),))
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO t VALUES(?)", [(os.urandom(4000),) for _ in range(2000)])
        connection.execute("COMMIT")
        lsn = walkeeper_sqlite.last_lsn(connection)
        connection.close()
    assert len(log.segments()) > 4
    restored = walkeeper_sqlite.restore(log, tmp_path / "again.db")
    assert restored.lsn == lsn
    assert (tmp_path / "again.db").read_bytes() == (tmp_path / "app.db").read_bytes()


def test_a_namespace_that_is_closed_ends_the_commits(tmp_path: Path, bookies: LocalCluster) -> None:
    ns = walkeeper.open(bookies.metadata)
    database = walkeeper_sqlite.attach(tmp_path / "app.db", ns.log("closed"))
    connection = database.connect(isolation_level=None)
    connection.execute("CREATE TABLE t(x)")
    ns.close()
    with pytest.raises(sqlite3.OperationalError):
        connection.execute("INSERT INTO t VALUES(1)")
    assert connection.execute("SELECT * FROM t").fetchall() == []
    connection.close()
    database.close()


def test_a_fenced_database_says_so_and_reads_on(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    with walkeeper_sqlite.attach(tmp_path / "app.db", ns.log("taken")) as first:
        mine = first.connect(isolation_level=None)
        mine.execute("CREATE TABLE t(x)")
        mine.execute("INSERT INTO t VALUES(1)")
        with walkeeper_sqlite.attach(tmp_path / "other.db", ns.log("taken")) as second:
            theirs = second.connect(isolation_level=None)
            with pytest.raises(sqlite3.OperationalError):
                mine.execute("INSERT INTO t VALUES(2)")
            assert first.status().state == "fenced"
            assert mine.execute("SELECT x FROM t").fetchall() == [(1,)]
            theirs.execute("INSERT INTO t VALUES(3)")
            assert theirs.execute("SELECT x FROM t ORDER BY x").fetchall() == [(1,), (3,)]
            theirs.close()
        mine.close()
