"""ClusterReader: what a Reader of a log on a cluster calls. C reads one segment; which, and how far, is told from here.

A reader reads what is confirmed: of a completed segment all, of the open one up to the LAC that a quorum of its bookies
knows, or that a writer in this process has.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from walkeeper._calls import ReaderCalls
from walkeeper._native import ffi, lib
from walkeeper.cluster._writer import WRITERS
from walkeeper.errors import ClosedError, LedgerNotFoundError, TruncatedError, check, new_error

if TYPE_CHECKING:
    from walkeeper.cluster._document import LogDocument, StoredSegment
    from walkeeper.cluster._namespace import ClusterNamespace
    from walkeeper.ledgers._native_handles import NativeHandle
    from walkeeper.metadata import LedgerMetadata

__all__ = ["ClusterReader"]

WAIT_SECONDS = 0.1
"""A follower waits for the open segment so long, then looks whether there is another one."""
PAUSE_SECONDS = 0.001
PAUSE_SECONDS_MAX = 0.02
"""Where nobody tells it of more, it looks after so long; it doubles up to the latter."""


_WORTH_A_LOOK = (lib.WK_NOT_FOUND, lib.WK_UNAVAILABLE, lib.WK_DAMAGED)
"""Where a read fails like this, the ledger may have moved to other bookies."""


class ClusterReader(ReaderCalls):
    """The calls of one reader. `native` is its wk_cluster_reader."""

    def __init__(
        self, namespace: ClusterNamespace, log_name: str, log_id: str, options: Any, follow: bool, fresh: bool
    ) -> None:
        self._namespace = namespace
        self._log_name = log_name
        self._log_id = log_id
        self._follow = follow
        self._fresh = fresh
        """It begins with the first record there is, whichever that is when the first one is read."""
        self._skips = getattr(options, "from") in (lib.WK_FROM_TXID, lib.WK_FROM_TIME_MS)
        """It has not met the number yet that it begins with."""
        self._handle: NativeHandle | None = None
        self._moved_to: LedgerMetadata | None = None
        """What the metadata of the segment's ledger said when a read had failed."""
        self._polled = False
        """A bookie has told of more of the open segment: the next poll there tells of all that came since."""
        self._known: tuple[int, int] = (0, -1)
        """A segment, and an entry of it that is confirmed."""
        self._count = ffi.new("size_t *")
        out, error = ffi.new("wk_cluster_reader **"), new_error()
        check(lib.wk_cluster_reader_open(options, out, error), error)
        self.native: Any = out[0]

    def knows(self, segment: StoredSegment, lac: int) -> None:
        """Entries of the segment up to `lac` are confirmed. Bookies that are asked later may know less."""
        self._known = segment.segment, lac

    @staticmethod
    def release(native: Any) -> None:
        lib.wk_cluster_reader_release(native)

    @staticmethod
    def position(native: Any, at: Any) -> None:
        lib.wk_cluster_reader_position(native, at)

    def next(self, native: Any, max_records: int, max_bytes: int, left: int, out: Any, error: Any) -> int:
        deadline = time.monotonic() + left / 1e9
        pause = PAUSE_SECONDS
        looked = False
        state = ffi.new("wk_cluster_reader_state *")
        while True:
            lib.wk_cluster_reader_state_get(native, state)
            document, _ = self._namespace._store.read(self._log_id)
            self._check_truncated(native, document, state)
            status = int(lib.wk_cluster_reader_next(native, max_records, max_bytes, lib_patience(left), out, error))
            if status in _WORTH_A_LOOK and not looked and self._look_again():
                looked = True
                continue
            if status == lib.WK_NOT_FOUND:
                status = int(lib.WK_DAMAGED)
            if status == lib.WK_OK:
                if self._skips and lib.wk_batch_records(out[0], self._count)[0].at.sequence_id < first_id(document):
                    lib.wk_batch_release(out[0])
                    out[0] = ffi.NULL
                    raise self._truncated(document, state)
                self._fresh = self._skips = False
            if status != lib.WK_END:
                return status
            lib.wk_cluster_reader_state_get(native, state)
            if state.ended or state.end_of_stream:
                return status
            if not (self._polled and self._is_open(document, state) and time.monotonic() < deadline):
                found = self._more(native, document, state)
                if found is None:
                    return status
                if found:
                    pause = PAUSE_SECONDS
                    continue
                if not self._follow:
                    return status
            began = time.monotonic()
            if began >= deadline:
                return int(lib.WK_TIMEOUT)
            status = self._wait(native, state, min(WAIT_SECONDS, deadline - began), error)
            if status == lib.WK_INTERRUPTED:
                return status
            if status == lib.WK_OK or time.monotonic() - began > PAUSE_SECONDS_MAX:
                pause = PAUSE_SECONDS
                continue
            time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    def next_apart(self, native: Any, max_records: int, max_bytes: int, left: int, out: Any, error: Any) -> int:
        return self.next(native, max_records, max_bytes, left, out, error)

    def _look_again(self) -> bool:
        """Whether the segment's ledger is on other bookies than the handle knows, which now knows them."""
        if self._handle is None:
            return False
        before = self._moved_to
        try:
            self._moved_to = self._namespace._ledgers.refresh(self._handle)
        except LedgerNotFoundError:
            return True  # it was truncated just now: the document says so
        return self._moved_to != before

    def _is_open(self, document: LogDocument, state: Any) -> bool:
        segment = document.segment(state.segment)
        return segment is not None and not segment.completed

    def _wait(self, native: Any, state: Any, seconds: float, error: Any) -> int:
        """Until more of the open segment is confirmed: WK_OK. Any other status: the log's document may say more."""
        self._polled = False
        if self._handle is None or state.completed:
            return int(lib.WK_END)
        wait_ns = int(seconds * 1e9)
        writer = WRITERS.get(self._log_id)
        written = writer.handle_of(self._handle.ledger_id) if writer is not None else None
        if written is not None:
            with suppress(ClosedError), written as raw:
                return int(lib.wk_handle_wait(raw, state.last_entry + 1, wait_ns, error))
        status = int(lib.wk_cluster_reader_wait(native, wait_ns, error))
        self._polled = status == lib.WK_OK
        return status

    def _more(self, native: Any, document: LogDocument, state: Any) -> bool | None:
        """Whether there may be more to read now; None: there never will be."""
        ledgers = self._namespace._ledgers
        current = document.segment(state.segment) if self._handle is not None else None
        if current is not None and not state.completed:
            if current.completed:
                return self._tell(native, current, current.last_entry, True, None)
            try:
                lac = self._lac(current, self._handle)
            except LedgerNotFoundError:
                if self._has_still(current):
                    raise
                return True
            if lac > state.last_entry:
                return self._tell(native, current, lac, False, None)
            return None if document.end_of_stream else False
        at = state.at.segment if self._handle is None else state.segment + 1
        following = document.segment(at) or document.behind(at - 1)
        if following is None:
            return None if document.end_of_stream else False
        try:
            handle = ledgers.reading(following.ledger_id)
        except LedgerNotFoundError:
            return False  # it was truncated just now: the document says so in a moment
        try:
            lac = following.last_entry if following.completed else self._lac(following, handle)
        except LedgerNotFoundError:
            if self._has_still(following):
                raise
            return True
        return self._tell(native, following, lac, following.completed, handle)

    def _has_still(self, segment: StoredSegment) -> bool:
        """Whether the log has it. Whoever took the log over, and found no record in it, has let it go."""
        now = self._namespace._store.read(self._log_id)[0].segment(segment.segment)
        return now is not None and now.ledger_id == segment.ledger_id

    def _lac(self, segment: StoredSegment, handle: NativeHandle | None) -> int:
        lac = self._namespace._lac(self._log_id, segment, handle)
        return max(lac, self._known[1]) if self._known[0] == segment.segment else lac

    def _tell(
        self, native: Any, segment: StoredSegment, last_entry: int, completed: bool, handle: NativeHandle | None
    ) -> bool:
        error = new_error()
        before = self._handle
        if handle is None:
            status = lib.wk_cluster_reader_segment(
                native, ffi.NULL, segment.segment, segment.first_sequence_id, last_entry, completed, error
            )
        else:
            with handle as raw:
                status = lib.wk_cluster_reader_segment(
                    native, raw, segment.segment, segment.first_sequence_id, last_entry, completed, error
                )
            self._handle = handle
            if before is not None:
                before.let_go()
        check(status, error, log=self._log_name)
        return True

    def _check_truncated(self, native: Any, document: LogDocument, state: Any) -> None:
        """Where the records that the reader stands before were let go of."""
        first = document.first
        if state.next_sequence_id >= first.sequence_id:
            return  # it has read, or passed over, all of what is gone
        if self._fresh:
            lib.wk_cluster_reader_seek(native, ffi.new("wk_dlsn *", list(first.dlsn)), first.sequence_id)
            return
        kept = document.segment(first.dlsn.segment)
        if self._skips and kept is not None and kept.first_sequence_id <= state.next_sequence_id:
            return  # the ledger has what is gone of the segment still: the reader passes over it, and sees its numbers
        raise self._truncated(document, state)

    def _truncated(self, document: LogDocument, state: Any) -> TruncatedError:
        first, at = tuple(document.first.dlsn), (state.at.segment, state.at.entry_id, state.at.slot)
        text = f"log {self._log_name!r} was truncated up to {first}: the record at {at} was let go"
        return TruncatedError(text, log=self._log_name)


def first_id(document: LogDocument) -> int:
    return document.first.sequence_id


def lib_patience(left: int) -> int:
    """Bookies get time to answer, also where the caller waits for nothing else."""
    return max(left, 10_000_000_000)
