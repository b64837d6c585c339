"""The native calls behind Writer and Reader: those of a directory, or what a cluster puts in their place.

Both take the same structs, and answer the same statuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from walkeeper._native import ffi, lib

if TYPE_CHECKING:
    from concurrent.futures import Future

    from walkeeper._completions import Completions
    from walkeeper._position import Position

__all__ = ["ReaderCalls", "WriterCalls", "WriterInC"]

Call = Callable[..., int]


def _close_writer(native: Any, close: Any = lib.wk_writer_close, null: Any = ffi.NULL) -> None:
    close(native, 1, null)  # a nanosecond: do not wait


class WriterInC(Protocol):
    """What an adapter in C, which links libwalkeeper, needs of a writer on bookies (walkeeper/cluster.h)."""

    @property
    def address(self) -> int:
        """Of its wk_cluster_writer, which lives as long as this object does, also behind the writer's close()."""
        ...

    def next_segment(self, txid: int) -> None:
        """Where C answered WK_NEEDS_SEGMENT, with error->txid: behind it the call is made again.

        Raises FencedError, ClosedError, UnavailableError; nothing was written of what C did not accept.
        """
        ...

    def explain(self, status: int, error: int) -> int:
        """The status of a call that failed, and in the wk_error at this address what became of the record."""
        ...


class WriterCalls:
    """What a writer of a directory calls. A cluster has a subclass."""

    append: Call = staticmethod(lib.wk_writer_append)
    submit: Call = staticmethod(lib.wk_writer_submit)
    try_submit: Call = staticmethod(lib.wk_writer_submit)
    """`submit` with time-out 0, in the thread of an event loop: it waits for nothing else either."""
    append_many: Call = staticmethod(lib.wk_writer_append_many)
    flush: Call = staticmethod(lib.wk_writer_flush)
    next: Callable[..., None] = staticmethod(lib.wk_writer_next)
    end_of_stream: Call = staticmethod(lib.wk_writer_end_of_stream)
    release: Callable[[Any], None] = staticmethod(_close_writer)
    in_c: WriterInC | None = None

    def find(self, log: Any, sequence_id: int, at: Any, error: Any) -> int:
        """The position of a durable record of the log, by its sequence id."""
        return int(lib.wk_log_find(log._native, lib.WK_FIND_SEQUENCE_ID, sequence_id, ffi.NULL, at, error))

    def watch(self, log: Any, ticket: int, at: Position, deferred: bool) -> Future[Position]:
        """A future that is done, with `at`, when the ticket is durable."""
        completions: Completions = log.namespace._completions
        return completions.watch(ticket, at, log.name, deferred)

    def close(self, timeout_ns: int) -> None:
        """Behind the last flush of a writer that is closed."""


class ReaderCalls:
    """What a reader of a directory calls. A cluster has a subclass."""

    next: Call = staticmethod(lib.wk_reader_next)
    position: Callable[..., None] = staticmethod(lib.wk_reader_position)
    release: Callable[[Any], None] = staticmethod(lib.wk_reader_release)

    def next_apart(self, native: Any, max_records: int, max_bytes: int, left: int, out: Any, error: Any) -> int:
        """`next`, but a batch holds records alone, or a gap alone."""
        status = lib.wk_reader_next_records(native, max_records, max_bytes, left, out, error)
        if status == lib.WK_DAMAGED:  # before a gap, or before damage: then it is answered once more
            status = lib.wk_reader_next(native, 1, max_bytes, 0, out, error)
        return int(status)


DIRECTORY_WRITER = WriterCalls()
DIRECTORY_READER = ReaderCalls()
