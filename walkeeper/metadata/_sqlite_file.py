"""SqliteFile: the database of a SqliteStore: its connections, its transactions, and what SQLite's errors mean."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from walkeeper.metadata._store import ClosedError, MetadataError, UnavailableError, UnknownOutcomeError

if TYPE_CHECKING:
    import sqlite3

Result = TypeVar("Result")
_Inode = tuple[int, int]

APPLICATION_ID = 0x574B4D44  # "WKMD", in the header of the file
SCHEMA_VERSION = 1
SCHEMA = (
    "CREATE TABLE store (number INTEGER NOT NULL)",
    "INSERT INTO store VALUES (0)",
    """CREATE TABLE key (
        parent TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL, version INTEGER NOT NULL,
        changed INTEGER NOT NULL, sequence INTEGER NOT NULL, session INTEGER, UNIQUE (parent, name))""",
    "CREATE INDEX key_session ON key (session) WHERE session IS NOT NULL",
    "CREATE TABLE session (id INTEGER PRIMARY KEY AUTOINCREMENT, token TEXT NOT NULL UNIQUE)",
    "INSERT INTO key VALUES ('', '', x'', 0, 0, 0, NULL)",
)
# EXTRA: the folder is synced as well when the journal goes, or a power cut could bring a commit's journal back.
SETTINGS = ("synchronous = EXTRA", "temp_store = MEMORY", "trusted_schema = OFF", "mmap_size = 0")

_IDLE_CONNECTIONS_MAX = 4
_WAIT_SECONDS_FIRST, _WAIT_SECONDS_MAX = 0.0005, 0.02

# Locks or syncs are unreliable there: the list of native/engine/directory/directory.c, SMB 1 and Lustre.
_NETWORK = {
    0x6969: "NFS",
    0xFE534D42: "SMB2",
    0xFF534D42: "CIFS",
    0x00C36400: "Ceph",
    0x01021997: "9P",
    0x517B: "SMB",
    0x0BD00BD0: "Lustre",
    0x5346414F: "AFS",
}


class SqliteFile:
    """A database file. Every call may be made from any thread, and none after a fork.

    Writes of this process take turns before they ask for the file's lock: nobody starves while others are quick.
    """

    def __init__(self, path: Path, *, busy_timeout: float, read_only: bool = False, unsafe_fs: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self._busy_timeout = busy_timeout
        self._pid = os.getpid()
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._all: dict[sqlite3.Connection, _Inode] = {}
        self._may_create = True
        self._closing = threading.Event()
        _check_place(path, read_only, unsafe_fs)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise
        self._may_create = False

    def read(
        self,
        look: Callable[[sqlite3.Connection], Result],
        key: str | None = None,
        *,
        busy_timeout: float | None = None,
    ) -> Result:
        """What `look` finds, in one snapshot. It is called again where a writer was in the way."""
        self.check_process()
        seconds = self._busy_timeout if busy_timeout is None else busy_timeout
        end = time.monotonic() + seconds
        connection = self.take(busy_timeout=seconds)
        healthy = False
        try:
            result = self._while_busy(lambda: self._snapshot(connection, look), end, key)
            healthy = True
            return result
        except Exception:
            healthy = not connection.in_transaction
            raise
        finally:
            self.give(connection, healthy)

    def write(
        self,
        change: Callable[[sqlite3.Connection], Result],
        key: str | None = None,
        *,
        last: bool = False,
        busy_timeout: float | None = None,
    ) -> Result:
        """What `change` returns, once its transaction is durable; where it raises, nothing was written.

        UnavailableError: nothing was written. UnknownOutcomeError: the commit failed so that both are possible.
        `last`: also while the file is being closed.
        """
        self.check_process()
        seconds = self._busy_timeout if busy_timeout is None else busy_timeout
        end = time.monotonic() + seconds
        if not self._turn.acquire(timeout=seconds):
            raise UnavailableError(f"{self.path}: other threads have been writing for {seconds:g} s", key)
        try:
            connection = self.take(last, busy_timeout=seconds)
            healthy = False
            try:
                self._while_busy(lambda: connection.execute("BEGIN IMMEDIATE"), end, key, last)
                result = self._inside(connection, change, key)
                self._commit(connection, end, key, last)
                healthy = True
                return result
            except UnknownOutcomeError:
                raise
            except BaseException:
                healthy = connection.in_transaction and self._rolled_back(connection)
                raise
            finally:
                self.give(connection, healthy)  # one of which nobody knows is closed, which rolls back
        finally:
            self._turn.release()

    def take(self, last: bool = False, busy_timeout: float | None = None) -> sqlite3.Connection:
        """A connection that nobody else uses, to the file that has our name now; to be given back."""
        while True:
            with self._lock:
                if self._closing.is_set() and not last:
                    raise self._closed()
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                break
            if self.is_current(connection):
                return connection
            self.give(connection, healthy=False)
        before = self._inode()
        connection = self._connect(last, self._busy_timeout if busy_timeout is None else busy_timeout)
        after = self._inode()
        if after is None or before not in (None, after):
            connection.close()
            raise UnavailableError(f"{self.path} was replaced just now")
        with self._lock:
            self._all[connection] = after
        return connection

    def is_current(self, connection: sqlite3.Connection) -> bool:
        """False: the file was removed, or another one was put in its place, and the connection goes on with the old
        one, which nobody else will find."""
        return self._all.get(connection) == self._inode()

    def give(self, connection: sqlite3.Connection, healthy: bool = True) -> None:
        """Back. One that failed is closed: the next one finds out by itself what the file holds."""
        with self._lock:
            if healthy and not self._closing.is_set() and len(self._idle) < _IDLE_CONNECTIONS_MAX:
                self._idle.append(connection)
                return
            self._all.pop(connection, None)
        connection.close()

    def stop(self) -> None:
        """Who waits is told that the file was closed, and who comes."""
        self._closing.set()

    def close(self) -> None:
        self.stop()
        with self._lock:
            idle, self._idle = self._idle, []
            for connection in idle:
                self._all.pop(connection, None)
        for connection in idle:
            connection.close()

    def check_process(self) -> None:
        if os.getpid() != self._pid:
            raise MetadataError(f"{self.path} was opened before a fork: the child opens it for itself")

    def abandon(self) -> None:
        """In a forked child: the connections must never be closed here, which would undo what the parent is writing."""
        import ctypes

        for connection in self._all:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))

    def error(self, error: Exception, key: str | None = None) -> MetadataError:
        """What an error of SQLite means here, where nothing was committed."""
        text = str(error)
        if isinstance(error, MetadataError):
            return error
        if self._closing.is_set():
            return self._closed()
        if "locked" in text:
            return UnavailableError(f"{self.path} is busy: another process is writing", key)
        if "disk is full" in text:
            return UnavailableError(f"{self.path}: the disk is full; nothing was written", key)
        if "readonly" in text:
            return MetadataError(f"{self.path} cannot be written: {text}", key)
        if "malformed" in text or "not a database" in text:
            return MetadataError(f"{self.path} is damaged, or is no database ({text}): restore it from a backup", key)
        if "disk I/O" in text or "unable to open" in text:
            return UnavailableError(f"{self.path}: {text}", key)
        return MetadataError(f"{self.path}: {text}", key)

    def _connect(self, last: bool, busy_timeout: float) -> sqlite3.Connection:
        import sqlite3

        mode = "ro" if self.read_only else "rwc" if self._may_create else "rw"
        address = f"{self.path.as_uri()}?mode={mode}"
        try:
            connection = sqlite3.connect(
                address, timeout=0, isolation_level=None, check_same_thread=False, uri=True, cached_statements=64
            )
        except sqlite3.Error as error:
            raise self.error(error) from error
        try:
            end = time.monotonic() + busy_timeout
            for setting in SETTINGS:  # they read the schema first: a writer can be in the way
                self._while_busy(lambda setting=setting: connection.execute(f"PRAGMA {setting}"), end, None, last)  # type: ignore[misc]
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self) -> None:
        if not self.read(self._is_ready):
            self.write(self._create)

    def _is_ready(self, connection: sqlite3.Connection) -> bool:
        """Whether the schema is there. MetadataError where it is another one."""
        mode = self._pragma(connection, "journal_mode")
        if mode not in ("delete", "truncate", "persist"):
            raise MetadataError(
                f"{self.path} is in journal mode {mode}. In WAL mode SQLite up to 3.50.1 loses commits and up to 3.51.2"
                " can damage the file: set PRAGMA journal_mode = DELETE while nobody uses it"
            )
        application, version = self._pragma(connection, "application_id"), self._pragma(connection, "user_version")
        if application == APPLICATION_ID:
            if version != SCHEMA_VERSION:
                raise MetadataError(
                    f"{self.path} has schema version {version}; this walkeeper reads version {SCHEMA_VERSION}"
                )
            return True
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if application or version or tables:
            raise MetadataError(f"{self.path} is a database of something else")
        return False

    def _create(self, connection: sqlite3.Connection) -> None:
        if self._is_ready(connection):
            return  # another process was faster
        for statement in SCHEMA:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    @staticmethod
    def _pragma(connection: sqlite3.Connection, name: str) -> object:
        return connection.execute(f"PRAGMA {name}").fetchone()[0]

    @staticmethod
    def _snapshot(connection: sqlite3.Connection, look: Callable[[sqlite3.Connection], Result]) -> Result:
        connection.execute("BEGIN")
        try:
            return look(connection)
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _inside(
        self, connection: sqlite3.Connection, change: Callable[[sqlite3.Connection], Result], key: str | None
    ) -> Result:
        import sqlite3

        try:
            return change(connection)
        except sqlite3.Error as error:
            raise self.error(error, key) from error

    def _commit(self, connection: sqlite3.Connection, end: float, key: str | None, last: bool) -> None:
        import sqlite3

        try:
            self._while_busy(lambda: connection.execute("COMMIT"), end, key, last)
        except MetadataError as error:
            cause = error.__cause__
            # A commit that waited for readers, or found the disk full before the journal went, is rolled back whole.
            # Any other failure may have come after the journal was gone, which is what makes a commit.
            definite = not isinstance(cause, sqlite3.Error) or "locked" in str(cause) or "is full" in str(cause)
            if definite and self._rolled_back(connection):
                raise
            raise UnknownOutcomeError(f"{self.path}: the commit failed ({cause}): it may be done", key) from error

    @staticmethod
    def _rolled_back(connection: sqlite3.Connection) -> bool:
        import sqlite3

        if connection.in_transaction:
            try:
                connection.execute("ROLLBACK")
            except sqlite3.Error:
                return False
        return True

    def _while_busy(self, call: Callable[[], Result], end: float, key: str | None, last: bool = False) -> Result:
        """Calls again while another process is in the way, until `end`, or until the file is closed."""
        import sqlite3

        wait = _WAIT_SECONDS_FIRST
        while True:
            try:
                return call()
            except sqlite3.Error as error:
                if "locked" not in str(error) or time.monotonic() >= end:
                    raise self.error(error, key) from error
            if not last and self._closing.wait(wait):
                raise self._closed()
            if last:
                time.sleep(wait)
            wait = min(wait * 2, _WAIT_SECONDS_MAX)

    def _inode(self) -> _Inode | None:
        """Which file has our name now. A connection keeps it: no other has its number while there is one."""
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _closed(self) -> ClosedError:
        return ClosedError(f"{self.path} was closed")


def _check_place(path: Path, read_only: bool, unsafe_fs: bool) -> None:
    """Refuses where no store can be kept. Nothing is opened here: closing the file would let go of SQLite's locks."""
    try:
        there: os.stat_result | None = path.stat()
    except FileNotFoundError:
        there = None
    except PermissionError as error:
        raise MetadataError(f"{path} cannot be opened: {error.strerror}") from error
    except OSError as error:
        raise UnavailableError(f"{path}: {error.strerror}") from error
    if there is not None and not os.access(path, os.R_OK if read_only else os.R_OK | os.W_OK, effective_ids=True):
        raise MetadataError(f"{path} cannot be opened: its permissions forbid it")
    if there is None and (read_only or not path.parent.is_dir()):
        missing = path if read_only else path.parent
        raise MetadataError(f"{path} cannot be opened: there is no {missing}")
    if there is not None and not stat.S_ISREG(there.st_mode):
        raise MetadataError(f"{path} is not a file")
    if there is not None and there.st_nlink > 1:
        raise MetadataError(f"{path} has another name (a hard link), under which SQLite would not find its journal")
    network = network_file_system(path.parent)
    if network and not unsafe_fs:
        raise MetadataError(
            f"{path} is on a network file system ({network}), where neither locks nor syncs are to be relied on:"
            " use a local one, or ZooKeeper for several machines"
        )


def network_file_system(folder: Path) -> str | None:
    """The name of the network file system that a folder is on, if it is on one."""
    import ctypes

    buffer = ctypes.create_string_buffer(512)
    if ctypes.CDLL(None, use_errno=True).statfs(os.fsencode(folder), buffer) != 0:
        raise UnavailableError(f"{folder}: {os.strerror(ctypes.get_errno())}")
    return _NETWORK.get(ctypes.c_long.from_buffer(buffer).value & 0xFFFFFFFF)
