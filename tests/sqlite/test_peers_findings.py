"""What the suites of other projects found (tests/interop_sqlite): each is one test here."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest

import walkeeper
import walkeeper_sqlite
from walkeeper.errors import InvalidError

HERE = Path(__file__).resolve().parent


def uri(directory: Path, parameters: str = "", file: str = "app.db") -> str:
    return f"file:{directory / file}?vfs=walkeeper&wk_root={directory / 'wal'}&wk_log=app&{parameters}"


def connect(directory: Path, parameters: str = "") -> sqlite3.Connection:
    walkeeper_sqlite.load()
    return sqlite3.connect(uri(directory, parameters), uri=True, isolation_level=None)


def with_one_row(directory: Path) -> sqlite3.Connection:
    connection = connect(directory)
    connection.executescript("CREATE TABLE t(x); INSERT INTO t VALUES(1);")
    return connection


def plain_database(path: Path, journal_mode: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"PRAGMA journal_mode={journal_mode}; CREATE TABLE other(y);")


def rows(connection: sqlite3.Connection) -> list[int]:
    return [row[0] for row in connection.execute("SELECT x FROM t ORDER BY x")]


@pytest.mark.parametrize("mode", ["ro", "rw"])
def test_a_connection_that_may_not_create_makes_no_database(tmp_path: Path, mode: str) -> None:
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        connect(tmp_path, f"mode={mode}")
    assert not (tmp_path / "app.db").exists()


@pytest.mark.parametrize("mode", ["ro", "rw"])
def test_a_connection_that_may_not_create_finds_what_the_log_has(tmp_path: Path, mode: str) -> None:
    with_one_row(tmp_path).close()
    (tmp_path / "app.db").unlink()
    with closing(connect(tmp_path, f"mode={mode}")) as connection:
        assert rows(connection) == [1]


def test_a_wal_that_another_program_left_is_not_deleted(tmp_path: Path) -> None:
    with_one_row(tmp_path).close()
    left = """
        import os, sqlite3, sys
        connection = sqlite3.connect(sys.argv[1], isolation_level=None)
        connection.execute("INSERT INTO t VALUES(2)")
        os._exit(0)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(left), str(tmp_path / "app.db")], check=True)
    assert (tmp_path / "app.db-wal").stat().st_size > 0
    with (
        walkeeper.open(tmp_path / "wal") as ns,
        pytest.raises(InvalidError, match="changed without the VFS walkeeper"),
        walkeeper_sqlite.attach(tmp_path / "app.db", ns.log("app")),
    ):
        pass
    with closing(sqlite3.connect(tmp_path / "app.db")) as plain:
        assert rows(plain) == [1, 2]


@pytest.mark.parametrize("journal_mode", ["wal", "delete"])
def test_a_file_put_in_the_place_of_an_open_database_is_none_of_its_log(tmp_path: Path, journal_mode: str) -> None:
    file = tmp_path / "app.db"
    old = with_one_row(tmp_path)
    plain_database(tmp_path / "other.db", journal_mode)
    for suffix in ("-wal", "-shm"):
        Path(f"{file}{suffix}").unlink()
    (tmp_path / "other.db").replace(file)
    kept = file.read_bytes()
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        connect(tmp_path)
    old.execute("INSERT INTO t VALUES(2)")
    old.close()
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        connect(tmp_path)
    assert file.read_bytes() == kept
    file.unlink()
    with closing(connect(tmp_path)) as connection:
        assert rows(connection) == [1, 2]


def test_a_file_that_was_deleted_is_not_made_anew_beside_its_connections(tmp_path: Path) -> None:
    old = with_one_row(tmp_path)
    (tmp_path / "app.db").unlink()
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        connect(tmp_path)
    assert not (tmp_path / "app.db").exists()
    old.execute("INSERT INTO t VALUES(2)")
    old.close()
    with closing(connect(tmp_path)) as connection:
        assert rows(connection) == [1, 2]


def test_a_database_is_taken_over_where_caches_are_shared(tmp_path: Path) -> None:
    plain_database(tmp_path / "app.db", "delete")
    take_over = """
        import ctypes, sqlite3, sys
        import walkeeper_sqlite
        from walkeeper_sqlite._host import _mapped_library
        walkeeper_sqlite.load()
        ctypes.CDLL(_mapped_library()).sqlite3_enable_shared_cache(1)
        connection = sqlite3.connect(sys.argv[1], uri=True)
        print(connection.execute("SELECT name FROM sqlite_master").fetchall())
    """
    command = [sys.executable, "-c", textwrap.dedent(take_over), uri(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)  # it hung
    assert done.stdout == "[('other',)]\n", done.stderr


def run_with_stacked_vfs(directory: Path, script: str) -> None:
    """In a process whose SQLite has the VFS `stacked`: `library` is that SQLite, argv[2] the URI of a database."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    extension = directory / "stackedvfs.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(extension), str(HERE / "stacked_vfs.c")], check=True)
    begin = """
        import ctypes, sqlite3, sys
        import walkeeper_sqlite
        from walkeeper_sqlite._host import _load_by_library, _mapped_library
        walkeeper_sqlite.load()
        library = ctypes.CDLL(_mapped_library())
        handle = ctypes.c_void_p()
        library.sqlite3_open(b":memory:", ctypes.byref(handle))
        library.sqlite3_enable_load_extension(handle, 1)
        assert library.sqlite3_load_extension(handle, sys.argv[1].encode(), b"sqlite3_stackedvfs_init", None) == 0
    """
    command = [sys.executable, "-c", textwrap.dedent(begin) + textwrap.dedent(script), str(extension), uri(directory)]
    subprocess.run(command, check=True)


def test_another_vfs_may_stand_before_it(tmp_path: Path) -> None:
    write = """
        above = sys.argv[2].replace("vfs=walkeeper", "vfs=stacked")
        connection = sqlite3.connect(above, uri=True, isolation_level=None)
        connection.executescript("CREATE TABLE t(x); INSERT INTO t VALUES(1); PRAGMA wal_checkpoint(TRUNCATE);")
        connection.execute("INSERT INTO t VALUES(2)")
        connection.close()
    """
    run_with_stacked_vfs(tmp_path, write)
    with closing(connect(tmp_path)) as connection:
        assert rows(connection) == [1, 2]


def test_it_is_registered_anew_behind_the_default_that_stands_before_it(tmp_path: Path) -> None:
    anew = """
        library.sqlite3_vfs_find.restype = ctypes.c_void_p
        for name, make_default in ((b"stacked", 1), (b"walkeeper", None)):
            vfs = ctypes.c_void_p(library.sqlite3_vfs_find(name))
            library.sqlite3_vfs_unregister(vfs) if make_default is None else library.sqlite3_vfs_register(vfs, 1)
        _load_by_library()
        connection = sqlite3.connect(sys.argv[2], uri=True, isolation_level=None)
        connection.executescript("CREATE TABLE t(x); INSERT INTO t VALUES(1);")
        connection.close()
    """
    run_with_stacked_vfs(tmp_path, anew)
    with closing(connect(tmp_path)) as connection:
        assert rows(connection) == [1]
