"""Listing: the children of a key, page by page, from ranges that have whatever is below them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from walkeeper.metadata._etcd_client import range_of, read, transaction
from walkeeper.metadata._etcd_connection import Connection
from walkeeper.metadata._etcd_names import below, below_child, is_name, name_of
from walkeeper.metadata._store import MissingError

NAMES_MAX = 4096  # in one answer


class Listing:
    """The children of one key. `snapshot`: all as they were at one moment."""

    def __init__(self, connection: Connection, key: str, page: int, *, snapshot: bool) -> None:
        self._connection = connection
        self._key = key
        self._page = min(page, NAMES_MAX)
        self._snapshot = snapshot
        self._revision = 0

    def __iter__(self) -> Iterator[str]:
        """In byte order. MissingError where the key is not there, also behind the first page."""
        start, end = below(self._key)
        prefix = start
        while start < end:
            found = self._ask(start, end)
            inside = b""
            for kv in found.kvs:
                name = bytes(kv.key)[len(prefix) :]
                start = bytes(kv.key) + b"\0"
                inside, slash, _ = name.partition(b"/")
                if not slash:
                    inside = b""
                    child = _text(name)
                    if child is not None:
                        yield child
            if inside:  # what is below a child, whatever there is, is passed over
                text = _text(inside)
                start = max(start, below_child(self._key, text) if text is not None else start)
            if not found.more:
                return

    def _ask(self, start: bytes, end: bytes) -> Any:
        question = transaction(
            (),
            [
                read(range_of(name_of(self._key), keys_only=True, revision=self._revision)),
                read(range_of(start, end, limit=self._page, keys_only=True, revision=self._revision)),
            ],
        )
        answer = self._connection.read(lambda stubs, seconds: stubs.kv.Txn(question, timeout=seconds), self._key)
        own, found = (each.response_range for each in answer.responses)
        if not own.kvs and self._key != "/":
            raise MissingError(f"there is no {self._key}", self._key)
        if self._snapshot:
            self._revision = self._revision or int(answer.header.revision)
        return found


def _text(name: bytes) -> str | None:
    """A child's name; None where it is no name of ours."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return None
    return text if is_name(text) and text else None
