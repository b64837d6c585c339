"""SqliteSession: one store's session: begun with its first ephemeral key, kept alive, lost, ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from walkeeper.metadata._liveness import SessionFile, boot_time_ns, tidy
from walkeeper.metadata._sqlite_file import SqliteFile
from walkeeper.metadata._sqlite_table import SqliteTable
from walkeeper.metadata._store import ClosedError, MetadataError, UnavailableError

if TYPE_CHECKING:
    import sqlite3

_BEATS_PER_TIMEOUT = 4


class SqliteSession:
    """What a store without ephemeral keys has none of, nor a file, a lock or a heartbeat."""

    def __init__(self, file: SqliteFile, folder: Path, timeout: float, lost: Callable[[], None]) -> None:
        self.number = 1
        self.folder = folder
        self._file = file
        self._timeout_ns = int(timeout * 1e9)
        self._lost = lost
        self._lock = threading.RLock()
        self._id: int | None = None
        self._held: SessionFile | None = None
        self._beaten_ns = 0
        self._closed = False

    def begin(self) -> int:
        """The session's id; it is made where there is none."""
        with self._lock:
            if self._closed:
                raise ClosedError(f"{self._file.path} was closed")
            if self._id is None:
                try:
                    held = SessionFile(self.folder, self._timeout_ns)
                except OSError as error:
                    raise UnavailableError(f"no session can be made in {self.folder}: {error.strerror}") from error
                self._beaten_ns = boot_time_ns()
                try:
                    self._id, known = self._file.write(lambda connection: self._insert(connection, held.token))
                except BaseException:
                    held.close()
                    raise
                self._held = held
                tidy(self.folder, known)
            return self._id

    def beat(self) -> float | None:
        """Says that it goes on, if it is time to; the seconds until then. None: there is nothing to say."""
        every_ns = self._timeout_ns // _BEATS_PER_TIMEOUT
        with self._lock:
            if self._id is None or self._held is None:
                return None
            late_ns = boot_time_ns() - self._beaten_ns - every_ns
            if late_ns < 0:
                return -late_ns / 1e9
            with suppress(OSError):  # the next one may do; the lock is held
                self._held.beat()
            self._beaten_ns = boot_time_ns()
            self.check()
        return every_ns / 1e9

    def check(self) -> bool:
        """Whether the session is still in the file. Somebody may have taken this process for dead."""
        with self._lock:
            session = self._id
            if session is None:
                return False
            try:
                there = self._file.read(
                    lambda connection: connection.execute("SELECT 1 FROM session WHERE id = ?", (session,)).fetchone(),
                    busy_timeout=0,  # the heart goes on beating while somebody writes
                )
            except MetadataError:
                return True  # nobody knows
            if there is None:
                self._forget()
            return there is not None

    def expire(self) -> None:
        """The session is lost: what others do to one that they take for dead."""
        with self._lock:
            session = self._id
            if session is not None:
                self._file.write(lambda connection: _bury(connection, self.folder, session))
            self._forget()

    def end(self, busy_timeout: float) -> None:
        """Its keys go. Where the file does not let itself be written, others bury it: its lock is let go of."""
        with self._lock:
            self._closed = True
            session, held = self._id, self._held
            self._id = self._held = None
            if held is None or session is None:
                return
            with suppress(MetadataError):
                self._file.write(
                    lambda connection: _bury(connection, self.folder, session), last=True, busy_timeout=busy_timeout
                )
            held.close()

    def abandon(self) -> None:
        """In a forked child."""
        if self._held is not None:
            self._held.close_in_child()

    def _forget(self) -> None:
        self._id = None
        if self._held is not None:
            self._held.close()
            self._held = None
        self.number += 1
        self._lost()

    def _insert(self, connection: sqlite3.Connection, token: str) -> tuple[int, set[str]]:
        made = connection.execute("INSERT INTO session (token) VALUES (?)", (token,)).lastrowid
        assert made is not None
        return made, {known for (known,) in connection.execute("SELECT token FROM session")}


def _bury(connection: sqlite3.Connection, folder: Path, session: int) -> None:
    table = SqliteTable(connection, folder)
    table.bury(session, alive_too=True)
    table.finish()
