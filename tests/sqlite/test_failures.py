"""Appends that fail, or whose outcome is not known: nothing is shown that is not in the log, nothing is lost."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlite.flaky_log import FlakyLog

import walkeeper
import walkeeper_sqlite
from walkeeper.errors import FencedError, InvalidError, NoSpaceError, TimeoutError, UnavailableError


@pytest.fixture
def ns(tmp_path: Path) -> Iterator[walkeeper.Namespace]:
    with walkeeper.open(tmp_path / "wal") as namespace:
        yield namespace


@pytest.fixture
def log(ns: walkeeper.Namespace) -> FlakyLog:
    return FlakyLog(ns.log("app"))


@pytest.fixture
def database(tmp_path: Path, log: FlakyLog) -> Iterator[walkeeper_sqlite.Database]:
    with walkeeper_sqlite.attach(tmp_path / "app.db", log.as_log()) as attached:
        yield attached


def connected(database: walkeeper_sqlite.Database) -> sqlite3.Connection:
    return database.connect(isolation_level=None, timeout=0.2, check_same_thread=False)


def rows(connection: sqlite3.Connection) -> list[int]:
    return [row[0] for row in connection.execute("SELECT x FROM t ORDER BY x")]


def plain_rows(path: Path, copy: Path) -> list[int]:
    """What SQLite without walkeeper makes of the files, as another program finds them after a crash. Another process
    copies them: one that closes a file loses its locks on it, which are SQLite's here."""
    for suffix in ("", "-wal"):
        if os.path.exists(f"{path}{suffix}"):
            subprocess.run(["cp", f"{path}{suffix}", f"{copy}{suffix}"], check=True)
    connection = sqlite3.connect(copy)
    try:
        return rows(connection)
    finally:
        connection.close()


def fail(error: Exception) -> None:
    raise error


def test_a_log_in_python_is_as_good_as_one_in_c(
    tmp_path: Path, log: FlakyLog, database: walkeeper_sqlite.Database
) -> None:
    connection = connected(database)
    connection.execute("CREATE TABLE t(x)")
    connection.execute("INSERT INTO t VALUES(1)")
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO t VALUES(randomblob(4000))", [()] * 1000)
    connection.execute("COMMIT")
    connection.close()
    database.close()
    walkeeper_sqlite.restore(log.as_log(), tmp_path / "again.db")
    assert (tmp_path / "again.db").read_bytes() == (tmp_path / "app.db").read_bytes()


def test_a_commit_that_was_not_written_is_rolled_back(
    tmp_path: Path, log: FlakyLog, database: walkeeper_sqlite.Database
) -> None:
    connection = connected(database)
    connection.execute("CREATE TABLE t(x)")
    connection.execute("INSERT INTO t VALUES(1)")
    log.before = lambda: fail(NoSpaceError("the bookies' disks are full", outcome="not_written"))
    with pytest.raises(sqlite3.OperationalError, match="full"):
        connection.execute("INSERT INTO t VALUES(2)")
    log.before = lambda: fail(UnavailableError("too few bookies", outcome="not_written"))
    with pytest.raises(sqlite3.OperationalError, match="disk I/O error"):
        connection.execute("INSERT INTO t VALUES(3)")
    assert (rows(connection), connection.in_transaction, database.status().state) == ([1], False, "open")
    assert "too few bookies" in (database.status().refusal or "")
    assert plain_rows(tmp_path / "app.db", tmp_path / "copy.db") == [1]
    log.before = bool
    connection.execute("INSERT INTO t VALUES(4)")
    assert rows(connection) == [1, 4]
    connection.close()
    database.close()
    walkeeper_sqlite.restore(log.as_log(), tmp_path / "again.db")
    assert (tmp_path / "again.db").read_bytes() == (tmp_path / "app.db").read_bytes()


@pytest.mark.parametrize("written", [True, False])
def test_a_commit_of_unknown_outcome_is_decided_by_the_log(
    tmp_path: Path, log: FlakyLog, database: walkeeper_sqlite.Database, written: bool
) -> None:
    first, second = connected(database), connected(database)
    first.execute("CREATE TABLE t(x)")
    first.execute("INSERT INTO t VALUES(1)")
    assert rows(second) == [1]
    unknown = TimeoutError("no answer", outcome="unknown")
    if written:
        log.behind = lambda: fail(unknown)
    else:
        log.before = lambda: fail(unknown)
    with pytest.raises(sqlite3.OperationalError):
        first.execute("INSERT INTO t VALUES(2)")
    log.before = log.behind = bool
    assert database.status().state == "poisoned"
    assert database.status().reason == "no answer"
    for connection in (first, second):
        with pytest.raises(sqlite3.OperationalError):
            rows(connection)
        with pytest.raises(sqlite3.OperationalError):
            connection.execute("INSERT INTO t VALUES(3)")
    assert plain_rows(tmp_path / "app.db", tmp_path / "copy.db") == [1]
    first.close()
    second.close()
    database.close()
    with walkeeper_sqlite.attach(tmp_path / "app.db", log.as_log()) as again:
        connection = connected(again)
        assert rows(connection) == ([1, 2] if written else [1])
        connection.execute("INSERT INTO t VALUES(5)")
        connection.close()


def test_nobody_sees_a_commit_before_it_is_in_the_log(
    tmp_path: Path, log: FlakyLog, database: walkeeper_sqlite.Database
) -> None:
    first, second = connected(database), connected(database)
    first.execute("CREATE TABLE t(x)")
    waiting, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        waiting.set()
        assert go_on.wait(60)

    log.before = wait
    thread = threading.Thread(target=lambda: first.execute("INSERT INTO t VALUES(1)"))
    thread.start()
    assert waiting.wait(60)
    counting = "import sqlite3, sys; print(len(sqlite3.connect(sys.argv[1]).execute('SELECT * FROM t').fetchall()))"
    asked = [sys.executable, "-c", counting, str(tmp_path / "app.db")]
    try:
        assert rows(second) == []
        assert plain_rows(tmp_path / "app.db", tmp_path / "copy.db") == []
        assert subprocess.check_output(asked, text=True) == "0\n"
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            second.execute("INSERT INTO t VALUES(2)")
    finally:
        go_on.set()
        thread.join()
    assert rows(second) == [1]
    assert subprocess.check_output(asked, text=True) == "1\n"
    log.before = bool
    first.close()
    second.close()


def test_a_large_transaction_that_fails_half_way_is_none(
    tmp_path: Path, log: FlakyLog, database: walkeeper_sqlite.Database
) -> None:
    connection = connected(database)
    connection.execute("CREATE TABLE t(x)")
    log.appends = 0

    def third_fails() -> None:
        if log.appends == 3:
            raise UnavailableError("too few bookies", outcome="not_written")

    log.before = third_fails
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO t VALUES(randomblob(4000))", [()] * 10_000)
    with pytest.raises(sqlite3.OperationalError):
        connection.execute("COMMIT")
    assert log.appends == 3
    if connection.in_transaction:
        connection.execute("ROLLBACK")
    assert rows(connection) == []
    connection.execute("INSERT INTO t VALUES(7)")
    connection.close()
    database.close()
    walkeeper_sqlite.restore(log.as_log(), tmp_path / "again.db")
    assert (tmp_path / "again.db").read_bytes() == (tmp_path / "app.db").read_bytes()


def lose_in_recovery(connection: sqlite3.Connection) -> None:
    """A transaction that SQLite up to 3.50.1 loses when it recovers: pages that were spilled are overwritten, the
    overwriting is rolled back, and new frames come behind."""
    connection.execute("PRAGMA cache_size=1")
    connection.execute("PRAGMA wal_autocheckpoint=0")
    connection.execute("BEGIN")
    connection.execute("INSERT INTO t VALUES(2)")
    connection.execute("SAVEPOINT s")
    connection.executemany("INSERT INTO u VALUES(?, zeroblob(3000))", [(n,) for n in range(60)])
    connection.executemany("UPDATE u SET b = randomblob(3000) WHERE a = ?", [(n,) for n in range(50, 60)])
    connection.execute("ROLLBACK TO s")
    connection.executemany("INSERT INTO u VALUES(?, zeroblob(3000))", [(n,) for n in range(6)])
    connection.execute("COMMIT")


def test_a_commit_that_sqlite_loses_in_recovery_is_healed(tmp_path: Path, database: walkeeper_sqlite.Database) -> None:
    plain = sqlite3.connect(tmp_path / "plain.db", isolation_level=None)
    plain.execute("PRAGMA journal_mode=WAL")
    for connection in (connected(database), plain):
        connection.execute("CREATE TABLE t(x)")
        connection.execute("CREATE TABLE u(a INTEGER PRIMARY KEY, b)")
        connection.execute("INSERT INTO t VALUES(1)")
        lose_in_recovery(connection)
        if connection is not plain:
            ours = connection
    sqlite_loses = plain_rows(tmp_path / "plain.db", tmp_path / "plain-copy.db") == [1]
    assert sqlite_loses == (sqlite3.sqlite_version_info < (3, 50, 2))
    assert plain_rows(tmp_path / "app.db", tmp_path / "copy.db") == [1, 2]
    assert (database.status().healed > 0) == sqlite_loses
    ours.execute("INSERT INTO t VALUES(3)")  # its frames go on from the checksum of the healed one
    assert database.status().lsn == walkeeper_sqlite.last_lsn(ours)
    assert plain_rows(tmp_path / "app.db", tmp_path / "copy.db") == [1, 2, 3]
    assert rows(ours) == [1, 2, 3]
    ours.close()
    plain.close()


def run_without_the_vfs(path: Path, sql: str) -> None:
    script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.executescript(sys.argv[2])"
    subprocess.run([sys.executable, "-c", script, str(path), sql], check=True)


def test_a_program_that_writes_without_the_vfs_is_noticed(
    tmp_path: Path, log: FlakyLog, database: walkeeper_sqlite.Database
) -> None:
    connection = connected(database)
    connection.execute("CREATE TABLE t(x)")
    run_without_the_vfs(tmp_path / "app.db", "SELECT * FROM t; PRAGMA wal_checkpoint(TRUNCATE);")
    connection.execute("INSERT INTO t VALUES(1)")
    run_without_the_vfs(tmp_path / "app.db", "INSERT INTO t VALUES(2)")
    with pytest.raises(sqlite3.OperationalError):
        connection.execute("INSERT INTO t VALUES(3)")
    assert database.status().state == "poisoned"
    assert "without the VFS walkeeper" in str(database.status().reason)
    connection.close()
    database.close()
    for _ in range(2):
        with pytest.raises(InvalidError, match="changed without the VFS"):
            walkeeper_sqlite.attach(tmp_path / "app.db", log.as_log())


def test_a_program_that_writes_while_no_connection_is_open_is_noticed(
    tmp_path: Path, log: FlakyLog, database: walkeeper_sqlite.Database
) -> None:
    connected(database).executescript("CREATE TABLE t(x); INSERT INTO t VALUES(1)").connection.close()
    run_without_the_vfs(tmp_path / "app.db", "SELECT * FROM t")
    connected(database).execute("INSERT INTO t VALUES(2)").connection.close()
    run_without_the_vfs(tmp_path / "app.db", "INSERT INTO t VALUES(3)")
    connection = connected(database)
    with pytest.raises(sqlite3.OperationalError):
        connection.execute("INSERT INTO t VALUES(4)")
    connection.close()
    database.close()
    with pytest.raises(InvalidError, match="changed without the VFS"):
        walkeeper_sqlite.attach(tmp_path / "app.db", log.as_log())
    (tmp_path / "app.db").unlink()
    with walkeeper_sqlite.attach(tmp_path / "app.db", log.as_log()) as again:
        assert rows(connected(again)) == [1, 2]


def test_a_program_that_only_reads_may_be_the_last_to_close_the_file(
    tmp_path: Path, log: FlakyLog, database: walkeeper_sqlite.Database
) -> None:
    """It would put the WAL into the file, as SQLite does."""
    connected(database).executescript("CREATE TABLE t(x); INSERT INTO t VALUES(1)").connection.close()
    read = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); print(c.execute('SELECT * FROM t').fetchall()); "
    command = [sys.executable, "-uc", read + "sys.stdin.readline(); c.close()", str(tmp_path / "app.db")]
    for number in range(2, 5):
        connection = connected(database)
        connection.execute("INSERT INTO t VALUES(?)", (number,))
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == f"{[(row,) for row in range(1, number + 1)]}\n"
            connection.close()
            reader.communicate("\n")
        connection = connected(database)
        assert rows(connection) == list(range(1, number + 1))
        connection.close()
    assert database.status().state == "open"
    database.close()
    with walkeeper_sqlite.attach(tmp_path / "app.db", log.as_log()) as again:
        assert rows(connected(again)) == [1, 2, 3, 4]


def test_a_program_that_writes_while_the_wal_is_kept_is_noticed(
    tmp_path: Path, log: FlakyLog, database: walkeeper_sqlite.Database
) -> None:
    connection = connected(database)
    connection.executescript("CREATE TABLE t(x); INSERT INTO t VALUES(1)")
    write = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
    write += (
        "print(c.execute('SELECT * FROM t').fetchall()); sys.stdin.readline(); c.execute('INSERT INTO t VALUES(2)')"
    )
    command = [sys.executable, "-uc", write, str(tmp_path / "app.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        connection.close()
        writer.communicate("\n")
    with pytest.raises(sqlite3.OperationalError):
        connected(database).execute("INSERT INTO t VALUES(3)")
    assert database.status().state == "poisoned"


def test_a_program_that_writes_to_a_closed_database_is_noticed(
    tmp_path: Path, log: FlakyLog, database: walkeeper_sqlite.Database
) -> None:
    connected(database).executescript("CREATE TABLE t(x); INSERT INTO t VALUES(1)").connection.close()
    database.close()
    run_without_the_vfs(tmp_path / "app.db", "SELECT * FROM t")
    walkeeper_sqlite.attach(tmp_path / "app.db", log.as_log()).close()
    run_without_the_vfs(tmp_path / "app.db", "UPDATE t SET x = 2")
    with pytest.raises(InvalidError, match="changed without the VFS"):
        walkeeper_sqlite.attach(tmp_path / "app.db", log.as_log())


def test_a_process_that_was_forked_has_no_database(
    tmp_path: Path, log: FlakyLog, database: walkeeper_sqlite.Database
) -> None:
    connection = connected(database)
    connection.executescript("CREATE TABLE t(x); INSERT INTO t VALUES(1)")
    child = os.fork()
    if child == 0:
        try:
            connection.execute("INSERT INTO t VALUES(2)")
        except sqlite3.OperationalError:
            told = "parent process" in (database.status().refusal or "")
            database.close()
            os._exit(0 if told else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    connection.execute("INSERT INTO t VALUES(3)")
    assert (rows(connection), database.status().state) == ([1, 3], "open")
    connection.close()
    database.close()
    with walkeeper_sqlite.attach(tmp_path / "app.db", log.as_log()) as again:
        assert rows(connected(again)) == [1, 3]


def test_an_error_that_cannot_be_told_leaves_the_outcome_open(
    tmp_path: Path, log: FlakyLog, database: walkeeper_sqlite.Database
) -> None:
    connection = connected(database)
    connection.execute("CREATE TABLE t(x)")

    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    log.behind = lambda: fail(Unspeakable())  # the record is in the log
    with pytest.raises(sqlite3.OperationalError):
        connection.execute("INSERT INTO t VALUES(1)")
    assert database.status().state == "poisoned"
    connection.close()
    database.close()
    log.behind = bool
    with walkeeper_sqlite.attach(tmp_path / "app.db", log.as_log()) as again:
        assert rows(connected(again)) == [1]


def test_a_database_that_is_opened_keeps_no_other_waiting(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    """Its log may be Python's, where the garbage collector closes what connections it finds."""
    log, closed = FlakyLog(ns.log("app")), threading.Event()
    other = walkeeper_sqlite.attach(tmp_path / "other.db", ns.log("other"))
    connection = connected(other)
    other.close()

    def close() -> None:
        connection.close()
        closed.set()

    def close_meanwhile() -> None:
        threading.Thread(target=close).start()
        assert closed.wait(10)

    log.at_open = close_meanwhile
    walkeeper_sqlite.attach(tmp_path / "app.db", log.as_log()).close()


def test_a_database_that_is_closed_is_opened_behind_that(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    log, closing, go_on = FlakyLog(ns.log("app")), threading.Event(), threading.Event()

    def wait() -> None:
        closing.set()
        assert go_on.wait(60)

    log.at_close = wait
    first = walkeeper_sqlite.attach(tmp_path / "app.db", log.as_log())
    thread = threading.Thread(target=first.close)
    thread.start()
    assert closing.wait(60)
    threading.Timer(0.2, go_on.set).start()
    walkeeper_sqlite.attach(tmp_path / "app.db", ns.log("app")).close()
    assert go_on.is_set()
    thread.join()


def test_a_log_that_fails_in_a_snapshot_takes_no_commits(
    tmp_path: Path, log: FlakyLog, database: walkeeper_sqlite.Database
) -> None:
    """Its writer may take nothing any more: that the database is attached again is the only remedy, and it says so."""
    connection = connected(database)
    connection.executescript("CREATE TABLE t(x); INSERT INTO t VALUES(1)")
    log.behind = lambda: fail(UnavailableError("too few bookies are left", outcome="unknown"))
    with pytest.raises(UnavailableError):
        database.snapshot()
    assert (database.status().state, database.status().reason) == ("poisoned", "too few bookies are left")
    connection.close()
    database.close()
    log.behind = bool
    with walkeeper_sqlite.attach(tmp_path / "app.db", log.as_log()) as again:
        assert rows(connected(again)) == [1]


def test_a_log_that_is_fenced_in_a_snapshot_is_read_on(log: FlakyLog, database: walkeeper_sqlite.Database) -> None:
    connection = connected(database)
    connection.executescript("CREATE TABLE t(x); INSERT INTO t VALUES(1)")
    log.before = lambda: fail(FencedError("another writer took over", outcome="not_written"))
    with pytest.raises(FencedError):
        database.snapshot()
    assert (database.status().state, rows(connection)) == ("fenced", [1])
    connection.close()


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_log_that_cannot_be_closed_is_let_go_of(
    tmp_path: Path, log: FlakyLog, database: walkeeper_sqlite.Database
) -> None:
    log.at_close = lambda: fail(UnavailableError("too few bookies are left", outcome="unknown"))
    database.close()
    log.at_close = bool
    walkeeper_sqlite.attach(tmp_path / "app.db", log.as_log()).close()
