"""Snapshots of a database in its log: where restorations begin, and up to which the log can be let go of.

A cursor of the log stands on the first record of each: truncation waits for it. Its name is `sqlite-snapshot-`, and the
sequence ids of the first and the last record, and the time of the last one: FIRST-LAST-MILLISECONDS. That of a database
beside the one whose the log is has its number, too: `sqlite-snapshot-of-NUMBER-FIRST-LAST-MILLISECONDS`; its snapshots
begin with a record of its name.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, TypeVar

from walkeeper import Log, Record
from walkeeper.errors import CursorNotFoundError, TimeoutError, check
from walkeeper_sqlite._groups import groups, heads_of, name_of
from walkeeper_sqlite._logs import new_error
from walkeeper_sqlite._native import ffi, lib

if TYPE_CHECKING:
    from walkeeper_sqlite._database import Database

__all__ = [
    "Snapshot",
    "held_while_attaching",
    "keep_first_snapshot",
    "numbers_beside",
    "snapshots",
    "take_snapshot",
    "truncate",
]

_NAME = re.compile(r"sqlite-snapshot-(?:of-([0-9a-f]{16})-)?([0-9]{20})-([0-9]{20})-([0-9]+)")
_WHILE_ATTACHING = "sqlite-attach"
"""The cursor of a log that has no snapshot's yet."""
_PAGES_AT_ONCE = 256
_SHOWN_TIMEOUT_S = 30.0
_LOOK_S = 0.02

T = TypeVar("T")

Progress = Callable[[int, int], object]
"""Is called with the pages done, and all."""


@dataclass(frozen=True)
class Snapshot:
    """All pages as of one commit, in the log."""

    lsn: int
    """The sequence id of its first record."""
    time_ms: int
    """When that was written, in milliseconds since 1970."""
    end_lsn: int
    """The sequence id of its last record: what is before that cannot be restored from it. Commits may lie between."""
    end_time_ms: int


def snapshots(log: Log, name: str | None = None) -> list[Snapshot]:
    """The whole ones that the log has of a database, the oldest first. Without a name: of the one whose the log is."""
    if name is None:
        return _snapshots(log).get(None, [])
    number = numbers_beside(log).get(name)
    return [] if number is None else _snapshots(log)[number]


def numbers_beside(log: Log) -> dict[str, int]:
    """Of the databases beside the one whose the log is, by their names, as their snapshots have them."""
    numbers: dict[str, int] = {}
    for number, found in _snapshots(log).items():
        if number is not None:
            with log.reader(sequence_id=found[-1].lsn) as reader:
                named = name_of(reader.read()[0].payload)
            if named is not None and named[1] == number:
                numbers[named[0]] = number
    return numbers


def _snapshots(log: Log) -> dict[int | None, list[Snapshot]]:
    """Of each database. None: of the one whose the log is."""
    found: dict[int | None, list[Snapshot]] = {}
    begin = log.info().first.sequence_id
    for name in log.cursors():
        if (match := _NAME.fullmatch(name)) is not None:
            first, last, end_time_ms = map(int, match.groups()[1:])
            try:
                position = log.cursor(name, create=False).position
            except CursorNotFoundError:
                continue
            if position.sequence_id == first >= begin:  # else a truncation was forced past it
                database = None if match[1] is None else int(match[1], 16)
                found.setdefault(database, []).append(Snapshot(first, position.txid, last, end_time_ms))
    return {one: sorted(some, key=lambda snapshot: snapshot.lsn) for one, some in found.items()}


def take_snapshot(database: Database, log: Log, progress: Progress | None, connect: Callable[[], Any]) -> Snapshot:
    writing, reading = connect(), connect()
    out, left, error = ffi.new("wk_database_snapshot **"), ffi.new("uint32_t *"), new_error()
    try:
        writing.execute("BEGIN IMMEDIATE")  # nobody commits,
        reading.execute("BEGIN")  # and what is committed now is kept
        list(reading.execute("SELECT count(*) FROM sqlite_master"))
        check(lib.wk_database_snapshot_begin(database._opened(), out, error), error, log=log.name, write=True)
        writing.execute("ROLLBACK")
        snapshot = ffi.gc(out[0], lib.wk_database_snapshot_free)
        lsn = lib.wk_database_snapshot_lsn(snapshot)
        done, before_end = 0, lsn
        while True:
            if left[0] <= _PAGES_AT_ONCE:
                before_end = max(lsn, log.info().last.sequence_id)
            status = lib.wk_database_snapshot_append(snapshot, _PAGES_AT_ONCE, left, error)
            check(status, error, log=log.name, write=True)
            done += _PAGES_AT_ONCE
            if progress is not None:
                progress(done if left[0] else done - _PAGES_AT_ONCE + 1, done + left[0])
            if left[0] == 0:
                break
        ffi.release(snapshot)
    finally:
        reading.close()
        writing.close()
    number = database.number
    end = _shown(lambda: _end_from(log, before_end, number), log)
    return _keep(log, number if database.name is not None else None, lsn, end.sequence_id, end.txid)


@contextmanager
def held_while_attaching(log: Log) -> Iterator[None]:
    """A log without snapshots keeps what it has and gets, until the first one has a cursor."""
    if snapshots(log):
        yield
        return
    holding = log.cursor(_WHILE_ATTACHING)
    try:
        yield
    finally:
        holding.delete()


def keep_first_snapshot(log: Log, database: int, name: str | None) -> None:
    """The snapshot with which the database begins gets its cursor, where no snapshot of it has one. Else the log's own
    retention, where it has one, could let go of it before there is another.

    Cursors of a database that was being taken over before, and is not this one, are deleted.
    """
    if name is not None:
        if not _snapshots(log).get(database):
            _keep_first(log, database, name)
        return
    whole = snapshots(log)
    if whole and _database_of(log, whole[-1]) == database:
        return
    _keep_first(log, database, None)
    for cursor in log.cursors():
        match = _NAME.fullmatch(cursor)
        if match is not None and match[1] is None and int(match[2]) in {snapshot.lsn for snapshot in whole}:
            log.cursor(cursor, create=False).delete()


def _keep_first(log: Log, database: int, name: str | None) -> None:
    number = None if name is None else database
    first = _shown(lambda: next(groups(log, database=database), None), log)
    if first.kind == "snapshot":
        begin = first.first if name is None else _name_before(log, database, first.first)
        _keep(log, number, begin, first.lsn, first.time_ms)


def _name_before(log: Log, database: int, snapshot: int) -> int:
    """The last record of the database's name before the first record of its snapshot."""
    found = snapshot
    with log.reader(end=log.find(sequence_id=snapshot)) as reader:
        while records := reader.read():
            for record in records:
                named = name_of(record.payload)
                if named is not None and named[1] == database:
                    found = record.sequence_id
    return found


def _database_of(log: Log, snapshot: Snapshot) -> int:
    with log.reader(sequence_id=snapshot.lsn) as reader:
        return heads_of(reader.read()[0].payload, log.name, snapshot.lsn)[0].database


def _keep(log: Log, number: int | None, lsn: int, end_lsn: int, end_time_ms: int) -> Snapshot:
    """A cursor on it."""
    position = log.find(sequence_id=lsn)
    of = "" if number is None else f"of-{number:016x}-"
    log.cursor(f"sqlite-snapshot-{of}{lsn:020}-{end_lsn:020}-{end_time_ms}").advance(position)
    return Snapshot(lsn, position.txid, end_lsn, end_time_ms)


def _end_from(log: Log, start: int, database: int) -> Record | None:
    """The first last part of a snapshot of the database at the record `start`, or behind it."""
    with log.reader(sequence_id=start) as reader:
        while records := reader.read():
            for record in records:
                for head in heads_of(record.payload, log.name, record.sequence_id):
                    if head.database == database and head.kind == "snapshot" and head.is_last:
                        return record
    return None


def _shown(look: Callable[[], T | None], log: Log) -> T:
    """What was written: readers of a cluster may learn of it a moment after the writer."""
    until = time.monotonic() + _SHOWN_TIMEOUT_S
    while (found := look()) is None:
        if time.monotonic() > until:
            raise TimeoutError(f"log {log.name} does not show the end of a snapshot that was written to it")
        time.sleep(_LOOK_S)
    return found


def truncate(log: Log, keep: timedelta, now: datetime | None = None) -> Snapshot | None:
    """Lets go of the records before the newest snapshot that ended at least `keep` before `now`: every commit since
    then can be restored still. Returns it, or None where there is none.

    Where the log has several databases, each keeps such a snapshot, or its first one; the one that is returned is of
    the database whose the log is.
    """
    limit_ms = ((now or datetime.now(timezone.utc)) - keep).timestamp() * 1000
    kept: dict[int | None, Snapshot] = {}
    for database, whole in _snapshots(log).items():
        old = [snapshot for snapshot in whole if snapshot.end_time_ms <= limit_ms]
        kept[database] = old[-1] if old else whole[0]
    mine = kept.get(None)
    if mine is None or mine.end_time_ms > limit_ms:
        return None
    for name in log.cursors():
        match = _NAME.fullmatch(name)
        if match is not None:
            snapshot = kept.get(None if match[1] is None else int(match[1], 16))
            if snapshot is None or int(match[2]) < snapshot.lsn:
                log.cursor(name, create=False).delete()
    log.truncate(log.find(sequence_id=min(snapshot.lsn for snapshot in kept.values())))
    return mine
