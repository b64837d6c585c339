"""MemoryStore: a tree in this process that several stores share. For tests, and for what need not outlive it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar

from walkeeper.metadata._hints import Hint, Hints
from walkeeper.metadata._keys import (
    check_key,
    check_new,
    check_page,
    check_prefix,
    check_transaction,
    check_value,
    join,
    place_of,
)
from walkeeper.metadata._store import (
    ClosedError,
    ExistsError,
    MissingError,
    Operation,
    UnavailableError,
    Value,
    Watch,
)
from walkeeper.metadata._tree import Row, Tree

Result = TypeVar("Result")
Place = tuple[str, str]  # (key above, name): children stand together, in the order of their names
Rows = Any  # SortedDict[Place, tuple[Row, bytes]]; its package has no types


class MemoryTree:
    """What several MemoryStores share: the keys, and who is to be told of changes."""

    def __init__(self) -> None:
        from sortedcontainers import SortedDict

        self._lock = threading.RLock()
        self._rows: Rows = SortedDict({("", ""): (Row(0), b"")})
        self._number = 0
        self._sessions = 0
        self._watches: dict[str, set[Hint]] = {}

    def new_session(self) -> int:
        with self._lock:
            self._sessions += 1
            return self._sessions

    def end_session(self, session: int) -> None:
        """Its ephemeral keys go, in one transaction."""

        def end(tree: Tree) -> None:
            for parent, name in [place for place, (row, _) in self._rows.items() if row.session == session]:
                tree.remove(join(parent, name))

        self.write(session, end)

    def get(self, key: str) -> Value | None:
        with self._lock:
            found: tuple[Row, bytes] | None = self._rows.get(place_of(key))
            if found is None:
                return None
            row, data = found
            return Value(data, row.version, row.session is not None)

    def names(self, key: str, after: str, count: int | None = None) -> list[str]:
        """The names below a key behind one of them. MissingError."""
        with self._lock:
            if place_of(key) not in self._rows:
                raise MissingError(f"there is no {key}", key)
            found: list[str] = []
            for parent, name in self._rows.irange((key, after), inclusive=(False, True)):
                if parent != key or len(found) == count:
                    break
                found.append(name)
            return found

    def write(self, session: int, change: Callable[[Tree], Result]) -> Result:
        """One transaction: all that `change` does, or nothing where it raises."""
        with self._lock:
            table = _Table(self._rows, self._number, session)
            tree = Tree(table)
            try:
                result = change(tree)
            except BaseException:
                table.undo()
                raise
            self._number = table.number
            for key in tree.touched:
                for hint in self._watches.get(key, ()):
                    hint.post()
            return result

    def watch(self, key: str, hints: Hints, callback: Callable[[], None]) -> Hint:
        def forget(hint: Hint) -> None:
            with self._lock:
                watches = self._watches.get(key, set())
                watches.discard(hint)
                if not watches:
                    self._watches.pop(key, None)

        with self._lock:
            hint = hints.hint(callback, forget)
            self._watches.setdefault(key, set()).add(hint)
            return hint

    def forget(self, hints: Hints) -> None:
        """Whatever a store watched."""
        with self._lock:
            for hint in [hint for watches in self._watches.values() for hint in watches if hint.hints is hints]:
                hint.close()


class _Table:
    """The rows of a MemoryTree while one transaction writes them, and how they were before."""

    def __init__(self, rows: Rows, number: int, session: int) -> None:
        self.number = number
        self._rows = rows
        self._session = session
        self._before: dict[Place, tuple[Row, bytes] | None] = {}

    def undo(self) -> None:
        for place, before in self._before.items():
            if before is None:
                self._rows.pop(place, None)
            else:
                self._rows[place] = before

    def row(self, key: str) -> Row | None:
        found: tuple[Row, bytes] | None = self._rows.get(place_of(key))
        return None if found is None else found[0]

    def insert(self, key: str, row: Row, data: bytes) -> None:
        self._set(place_of(key), (row, data))

    def replace(self, key: str, version: int, data: bytes) -> None:
        row, _ = self._rows[place_of(key)]
        self._set(place_of(key), (Row(version, row.session, row.changed, row.sequence), data))

    def touch(self, key: str, changed: int, sequence: int) -> None:
        row, data = self._rows[place_of(key)]
        self._set(place_of(key), (Row(row.version, row.session, changed, sequence), data))

    def remove(self, key: str) -> None:
        place = place_of(key)
        self._before.setdefault(place, self._rows[place])
        del self._rows[place]

    def has_children(self, key: str) -> bool:
        first = next(self._rows.irange((key, "")), None)
        return first is not None and first[0] == key

    def next_number(self) -> int:
        self.number += 1
        return self.number

    def own_session(self) -> int:
        return self._session

    def _set(self, place: Place, now: tuple[Row, bytes]) -> None:
        self._before.setdefault(place, self._rows.get(place))
        self._rows[place] = now


class MemoryStore:
    """A session on a MemoryTree. Without one it has its own."""

    def __init__(self, tree: MemoryTree | None = None, *, uri: str = "memory:") -> None:
        self.uri = uri
        self.tree = MemoryTree() if tree is None else tree
        self._lock = threading.RLock()
        self._hints = Hints("walkeeper-metadata-memory")
        self._on_session: set[Hint] = set()
        self._session = self.tree.new_session()
        self._connected = True
        self._closed = False

    def __enter__(self) -> MemoryStore:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def get(self, key: str, *, linearizable: bool = False) -> Value | None:
        check_key(key)
        self._check_usable()
        return self.tree.get(key)

    def create(self, key: str, data: bytes = b"", *, ephemeral: bool = False, parents: bool = False) -> int:
        if check_key(key) == "/":
            raise ExistsError("the root is always there", key)
        data = check_value(key, data)
        return self._write(lambda tree: tree.create(key, data, ephemeral=ephemeral, parents=parents))

    def create_sequential(self, prefix: str, data: bytes = b"", *, ephemeral: bool = False) -> str:
        data = check_value(check_prefix(prefix), data)
        return self._write(lambda tree: tree.create_sequential(prefix, data, ephemeral=ephemeral))

    def put(self, key: str, data: bytes, version: int | None = None) -> int:
        data = check_value(check_new(key), data)
        return self._write(lambda tree: tree.put(key, data, version))

    def delete(self, key: str, version: int | None = None) -> None:
        check_new(key)
        self._write(lambda tree: tree.delete(key, version))

    def transact(self, operations: Sequence[Operation]) -> list[int | None]:
        operations = list(operations)
        check_transaction(operations)
        return self._write(lambda tree: tree.transact(operations))

    def children(self, key: str) -> list[str]:
        check_key(key)
        self._check_usable()
        return self.tree.names(key, "")

    def scan(self, key: str, *, page: int = 1000) -> Iterator[str]:
        check_page(check_key(key), page)
        after = ""
        while True:
            self._check_usable()
            names = self.tree.names(key, after, page)
            yield from names
            if len(names) < page:
                return
            after = names[-1]

    def watch(self, key: str, callback: Callable[[], None]) -> Watch:
        check_key(key)
        with self._lock:
            self._check_usable()
            return self.tree.watch(key, self._hints, callback)

    def on_session(self, callback: Callable[[Literal["lost", "new"]], None]) -> Watch:
        with self._lock:
            self._check_open()
            hint = self._hints.hint(callback, self._on_session.discard)
            self._on_session.add(hint)
            return hint

    def session(self) -> int:
        self._check_open()
        return self._session

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._hints.close()
        self.tree.forget(self._hints)
        self.tree.end_session(self._session)

    # For tests: what can happen to a connection.

    def disconnect(self) -> None:
        """From now on every call raises UnavailableError; the session lives."""
        self._connected = False

    def reconnect(self) -> None:
        self._connected = True

    def expire_session(self) -> None:
        """The session is lost, and there is a new one: what happens to a process that was not heard of for too long."""
        with self._lock:
            self._check_open()
            lost, self._session = self._session, self.tree.new_session()
            self.tree.end_session(lost)
            for hint in list(self._on_session):
                hint.post("lost")
                hint.post("new")

    def _write(self, change: Callable[[Tree], Result]) -> Result:
        with self._lock:  # a session that ends meanwhile ends before or after
            self._check_usable()
            return self.tree.write(self._session, change)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"{self.uri} was closed")

    def _check_usable(self) -> None:
        self._check_open()
        if not self._connected:
            raise UnavailableError(f"{self.uri} is disconnected")
