"""Snapshots of a database in its log: where restorations begin, and up to which the log can be let go of.

A cursor of the log stands on the first record of each, named `sqlite-snapshot-` and its sequence id: truncation waits
for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from walkeeper import Log
from walkeeper.errors import CursorNotFoundError, check
from walkeeper_sqlite._logs import new_error
from walkeeper_sqlite._native import ffi, lib

if TYPE_CHECKING:
    from walkeeper_sqlite._database import Database

__all__ = ["Snapshot", "snapshots", "take_snapshot", "truncate"]

_PREFIX = "sqlite-snapshot-"
_PAGES_AT_ONCE = 256

Progress = Callable[[int, int], object]
"""Is called with the pages done, and all."""


@dataclass(frozen=True)
class Snapshot:
    """All pages as of one commit, in the log."""

    lsn: int
    """The sequence id of its first record."""
    time_ms: int
    """When that was written, in milliseconds since 1970."""


def snapshots(log: Log) -> list[Snapshot]:
    """The whole ones that the log has, the oldest first. The one that a log begins with is none of them."""
    found = []
    for name in log.cursors():
        if name.startswith(_PREFIX):
            try:
                position = log.cursor(name, create=False).position
            except CursorNotFoundError:
                continue
            if name == f"{_PREFIX}{position.sequence_id:020}":
                found.append(Snapshot(position.sequence_id, position.txid))
    return sorted(found, key=lambda snapshot: snapshot.lsn)


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
        done = 0
        while True:
            status = lib.wk_database_snapshot_append(snapshot, _PAGES_AT_ONCE, left, error)
            check(status, error, log=log.name, write=True)
            done += _PAGES_AT_ONCE
            if progress is not None:
                progress(done if left[0] else done - _PAGES_AT_ONCE + 1, done + left[0])
            if left[0] == 0:
                break
        lsn = lib.wk_database_snapshot_lsn(snapshot)
        ffi.release(snapshot)
    finally:
        reading.close()
        writing.close()
    position = log.find(sequence_id=lsn)
    log.cursor(f"{_PREFIX}{lsn:020}").advance(position)
    return Snapshot(lsn, position.txid)


def truncate(log: Log, keep: timedelta) -> Snapshot | None:
    """Lets go of the records before the newest snapshot that is older than `keep`: every commit of that time can be
    restored still. Returns it, or None where there is none."""
    limit_ms = int((datetime.now(timezone.utc) - keep).timestamp() * 1000)
    whole = snapshots(log)
    old = [snapshot for snapshot in whole if snapshot.time_ms <= limit_ms]
    if not old:
        return None
    kept = {f"{_PREFIX}{snapshot.lsn:020}" for snapshot in whole[len(old) - 1 :]}
    for name in log.cursors():
        if name.startswith(_PREFIX) and name not in kept:
            log.cursor(name, create=False).delete()
    log.truncate(log.find(sequence_id=old[-1].lsn))
    return old[-1]
