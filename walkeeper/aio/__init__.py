"""walkeeper with async and await: the same names, the same promises.

    async with walkeeper.aio.open("/var/lib/app/wal") as ns:
        log = await ns.log("orders")
        async with log.writer() as w:
            at = await w.append(b"paid 42")                  # durable when it returns
        async for record in log.reader(start=at, follow=True):
            await apply(record.payload)

No thread waits for appends: the engine signals an eventfd, the event loop reads it, and one call completes all that is
durable by then. Whatever may touch the disk in the calling thread (opening, reading, truncating) runs in the loop's
default executor; what is a property without `await` and may do so is a method here: `await log.options()`, `await
cursor.position()`, `await reader.position()`. A cancelled append has an unknown outcome, as after a time-out: the
record was handed over, or not; the log is consistent either way.

A namespace, and everything made from it, belongs to the event loop in which it was opened. In any other loop, a second
asyncio.run() for example, every call but close() raises InvalidError and does nothing. close() works in any loop, also
after the first one ended.

LedgerClient, LedgerWriter and LedgerReader are the same for the ledgers of a cluster. They may be used in any loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walkeeper.aio._cursor import Cursor
from walkeeper.aio._log import Log
from walkeeper.aio._namespace import Namespace, open
from walkeeper.aio._opening import Opening
from walkeeper.aio._reader import Reader
from walkeeper.aio._writer import Writer

if TYPE_CHECKING:
    from walkeeper.aio._ledgers import LedgerClient, LedgerReader, LedgerWriter

__all__ = [
    "Cursor",
    "LedgerClient",
    "LedgerReader",
    "LedgerWriter",
    "Log",
    "Namespace",
    "Opening",
    "Reader",
    "Writer",
    "open",
]

_OF_LEDGERS = ("LedgerClient", "LedgerReader", "LedgerWriter")


def __getattr__(name: str) -> Any:
    if name not in _OF_LEDGERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from walkeeper.aio import _ledgers  # not everybody has a cluster

    value = globals()[name] = getattr(_ledgers, name)
    return value
