"""Database: a SQLite file that is open on its log."""

from __future__ import annotations

import os
import sqlite3
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, Literal
from urllib.parse import quote

from walkeeper import Log
from walkeeper.errors import ClosedError, InvalidError, check
from walkeeper_sqlite._host import load
from walkeeper_sqlite._logs import new_error, open_log
from walkeeper_sqlite._native import ffi, lib
from walkeeper_sqlite._paths import real_path
from walkeeper_sqlite._retention import Retainer, Retention
from walkeeper_sqlite._snapshots import Snapshot, held_while_attaching, keep_first_snapshot, take_snapshot, truncate
from walkeeper_sqlite._state_file import state_of

__all__ = ["Database", "Status", "attach", "last_lsn"]

Acknowledge = Literal["strict", "group"]
_ACKNOWLEDGE = {"strict": lib.WK_ACKNOWLEDGE_STRICT, "group": lib.WK_ACKNOWLEDGE_GROUP}
State = Literal["open", "fenced", "poisoned", "following"]
_STATES: dict[int, State] = {
    lib.WK_DATABASE_OPEN: "open",
    lib.WK_DATABASE_FENCED: "fenced",
    lib.WK_DATABASE_POISONED: "poisoned",
    lib.WK_DATABASE_FOLLOWING: "following",
}


@dataclass(frozen=True)
class Status:
    """What a database has done since it was attached, and where it stands."""

    state: State
    """"fenced": another writer has the log, and this file is read as it is. "poisoned": whether the last commit is in
    the log is not known, or the local files could not follow it: close all connections and attach again."""
    reason: str | None
    """Why it is not "open"."""
    refusal: str | None
    """Why the log refused a commit the last time, which was rolled back; None: it never did. In a process that was
    forked from the one that attached the database: that it may not write."""
    lsn: int
    """The sequence id of the last commit."""
    transaction: int
    """Its number, from 1."""
    redo: int
    """The sequence id from which `attach` would read the log now."""
    commits: int
    healed: int
    """Commits of which SQLite had left wrong checksums in the WAL: a recovery by SQLite alone would have lost them."""
    log_bytes: int
    """Payload of the records of these commits."""
    page_size: int
    pages: int
    retention_error: str | None
    """Why the last snapshot or truncation that `attach(…, retention=…)` asks for failed; it is tried again."""


class Database:
    """A database that is open on its log, until it is closed and its last connection too."""

    def __init__(self, path: str, log: Log, native: Any, name: str | None = None) -> None:
        self._path = path
        self._name = name
        self._log = log
        self._native = native
        self._pid = os.getpid()
        self._snapshotting = threading.Lock()
        self._retainer: Retainer | None = None

    @property
    def log(self) -> Log:
        return self._log

    @property
    def path(self) -> str:
        return self._path

    @property
    def number(self) -> int:
        """The database's, in every record of it."""
        status = ffi.new("wk_database_status *")
        lib.wk_database_status_get(self._opened(), status)
        return int(status.id)

    @property
    def name(self) -> str | None:
        """Of a database beside the one whose the log is; None: it is that one."""
        return self._name

    @property
    def uri(self) -> str:
        """What any driver of this process connects to, with its option for URIs."""
        return f"file:{quote(self._path)}?vfs=walkeeper"

    def connect(self, **options: Any) -> sqlite3.Connection:
        """A connection of the module sqlite3, which is given the options."""
        connection: sqlite3.Connection = sqlite3.connect(self.uri, uri=True, **options)
        return connection

    def status(self) -> Status:
        """ClosedError where it was closed."""
        status = ffi.new("wk_database_status *")
        lib.wk_database_status_get(self._opened(), status)
        state = _STATES[status.state]
        return Status(
            state=state,
            reason=None if state == "open" else ffi.string(status.reason).decode("utf-8", "replace"),
            refusal=self._refusal(ffi.string(status.refusal).decode("utf-8", "replace")),
            lsn=status.lsn,
            transaction=status.transaction,
            redo=status.redo,
            commits=status.commits,
            healed=status.healed,
            log_bytes=status.log_bytes,
            page_size=status.page_size,
            pages=status.pages,
            retention_error=None if self._retainer is None else self._retainer.error,
        )

    def _refusal(self, said: str) -> str | None:
        if self._pid != os.getpid():
            return "the database belongs to the parent process: attach it in the one that writes"
        return said or None

    def snapshot(
        self,
        *,
        progress: Callable[[int, int], object] | None = None,
        connect: Callable[[], Any] | None = None,
    ) -> Snapshot:
        """Puts all pages, as of one commit, into the log. Commits go on meanwhile.

        It makes two connections: of the module sqlite3, or by `connect` where the program has connections of another
        SQLite, as APSW is: a process opens a database by one SQLite at a time.

        A restoration, and an attachment without the file, read the log from the newest snapshot on. `progress` is
        called with the pages done, and all. Raises what an append raises, and sqlite3.OperationalError where another
        connection writes for longer than five seconds.
        """
        with self._snapshotting:  # two at once would make neither of them whole
            return take_snapshot(self, self._log, progress, connect or (lambda: self.connect(isolation_level=None)))

    def attach(
        self,
        path: str | os.PathLike[str],
        name: str,
        *,
        page_size: int = 4096,
        retention: Retention | None = None,
    ) -> Database:
        """Opens another database on the log of this one, and its writer, under a name of 1 to 255 bytes.

        Both have acknowledge="group". A transaction over them (SQL's ATTACH, with the `uri` of the other) is one record
        of the log: a restart, a restoration and a follower have all of it, or nothing. Where the log refuses it when
        readers of this machine have seen a part, both are poisoned.

        Where the log has no database of this name, the file is taken over, or an empty one is made. Raises what the
        function `attach` raises, and InvalidError where this database has acknowledge="strict".
        """
        options = _options(page_size, "group")
        kept = ffi.new("char[]", name.encode())
        options.name = kept
        full = real_path(path)
        out, error = ffi.new("wk_database **"), new_error()
        with _opening(self._log, name, out):
            status = lib.wk_database_open_beside(self._opened(), os.fsencode(full), options, out, error)
            check(status, error, log=self._log.name)
        database = Database(full, self._log, out[0], name)
        if retention is not None:
            database._retain(retention)
        return database

    def truncate(self, keep: timedelta) -> Snapshot | None:
        """Lets go of the log before the newest snapshot that ended before `keep`, so that every commit of that time
        can be restored still. Returns that snapshot; None: there is none that old, and nothing was done.

        Where the log has several databases, this is said of all of them."""
        self._opened()
        return truncate(self._log, keep)

    def _opened(self) -> Any:
        if self._native is None:
            raise ClosedError(f"the database {self._path} was closed")
        return self._native

    def _retain(self, retention: Retention) -> None:
        self._retainer = Retainer(self, retention)
        self._retainer.start()

    def close(self) -> None:
        """Lets go of it. Connections that are open go on, and the log is closed with the last of them.

        A RuntimeWarning says that a program changed the file by connections without walkeeper.
        """
        if self._retainer is not None:
            self._retainer.close()
        if self._native is not None:
            native, self._native = self._native, None
            lib.wk_database_close(native)
            self._look_for_strangers()

    def _look_for_strangers(self) -> None:
        """Warns where a program connected to the path, and not to the `uri`: the log does not have what it wrote."""
        still_open = lib.wk_database_find(os.fsencode(self._path))
        if still_open != ffi.NULL:
            lib.wk_database_close(still_open)
            return
        left = state_of(self._path) if os.path.exists(self._path) else None
        if left is not None and left.was_changed(self._path):
            said = f"{self._path} was changed without walkeeper: connect to Database.uri, or the log has no such change"
            warnings.warn(said, RuntimeWarning, stacklevel=3)

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def attach(
    path: str | os.PathLike[str],
    log: Log,
    *,
    page_size: int = 4096,
    acknowledge: Acknowledge = "strict",
    retention: Retention | None = None,
) -> Database:
    """Opens the SQLite database `path` on `log`, whose earlier writer is fenced.

    The file is brought to the log's last commit. Where there is no file, it is made from the log; where the log is
    empty too, an empty database is made, with pages of `page_size` bytes. An existing database whose log is empty is
    taken over: it is brought into WAL mode, and its pages become the log's first records.

    COMMIT returns when the commit is durable in the log. With acknowledge="strict" nobody sees it before, and nobody
    else commits meanwhile. With "group" the next transaction begins, and readers of this machine see the commit, while
    it waits: many threads commit at once. Where the log refuses a commit that was seen so, the database is poisoned.

    With `retention` a thread takes snapshots and truncates the log, until the database is closed.

    Raises DirectoryLockedError where another process has the database open, also without walkeeper; ExistsError where
    it is attached in this process; InvalidError where the file is not known to be of this log, or is no database, or
    the log is of something else; CorruptError where a record is damaged; UnsupportedError where SQLite loads no
    extension.
    """
    load()
    options = _options(page_size, acknowledge)
    name = real_path(path)
    out, error = ffi.new("wk_database **"), new_error()
    with _opening(log, None, out):
        native = open_log(log, write=True, group=acknowledge == "group")
        status = lib.wk_database_open(os.fsencode(name), native, options, out, error)
        check(status, error, log=log.name)
    database = Database(name, log, out[0])
    if retention is not None:
        database._retain(retention)
    return database


@contextmanager
def _opening(log: Log, name: str | None, out: Any) -> Iterator[None]:
    """The first snapshot of the database that is opened has a cursor behind it."""
    try:
        with held_while_attaching(log):
            yield
            found = ffi.new("wk_database_status *")
            lib.wk_database_status_get(out[0], found)
            keep_first_snapshot(log, found.id, name)
    except BaseException:
        if out[0] != ffi.NULL:
            lib.wk_database_close(out[0])
        raise


def _options(page_size: int, acknowledge: Acknowledge) -> Any:
    options = ffi.new("wk_database_options *")
    lib.wk_database_options_init(options)
    if not isinstance(page_size, int) or not 512 <= page_size <= 65536 or page_size & (page_size - 1):
        raise InvalidError(f"page_size={page_size!r} is not a power of two from 512 to 65536")
    options.page_size = page_size
    if acknowledge not in _ACKNOWLEDGE:
        raise InvalidError(f"acknowledge={acknowledge!r} is neither 'strict' nor 'group'")
    options.acknowledge = _ACKNOWLEDGE[acknowledge]
    return options


def last_lsn(connection: Any, schema: str = "main") -> int:
    """The sequence id of the last commit that the database of a connection has: a token for reads elsewhere.

    InvalidError where it is no database of walkeeper.
    """
    (lsn,) = next(iter(connection.execute("SELECT walkeeper_lsn(?)", (schema,))))
    if lsn is None:
        raise InvalidError(f"the schema {schema!r} of the connection is no database of walkeeper")
    return int(lsn)
