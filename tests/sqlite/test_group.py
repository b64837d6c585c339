"""acknowledge="group": the next transaction begins while a commit waits for the log; COMMIT waits for it too."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlite.flaky_log import FlakyLog

import walkeeper
import walkeeper_sqlite
from walkeeper.errors import InvalidError, TimeoutError
from walkeeper_sqlite._groups import last_groups


@pytest.fixture
def ns(tmp_path: Path) -> Iterator[walkeeper.Namespace]:
    with walkeeper.open(tmp_path / "wal") as namespace:
        yield namespace


def connected(database: walkeeper_sqlite.Database) -> sqlite3.Connection:
    return database.connect(isolation_level=None, check_same_thread=False)


def rows(connection: sqlite3.Connection) -> list[int]:
    return [row[0] for row in connection.execute("SELECT x FROM t ORDER BY x")]


def test_threads_commit_at_once_and_nothing_is_lost(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    with walkeeper_sqlite.attach(tmp_path / "app.db", ns.log("app"), acknowledge="group") as database:
        connected(database).execute("CREATE TABLE t(x)").connection.close()

        def write(number: int) -> None:
            connection = database.connect(isolation_level=None, timeout=60)
            connection.execute("PRAGMA wal_autocheckpoint=20")
            for row in range(50):
                connection.execute("INSERT INTO t VALUES(?)", (number * 50 + row,))
            connection.close()

        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        connection = connected(database)
        assert rows(connection) == list(range(200))
        connection.close()
    walkeeper_sqlite.restore(ns.log("app"), tmp_path / "again.db")
    assert (tmp_path / "again.db").read_bytes() == (tmp_path / "app.db").read_bytes()


def test_a_commit_waits_for_the_log_and_the_next_one_does_not_wait_for_it(
    tmp_path: Path, ns: walkeeper.Namespace
) -> None:
    log, go_on, returned = FlakyLog(ns.log("app")), threading.Event(), []
    with walkeeper_sqlite.attach(tmp_path / "app.db", log.as_log(), acknowledge="group") as database:
        connection = connected(database)
        connection.execute("CREATE TABLE t(x)")
        log.before = lambda: go_on.wait(60)

        def write(number: int) -> None:
            mine = connected(database)
            mine.execute("INSERT INTO t VALUES(?)", (number,))
            returned.append(number)
            mine.close()

        threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        while len(rows(connection)) < 3:  # all three are under way
            pass
        assert returned == []
        go_on.set()
        for thread in threads:
            thread.join()
        assert sorted(returned) == [0, 1, 2]
        connection.close()


def test_a_commit_that_was_seen_and_is_refused_poisons_the_database(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    log = FlakyLog(ns.log("app"))
    database = walkeeper_sqlite.attach(tmp_path / "app.db", log.as_log(), acknowledge="group")
    connection, reader = connected(database), connected(database)
    connection.execute("CREATE TABLE t(x)")
    assert rows(reader) == []

    def fail() -> None:
        raise TimeoutError("no answer", outcome="unknown")

    log.before = fail
    with pytest.raises(sqlite3.OperationalError):
        connection.execute("INSERT INTO t VALUES(1)")
    assert database.status().state == "poisoned"
    for other in (connection, reader):
        with pytest.raises(sqlite3.OperationalError):
            rows(other)
        with pytest.raises(sqlite3.OperationalError):
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    reader.close()
    database.close()
    log.before = bool
    with walkeeper_sqlite.attach(tmp_path / "app.db", log.as_log(), acknowledge="group") as again:
        assert rows(connected(again)) == [1]


def test_a_commit_knows_its_lsn_while_a_snapshot_is_taken(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    log, commit_now, committed = FlakyLog(ns.log("app")), threading.Event(), threading.Event()
    part = threading.Event()
    with walkeeper_sqlite.attach(tmp_path / "app.db", log.as_log(), acknowledge="group", page_size=512) as database:
        connection = connected(database)
        connection.execute("CREATE TABLE t(x)")
        connection.execute("INSERT INTO t VALUES(zeroblob(400000))")

        def progress(done: int, all_of_them: int) -> None:
            del all_of_them
            if done == 256:
                commit_now.set()
                assert part.wait(60)

        def take() -> None:
            database.snapshot(progress=progress)

        def snapshot_goes_on() -> None:
            log.at_next = bool
            part.set()
            committed.wait(0.3)  # in which its next part is in the log, where nothing is in its way

        thread = threading.Thread(target=take)
        thread.start()
        assert commit_now.wait(60)
        log.at_next = snapshot_goes_on
        connection.execute("INSERT INTO t VALUES(1)")
        committed.set()
        lsn = walkeeper_sqlite.last_lsn(connection)
        thread.join()
        connection.close()
    [commit] = last_groups(log.as_log(), 1, kind="commit")
    assert commit.lsn == lsn


def test_another_way_to_acknowledge_is_refused(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    with pytest.raises(InvalidError, match="neither"):
        walkeeper_sqlite.attach(tmp_path / "app.db", ns.log("app"), acknowledge="later")  # type: ignore[arg-type]
    walkeeper_sqlite.load()
    uri = f"file:{tmp_path}/app.db?vfs=walkeeper&wk_root={tmp_path}/wal&wk_log=app&wk_ack="
    with pytest.raises(sqlite3.OperationalError):
        sqlite3.connect(uri + "later", uri=True)
    connection = sqlite3.connect(uri + "group", uri=True, isolation_level=None)
    connection.execute("CREATE TABLE t(x)")
    connection.close()
