"""Retention: every commit that is young enough can be restored, and the log does not grow without bound.

The time is that of the log's last record, or what a test says it is. Where a test gives the time, no thread looks.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlite.flaky_log import FlakyLog

import walkeeper
import walkeeper_sqlite
from walkeeper.errors import ClosedError, CursorHoldsError, InvalidError, NotFoundError, UnavailableError
from walkeeper_bookie.cluster import LocalCluster
from walkeeper_sqlite import Database, Retention, _retention
from walkeeper_sqlite._groups import groups
from walkeeper_sqlite._retention import Retainer

ROOT = Path(__file__).resolve().parents[2]
DAY = timedelta(days=1)
MS = timedelta(milliseconds=1)


@pytest.fixture
def ns(tmp_path: Path) -> Iterator[walkeeper.Namespace]:
    with walkeeper.open(tmp_path / "wal") as namespace:
        yield namespace


@pytest.fixture
def log(ns: walkeeper.Namespace) -> walkeeper.Log:
    return ns.log("app")


@pytest.fixture
def database(tmp_path: Path, log: walkeeper.Log) -> Iterator[Database]:
    with walkeeper_sqlite.attach(tmp_path / "app.db", log) as attached:
        with closing(attached.connect(isolation_level=None)) as connection:
            connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        yield attached


def insert(database: Database, size: int = 10) -> int:
    """The LSN of the commit."""
    with closing(database.connect(isolation_level=None)) as connection:
        connection.execute("INSERT INTO t(x) VALUES(randomblob(?))", (size,))
        return walkeeper_sqlite.last_lsn(connection)


def at(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)


def now_of(log: walkeeper.Log) -> datetime:
    return at(log.info().last.txid)


def count_of(log: walkeeper.Log) -> int:
    return len(walkeeper_sqlite.snapshots(log))


def until(happened: Callable[[], bool], tries: int = 3000) -> None:
    """Waits for another thread."""
    for _ in range(tries):
        if happened():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not happen")


# ---- the property ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(3))
def test_every_commit_that_is_young_enough_is_restored_byte_for_byte(
    tmp_path: Path, log: walkeeper.Log, database: Database, number: int
) -> None:
    """And the log has no more than what is kept, and what is between two snapshots twice."""
    chance = random.Random(seed := random.randrange(1 << 32))
    print(f"seed {seed}")
    keep, interval = chance.randrange(1, 60) * MS, chance.randrange(1, 60) * MS
    size = (None, 20_000, 1)[number]
    retainer = Retainer(database, Retention(keep, interval, size))
    known: dict[int, tuple[int, bytes]] = {}
    """Of each commit when it was made, and the file then."""
    file = tmp_path / "restored.db"
    looks: list[datetime] = []
    begins = set()
    for _ in range(80):
        lsn = insert(database, chance.choice((10, 1000, 30_000)))
        walkeeper_sqlite.restore(log, file, to=lsn)
        known[lsn] = log.info().last.txid, file.read_bytes()
        file.unlink()
        if chance.random() < 0.5:
            continue
        looks.append(now_of(log))
        retainer.look(looks[-1])
        begins.add(log.info().first.sequence_id)
        young = [lsn for lsn, (time_ms, _) in known.items() if at(time_ms) > looks[-1] - keep]
        for lsn in {*young[:2], *chance.sample(young, min(2, len(young)))}:
            walkeeper_sqlite.restore(log, file, to=lsn)
            assert file.read_bytes() == known[lsn][1], lsn
            file.unlink()
        whole = walkeeper_sqlite.snapshots(log)
        assert log.info().first.sequence_id == whole[0].lsn
        assert not [one for one in whole[1:] if at(one.end_time_ms) <= looks[-1] - keep], "it has more than it needs"
    assert len(begins) > 2
    if number == 2:
        assert count_of(log) >= len([one for one in looks if looks[-1] - one < keep])


# ---- when a snapshot is taken ---------------------------------------------------------------------------------------


def test_a_snapshot_is_taken_when_the_last_one_is_old_and_something_was_committed(
    log: walkeeper.Log, database: Database
) -> None:
    retainer = Retainer(database, Retention(keep=30 * DAY, snapshot_interval=DAY))
    [first] = walkeeper_sqlite.snapshots(log)
    retainer.look(at(first.time_ms) + DAY - MS)
    assert count_of(log) == 1
    retainer.look(at(first.time_ms) + DAY)
    [_, second] = walkeeper_sqlite.snapshots(log)
    retainer.look(at(second.time_ms) + 2 * DAY)
    assert count_of(log) == 2, "nothing was committed since"
    insert(database)
    retainer.look(at(second.time_ms) + 2 * DAY)
    assert count_of(log) == 3
    assert log.info().first.sequence_id == 0
    later = Retainer(database, Retention(keep=DAY, snapshot_interval=DAY))
    later.look(at(second.end_time_ms) + DAY - MS)
    assert log.info().first.sequence_id == 0, "commits of one day ago need the first one"
    later.look(at(second.end_time_ms) + DAY)
    assert log.info().first.sequence_id == second.lsn


def test_a_snapshot_is_taken_when_the_log_has_grown(log: walkeeper.Log, database: Database) -> None:
    retention = Retention(keep=DAY, snapshot_bytes=100_000)
    retainer = Retainer(database, retention)
    retainer.look(now_of(log))
    for count in (2, 3, 4):
        insert(database, 60_000)
        retainer.look(now_of(log))
        assert count_of(log) == count - 1
        insert(database, 60_000)
        retainer.look(now_of(log))
        assert count_of(log) == count
    insert(database, 300_000)
    Retainer(database, replace(retention, snapshot_bytes=None)).look(now_of(log))
    assert count_of(log) == 4, "so small a log needs none"


def test_commits_of_earlier_attachments_count(tmp_path: Path, log: walkeeper.Log) -> None:
    for _ in range(3):
        with walkeeper_sqlite.attach(tmp_path / "app.db", log) as database:
            with closing(database.connect(isolation_level=None)) as connection:
                connection.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, x)")
            insert(database, 60_000)
    with walkeeper_sqlite.attach(tmp_path / "app.db", log) as database:
        insert(database)
        Retainer(database, Retention(keep=DAY, snapshot_bytes=100_000)).look(now_of(log))
    assert count_of(log) == 2


def test_a_snapshot_that_the_program_takes_counts(log: walkeeper.Log, database: Database) -> None:
    retainer = Retainer(database, Retention(keep=DAY, snapshot_bytes=100_000))
    retainer.look(now_of(log))
    insert(database, 120_000)
    database.snapshot()
    insert(database)
    retainer.look(now_of(log))
    assert count_of(log) == 2


# ---- the thread -----------------------------------------------------------------------------------------------------


def test_a_thread_does_it_and_ends_with_the_database(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log: walkeeper.Log
) -> None:
    monkeypatch.setattr(_retention, "_LOOK_S", 0.001)
    retention = Retention(keep=timedelta(0), snapshot_interval=MS)
    before = threading.active_count()
    with walkeeper_sqlite.attach(tmp_path / "app.db", log, retention=retention) as database:
        with closing(database.connect(isolation_level=None)) as connection:
            connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        for _ in range(3):
            begins = log.info().first.sequence_id
            insert(database)
            until(lambda begins=begins: log.info().first.sequence_id > begins)  # type: ignore[misc]
        assert database.status().retention_error is None
    assert threading.active_count() == before
    with pytest.raises(ClosedError):
        database.status()
    walkeeper_sqlite.restore(log, tmp_path / "restored.db")
    assert (tmp_path / "restored.db").read_bytes() == (tmp_path / "app.db").read_bytes()


def test_closing_the_database_ends_a_snapshot_that_is_being_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log: walkeeper.Log
) -> None:
    monkeypatch.setattr(_retention, "_LOOK_S", 0.001)
    monkeypatch.setattr(_retention, "_PAUSE_MAX_S", 1e6)
    began, pause = threading.Event(), Retainer._pause

    def pause_behind_a_long_append(retainer: Retainer, done: int, all_of_them: int) -> None:
        began.set()
        retainer._done_at = -1e6
        pause(retainer, done, all_of_them)

    monkeypatch.setattr(Retainer, "_pause", pause_behind_a_long_append)
    with walkeeper_sqlite.attach(tmp_path / "app.db", log) as database:
        with closing(database.connect(isolation_level=None)) as connection:
            connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        insert(database, 3_000_000)
        database._retain(Retention(keep=DAY, snapshot_interval=MS))
        assert began.wait(30)
    assert count_of(log) == 1
    assert [group.kind for group in groups(log)].count("snapshot") == 1
    with walkeeper_sqlite.attach(tmp_path / "app.db", log) as database:
        database.snapshot()
    assert count_of(log) == 2


def test_what_fails_is_told_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path, log: walkeeper.Log
) -> None:
    for name in ("_LOOK_S", "_RETRY_FIRST_S", "_RETRY_MAX_S"):
        monkeypatch.setattr(_retention, name, 0.001)
    flaky = FlakyLog(log)
    with walkeeper_sqlite.attach(tmp_path / "app.db", flaky.as_log()) as database:
        with closing(database.connect(isolation_level=None)) as connection:
            connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        flaky.before = refuse
        database._retain(Retention(keep=DAY, snapshot_interval=MS))
        until(lambda: caplog.text.count("is tried again") >= 3)
        assert "two bookies are away" in str(database.status().retention_error)
        assert "two bookies are away" in caplog.text
        assert (count_of(log), database.status().state) == (1, "open")
        flaky.before = bool
        until(lambda: count_of(log) == 2)
        until(lambda: database.status().retention_error is None)
        insert(database)


def refuse() -> None:
    raise UnavailableError("two bookies are away", outcome="not_written")


def test_it_ends_where_another_process_has_the_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log: walkeeper.Log
) -> None:
    monkeypatch.setattr(_retention, "_LOOK_S", 0.001)
    before = threading.active_count()
    with walkeeper_sqlite.attach(tmp_path / "app.db", log, retention=Retention(keep=DAY)) as database:
        with closing(database.connect(isolation_level=None)) as connection:
            connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        with walkeeper_sqlite.attach(tmp_path / "other.db", log):
            with pytest.raises(sqlite3.OperationalError):
                insert(database)
            until(lambda: threading.active_count() == before)
        assert database.status().state == "fenced"


def test_a_cursor_that_holds_the_log_back_is_told(log: walkeeper.Log, database: Database) -> None:
    """Snapshots go on, and the log is truncated once it moves."""
    cursor = log.cursor("archive")
    retainer = Retainer(database, Retention(keep=timedelta(0), snapshot_bytes=1))
    for _ in range(2):
        insert(database)
        before = walkeeper_sqlite.snapshots(log)[-1]
        with pytest.raises(CursorHoldsError, match="archive"):
            retainer.look(now_of(log) + DAY)
        assert walkeeper_sqlite.snapshots(log)[-1].lsn > before.lsn
    assert log.info().first.sequence_id == 0
    cursor.advance(log.info().next)
    retainer.look(now_of(log) + DAY)
    assert log.info().first.sequence_id == walkeeper_sqlite.snapshots(log)[0].lsn > 0


# ---- writers --------------------------------------------------------------------------------------------------------


def test_writers_go_on_between_the_parts_of_a_snapshot(
    monkeypatch: pytest.MonkeyPatch, log: walkeeper.Log, database: Database
) -> None:
    for _ in range(3):
        insert(database, 1_000_000)
    retainer = Retainer(database, Retention(keep=DAY, snapshot_bytes=1))
    pause, written = retainer._pause, []

    def write(done: int, all_of_them: int) -> None:
        written.append(insert(database))
        pause(done, all_of_them)

    monkeypatch.setattr(retainer, "_pause", write)
    retainer.look(now_of(log))
    taken = walkeeper_sqlite.snapshots(log)[-1]
    assert len(written) >= 3
    assert taken.lsn < written[0] < written[-2] < taken.end_lsn


# ---- on bookies -----------------------------------------------------------------------------------------------------


def test_it_is_the_same_on_bookies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_retention, "_LOOK_S", 0.01)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "bookie"), os.environ.get("PYTHONPATH", "")]))
    with LocalCluster(tmp_path / "bookies", 3) as bookies:
        bookies.start()
        with walkeeper.open(bookies.metadata, namespace="shop") as ns:
            log, retention = ns.log("app"), Retention(keep=timedelta(0), snapshot_bytes=50_000)
            for _ in range(2):
                with walkeeper_sqlite.attach(tmp_path / "app.db", log, retention=retention) as database:
                    with closing(database.connect(isolation_level=None)) as connection:
                        connection.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, x)")
                    begins = log.info().first.sequence_id
                    insert(database, 60_000)
                    until(lambda begins=begins: log.info().first.sequence_id > begins)  # type: ignore[misc]
                    assert database.status().retention_error is None
            walkeeper_sqlite.restore(log, tmp_path / "restored.db")
            assert (tmp_path / "restored.db").read_bytes() == (tmp_path / "app.db").read_bytes()


# ---- options --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"keep": -MS},
        {"keep": DAY, "snapshot_interval": timedelta(0)},
        {"keep": DAY, "snapshot_bytes": 0},
    ],
)
def test_numbers_that_make_no_sense_are_refused(options: dict[str, timedelta]) -> None:
    with pytest.raises(InvalidError):
        Retention(**options)  # type: ignore[arg-type]


def test_another_sqlite_makes_the_connections(tmp_path: Path, log: walkeeper.Log, database: Database) -> None:
    asked: list[str] = []

    def connect(uri: str) -> sqlite3.Connection:
        asked.append(uri)
        return database.connect(isolation_level=None)

    Retainer(database, Retention(keep=DAY, snapshot_bytes=1, connect=connect)).look(now_of(log))
    assert asked == [database.uri] * 2
    assert count_of(log) == 2


def test_what_is_older_than_what_is_kept_is_gone(tmp_path: Path, log: walkeeper.Log, database: Database) -> None:
    old = insert(database)
    retainer = Retainer(database, Retention(keep=timedelta(0), snapshot_bytes=1))
    retainer.look(now_of(log) + DAY)
    with pytest.raises(NotFoundError):
        walkeeper_sqlite.restore(log, tmp_path / "gone.db", to=old)
