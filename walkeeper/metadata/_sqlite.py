"""SqliteStore: a metadata store in one file of this machine, which several processes share."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar
from urllib.parse import quote

from walkeeper.metadata._hints import Hint, Hints
from walkeeper.metadata._keys import check_key, check_new, check_page, check_prefix, check_transaction, check_value
from walkeeper.metadata._keys import place_of as _place_of
from walkeeper.metadata._sqlite_file import SqliteFile
from walkeeper.metadata._sqlite_keeper import SqliteKeeper
from walkeeper.metadata._sqlite_session import SqliteSession
from walkeeper.metadata._sqlite_table import DeadSessionError, SqliteTable
from walkeeper.metadata._store import (
    ClosedError,
    ExistsError,
    MetadataError,
    MissingError,
    Operation,
    UnavailableError,
    Value,
    Watch,
)
from walkeeper.metadata._tree import Tree

if TYPE_CHECKING:
    import sqlite3

Result = TypeVar("Result")

_CLOSE_SECONDS = 1.0
_stores: weakref.WeakSet[SqliteStore] = weakref.WeakSet()


class SqliteStore:
    """A session on a database file. Everybody who uses the file is on one machine.

    A write that returned is durable. A session lives while its process does, and says so at least every
    `session_timeout` seconds; the first who looks at a key of a dead session removes what that session had.
    `read_only`: nothing is written, dead sessions' keys are left out. `unsafe_fs`: a network file system is accepted.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        session_timeout: float = 10.0,
        busy_timeout: float = 10.0,
        read_only: bool = False,
        unsafe_fs: bool = False,
    ) -> None:
        self.path = Path(os.path.realpath(path))  # everybody must mean the same journal and the same sessions
        self.uri = f"sqlite:{quote(os.fsencode(self.path))}"
        self._read_only = read_only
        self._pid = os.getpid()
        self._closed = False
        self._file = SqliteFile(self.path, busy_timeout=busy_timeout, read_only=read_only, unsafe_fs=unsafe_fs)
        self._folder = self.path.with_name(self.path.name + "-sessions")
        self._hints = Hints("walkeeper-metadata-hints")
        self._on_session: set[Hint] = set()
        self._session = SqliteSession(self._file, self._folder, session_timeout, self._session_was_lost)
        self._keeper = SqliteKeeper(self._file, self._session, self._bury_dead)
        _look_after_forks(self)

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def get(self, key: str, *, linearizable: bool = False) -> Value | None:
        place = _place_of(check_key(key))

        def look(connection: sqlite3.Connection) -> Value | None:
            found = connection.execute(
                "SELECT data, version, session FROM key WHERE parent = ? AND name = ?", place
            ).fetchone()
            if found is None or not self._shown(connection, found[2]):
                return None
            return Value(found[0], found[1], found[2] is not None)

        return self._read(look, key)

    def create(self, key: str, data: bytes = b"", *, ephemeral: bool = False, parents: bool = False) -> int:
        if check_key(key) == "/":
            raise ExistsError("the root is always there", key)
        data = check_value(key, data)
        return self._write(lambda tree: tree.create(key, data, ephemeral=ephemeral, parents=parents), key, ephemeral)

    def create_sequential(self, prefix: str, data: bytes = b"", *, ephemeral: bool = False) -> str:
        data = check_value(check_prefix(prefix), data)
        return self._write(lambda tree: tree.create_sequential(prefix, data, ephemeral=ephemeral), prefix, ephemeral)

    def put(self, key: str, data: bytes, version: int | None = None) -> int:
        data = check_value(check_new(key), data)
        return self._write(lambda tree: tree.put(key, data, version), key)

    def delete(self, key: str, version: int | None = None) -> None:
        check_new(key)
        self._write(lambda tree: tree.delete(key, version), key)

    def transact(self, operations: Sequence[Operation]) -> list[int | None]:
        operations = list(operations)
        check_transaction(operations)
        self._check_open()
        if not operations:
            return []
        ephemeral = any(operation.ephemeral for operation in operations)
        return self._write(lambda tree: tree.transact(operations), operations[0].key, ephemeral)

    def children(self, key: str) -> list[str]:
        check_key(key)
        return self._page(key, "", -1)[0]

    def scan(self, key: str, *, page: int = 1000) -> Iterator[str]:
        check_page(check_key(key), page)
        after: str | None = ""
        while after is not None:
            names, after = self._page(key, after, page)
            yield from names

    def watch(self, key: str, callback: Callable[[], None]) -> Watch:
        check_key(key)
        self._check_open()
        return self._keeper.watch(key, lambda forget: self._hints.hint(callback, forget))

    def on_session(self, callback: Callable[[Literal["lost", "new"]], None]) -> Watch:
        self._check_open()
        hint = self._hints.hint(callback, self._on_session.discard)
        self._on_session.add(hint)
        return hint

    def session(self) -> int:
        self._check_open()
        return self._session.number

    def close(self) -> None:
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        self._file.stop()
        self._hints.close()
        self._session.end(_CLOSE_SECONDS)
        self._keeper.close()
        self._file.close()
        _stores.discard(self)

    def expire_session(self) -> None:
        """For tests: the session is lost, and there is a new one."""
        self._check_open()
        self._session.expire()

    def _read(self, look: Callable[[sqlite3.Connection], Result], key: str) -> Result:
        while True:
            self._check_open()
            try:
                return self._file.read(look, key)
            except DeadSessionError as dead:
                self._bury(dead.session)

    def _write(self, change: Callable[[Tree], Result], key: str, ephemeral: bool = False) -> Result:
        while True:
            self._check_open()
            own = self._session.begin() if ephemeral else None
            if ephemeral:
                self._keeper.poke()  # there is a heart to beat
            try:
                result = self._changed_by(change, own, key)
            except DeadSessionError as dead:
                self._bury(dead.session)
            except UnavailableError:
                if ephemeral:
                    self._session.check()
                raise
            else:
                if self._keeper.has_watches:
                    self._keeper.poke()
                return result

    def _changed_by(self, change: Callable[[Tree], Result], own: int | None, key: str) -> Result:
        def inside(connection: sqlite3.Connection) -> Result:
            table = SqliteTable(connection, self._folder, own)
            result = change(Tree(table))
            table.finish()
            return result

        return self._file.write(inside, key)

    def _page(self, key: str, after: str, page: int) -> tuple[list[str], str | None]:
        return self._read(lambda connection: self._names(connection, key, after, page), key)

    def _names(self, connection: sqlite3.Connection, key: str, after: str, page: int) -> tuple[list[str], str | None]:
        """A page of names behind one of them (-1: all), and behind which one to go on."""
        parent = connection.execute("SELECT session FROM key WHERE parent = ? AND name = ?", _place_of(key)).fetchone()
        if parent is None or not self._shown(connection, parent[0]):
            raise MissingError(f"there is no {key}", key)
        found = connection.execute(
            "SELECT name, session FROM key WHERE parent = ? AND name > ? ORDER BY name LIMIT ?", (key, after, page)
        ).fetchall()
        shown = {session: self._shown(connection, session) for session in {session for _, session in found}}
        names = [name for name, session in found if shown[session]]
        return names, found[-1][0] if len(found) == page else None

    def _shown(self, connection: sqlite3.Connection, session: int | None) -> bool:
        """Whether a key of that session is there. DeadSessionError: it is to be buried, and then looked again."""
        if session is None:
            return True
        table = SqliteTable(connection, self._folder)
        if self._read_only:
            return table.alive(session)
        table.check_alive(session)
        return True

    def _bury(self, session: int, busy_timeout: float | None = None) -> None:
        def bury(connection: sqlite3.Connection) -> str | None:
            table = SqliteTable(connection, self._folder)
            token = table.bury(session)
            table.finish()
            return token

        token = self._file.write(bury, busy_timeout=busy_timeout)
        if token is not None:
            with suppress(OSError):  # else it is tidied up with the next session
                (self._folder / token).unlink()
            if self._keeper.has_watches:
                self._keeper.poke()

    def _bury_dead(self) -> None:
        """Every session that is dead, so that who watches is told without anybody having looked. Waits for nobody."""
        if self._read_only:
            return

        def dead(connection: sqlite3.Connection) -> list[int]:
            table = SqliteTable(connection, self._folder)
            sessions = [session for (session,) in connection.execute("SELECT id FROM session").fetchall()]
            return [session for session in sessions if not table.alive(session)]

        for session in self._file.read(dead, busy_timeout=0):
            self._bury(session, busy_timeout=0)

    def _session_was_lost(self) -> None:
        for hint in list(self._on_session):
            hint.post("lost")
            hint.post("new")

    def _check_open(self) -> None:
        if os.getpid() != self._pid:
            raise MetadataError(f"{self.path} was opened before a fork: the child opens it for itself")
        if self._closed:
            raise ClosedError(f"{self.path} was closed")

    def _abandon(self) -> None:
        """In a forked child, where nothing of it may be used, nor closed."""
        self._session.abandon()
        self._file.abandon()


def _look_after_forks(store: SqliteStore) -> None:
    if not _registered:
        _registered.append(True)
        os.register_at_fork(after_in_child=_abandon_all)
    _stores.add(store)


def _abandon_all() -> None:
    for store in list(_stores):
        store._abandon()


_registered: list[bool] = []
