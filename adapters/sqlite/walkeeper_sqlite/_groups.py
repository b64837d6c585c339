"""Groups: the commits and snapshots of a log, by the heads of its records (docs/formats/sqlite_record.md)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from walkeeper import Log
from walkeeper.errors import CorruptError, TruncatedError, UnsupportedError

__all__ = ["Group", "Head", "commit_at", "commit_before", "groups", "head_of", "last_groups"]

Kind = Literal["commit", "snapshot"]

_KINDS: dict[int, Kind] = {1: "commit", 2: "snapshot"}
_FIRST, _LAST = 1, 2
_FORMAT = 1
_HEAD = struct.Struct("<BBBB4x4xIQQII")
"""format, kind, flags, page_size, (crc, before,) part, database, transaction, pages, count."""
_RECORDS_AT_FIRST = 256
"""So many records before the end are looked at first; where that is too few, four times as many."""


@dataclass(frozen=True)
class Head:
    """Of a record."""

    kind: Kind
    is_first: bool
    is_last: bool
    page_size: int
    part: int
    database: int
    transaction: int
    pages: int
    images_count: int


@dataclass(frozen=True)
class Group:
    """A commit, or a snapshot, that is whole."""

    kind: Kind
    first: int
    """The sequence id of its first record."""
    lsn: int
    """That of its last one."""
    time_ms: int
    """When the last one was written, in milliseconds since 1970."""
    transaction: int
    database: int
    page_size: int
    pages: int
    """Of the database behind it."""
    images_count: int
    """Pages that it changed; of a snapshot all."""
    bytes: int
    """Payload of its records."""


def head_of(payload: bytes | memoryview, log: str, sequence_id: int) -> Head:
    """CorruptError where it is none of a SQLite database, UnsupportedError where a newer walkeeper wrote it."""
    if len(payload) >= _HEAD.size:
        kind_format, kind, flags, logarithm, part, database, transaction, pages, count = _HEAD.unpack_from(payload)
        if kind_format == _FORMAT and kind in _KINDS and flags <= (_FIRST | _LAST) and 9 <= logarithm <= 16:
            first, last = bool(flags & _FIRST), bool(flags & _LAST)
            return Head(_KINDS[kind], first, last, 1 << logarithm, part, database, transaction, pages, count)
        if kind_format > _FORMAT and kind in _KINDS:
            said = f"record {sequence_id} of log {log} has format {kind_format}, which a newer walkeeper wrote"
            raise UnsupportedError(said, log=log, sequence_id=sequence_id)
    said = f"record {sequence_id} of log {log} is no record of a SQLite database"
    raise CorruptError(said, log=log, sequence_id=sequence_id)


def groups(log: Log, start: int | None = None, *, end: int | None = None) -> Iterator[Group]:
    """The whole ones that begin at the record `start`, or behind it, and end before the record `end`.

    Without `start` from the first record on. TruncatedError, CorruptError, UnsupportedError.
    """
    begun: dict[Kind, Group] = {}
    first = log.info().first.sequence_id if start is None else start
    with log.reader(sequence_id=first) as reader:
        while records := reader.read():
            for record in records:
                if end is not None and record.sequence_id >= end:
                    return
                head = head_of(record.payload, log.name, record.sequence_id)
                before = None if head.is_first else begun.get(head.kind)
                if before is None and not head.is_first:
                    continue  # it began before the start
                group = Group(
                    kind=head.kind,
                    first=record.sequence_id if before is None else before.first,
                    lsn=record.sequence_id,
                    time_ms=record.txid,
                    transaction=head.transaction,
                    database=head.database,
                    page_size=head.page_size,
                    pages=head.pages,
                    images_count=head.images_count,
                    bytes=len(record.payload),
                )
                if before is not None:
                    images, size = before.images_count + group.images_count, before.bytes + group.bytes
                    group = replace(group, images_count=images, bytes=size)
                begun[head.kind] = group
                if head.is_last:
                    yield group


def last_groups(log: Log, count: int, *, kind: Kind | None = None, end: int | None = None) -> list[Group]:
    """The last whole ones that end before the record `end`, or at all; the oldest first. Of one kind, or of both."""
    records_count = _RECORDS_AT_FIRST
    while True:
        info = log.info()
        behind = info.next.sequence_id if end is None else min(end, info.next.sequence_id)
        start = max(info.first.sequence_id, behind - records_count)
        try:
            found = [group for group in groups(log, start, end=behind) if kind in (None, group.kind)]
        except TruncatedError:
            continue  # it was truncated meanwhile, and begins later now
        if len(found) >= count or start == info.first.sequence_id:
            return found[-count:] if count else []
        records_count *= 4


def commit_before(log: Log, end: int) -> Group | None:
    """The last commit that ends before the record `end`."""
    found = last_groups(log, 1, kind="commit", end=end)
    return found[0] if found else None


def commit_at(log: Log, start: int) -> Group | None:
    """The first commit that ends at the record `start`, or behind it."""
    before = commit_before(log, start)
    begin = None if before is None else before.lsn + 1
    return next((group for group in groups(log, begin) if group.kind == "commit" and group.lsn >= start), None)
