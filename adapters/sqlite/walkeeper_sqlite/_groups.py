"""Groups: the commits and snapshots of a log, by the heads of its records (docs/formats/sqlite_record.md)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from walkeeper import Log, Record
from walkeeper.errors import CorruptError, TruncatedError, UnsupportedError

__all__ = ["Group", "Head", "commit_at", "commit_before", "groups", "heads_of", "last_groups", "name_of"]

Kind = Literal["commit", "snapshot"]

_KINDS: dict[int, Kind] = {1: "commit", 2: "snapshot"}
_JOINT, _NAME = 3, 4
_FIRST, _LAST, _NAMED = 1, 2, 4
_FORMAT = 1
_HEAD = struct.Struct("<BBBB4x4xIQQII")
"""format, kind, flags, page_size, (crc, before,) part, database, transaction, pages, count."""
_RECORDS_AT_FIRST = 256
"""So many records before the end are looked at first; where that is too few, four times as many."""


@dataclass(frozen=True)
class Head:
    """Of a record of a commit or a snapshot, which may stand in a joint commit."""

    kind: Kind
    bytes: int
    """Payload of the record."""
    named: bool
    """Its database is beside the one whose the log is."""
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


def heads_of(payload: bytes | memoryview, log: str, sequence_id: int) -> list[Head]:
    """One, or those of a joint commit; none of a name. CorruptError where it is none of a SQLite database,
    UnsupportedError where a newer walkeeper wrote it."""
    if len(payload) >= _HEAD.size:
        kind_format, kind, flags, logarithm, part, database, transaction, pages, count = _HEAD.unpack_from(payload)
        known = kind in (*_KINDS, _JOINT, _NAME)
        if kind_format > _FORMAT and known:
            said = f"record {sequence_id} of log {log} has format {kind_format}, which a newer walkeeper wrote"
            raise UnsupportedError(said, log=log, sequence_id=sequence_id)
        if kind_format == _FORMAT and known and flags <= (_FIRST | _LAST | _NAMED) and 9 <= logarithm <= 16:
            if kind == _NAME:
                return []
            if kind == _JOINT:
                return [head for one in _joined(payload) for head in heads_of(one, log, sequence_id)]
            first, last, named = bool(flags & _FIRST), bool(flags & _LAST), bool(flags & _NAMED)
            size = len(payload)
            return [
                Head(_KINDS[kind], size, named, first, last, 1 << logarithm, part, database, transaction, pages, count)
            ]
    said = f"record {sequence_id} of log {log} is no record of a SQLite database"
    raise CorruptError(said, log=log, sequence_id=sequence_id)


def _joined(payload: bytes | memoryview) -> Iterator[memoryview]:
    rest = memoryview(payload)[_HEAD.size :]
    while rest:
        size = int.from_bytes(rest[:4], "little")
        yield rest[4 : 4 + size]
        rest = rest[4 + size :]


def name_of(payload: bytes | memoryview) -> tuple[str, int] | None:
    """The name of a database, and its number; None: the record is none of a name."""
    if len(payload) <= _HEAD.size or payload[1] != _NAME:
        return None
    return bytes(payload[_HEAD.size :]).decode("utf-8", "replace"), _HEAD.unpack_from(payload)[5]


def groups(
    log: Log, start: int | None = None, *, end: int | None = None, database: int | None = None
) -> Iterator[Group]:
    """The whole ones that begin at the record `start`, or behind it, and end before the record `end`.

    Without `start` from the first record on. Of the database with this number; None: of the one whose the log is.
    TruncatedError, CorruptError, UnsupportedError.
    """
    begun: dict[Kind, Group] = {}
    first = log.info().first.sequence_id if start is None else start
    with log.reader(sequence_id=first) as reader:
        while records := reader.read():
            for record in records:
                if end is not None and record.sequence_id >= end:
                    return
                for head in heads_of(record.payload, log.name, record.sequence_id):
                    if head.named if database is None else head.database != database:
                        continue
                    group = _added(begun, head, record)
                    if group is not None and head.is_last:
                        yield group


def _added(begun: dict[Kind, Group], head: Head, record: Record) -> Group | None:
    """The group with this part; None: it began before the start."""
    before = None if head.is_first else begun.get(head.kind)
    if before is None and not head.is_first:
        return None
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
        bytes=head.bytes,
    )
    if before is not None:
        images, size = before.images_count + group.images_count, before.bytes + group.bytes
        group = replace(group, images_count=images, bytes=size)
    begun[head.kind] = group
    return group


def last_groups(
    log: Log, count: int, *, kind: Kind | None = None, end: int | None = None, database: int | None = None
) -> list[Group]:
    """The last whole ones that end before the record `end`, or at all; the oldest first. Of one kind, or of both."""
    records_count = _RECORDS_AT_FIRST
    while True:
        info = log.info()
        behind = info.next.sequence_id if end is None else min(end, info.next.sequence_id)
        start = max(info.first.sequence_id, behind - records_count)
        try:
            whole = groups(log, start, end=behind, database=database)
            found = [group for group in whole if kind in (None, group.kind)]
        except TruncatedError:
            continue  # it was truncated meanwhile, and begins later now
        if len(found) >= count or start == info.first.sequence_id:
            return found[-count:] if count else []
        records_count *= 4


def commit_before(log: Log, end: int, database: int | None = None) -> Group | None:
    """The last commit that ends before the record `end`."""
    found = last_groups(log, 1, kind="commit", end=end, database=database)
    return found[0] if found else None


def commit_at(log: Log, start: int, database: int | None = None) -> Group | None:
    """The first commit that ends at the record `start`, or behind it."""
    before = commit_before(log, start, database)
    begin = None if before is None else before.lsn + 1
    found = groups(log, begin, database=database)
    return next((group for group in found if group.kind == "commit" and group.lsn >= start), None)
