"""walkeeper: an embedded write-ahead log.

    with walkeeper.open("/var/lib/app/wal") as ns:     # a directory is a namespace of logs
        log = ns.log("orders")                         # opened, or created
        with log.writer() as w:                        # one writer; an earlier one is fenced
            at = w.append(b"paid 42")                  # durable when it returns
        for record in log.reader(start=at):            # every record from there on
            apply(record.payload)
        log.truncate(at)                               # all before it may go

walkeeper.LedgerClient reads and writes the ledgers of a cluster of bookies. The same with async and await is
walkeeper.aio. Importing walkeeper starts no thread and opens no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walkeeper import errors
from walkeeper.errors import (
    ClockJumpWarning,
    ClosedError,
    CorruptError,
    CursorHoldsError,
    CursorNotFoundError,
    DamagedError,
    DirectoryLockedError,
    EndOfStreamError,
    Error,
    ExistsError,
    FencedError,
    ForkedError,
    GapError,
    InterruptedError,
    InvalidError,
    JournalFailedError,
    LedgerNotFoundError,
    LimitError,
    LogDeletedError,
    LogNotFoundError,
    NoMemoryError,
    NoSpaceError,
    NotEnoughBookiesError,
    NotFoundError,
    QuorumTimeoutError,
    ReadOnlyError,
    SequenceMismatchError,
    StorageError,
    TimeoutError,
    TooLargeError,
    TruncatedError,
    TxidError,
    UnauthorizedError,
    UnavailableError,
    UnsupportedError,
    WouldBlockError,
)

if TYPE_CHECKING:
    from walkeeper import aio
    from walkeeper._cursor import Cursor
    from walkeeper._log import Log, LogInfo, Segment
    from walkeeper._namespace import Namespace, RecoveryReport, Stats, is_cluster, open
    from walkeeper._options import ClusterOptions, Durability, Gaps, LogOptions, NewLogOptions, OnDamage, OpenOptions
    from walkeeper._position import DLSN, AppendRange, Position
    from walkeeper._reader import Reader
    from walkeeper._record import Gap, Record
    from walkeeper._writer import Writer
    from walkeeper.ledgers import LedgerClient, LedgerEntry, LedgerReader, LedgerWriter

    __version__: str

__all__ = [
    "open",
    "is_cluster",
    "Namespace",
    "Log",
    "Writer",
    "Reader",
    "Cursor",
    "Record",
    "Gap",
    "Position",
    "DLSN",
    "AppendRange",
    "LedgerClient",
    "LedgerWriter",
    "LedgerReader",
    "LedgerEntry",
    "LogInfo",
    "LogOptions",
    "NewLogOptions",
    "OpenOptions",
    "ClusterOptions",
    "Segment",
    "Stats",
    "RecoveryReport",
    "Durability",
    "Gaps",
    "OnDamage",
    "aio",
    "errors",
    "Error",
    "ClockJumpWarning",
    "ClosedError",
    "CorruptError",
    "CursorHoldsError",
    "CursorNotFoundError",
    "DamagedError",
    "DirectoryLockedError",
    "EndOfStreamError",
    "ExistsError",
    "FencedError",
    "ForkedError",
    "GapError",
    "InterruptedError",
    "InvalidError",
    "JournalFailedError",
    "LedgerNotFoundError",
    "LimitError",
    "LogDeletedError",
    "LogNotFoundError",
    "NoMemoryError",
    "NoSpaceError",
    "NotEnoughBookiesError",
    "NotFoundError",
    "QuorumTimeoutError",
    "ReadOnlyError",
    "SequenceMismatchError",
    "StorageError",
    "TimeoutError",
    "TooLargeError",
    "TruncatedError",
    "TxidError",
    "UnauthorizedError",
    "UnavailableError",
    "UnsupportedError",
    "WouldBlockError",
]


# Imported when somebody asks for it: a bookie needs none of it but the errors, and asyncio is not everybody's.
_LATER = {
    "Cursor": "walkeeper._cursor",
    "Log": "walkeeper._log",
    "LogInfo": "walkeeper._log",
    "Segment": "walkeeper._log",
    "Namespace": "walkeeper._namespace",
    "RecoveryReport": "walkeeper._namespace",
    "Stats": "walkeeper._namespace",
    "open": "walkeeper._namespace",
    "is_cluster": "walkeeper._namespace",
    "Durability": "walkeeper._options",
    "Gaps": "walkeeper._options",
    "LogOptions": "walkeeper._options",
    "NewLogOptions": "walkeeper._options",
    "OnDamage": "walkeeper._options",
    "OpenOptions": "walkeeper._options",
    "ClusterOptions": "walkeeper._options",
    "DLSN": "walkeeper._position",
    "AppendRange": "walkeeper._position",
    "Position": "walkeeper._position",
    "Reader": "walkeeper._reader",
    "Gap": "walkeeper._record",
    "Record": "walkeeper._record",
    "Writer": "walkeeper._writer",
    "LedgerClient": "walkeeper.ledgers",
    "LedgerEntry": "walkeeper.ledgers",
    "LedgerReader": "walkeeper.ledgers",
    "LedgerWriter": "walkeeper.ledgers",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name == "aio":
        return importlib.import_module("walkeeper.aio")
    if name == "__version__":
        version = globals()[name] = _version()
        return version
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
    return value


def _version() -> str:
    """The version of the distribution that is installed; "unknown" where its metadata is not."""
    from importlib.metadata import PackageNotFoundError, version  # with it come email, zipfile and more

    try:
        return version("walkeeper")
    except PackageNotFoundError:
        return "unknown"


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
