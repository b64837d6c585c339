"""The extension, and how the SQLite of a host loads it."""

from __future__ import annotations

import ctypes
import os
import sqlite3
import threading
from pathlib import Path

from walkeeper.errors import UnsupportedError
from walkeeper_sqlite import _native
from walkeeper_sqlite._native import ffi, lib

__all__ = ["extension_path", "load"]

_ENTRY = "sqlite3_walkeeper_init"
_loading = threading.Lock()
_loaded = False


def extension_path() -> str:
    """The file that SQLite loads: `SELECT load_extension(path, 'sqlite3_walkeeper_init')`, or `.load` of its shell.

    It is the same library that this package uses, so that a process has one engine.
    """
    library = lib.wk_database_library()
    if library == ffi.NULL:
        return str(Path(_native.__file__).with_name("libwalkeeper_sqlite.so"))
    return os.path.abspath(os.fsdecode(ffi.string(library)))


def load() -> None:
    """Registers the VFS `walkeeper` with the SQLite that the module `sqlite3` uses; `attach` does it.

    Other SQLites of the process (APSW, pysqlite3) load `extension_path()` themselves. Raises UnsupportedError where the
    interpreter's SQLite is a part of its executable and loads no extensions.
    """
    global _loaded
    with _loading:
        if not _loaded:
            try:
                _load()
            except UnsupportedError:
                if not lib.wk_database_has_host():  # another SQLite of this process has loaded it
                    raise
        _loaded = True


def _load() -> None:
    connection = sqlite3.connect(":memory:")
    try:
        if hasattr(connection, "enable_load_extension"):
            connection.enable_load_extension(True)
            connection.execute("SELECT load_extension(?, ?)", (extension_path(), _ENTRY))
        else:
            _load_by_library()
    except sqlite3.Error as error:
        raise UnsupportedError(f"loading {extension_path()} into SQLite {sqlite3.sqlite_version}: {error}") from error
    finally:
        connection.close()


def _load_by_library() -> None:
    """Python was built without enable_load_extension; the library beside it has it all the same."""
    library = ctypes.CDLL(_mapped_library())
    library.sqlite3_errmsg.restype = ctypes.c_char_p
    handle = ctypes.c_void_p()
    if library.sqlite3_open(b":memory:", ctypes.byref(handle)) != 0:
        raise UnsupportedError("the SQLite of this process opens no database in memory")
    try:
        library.sqlite3_enable_load_extension(handle, 1)
        if library.sqlite3_load_extension(handle, extension_path().encode(), _ENTRY.encode(), None) != 0:
            reason = library.sqlite3_errmsg(handle).decode("utf-8", "replace")
            raise UnsupportedError(f"loading {extension_path()} into SQLite {sqlite3.sqlite_version}: {reason}")
    finally:
        library.sqlite3_close(handle)


def _mapped_library() -> str:
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if path.rpartition("/")[2].startswith("libsqlite3."):
                return "/" + path
    raise UnsupportedError(
        "the SQLite of this interpreter is a part of it, and was built without extensions: use APSW or pysqlite3, "
        "which load extension_path()"
    )
