"""What a caller of walkeeper_sqlite sees: commits that survive, files that are made anew, errors."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

import pytest

import walkeeper
import walkeeper_sqlite
from tests.models.crc32c import crc32c
from walkeeper.errors import (
    ClosedError,
    CorruptError,
    DirectoryLockedError,
    ExistsError,
    InvalidError,
    NotFoundError,
)


@pytest.fixture
def ns(tmp_path: Path) -> Iterator[walkeeper.Namespace]:
    with walkeeper.open(tmp_path / "wal") as namespace:
        yield namespace


def filled(database: walkeeper_sqlite.Database, rows: int = 10) -> sqlite3.Connection:
    connection = database.connect(isolation_level=None)
    connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
    for number in range(rows):
        connection.execute("INSERT INTO t(x) VALUES(?)", (number,))
    return connection


def rows_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    (count,) = connection.execute("SELECT count(*) FROM t").fetchone()
    connection.close()
    return int(count)


def test_a_lost_file_is_made_from_the_log(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    file = tmp_path / "app.db"
    with walkeeper_sqlite.attach(file, ns.log("app")) as database:
        filled(database).close()
    kept = file.read_bytes()
    file.unlink()
    with walkeeper_sqlite.attach(file, ns.log("app")) as database:
        assert database.connect().execute("SELECT count(*) FROM t").fetchone() == (10,)
    assert file.read_bytes() == kept


def test_another_place_has_the_database_from_the_log(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    with walkeeper_sqlite.attach(tmp_path / "here.db", ns.log("app")) as database:
        connection = filled(database)
        with walkeeper_sqlite.attach(tmp_path / "there.db", ns.log("app")) as second:
            with pytest.raises(sqlite3.OperationalError):
                connection.execute("INSERT INTO t(x) VALUES(-1)")
            assert database.status().state == "fenced"
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                connection.execute("INSERT INTO t(x) VALUES(-1)")
            assert connection.execute("SELECT count(*) FROM t").fetchone() == (10,)
            other = second.connect(isolation_level=None)
            other.execute("INSERT INTO t(x) VALUES(11)")
            assert other.execute("SELECT count(*) FROM t").fetchone() == (11,)
            other.close()
        connection.close()


def test_the_lsn_is_that_of_the_last_commit(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    with walkeeper_sqlite.attach(tmp_path / "app.db", ns.log("app")) as database:
        connection = filled(database, 3)
        lsn = walkeeper_sqlite.last_lsn(connection)
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t(x) VALUES(9)")
        assert walkeeper_sqlite.last_lsn(connection) == lsn
        connection.execute("COMMIT")
        assert walkeeper_sqlite.last_lsn(connection) == lsn + 1 == ns.log("app").info().last.sequence_id
        assert database.status().lsn == lsn + 1
        connection.close()
    with pytest.raises(sqlite3.OperationalError):
        walkeeper_sqlite.last_lsn(sqlite3.connect(tmp_path / "absent" / "x"))
    with pytest.raises(InvalidError, match="no database of walkeeper"):
        walkeeper_sqlite.last_lsn(sqlite3.connect(":memory:"))


def test_a_rolled_back_transaction_leaves_no_record(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    with walkeeper_sqlite.attach(tmp_path / "app.db", ns.log("app")) as database:
        connection = filled(database)
        before = ns.log("app").info().next.sequence_id
        connection.execute("PRAGMA cache_size=1")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO t(x) VALUES(zeroblob(5000))", [()] * 50)
        connection.execute("ROLLBACK")
        assert ns.log("app").info().next.sequence_id == before
        connection.execute("INSERT INTO t(x) VALUES(1)")
        assert ns.log("app").info().next.sequence_id == before + 1
        connection.close()


def test_a_database_that_exists_is_taken_over(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    file = tmp_path / "app.db"
    connection = sqlite3.connect(file)
    connection.executescript("PRAGMA page_size=1024; CREATE TABLE t(x); INSERT INTO t VALUES(1), (2);")
    connection.close()
    with walkeeper_sqlite.attach(file, ns.log("app")) as database:
        ours = database.connect(isolation_level=None)
        assert ours.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        ours.execute("INSERT INTO t VALUES(3)")
        ours.close()
    walkeeper_sqlite.restore(ns.log("app"), tmp_path / "again.db")
    assert rows_of(tmp_path / "again.db") == 3
    assert (tmp_path / "again.db").read_bytes() == file.read_bytes()


def test_a_commit_larger_than_a_record_is_one_transaction(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    with walkeeper_sqlite.attach(tmp_path / "app.db", ns.log("app")) as database:
        connection = filled(database, 1)
        before = walkeeper_sqlite.last_lsn(connection)
        with connection:
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO t(x) VALUES(randomblob(4000))", [()] * 12_000)
        after = walkeeper_sqlite.last_lsn(connection)
        assert after > before + 40
        connection.close()
    for lsn, count in ((before, 1), (after - 1, 1), (after, 12_001)):
        walkeeper_sqlite.restore(ns.log("app"), tmp_path / f"{lsn}.db", to=lsn)
        assert rows_of(tmp_path / f"{lsn}.db") == count
    assert (tmp_path / f"{after}.db").read_bytes() == (tmp_path / "app.db").read_bytes()


def test_restore_goes_to_a_sequence_id_and_to_a_time(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    log = ns.log("app")
    with walkeeper_sqlite.attach(tmp_path / "app.db", log) as database:
        connection = filled(database, 5)
        lsn = walkeeper_sqlite.last_lsn(connection)
        then = datetime.now(timezone.utc)
        while log.info().last.txid >= int(then.timestamp() * 1000):
            then = datetime.now(timezone.utc)
        while int(datetime.now(timezone.utc).timestamp() * 1000) <= int(then.timestamp() * 1000):
            pass
        connection.execute("DELETE FROM t")
        connection.close()
    assert walkeeper_sqlite.restore(log, tmp_path / "lsn.db", to=lsn).lsn == lsn
    assert walkeeper_sqlite.restore(log, tmp_path / "time.db", to=then).lsn == lsn
    assert (rows_of(tmp_path / "lsn.db"), rows_of(tmp_path / "time.db")) == (5, 5)
    walkeeper_sqlite.restore(log, tmp_path / "all.db")
    assert rows_of(tmp_path / "all.db") == 0
    with pytest.raises(ExistsError):
        walkeeper_sqlite.restore(log, tmp_path / "all.db")
    with pytest.raises(NotFoundError, match="no whole snapshot"):
        walkeeper_sqlite.restore(log, tmp_path / "never.db", to=datetime(1999, 1, 1, tzinfo=timezone.utc))
    with pytest.raises(InvalidError, match="time zone"):
        walkeeper_sqlite.restore(log, tmp_path / "never.db", to=datetime(2030, 1, 1))
    with pytest.raises(InvalidError, match="neither"):
        walkeeper_sqlite.restore(log, tmp_path / "never.db", to="yesterday")  # type: ignore[arg-type]
    assert sorted(path.name for path in tmp_path.glob("*restoring*")) == []
    assert not (tmp_path / "never.db").exists()


def test_threads_that_restore_to_one_path_make_one_file(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    log = ns.log("app")
    with walkeeper_sqlite.attach(tmp_path / "app.db", log) as database:
        filled(database, 200).close()

    def restored(path: Path) -> bool:
        try:
            walkeeper_sqlite.restore(log, path)
        except ExistsError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        for number in range(20):
            path = tmp_path / f"then-{number}.db"
            assert list(pool.map(restored, [path] * 4)).count(True) == 1
            assert path.read_bytes() == (tmp_path / "app.db").read_bytes()
    assert list(tmp_path.glob("*-restoring*")) == []


def test_what_cannot_be_attached_is_refused(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    file = tmp_path / "app.db"
    with walkeeper_sqlite.attach(file, ns.log("app")) as database:
        filled(database).close()
        with pytest.raises(ExistsError):
            walkeeper_sqlite.attach(file, ns.log("other"))
    with pytest.raises(InvalidError, match="is of log"):
        walkeeper_sqlite.attach(file, ns.log("other"))
    shutil.copy(file, tmp_path / "copy.db")
    with pytest.raises(InvalidError, match="not known to be of this log"):
        walkeeper_sqlite.attach(tmp_path / "copy.db", ns.log("app"))
    (tmp_path / "text.db").write_text("no database" * 100)
    with pytest.raises(InvalidError, match="WAL mode"):
        walkeeper_sqlite.attach(tmp_path / "text.db", ns.log("third"))
    assert (tmp_path / "text.db").read_text() == "no database" * 100
    ns.log("strange").writer().append(b"a record of something else")
    with pytest.raises(InvalidError):
        walkeeper_sqlite.attach(tmp_path / "strange.db", ns.log("strange"))
    with pytest.raises(InvalidError, match="power of two"):
        walkeeper_sqlite.attach(tmp_path / "size.db", ns.log("size"), page_size=1000)
    database.close()
    with pytest.raises(ClosedError):
        database.status()


READING = """
    import sqlite3, sys
    connection = sqlite3.connect(sys.argv[1])
    connection.execute("SELECT * FROM t").fetchone()
    print(1, flush=True)
    sys.stdin.read()
"""


def test_the_file_of_a_program_without_the_vfs_is_refused(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    file = tmp_path / "app.db"
    with walkeeper_sqlite.attach(file, ns.log("app")) as database:
        filled(database).close()
    script = textwrap.dedent(READING)
    command = [sys.executable, "-c", script, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        assert reader.stdout.read(1) == b"1"
        with pytest.raises(DirectoryLockedError, match="open in another process"):
            walkeeper_sqlite.attach(file, ns.log("app"))
        reader.communicate(b"")
    walkeeper_sqlite.attach(file, ns.log("app")).close()


def test_a_file_that_was_being_made_is_made_again(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    """The log cannot be read to its end, as where the machine stops in between."""
    file, log = tmp_path / "app.db", ns.log("app")
    with walkeeper_sqlite.attach(file, log) as database:
        connection = filled(database)
        connection.execute("INSERT INTO t(x) VALUES(randomblob(100000))")
        connection.close()
    kept = file.read_bytes()
    file.unlink()
    with log.writer() as writer:
        wrong = writer.append(b"none of ours")
    with pytest.raises(CorruptError):
        walkeeper_sqlite.attach(file, log)
    good = ns.log("good")
    with good.writer() as writer:
        for record in log.reader(end=wrong):
            writer.append(bytes(record.payload))
    with walkeeper_sqlite.attach(tmp_path / "good.db", good):
        pass
    assert (tmp_path / "good.db").read_bytes() == kept
    with open(tmp_path / "good.db-wk", "r+b") as state:  # its slots, as they were while the file was being made
        slots = state.read()
        newest = max((0, 4096), key=lambda at: int.from_bytes(slots[at + 16 : at + 24], "little"))
        making = bytearray(slots[newest : newest + 4096])
        making[48:56], making[68:88] = (-2).to_bytes(8, "little", signed=True), bytes(20)
        making[16:24] = (int.from_bytes(making[16:24], "little") + 2).to_bytes(8, "little")
        making[88:92] = crc32c(bytes(making[:88])).to_bytes(4, "little")
        state.seek(newest)
        state.write(making)
    (tmp_path / "good.db").write_bytes(kept[: len(kept) // 2])
    with walkeeper_sqlite.attach(tmp_path / "good.db", good):
        pass
    assert (tmp_path / "good.db").read_bytes() == kept


def test_who_cannot_have_the_file_fences_nobody(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    log = ns.log("app")
    with walkeeper_sqlite.attach(tmp_path / "app.db", log) as database:
        connection = filled(database)
        with pytest.raises(ExistsError):
            walkeeper_sqlite.attach(tmp_path / "app.db", log)
        shutil.copy(tmp_path / "wal" / "superblock", tmp_path / "strange.db")
        with pytest.raises(InvalidError):
            walkeeper_sqlite.attach(tmp_path / "strange.db", log)
        with open(tmp_path / "locked.db-wk", "wb") as held:
            fcntl.fcntl(held, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))  # F_OFD_SETLK
            with pytest.raises(DirectoryLockedError):
                walkeeper_sqlite.attach(tmp_path / "locked.db", log)
        connection.execute("INSERT INTO t(x) VALUES(11)")
        assert database.status().state == "open"
        connection.close()


def test_threads_that_connect_first_share_the_database(tmp_path: Path) -> None:
    walkeeper_sqlite.load()
    uri = f"file:{tmp_path}/app.db?vfs=walkeeper&wk_root={tmp_path}/wal&wk_log=app"
    at_once, failures = threading.Barrier(4), []

    def write() -> None:
        at_once.wait()
        try:
            connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=60)
            connection.execute("CREATE TABLE IF NOT EXISTS t(x)")
            for _ in range(20):
                connection.execute("INSERT INTO t VALUES(1)")
            connection.close()
        except sqlite3.Error as error:
            failures.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert rows_of(tmp_path / "app.db") == 80


@pytest.mark.parametrize("suffix", ["-wal", "-journal", "-shm", "-wk"])
def test_nothing_is_restored_beside_files_of_another_database(
    tmp_path: Path, ns: walkeeper.Namespace, suffix: str
) -> None:
    with walkeeper_sqlite.attach(tmp_path / "app.db", ns.log("app")) as database:
        filled(database).close()
    (tmp_path / f"old.db{suffix}").write_bytes(b"of another one")
    with pytest.raises(ExistsError, match=suffix):
        walkeeper_sqlite.restore(ns.log("app"), tmp_path / "old.db")
    assert not (tmp_path / "old.db").exists()


def test_a_file_whose_adoption_did_not_end_is_adopted_as_it_is(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    """The log has its pages; the process was killed before it noted that, and the application went on without us."""
    file, log = tmp_path / "app.db", ns.log("app")
    connection = sqlite3.connect(file, isolation_level=None)
    connection.executescript("CREATE TABLE t(x); INSERT INTO t VALUES(1);")
    connection.close()
    with walkeeper_sqlite.attach(file, log):
        pass
    unfinished(file, log, 0)
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("INSERT INTO t VALUES(2)")
    connection.close()
    with walkeeper_sqlite.attach(file, log) as database:
        ours = database.connect(isolation_level=None)
        assert ours.execute("SELECT count(*) FROM t").fetchone() == (2,)
        ours.execute("INSERT INTO t VALUES(3)")
        ours.close()
    walkeeper_sqlite.restore(log, tmp_path / "again.db")
    assert (tmp_path / "again.db").read_bytes() == file.read_bytes()


def unfinished(file: Path, log: walkeeper.Log, page_size: int) -> None:
    """The state file as it is while an empty database is made (its page size), or a file is adopted (0)."""
    slot = bytearray(4096)
    slot[:16] = b"wksqlite" + struct.pack("<II", 1, page_size)
    slot[16:40] = struct.pack("<QQQ", 1, log.info().log_id, 77)
    slot[48:64] = struct.pack("<qq", -1, -1)
    slot[88:92] = struct.pack("<I", crc32c(bytes(slot[:88])))
    Path(f"{file}-wk").write_bytes(slot)


@pytest.mark.parametrize("closed", [True, False])
def test_what_a_program_wrote_into_a_database_that_was_not_finished_is_kept(
    tmp_path: Path, ns: walkeeper.Namespace, closed: bool
) -> None:
    """Attaching failed behind the empty page; the application went on by itself, and may have died with a WAL."""
    with walkeeper_sqlite.attach(tmp_path / "empty.db", ns.log("empty")):
        pass
    file, log = tmp_path / "app.db", ns.log("app")
    shutil.copy(tmp_path / "empty.db", file)
    unfinished(file, log, 4096)
    script = "import os, sqlite3, sys; connection = sqlite3.connect(sys.argv[1]); "
    script += "connection.executescript('CREATE TABLE t(x); INSERT INTO t VALUES(1)')"
    script += "; connection.close()" if closed else "; os._exit(0)"
    subprocess.run([sys.executable, "-c", script, str(file)], check=True)
    assert (tmp_path / "app.db-wal").exists() is not closed
    with walkeeper_sqlite.attach(file, log) as database:
        assert database.connect().execute("SELECT x FROM t").fetchall() == [(1,)]
    walkeeper_sqlite.restore(log, tmp_path / "again.db")
    assert (tmp_path / "again.db").read_bytes() == file.read_bytes()


def test_an_empty_database_that_was_not_finished_is_made_again(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    with walkeeper_sqlite.attach(tmp_path / "empty.db", ns.log("empty")):
        pass
    for size in (0, 1, 2048, 4096):
        file, log = tmp_path / f"{size}.db", ns.log(f"log-{size}")
        file.write_bytes((tmp_path / "empty.db").read_bytes()[:size])
        unfinished(file, log, 4096)
        with walkeeper_sqlite.attach(file, log) as database:
            filled(database).close()
        assert rows_of(file) == 10


def test_a_follower_leaves_a_strange_file_as_it_is(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    connection = sqlite3.connect(tmp_path / "app.db")
    connection.execute("CREATE TABLE t(x)")
    connection.close()
    before = (tmp_path / "app.db").read_bytes()
    with pytest.raises(InvalidError, match="not known to be of this log"):
        walkeeper_sqlite.follow(tmp_path / "app.db", ns.log("app"))
    assert (tmp_path / "app.db").read_bytes() == before


TWO_SQLITES = """
    import ctypes, shutil, sqlite3, sys
    import walkeeper, walkeeper_sqlite
    from walkeeper_sqlite._host import _mapped_library

    walkeeper_sqlite.load()
    another, handle = ctypes.CDLL(shutil.copy(_mapped_library(), sys.argv[1] + "/another.so")), ctypes.c_void_p()
    another.sqlite3_open(b":memory:", ctypes.byref(handle))
    another.sqlite3_enable_load_extension(handle, 1)
    extension = walkeeper_sqlite.extension_path().encode()
    assert another.sqlite3_load_extension(handle, extension, b"sqlite3_walkeeper_init", None) == 0
    another.sqlite3_close(handle)

    def open_by_another():
        code = another.sqlite3_open_v2(database.uri.encode(), ctypes.byref(handle), 0x42, None)  # to write, by a URI
        code = code or another.sqlite3_exec(handle, b"SELECT * FROM t", None, None, None)
        another.sqlite3_close(handle)
        return code

    with walkeeper.open(sys.argv[1] + "/wal") as ns:
        with walkeeper_sqlite.attach(sys.argv[1] + "/app.db", ns.log("app")) as database:
            connection = database.connect(isolation_level=None)
            connection.execute("CREATE TABLE t(x)")
            assert open_by_another() == 14  # SQLITE_CANTOPEN
            connection.execute("INSERT INTO t VALUES(1)")
            connection.close()
            assert open_by_another() == 0
"""


def test_a_database_is_opened_by_one_sqlite_of_a_process_at_a_time(tmp_path: Path) -> None:
    """Closing a file by one SQLite takes the locks of the other, and programs outside would then delete its WAL."""
    subprocess.run([sys.executable, "-c", textwrap.dedent(TWO_SQLITES), str(tmp_path)], check=True)


def hot_journal(place: Path) -> bytes:
    """A rollback journal that SQLite rolls back into a file of one page that it finds beside it."""
    plain = sqlite3.connect(place / "plain.db", isolation_level=None)
    plain.executescript("CREATE TABLE u(x); INSERT INTO u VALUES(randomblob(2000)); PRAGMA cache_size=1; BEGIN")
    plain.executemany("INSERT INTO u VALUES(randomblob(2000))", [()] * 200)
    subprocess.run(["cp", place / "plain.db-journal", place / "journal"], check=True)
    plain.close()
    return (place / "journal").read_bytes()


def test_a_rollback_journal_of_an_earlier_file_is_not_rolled_back(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    file, journal = tmp_path / "app.db", tmp_path / "app.db-journal"
    with walkeeper_sqlite.attach(file, ns.log("app")) as database:
        filled(database).close()
    kept = file.read_bytes()
    file.unlink()
    journal.write_bytes(hot_journal(tmp_path))
    with walkeeper_sqlite.attach(file, ns.log("app")) as database:
        connection = database.connect()
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (10,)
        connection.close()
    assert not journal.exists()
    assert rows_of(file) == 10
    assert file.read_bytes() == kept


def test_the_journal_mode_stays(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    with walkeeper_sqlite.attach(tmp_path / "app.db", ns.log("app")) as database:
        connection = filled(database)
        with pytest.raises(sqlite3.OperationalError, match="the journal mode of a database of walkeeper is wal"):
            connection.execute("PRAGMA journal_mode=DELETE")
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        connection.close()


def test_a_uri_without_a_log_is_refused(tmp_path: Path) -> None:
    walkeeper_sqlite.load()
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        sqlite3.connect(f"file:{tmp_path}/app.db?vfs=walkeeper", uri=True)
    plain = sqlite3.connect(f"file:{tmp_path}/app.db?vfs=walkeeper&wk_log=", uri=True)
    plain.execute("CREATE TABLE t(x)")
    plain.close()


def test_a_uri_names_log_and_directory(tmp_path: Path) -> None:
    walkeeper_sqlite.load()
    uri = f"file:{tmp_path}/app.db?vfs=walkeeper&wk_root={tmp_path}/wal&wk_log=app&wk_page_size=1024"
    for number in range(3):
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        connection.execute("CREATE TABLE IF NOT EXISTS t(x)")
        connection.execute("INSERT INTO t VALUES(1)")
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (number + 1,)
        assert connection.execute("PRAGMA page_size").fetchone() == (1024,)
        assert '"state":"open"' in connection.execute("SELECT walkeeper_status()").fetchone()[0]
        connection.close()
    with walkeeper.open(tmp_path / "wal") as ns:
        walkeeper_sqlite.restore(ns.log("app"), tmp_path / "again.db")
    assert rows_of(tmp_path / "again.db") == 3


KILLED = """
    import sys, walkeeper, walkeeper_sqlite
    folder = sys.argv[1]
    with walkeeper.open(folder + "/wal") as ns, walkeeper_sqlite.attach(folder + "/app.db", ns.log("app")) as database:
        connection = database.connect(isolation_level=None)
        connection.execute("PRAGMA wal_autocheckpoint=20")
        connection.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, x)")
        print(connection.execute("SELECT coalesce(max(id), 0) FROM t").fetchone()[0], flush=True)
        while True:
            cursor = connection.execute("INSERT INTO t(x) VALUES(randomblob(200))")
            print(cursor.lastrowid, flush=True)
"""


def test_no_acknowledged_commit_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    acknowledged = 0
    for round_number in range(6):
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            found = int(process.stdout.readline())
            assert found in (acknowledged, acknowledged + 1)
            for _ in range(7 * round_number + 5):
                acknowledged = int(process.stdout.readline())
            os.kill(process.pid, signal.SIGKILL)
            for line in process.stdout:  # what it had said before it died
                acknowledged = int(line) if line.endswith("\n") else acknowledged
        if round_number == 3:  # the machine is another one
            for path in tmp_path.glob("app.db*"):
                path.unlink()


PLAIN = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, x)")
connection.executemany("INSERT INTO t(x) VALUES(?)", [(number,) for number in range(2000)])
connection.commit()
connection.close()
"""
"""What a program does that connects to the path, and not to the uri."""


def test_a_connection_past_the_log_is_told(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    """What it wrote is in the file still: the file is not cut to what the log has."""
    file = tmp_path / "app.db"
    with walkeeper_sqlite.attach(file, ns.log("app")) as database:
        filled(database).close()
    database = walkeeper_sqlite.attach(file, ns.log("app"))
    subprocess.run([sys.executable, "-c", PLAIN, str(file)], check=True)
    with pytest.warns(RuntimeWarning, match="without walkeeper"):
        database.close()
    with pytest.raises(InvalidError, match="changed without the VFS"):
        walkeeper_sqlite.attach(file, ns.log("app"))
    assert rows_of(file) == 2010


def test_a_connection_past_the_log_is_told_behind_a_kill(tmp_path: Path) -> None:
    file = tmp_path / "app.db"
    attached = f"""
        import os, signal, subprocess, sys, walkeeper, walkeeper_sqlite
        database = walkeeper_sqlite.attach({str(file)!r}, walkeeper.open({str(tmp_path / "wal")!r}).log("app"))
        subprocess.run([sys.executable, "-c", {PLAIN!r}, {str(file)!r}], check=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(attached)], check=False)
    assert killed.returncode == -signal.SIGKILL
    with walkeeper.open(tmp_path / "wal") as ns, pytest.raises(InvalidError, match="changed without the VFS"):
        walkeeper_sqlite.attach(file, ns.log("app"))
    assert rows_of(file) == 2000


@pytest.mark.parametrize("path", ["", ":memory:", "file:app.db"])
def test_what_is_no_path_is_refused(ns: walkeeper.Namespace, path: str) -> None:
    with pytest.raises(InvalidError, match="no path of a database file"):
        walkeeper_sqlite.attach(path, ns.log("app"))
    with pytest.raises(InvalidError, match="no path of a database file"):
        walkeeper_sqlite.follow(path, ns.log("app"))


def test_a_log_of_something_else_fences_nobody(tmp_path: Path, ns: walkeeper.Namespace) -> None:
    with ns.log("orders").writer() as writer:
        writer.append(b"an order")
        with pytest.raises(InvalidError, match="the log is of something else"):
            walkeeper_sqlite.attach(tmp_path / "app.db", ns.log("orders"))
        writer.append(b"another one")
    assert not (tmp_path / "app.db").exists()
