"""Tree: what the operations mean, over a table of rows. The stores that keep the rows themselves share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from walkeeper.metadata._keys import SEQUENCE_DIGITS, SEQUENCE_MAX, parent_of, place_of
from walkeeper.metadata._store import (
    ConflictError,
    ExistsError,
    MetadataError,
    MissingError,
    NotEmptyError,
    Operation,
)


@dataclass(frozen=True)
class Row:
    """A key without its bytes. `changed`: another number after a child came or went. `sequence`: the next digits."""

    version: int
    session: int | None = None
    changed: int = 0
    sequence: int = 0


class Table(Protocol):
    """Rows inside one transaction. Rows of dead sessions are not in it."""

    def row(self, key: str) -> Row | None:
        """The row of a key, the root's included."""
        ...

    def insert(self, key: str, row: Row, data: bytes) -> None:
        """A row that is not there yet."""
        ...

    def replace(self, key: str, version: int, data: bytes) -> None:
        """Another value."""
        ...

    def touch(self, key: str, changed: int, sequence: int) -> None:
        """What a row says of its children."""
        ...

    def remove(self, key: str) -> None:
        """The row goes."""
        ...

    def has_children(self, key: str) -> bool:
        """Whether there is a row just below."""
        ...

    def next_number(self) -> int:
        """Larger than every number that this store has given: versions never come back."""
        ...

    def own_session(self) -> int:
        """The session that new ephemeral keys belong to."""
        ...


class Tree:
    """One transaction's operations. `touched`: the keys whose watches are to be told, when it is committed."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.touched: set[str] = set()

    def create(self, key: str, data: bytes, *, ephemeral: bool = False, parents: bool = False) -> int:
        if self._table.row(key) is not None:
            raise ExistsError(f"{key} is there already", key)
        parent = parent_of(key)
        if parents and self._table.row(parent) is None:
            self.create(parent, b"", parents=True)
        above = self._parent_row(key)
        return self._insert(key, data, ephemeral, above, above.sequence)

    def create_sequential(self, prefix: str, data: bytes, *, ephemeral: bool = False) -> str:
        above = self._parent_row(prefix + "0")
        sequence = above.sequence
        while self._table.row(key := f"{prefix}{sequence:0{SEQUENCE_DIGITS}}") is not None:
            sequence += 1  # somebody made it by name
        if sequence > SEQUENCE_MAX:
            raise MetadataError(f"{place_of(key)[0]} has had {SEQUENCE_MAX} sequential keys: no number is left", key)
        self._insert(key, data, ephemeral, above, sequence + 1)
        return key

    def put(self, key: str, data: bytes, version: int | None = None) -> int:
        self.check(key, version)
        number = self._table.next_number()
        self._table.replace(key, number, data)
        self.touched.add(key)
        return number

    def delete(self, key: str, version: int | None = None) -> None:
        self.check(key, version)
        if self._table.has_children(key):
            raise NotEmptyError(f"{key} has children", key)
        self.remove(key)

    def check(self, key: str, version: int | None = None) -> None:
        row = self._table.row(key)
        if row is None:
            raise MissingError(f"there is no {key}", key)
        if version is not None and row.version != version:
            raise ConflictError(f"{key} has version {row.version}, not {version}", key)

    def transact(self, operations: Sequence[Operation]) -> list[int | None]:
        return [self._apply(operation) for operation in operations]

    def remove(self, key: str) -> None:
        """The row goes, whatever it is: also that of a session that ended."""
        self._table.remove(key)
        parent = parent_of(key)
        above = self._table.row(parent)
        if above is not None:
            self._table.touch(parent, self._table.next_number(), above.sequence)
        self.touched |= {key, parent}

    def _apply(self, operation: Operation) -> int | None:
        if operation.kind == "create":
            return self.create(operation.key, operation.data, ephemeral=operation.ephemeral)
        if operation.kind == "put":
            return self.put(operation.key, operation.data, operation.version)
        if operation.kind == "delete":
            self.delete(operation.key, operation.version)
        else:
            self.check(operation.key, operation.version)
        return None

    def _parent_row(self, key: str) -> Row:
        parent = parent_of(key)
        above = self._table.row(parent)
        if above is None:
            raise MissingError(f"there is no {parent}: {key} would be below it", key)
        if above.session is not None:
            raise MetadataError(f"{parent} is ephemeral: it can have no children", key)
        return above

    def _insert(self, key: str, data: bytes, ephemeral: bool, above: Row, sequence: int) -> int:
        number = self._table.next_number()
        session = self._table.own_session() if ephemeral else None
        self._table.insert(key, Row(number, session), data)
        parent, _ = place_of(key)
        self._table.touch(parent, number, sequence)
        self.touched |= {key, parent}
        return number
