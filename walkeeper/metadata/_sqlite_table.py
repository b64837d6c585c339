"""SqliteTable: the rows of a SqliteStore inside one transaction, and who among the sessions lives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from walkeeper.metadata._keys import join, place_of
from walkeeper.metadata._liveness import is_alive
from walkeeper.metadata._store import UnavailableError
from walkeeper.metadata._tree import Row, Tree

if TYPE_CHECKING:
    import sqlite3


class DeadSessionError(Exception):
    """The transaction met a key of a session that is dead: that session must be buried before anybody goes on.

    Not skipped: a process that only hung could come back, and its keys with it, after somebody was told that they went.
    """

    def __init__(self, session: int) -> None:
        super().__init__(session)
        self.session = session


class SqliteTable:
    """The rows as one transaction sees them. `own`: the session that new ephemeral keys belong to."""

    def __init__(self, connection: sqlite3.Connection, sessions: Path, own: int | None = None) -> None:
        self._connection = connection
        self._sessions = sessions
        self._own = own
        self._number: int | None = None

    def row(self, key: str) -> Row | None:
        found = self._connection.execute(
            "SELECT version, session, changed, sequence FROM key WHERE parent = ? AND name = ?", place_of(key)
        ).fetchone()
        if found is None:
            return None
        if found[1] is not None:
            self.check_alive(found[1])
        return Row(*found)

    def insert(self, key: str, row: Row, data: bytes) -> None:
        self._connection.execute(
            "INSERT INTO key (parent, name, data, version, changed, sequence, session) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*place_of(key), data, row.version, row.changed, row.sequence, row.session),
        )

    def replace(self, key: str, version: int, data: bytes) -> None:
        self._connection.execute(
            "UPDATE key SET data = ?, version = ? WHERE parent = ? AND name = ?", (data, version, *place_of(key))
        )

    def touch(self, key: str, changed: int, sequence: int) -> None:
        self._connection.execute(
            "UPDATE key SET changed = ?, sequence = ? WHERE parent = ? AND name = ?",
            (changed, sequence, *place_of(key)),
        )

    def remove(self, key: str) -> None:
        self._connection.execute("DELETE FROM key WHERE parent = ? AND name = ?", place_of(key))

    def has_children(self, key: str) -> bool:
        lasting = "SELECT 1 FROM key WHERE parent = ? AND session IS NULL LIMIT 1"
        if self._connection.execute(lasting, (key,)).fetchone() is not None:
            return True
        sessions = self._connection.execute("SELECT DISTINCT session FROM key WHERE parent = ?", (key,)).fetchall()
        for (session,) in sessions:
            self.check_alive(session)
        return bool(sessions)

    def next_number(self) -> int:
        last = self._number
        if last is None:
            last = int(self._connection.execute("SELECT number FROM store").fetchone()[0])
        self._number = last + 1
        return self._number

    def own_session(self) -> int:
        if self._own is None or self._token(self._own) is None:
            raise UnavailableError("the session was lost: nothing was written, and the next call has a new one")
        return self._own

    def finish(self) -> None:
        """Keeps the numbers that were given; the last thing in a transaction."""
        if self._number is not None:
            self._connection.execute("UPDATE store SET number = ?", (self._number,))

    def check_alive(self, session: int) -> None:
        """DeadSessionError where it is dead."""
        if not self.alive(session):
            raise DeadSessionError(session)

    def alive(self, session: int) -> bool:
        """UnavailableError where nobody can tell."""
        token = self._token(session)
        try:
            return token is not None and is_alive(self._sessions, token)
        except OSError as error:  # who is not known to be dead is not buried
            raise UnavailableError(f"{self._sessions} cannot be looked into: {error.strerror}") from error

    def bury(self, session: int, *, alive_too: bool = False) -> str | None:
        """The session and its keys go, if it is dead; the name of its file. None: it lives, or has none any more."""
        token = self._token(session)
        if not alive_too and self.alive(session):
            return None
        tree = Tree(self)
        held = self._connection.execute("SELECT parent, name FROM key WHERE session = ?", (session,)).fetchall()
        self._connection.execute("DELETE FROM session WHERE id = ?", (session,))
        for parent, name in held:
            tree.remove(join(parent, name))
        return token

    def _token(self, session: int) -> str | None:
        found = self._connection.execute("SELECT token FROM session WHERE id = ?", (session,)).fetchone()
        return None if found is None else str(found[0])
