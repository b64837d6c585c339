"""Operations of our protocol as one transaction of etcd: conditions, writes, and what is read where one fails.

etcd decides by conditions on what is there before the transaction. The same walk over the operations is made twice:
before, over hopes, which notes each condition that must hold; and, where etcd says that one did not, over what etcd saw
at that moment, which finds the first refusal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from walkeeper.metadata._etcd_client import Compare, RequestOp, compare, delete, put, range_of, read
from walkeeper.metadata._etcd_names import below, name_of, own_end
from walkeeper.metadata._keys import parent_of
from walkeeper.metadata._store import (
    ConflictError,
    ExistsError,
    LimitError,
    MetadataError,
    MissingError,
    NotEmptyError,
    Operation,
)

CONDITIONS_MAX = 128
"""etcd's --max-txn-ops, where nobody changed it."""


class View(Protocol):
    """What is said of keys before the first operation."""

    def is_absent(self, key: str) -> bool: ...
    def is_present(self, key: str) -> bool: ...
    def is_lasting(self, key: str) -> bool: ...
    def has_version(self, key: str, version: int) -> bool: ...
    def is_empty_but_for(self, key: str, gone: Sequence[str]) -> bool: ...


class Hopes:
    """Everything is as it should be: what that is becomes the conditions."""

    def __init__(self) -> None:
        self._compares: dict[tuple[Any, ...], Compare] = {}

    @property
    def compares(self) -> list[Compare]:
        return list(self._compares.values())

    def is_absent(self, key: str) -> bool:
        return self._hope(name_of(key), "CREATE", "EQUAL", 0)

    def is_present(self, key: str) -> bool:
        return self._hope(name_of(key), "CREATE", "GREATER", 0)

    def is_lasting(self, key: str) -> bool:
        return self._hope(name_of(key), "LEASE", "EQUAL", 0)

    def has_version(self, key: str, version: int) -> bool:
        if not 0 < version < 2**63:
            return False
        self._compares.pop((name_of(key), "CREATE", "GREATER", 0), None)  # what has a version is there
        return self._hope(name_of(key), "MOD", "EQUAL", version)

    def is_empty_but_for(self, key: str, gone: Sequence[str]) -> bool:
        """Conditions have no exceptions: there is one for each range between them."""
        start, end = below(key)
        for name in sorted(map(name_of, gone)):
            if start < name:
                self._hope(start, "CREATE", "EQUAL", 0, name)
            start = own_end(name)
        return self._hope(start, "CREATE", "EQUAL", 0, end)

    def _hope(self, *condition: Any) -> bool:
        if condition not in self._compares:
            self._compares[condition] = compare(*condition)
        return True


class Seen:
    """What etcd saw: the answers to `reads`."""

    def __init__(self, operations: Sequence[Operation], answers: Sequence[Any]) -> None:
        self._answers = dict(zip(_questions(operations), answers, strict=True))

    def is_absent(self, key: str) -> bool:
        return not self._key(key)

    def is_present(self, key: str) -> bool:
        return bool(self._key(key))

    def is_lasting(self, key: str) -> bool:
        return all(found.lease == 0 for found in self._key(key))

    def has_version(self, key: str, version: int) -> bool:
        return any(found.mod_revision == version for found in self._key(key))

    def is_empty_but_for(self, key: str, gone: Sequence[str]) -> bool:
        own = [(name, own_end(name)) for name in map(name_of, gone)]
        found = self._answers["below", key].response_range.kvs
        return all(any(start <= kv.key < end for start, end in own) for kv in found)

    def _key(self, key: str) -> Any:
        return self._answers["key", key].response_range.kvs


def reads(operations: Sequence[Operation]) -> list[RequestOp]:
    """What must be known to find the first refusal."""
    return [read(request) for request in _questions(operations).values()]


def _questions(operations: Sequence[Operation]) -> dict[tuple[str, str], Any]:
    asked: dict[tuple[str, str], Any] = {}
    deleted = sum(operation.kind == "delete" for operation in operations)
    for operation in operations:
        keys = [operation.key]
        if operation.kind == "create" and parent_of(operation.key) != "/":
            keys.append(parent_of(operation.key))
        for key in keys:
            asked["key", key] = range_of(name_of(key), keys_only=True)
        if operation.kind == "delete":
            # What is deleted before, and the count of its children: two keys each.
            asked["below", operation.key] = range_of(*below(operation.key), limit=2 * deleted + 1, keys_only=True)
    return asked


def walk(operations: Sequence[Operation], view: View) -> None:
    """Raises the first refusal, where the operations see those before them and `view` what was there."""
    written: dict[str, Operation] = {}
    for operation in operations:
        key = operation.key
        if operation.kind == "create":
            _walk_create(operation, view, written)
        else:
            _walk_present(operation, view, written)
            if operation.kind == "delete":
                _walk_delete(key, view, written)
        if operation.kind != "check":
            written[key] = operation


def _walk_create(operation: Operation, view: View, written: dict[str, Operation]) -> None:
    key = operation.key
    if not view.is_absent(key):
        raise ExistsError(f"{key} is there already", key)
    parent = parent_of(key)
    before = written.get(parent)
    if parent == "/":
        return
    if before is not None and before.kind == "create":
        lasting = not before.ephemeral
    else:
        if (before is not None and before.kind == "delete") or not view.is_present(parent):
            raise MissingError(f"there is no {parent}: {key} would be below it", key)
        lasting = view.is_lasting(parent)
    if not lasting:
        raise MetadataError(f"{parent} is ephemeral: it can have no children", key)


def _walk_present(operation: Operation, view: View, written: dict[str, Operation]) -> None:
    key, version = operation.key, operation.version
    before = written.get(key)
    if before is None:
        if not view.is_present(key):
            raise MissingError(f"there is no {key}", key)
        if version is not None and not view.has_version(key, version):
            raise ConflictError(f"{key} has another version than {version}", key)
    elif before.kind == "delete":
        raise MissingError(f"there is no {key}", key)
    elif version is not None:
        raise ConflictError(f"{key} has another version than {version}", key)


def _walk_delete(key: str, view: View, written: dict[str, Operation]) -> None:
    """With all that was deleted below it, however deep: etcd knows what was there before."""
    gone = [other for other, operation in written.items() if operation.kind == "delete" and other.startswith(f"{key}/")]
    made = any(operation.kind == "create" and parent_of(other) == key for other, operation in written.items())
    if made or not view.is_empty_but_for(key, gone):
        raise NotEmptyError(f"{key} has children", key)


def conditions(operations: Sequence[Operation]) -> list[Compare]:
    """What must hold. Raises a refusal that is certain whatever is there. LimitError."""
    hopes = Hopes()
    walk(operations, hopes)
    compares = hopes.compares
    if len(compares) > CONDITIONS_MAX:
        raise LimitError(
            f"a transaction of {len(compares)} conditions: CONDITIONS_MAX is {CONDITIONS_MAX} (a create has one, and "
            "two for its parent; a delete has two, a put or a check one)"
        )
    return compares


def writes(operations: Sequence[Operation], lease: int) -> list[RequestOp]:
    """What is written; `lease` is that of ephemeral keys."""
    made = []
    for operation in operations:
        name = name_of(operation.key)
        if operation.kind == "create":
            made.append(put(name, bytes(operation.data), lease=lease if operation.ephemeral else 0))
        elif operation.kind == "put":
            made.append(put(name, bytes(operation.data), keep_lease=True))
        elif operation.kind == "delete":
            made.append(delete(name, own_end(name)))
    return made
