"""Databases of one log: a transaction over them is one record."""

from __future__ import annotations

import json
import random
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import Result
from command_line import run
from sqlite.flaky_log import FlakyLog

import walkeeper
import walkeeper_sqlite
from walkeeper.errors import ExistsError, InvalidError, NoSpaceError, NotFoundError, TimeoutError


@pytest.fixture
def ns(tmp_path: Path) -> Iterator[walkeeper.Namespace]:
    with walkeeper.open(tmp_path / "wal") as namespace:
        yield namespace


@contextmanager
def both(
    folder: Path, log: walkeeper.Log
) -> Iterator[tuple[walkeeper_sqlite.Database, walkeeper_sqlite.Database, sqlite3.Connection]]:
    """The databases app and audit, and a connection that has audit attached."""
    with (
        walkeeper_sqlite.attach(folder / "app.db", log, acknowledge="group") as app,
        app.attach(folder / "audit.db", "audit") as audit,
    ):
        connection = connected(app, audit)
        for schema in ("main", "audit"):
            connection.execute(f"CREATE TABLE IF NOT EXISTS {schema}.t(x)")
        yield app, audit, connection
        connection.close()


def connected(app: walkeeper_sqlite.Database, audit: walkeeper_sqlite.Database) -> sqlite3.Connection:
    connection = app.connect(isolation_level=None, check_same_thread=False, timeout=60)
    connection.execute("ATTACH ? AS audit", (audit.uri,))
    return connection


def rows(connection: sqlite3.Connection, schema: str) -> list[int]:
    return [row[0] for row in connection.execute(f"SELECT x FROM {schema}.t ORDER BY x")]


def insert(connection: sqlite3.Connection, number: int) -> None:
    connection.execute("BEGIN")
    connection.execute("INSERT INTO main.t VALUES(?)", (number,))
    connection.execute("INSERT INTO audit.t VALUES(?)", (number,))
    connection.execute("COMMIT")


def test_a_transaction_over_two_is_one_record(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    log = ns.log("app")
    with both(tmp_path, log) as (app, audit, connection):
        before = log.info().next.sequence_id
        for number in range(5):
            insert(connection, number)
        assert log.info().next.sequence_id == before + 5
        assert app.status().lsn == audit.status().lsn == before + 4
        connection.execute("INSERT INTO main.t VALUES(100)")
        connection.execute("INSERT INTO audit.t VALUES(200)")
        connection.execute("BEGIN IMMEDIATE")  # locks both, and changes one
        connection.execute("INSERT INTO main.t VALUES(101)")
        connection.execute("COMMIT")
        assert app.status().lsn == audit.status().lsn + 1 == before + 7
    for lsn in range(before, before + 5):
        walkeeper_sqlite.restore(log, tmp_path / f"app{lsn}", to=lsn)
        walkeeper_sqlite.restore(log, tmp_path / f"audit{lsn}", to=lsn, name="audit")
        then = sqlite3.connect(tmp_path / f"app{lsn}")
        then.execute("ATTACH ? AS audit", (str(tmp_path / f"audit{lsn}"),))
        assert rows(then, "main") == rows(then, "audit") == list(range(lsn - before + 1))
        then.close()


def test_another_machine_has_both(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    with both(tmp_path, ns.log("app")) as (_, _, connection):
        insert(connection, 1)
        connection.executescript("PRAGMA wal_checkpoint(TRUNCATE)")
        insert(connection, 2)
    (tmp_path / "other").mkdir()
    with both(tmp_path / "other", ns.log("app")) as (_, _, connection):
        assert rows(connection, "main") == rows(connection, "audit") == [1, 2]
        insert(connection, 3)
    for name, file in ((None, "app.db"), ("audit", "audit.db")):
        walkeeper_sqlite.restore(ns.log("app"), tmp_path / "again.db", name=name)
        assert (tmp_path / "again.db").read_bytes() == (tmp_path / "other" / file).read_bytes()
        (tmp_path / "again.db").unlink()


def test_a_file_is_taken_over_beside_and_belongs_to_its_name(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    plain = sqlite3.connect(tmp_path / "audit.db", isolation_level=None)
    plain.execute("CREATE TABLE old(x)")
    plain.close()
    log = ns.log("app")
    with both(tmp_path, log) as (app, _, connection):
        assert connection.execute("SELECT count(*) FROM audit.old").fetchone() == (0,)
        more = [app.attach(tmp_path / f"more{number}.db", f"more{number}") for number in range(9)]
        with pytest.raises(InvalidError, match="11 databases"):
            app.attach(tmp_path / "twelfth.db", "twelfth")
        for one in more:
            one.close()
        (tmp_path / "stranger.db").write_bytes(b"SQLite")
        with pytest.raises(InvalidError, match="not known to be of this log"):
            app.attach(tmp_path / "stranger.db", "audit")
        with pytest.raises(ExistsError):
            app.attach(tmp_path / "audit.db", "audit")
        for name in ("", "x" * 256):
            with pytest.raises(InvalidError, match="1 to 255"):
                app.attach(tmp_path / "more.db", name)
    with pytest.raises(NotFoundError):
        walkeeper_sqlite.restore(log, tmp_path / "none.db", name="billing")
    with (
        walkeeper_sqlite.attach(tmp_path / "app.db", log) as strict,
        pytest.raises(InvalidError, match="group acknowledgement"),
    ):
        strict.attach(tmp_path / "audit.db", "audit")


def test_a_refused_transaction_is_nowhere(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    """Connections have seen a part of it, so the databases end."""
    log = FlakyLog(ns.log("app"))

    def fail() -> None:
        raise NoSpaceError("the log is full", outcome="not_written")

    with both(tmp_path, log.as_log()) as (app, audit, connection):
        insert(connection, 1)
        log.refuse = fail
        with pytest.raises(sqlite3.OperationalError):
            insert(connection, 2)
        log.refuse = bool
        assert app.status().state == "poisoned"
        with pytest.raises(sqlite3.OperationalError):
            rows(connection, "main")
        assert audit.status().state == "open"
        with pytest.raises(sqlite3.OperationalError):
            insert(connection, 3)
    with both(tmp_path, ns.log("app")) as (_, _, connection):
        assert rows(connection, "main") == rows(connection, "audit") == [1]


@pytest.mark.parametrize("locking_mode", ["NORMAL", "EXCLUSIVE"])
def test_a_transaction_that_fails_in_the_second_database_is_nowhere(
    tmp_path: Path, ns: walkeeper.Namespace, locking_mode: str
) -> None:
    """The log refuses a part of the second commit when the first one was seen."""
    log = FlakyLog(ns.log("app"))

    def fail() -> None:
        raise NoSpaceError("the log is full", outcome="not_written")

    with both(tmp_path, log.as_log()) as (app, audit, connection):
        connection.execute(f"PRAGMA locking_mode={locking_mode}").fetchall()
        insert(connection, 1)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()  # so that a restart redoes nothing before
        connection.execute("BEGIN")
        connection.execute("INSERT INTO main.t VALUES(2)")
        connection.execute("INSERT INTO audit.t VALUES(randomblob(300000))")
        log.before = fail
        with pytest.raises(sqlite3.OperationalError):
            connection.execute("COMMIT")
        log.before = bool
        assert "seen a part of it" in (app.status().reason or "")
        assert audit.status().state == "open"
        assert rows(connection, "audit") == [1]
    with both(tmp_path, ns.log("app")) as (_, _, connection):
        assert rows(connection, "main") == rows(connection, "audit") == [1]


def test_a_transaction_of_unknown_outcome_is_in_both_or_in_neither(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    log = FlakyLog(ns.log("app"))

    def fail() -> None:
        raise TimeoutError("no answer", outcome="unknown")

    with both(tmp_path, log.as_log()) as (app, _, connection):
        insert(connection, 1)
        log.before = fail
        with pytest.raises(sqlite3.OperationalError):
            insert(connection, 2)
        assert app.status().state == "poisoned"
        log.before = bool
    with both(tmp_path, ns.log("app")) as (_, _, connection):
        assert rows(connection, "main") == rows(connection, "audit") == [1, 2]


def test_a_fenced_transaction_is_nowhere(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    (tmp_path / "other").mkdir()
    with both(tmp_path, ns.log("app")) as (_, audit, connection):
        insert(connection, 1)
        with both(tmp_path / "other", ns.log("app")) as (_, _, theirs):
            with pytest.raises(sqlite3.OperationalError):
                insert(connection, 2)
            assert audit.status().state == "fenced"
            insert(theirs, 3)
            assert rows(theirs, "main") == rows(theirs, "audit") == [1, 3]


def test_truncation_keeps_each_database(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    log, nothing = ns.log("app"), timedelta(0)
    with both(tmp_path, log) as (app, audit, connection):
        insert(connection, 1)
        mine = app.snapshot()
        insert(connection, 2)
        assert walkeeper_sqlite.snapshots(log)[-1] == mine
        assert app.truncate(nothing) == mine
        assert walkeeper_sqlite.snapshots(log) == [mine]
        first = walkeeper_sqlite.snapshots(log, "audit")
        assert len(first) == 1
        assert log.info().first.sequence_id <= first[0].lsn
        theirs = audit.snapshot()
        insert(connection, 3)
        assert app.truncate(nothing) == mine
        assert walkeeper_sqlite.snapshots(log, "audit") == [theirs]
        assert log.info().first.sequence_id == mine.lsn
    for name, file in ((None, "app.db"), ("audit", "audit.db")):
        walkeeper_sqlite.restore(log, tmp_path / "again.db", name=name)
        assert (tmp_path / "again.db").read_bytes() == (tmp_path / file).read_bytes()
        (tmp_path / "again.db").unlink()


def test_the_command_line_knows_their_names(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    with both(tmp_path, ns.log("app")) as (_, _, connection):
        insert(connection, 1)
    ns.close()
    wal = str(tmp_path / "wal")

    def command(name: str, *arguments: str) -> Result:
        return run("sqlite", name, wal, "app", *arguments)

    assert json.loads(command("status", "--json").stdout)["beside"] == ["audit"]
    for file in ("app.db", "audit.db"):
        assert command("verify", str(tmp_path / file)).exit_code == 0
    again = tmp_path / "again.db"
    assert command("restore", str(again), "--beside", "audit").exit_code == 0
    assert again.read_bytes() == (tmp_path / "audit.db").read_bytes()
    refused = command("restore", str(tmp_path / "none.db"), "--beside", "billing")
    assert refused.exit_code != 0
    assert "it has: audit" in refused.output
    assert command("follow", str(tmp_path / "copy.db"), "--beside", "audit", "--once").exit_code == 0


def test_a_commit_of_a_database_beside_is_chosen_from_its_history(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ns: walkeeper.Namespace
) -> None:
    with both(tmp_path, ns.log("app")) as (_, _, connection):
        for number in range(3):
            connection.execute("INSERT INTO main.t VALUES(?)", (number,))
            insert(connection, number)
    ns.close()
    wal = str(tmp_path / "wal")
    told = {
        name: [json.loads(line) for line in run("sqlite", "history", wal, "app", "--json", *more).stdout.splitlines()]
        for name, more in (("app", []), ("audit", ["--beside", "audit"]))
    }
    commits = {name: [row for row in rows if row["kind"] == "commit"] for name, rows in told.items()}
    assert [row["transaction"] for row in commits["app"]] == [1, 2, 3, 4, 5, 6, 7]
    assert [row["transaction"] for row in commits["audit"]] == [1, 2, 3, 4]
    assert [row["lsn"] for row in commits["audit"][1:]] == [row["lsn"] for row in commits["app"][2::2]]
    since = str(commits["audit"][2]["lsn"])
    some = run("sqlite", "history", wal, "app", "--json", "--beside", "audit", "--since", since).stdout
    assert [json.loads(line)["transaction"] for line in some.splitlines()] == [3, 4]
    monkeypatch.setattr("walkeeper_sqlite.commands.is_terminal", lambda: True)
    then = tmp_path / "then.db"
    chosen = run("sqlite", "restore", wal, "app", str(then), "--beside", "audit", given=f"{since}\n".encode())
    assert chosen.exit_code == 0, chosen.output
    assert [line.split()[0] for line in chosen.output.splitlines()[2:6]] == [
        str(row["lsn"]) for row in commits["audit"]
    ]
    with closing(sqlite3.connect(then)) as copy:
        assert rows(copy, "main") == [0, 1]


def test_each_is_followed_by_its_name(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    log = ns.log("app")
    with (
        both(tmp_path, log) as (_, audit, connection),
        walkeeper_sqlite.follow(tmp_path / "copy.db", log, name="audit") as follower,
    ):
        insert(connection, 1)
        follower.wait_for(audit.status().lsn, 60)
        copy = sqlite3.connect(tmp_path / "copy.db")
        assert copy.execute("SELECT x FROM t").fetchall() == [(1,)]
        copy.close()


def test_transactions_of_many_connections(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    """Over both, and over one of them, with checkpoints: each file is what the log makes of it."""
    log = ns.log("app")
    with both(tmp_path, log) as (app, audit, connection):

        def write(seed: int) -> None:
            chance = random.Random(seed)
            mine = connected(app, audit)
            mine.execute(f"PRAGMA main.wal_autocheckpoint={chance.choice((3, 20, 1000))}")
            mine.execute(f"PRAGMA main.cache_size={chance.choice((1, 100))}")
            for _ in range(40):
                schemas = chance.choice((["main"], ["audit"], ["main", "audit"], ["main", "audit"]))
                number, size = chance.randrange(10**9), chance.choice((10, 3000, 90_000))
                mine.execute("BEGIN IMMEDIATE")  # of both in one order, so that nobody waits for each other
                for schema in schemas:
                    mine.execute(f"INSERT INTO {schema}.t VALUES(?)", (number,))
                    mine.execute(f"INSERT INTO {schema}.t VALUES(zeroblob(?))", (size,))
                mine.execute("ROLLBACK" if chance.random() < 0.1 else "COMMIT")
            mine.close()

        threads = [threading.Thread(target=write, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert app.status().state == audit.status().state == "open"
        assert len(rows(connection, "main")) > 50
    for name, file in ((None, "app.db"), ("audit", "audit.db")):
        walkeeper_sqlite.restore(log, tmp_path / "again.db", name=name)
        assert (tmp_path / "again.db").read_bytes() == (tmp_path / file).read_bytes()
        (tmp_path / "again.db").unlink()
