"""restore: a SQLite file from its log, as it was at any commit."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime

from walkeeper import Log
from walkeeper.errors import InvalidError, check
from walkeeper_sqlite._logs import log_to_read, new_error
from walkeeper_sqlite._native import ffi, lib
from walkeeper_sqlite._snapshots import snapshots

__all__ = ["Restored", "restore"]


@dataclass(frozen=True)
class Restored:
    """What a restored file has."""

    lsn: int
    """The sequence id of its last commit."""
    time_ms: int
    """When that was written, in milliseconds since 1970."""
    transaction: int
    pages: int
    page_size: int


def restore(
    log: Log, path: str | os.PathLike[str], *, to: int | datetime | None = None, name: str | None = None
) -> Restored:
    """Makes the file `path`, which must not exist, from the log, and writes nothing to the log.

    It has every commit up to the sequence id or the time `to` (a datetime with a time zone), or all. With `name` it is
    the database that Database.attach opened so. Any SQLite opens
    it. Raises NotFoundError where the log has no snapshot before that point, ExistsError where there is a file,
    CorruptError where the log has other records.
    """
    lsn, txid = -1, -1
    if isinstance(to, datetime):
        if to.tzinfo is None:
            raise InvalidError(f"to={to!r} has no time zone")
        txid = int(to.timestamp() * 1000)
    elif isinstance(to, int):
        lsn = to
    elif to is not None:
        raise InvalidError(f"to={to!r} is neither a sequence id nor a datetime")
    if lsn < -1 or txid < -1 or (to is not None and max(lsn, txid) < 0):
        raise InvalidError(f"to={to!r} lies before the first record")
    which = ffi.NULL if name is None else ffi.new("char[]", name.encode())
    restored, error, status = ffi.new("wk_database_restored *"), new_error(), lib.WK_NOT_FOUND
    with log_to_read(log) as native:
        for start in _starts(log, name, lsn, txid):
            status = lib.wk_database_restore(native, which, os.fsencode(path), start, lsn, txid, restored, error)
            if status != lib.WK_NOT_FOUND:
                break
    check(status, error, log=log.name)
    return Restored(restored.lsn, restored.txid, restored.transaction, restored.pages, restored.page_size)


def _starts(log: Log, name: str | None, lsn: int, txid: int) -> list[int]:
    """Where to begin: at the newest snapshot that is whole at the point that is asked for; else the log is searched."""
    whole = [
        snapshot.lsn
        for snapshot in snapshots(log, name)
        if (lsn < 0 or snapshot.end_lsn <= lsn) and (txid < 0 or snapshot.end_time_ms <= txid)
    ]
    return [*whole[-1:], -1]
