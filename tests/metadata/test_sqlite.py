"""SqliteStore beyond what every store promises: the file, its settings, and what goes wrong with files."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from metadata.stores import WAIT_SECONDS, Calls, until

from walkeeper.metadata import (
    ClosedError,
    ConflictError,
    MetadataError,
    Operation,
    SqliteStore,
    UnavailableError,
    UnknownOutcomeError,
    _sqlite_file,
)

PROLOGUE = "import os, signal, sys, time\nfrom walkeeper.metadata import *\nstore = SqliteStore(sys.argv[1])\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metadata.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(path, busy_timeout=WAIT_SECONDS) as opened:
        yield opened


def start(path: Path, script: str, *arguments: str) -> subprocess.Popen[str]:
    """Another process with the store open, which runs the script."""
    return subprocess.Popen(
        [sys.executable, "-c", PROLOGUE + script, str(path), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> int:
    """How it ended; its pipes are closed."""
    process.communicate(timeout=WAIT_SECONDS)
    return process.returncode


def data_of(store: SqliteStore, key: str) -> bytes:
    value = store.get(key)
    assert value is not None
    return value.data


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


# ---- what is kept ----


def test_what_was_written_is_there_when_it_is_opened_again(path: Path) -> None:
    with SqliteStore(path) as store:
        store.create("/a/b", b"one", parents=True)
        version = store.put("/a/b", b"two")
        first = store.create_sequential("/a/n-")
        store.delete(first)
    with SqliteStore(path) as store:
        value = store.get("/a/b")
        assert value is not None
        assert (value.data, value.version) == (b"two", version)
        assert store.create_sequential("/a/n-") > first


def test_versions_do_not_come_back_with_a_key(store: SqliteStore) -> None:
    """Otherwise who read the former key could overwrite the new one."""
    version = store.create("/a")
    store.delete("/a")
    store.create("/a")
    with pytest.raises(ConflictError):
        store.put("/a", b"x", version)


def test_cluster_rule_19_each_connection_has_the_settings(store: SqliteStore) -> None:
    def settings(connection: sqlite3.Connection) -> list[Any]:
        names = ("journal_mode", "synchronous", "mmap_size")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    extra = 3
    assert store._file.read(settings) == ["delete", extra, 0]
    assert store._file.write(settings) == ["delete", extra, 0]


def test_cluster_rule_19_writes_begin_with_the_lock_and_use_no_savepoint(store: SqliteStore) -> None:
    said: list[str] = []
    connections = [store._file.take() for _ in range(2)]
    for connection in connections:
        connection.set_trace_callback(said.append)
        store._file.give(connection)
    store.create("/a")
    store.transact([Operation("put", "/a", b"x")])
    with pytest.raises(MetadataError):
        store.create("/a")
    begun = [text for text in said if text.startswith("BEGIN")]
    assert begun == ["BEGIN IMMEDIATE"] * 3
    assert not [text for text in said if "SAVEPOINT" in text.upper()]
    for connection in connections:
        connection.set_trace_callback(None)


# ---- what is refused at the opening ----


def test_a_later_schema_is_refused(path: Path) -> None:
    SqliteStore(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {_sqlite_file.SCHEMA_VERSION + 1}")
    connection.close()
    with pytest.raises(MetadataError, match=r"schema version 2.*version 1"):
        SqliteStore(path)


def test_a_database_of_something_else_is_refused_and_left_alone(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(MetadataError, match="something else"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_cluster_rule_19_wal_mode_is_refused(path: Path) -> None:
    SqliteStore(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    with pytest.raises(MetadataError, match="journal mode wal"):
        SqliteStore(path)


@pytest.mark.parametrize(
    "text", [b"this is no database, but a text of some length" * 100, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_what_is_no_database_is_refused_and_left_alone(path: Path, text: bytes) -> None:
    path.write_bytes(text)
    with pytest.raises(MetadataError, match="damaged"):
        SqliteStore(path)
    assert path.read_bytes() == text


def test_a_network_file_system_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sqlite_file, "network_file_system", lambda folder: "NFS")
    with pytest.raises(MetadataError, match=r"network file system \(NFS\)"):
        SqliteStore(path)
    assert not path.exists()
    SqliteStore(path, unsafe_fs=True).close()


def test_this_file_system_is_asked_for_its_type(tmp_path: Path) -> None:
    kind = subprocess.run(["stat", "-f", "-c", "%t", tmp_path], capture_output=True, text=True, check=True).stdout
    assert _sqlite_file.network_file_system(tmp_path) == _sqlite_file._NETWORK.get(int(kind, 16))


def test_places_where_no_file_can_be_are_refused(tmp_path: Path, path: Path) -> None:
    with pytest.raises(MetadataError, match="there is no"):
        SqliteStore(tmp_path / "missing" / "metadata.sqlite")
    with pytest.raises(MetadataError, match="not a file"):
        SqliteStore(tmp_path)
    SqliteStore(path).close()
    os.link(path, tmp_path / "other")
    with pytest.raises(MetadataError, match="hard link"):
        SqliteStore(path)


def test_two_links_to_one_file_are_one_store(tmp_path: Path, store: SqliteStore, path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(path)
    with SqliteStore(tmp_path / "folder" / "link") as linked:
        linked.create("/a", ephemeral=True)
        assert store.children("/") == ["a"]


# ---- a file that cannot be written, or not whole ----


def test_a_read_only_store_reads_and_refuses_writes(store: SqliteStore, path: Path) -> None:
    store.create("/a", b"x")
    store.create("/here", ephemeral=True)
    with SqliteStore(path, read_only=True) as reader:
        assert reader.children("/") == ["a", "here"]
        for write in (lambda: reader.create("/b"), lambda: reader.put("/a", b""), lambda: reader.delete("/a")):
            with pytest.raises(MetadataError, match="cannot be written") as refused:
                write()
            assert not isinstance(refused.value, (UnavailableError, UnknownOutcomeError))
        hints = Calls()
        reader.watch("/a", hints)
        store.put("/a", b"y")
        until(lambda: hints.count)
    with pytest.raises(MetadataError, match="there is no"):
        SqliteStore(path.with_name("other"), read_only=True)


@pytest.mark.skipif(os.getuid() == 0, reason="root may write to every file")
def test_a_file_without_permission_to_write_is_read(path: Path) -> None:
    with SqliteStore(path) as store:
        store.create("/a", b"x")
    path.chmod(0o444)
    with SqliteStore(path) as store:
        assert data_of(store, "/a") == b"x"
        with pytest.raises(MetadataError, match="cannot be written"):
            store.put("/a", b"y")


def test_a_full_disk_is_said_and_nothing_is_written(store: SqliteStore) -> None:
    store.create("/a", b"old")
    connection = store._file.take()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    store._file.give(connection)
    with pytest.raises(UnavailableError, match="disk is full"):
        store.put("/a", b"x" * 100_000)
    assert data_of(store, "/a") == b"old"
    store.put("/a", b"y" * 100_000)  # by a connection that may
    assert data_of(store, "/a") == b"y" * 100_000


def test_a_write_that_the_kernel_refuses_is_undone(store: SqliteStore, path: Path) -> None:
    """RLIMIT_FSIZE: the file may not grow, in the middle of a commit. What was said and what is there agree."""
    script = """
import resource
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(sys.argv[1]) + 8192,) * 2)
try:
    store.put("/a", b"new" * 100_000)
except MetadataError as error:
    print(type(error).__name__, flush=True)
    value = store.get("/a")
    print(value.data.decode(), flush=True)
os._exit(0)
"""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    store.create("/a", b"old")
    process = start(path, script)
    assert line(process) in ("UnavailableError", "UnknownOutcomeError")
    assert line(process) == "old"
    assert end(process) == 0
    assert data_of(store, "/a") == b"old"
    store.put("/a", b"works")


class FailingCommit:
    """A connection whose COMMIT fails, after it was done or instead of it."""

    def __init__(self, connection: sqlite3.Connection, text: str, done: bool) -> None:
        self._connection = connection
        self._text, self._done = text, done

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        if sql == "COMMIT":
            if self._done:
                self._connection.execute(sql)
            raise sqlite3.OperationalError(self._text)
        return self._connection.execute(sql, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@pytest.mark.parametrize(
    ("text", "done", "error"),
    [
        ("disk I/O error", True, UnknownOutcomeError),
        ("disk I/O error", False, UnknownOutcomeError),
        ("database or disk is full", False, UnavailableError),
        ("database is locked", False, UnavailableError),
    ],
)
def test_a_commit_that_fails_says_what_is_known(
    path: Path, text: str, done: bool, error: type[MetadataError], monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqliteStore(path, busy_timeout=0.01) as store:
        store.create("/a", b"old")
        take = store._file.take
        with monkeypatch.context() as patch:
            patch.setattr(store._file, "take", lambda *a, **k: FailingCommit(take(*a, **k), text, done))
            with pytest.raises(MetadataError) as failed:
                store.put("/a", b"new")
            assert type(failed.value) is error
        assert data_of(store, "/a") == (b"new" if done else b"old")
        store.put("/a", b"works")


def test_a_damaged_page_is_said(path: Path) -> None:
    with SqliteStore(path) as store:
        for number in range(300):
            store.create(f"/{number:03}", b"x" * 500)
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        for offset in range(4096, size, 4096):
            file.seek(offset)
            file.write(b"\xff" * 4096)
    with pytest.raises(MetadataError, match="damaged"), SqliteStore(path) as store:
        store.children("/")


# ---- several processes ----


def test_processes_count_together(store: SqliteStore, path: Path) -> None:
    store.create("/counter", b"0")
    script = """
for _ in range(25):
    while True:
        value = store.get("/counter")
        try:
            store.put("/counter", b"%d" % (int(value.data) + 1), value.version)
            break
        except (ConflictError, UnavailableError):
            pass
    store.create_sequential("/n-")
store.close()
"""
    processes = [start(path, script) for _ in range(2)]
    assert [end(process) for process in processes] == [0, 0]
    assert data_of(store, "/counter") == b"50"
    assert len(store.children("/")) == 51


def test_many_processes_make_the_file_at_once(path: Path) -> None:
    processes = [start(path, "store.create_sequential('/n-')\nstore.close()") for _ in range(4)]
    assert [end(process) for process in processes] == [0] * 4
    with SqliteStore(path) as store:
        assert len(store.children("/")) == 4


def test_a_process_that_is_killed_in_its_transaction_leaves_nothing(store: SqliteStore, path: Path) -> None:
    script = """
connection = store._file.take()
connection.execute("PRAGMA cache_size = 1")  # so that it writes into the file before it commits
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE key SET data = ?", (b"new" * 100_000,))
print("here", flush=True)
time.sleep(1000)
"""
    for number in range(20):
        store.create(f"/{number}", b"old")
    process = start(path, script)
    assert line(process) == "here"
    assert path.with_name(path.name + "-journal").stat().st_size > 0
    process.kill()
    end(process)
    assert {data_of(store, f"/{number}") for number in range(20)} == {b"old"}
    store.put("/0", b"works")
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]


def test_a_process_that_is_killed_at_any_time_leaves_whole_transactions(store: SqliteStore, path: Path) -> None:
    """What it was told to be done is there, and of the rest all or nothing."""
    script = """
number = int(store.get("/a").data)
while True:
    number += 1
    store.transact([Operation("put", key, b"%d" % number) for key in ("/a", "/b", "/c")])
    print(number, flush=True)
"""
    for key in ("/a", "/b", "/c"):
        store.create(key, b"0")
    for turn in range(8):
        process = start(path, script)
        told = int(line(process))
        for _ in range(turn):
            told = int(line(process))
        process.kill()
        said = process.communicate(timeout=WAIT_SECONDS)[0].split("\n")[:-1]
        values = {data_of(store, key) for key in ("/a", "/b", "/c")}
        assert len(values) == 1
        assert int(values.pop()) >= max([told, *map(int, said)])


def test_a_busy_file_is_unavailable_after_a_time(store: SqliteStore, path: Path) -> None:
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(UnavailableError, match="busy"):
        SqliteStore(path, busy_timeout=0.05)
    holder.execute("ROLLBACK")
    with SqliteStore(path, busy_timeout=0.05) as impatient:
        holder.execute("BEGIN EXCLUSIVE")
        for call in (lambda: impatient.get("/a"), lambda: impatient.create("/a"), lambda: impatient.children("/")):
            with pytest.raises(UnavailableError, match="busy"):
                call()
        holder.execute("ROLLBACK")
        impatient.create("/a")
        # One that only reads keeps the commit away, not the writing before it.
        holder.execute("BEGIN")
        holder.execute("SELECT * FROM key").fetchall()
        with pytest.raises(UnavailableError, match="busy"):
            impatient.put("/a", b"x")
        holder.execute("ROLLBACK")
        assert data_of(impatient, "/a") == b""
        impatient.put("/a", b"x")
    holder.close()


@pytest.mark.parametrize("lock", ["BEGIN EXCLUSIVE", "BEGIN"])
def test_close_ends_who_waits_for_a_busy_file(store: SqliteStore, path: Path, lock: str) -> None:
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute(lock)
    holder.execute("SELECT * FROM key").fetchall()
    began, ended = Calls(), Calls()

    def wait(number: int) -> None:
        began()
        try:
            store.create(f"/{number}")
        except ClosedError as error:
            ended(error)

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    until(lambda: began.count == 3)
    store.close()
    for thread in threads:
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive()
    holder.execute("ROLLBACK")
    holder.close()
    assert ended.count == 3
    with SqliteStore(path) as again:
        assert again.children("/") == []


# ---- forks ----


def in_child(check: Any) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(60)
            check()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_child_may_not_use_what_its_parent_opened(store: SqliteStore, path: Path) -> None:
    store.create("/here", b"x", ephemeral=True)

    def check() -> None:
        for call in (
            lambda: store.get("/here"),
            lambda: store.create("/a"),
            lambda: store.children("/"),
            lambda: store.watch("/", lambda: None),
            store.session,
        ):
            with pytest.raises(MetadataError, match="fork"):
                call()
        store.close()
        with SqliteStore(path) as own:
            assert own.children("/") == ["here"]
            own.create("/child", ephemeral=True)

    in_child(check)
    assert store.children("/") == ["here"]


def test_a_child_does_not_undo_what_its_parent_is_writing(store: SqliteStore) -> None:
    """A connection closed in the child would roll back the parent's transaction in the file."""

    def write(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("INSERT INTO key VALUES ('/', 'a', ?, 1, 0, 0, NULL)", (b"x" * 500_000,))
        in_child(lambda: store._file.close())

    store._file.write(write)
    assert data_of(store, "/a") == b"x" * 500_000


def test_a_child_does_not_keep_its_parents_session_alive(store: SqliteStore, path: Path) -> None:
    script = """
store.create("/here", ephemeral=True)
if os.fork() == 0:
    print("child", flush=True)
    sys.stdin.readline()
    os._exit(0)
time.sleep(1000)
"""
    process = start(path, script)
    assert line(process) == "child"
    assert store.children("/") == ["here"]
    process.kill()
    process.wait(WAIT_SECONDS)
    assert store.children("/") == []
    end(process)
