"""ClusterWriter: takes a log over, and what a Writer of it calls: C's calls, and the segments that they need.

Fencing (docs/adr/0027): the number `writer` of the log's document is raised first. Then whatever segment is open is
recovered, which fences its ledger, and completed. Only then a segment of our own begins. Each of these changes is
refused where the number is not ours any more.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
import weakref
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from walkeeper._calls import WriterCalls
from walkeeper._completions import Completions, failure_of
from walkeeper._native import ffi, lib
from walkeeper._options import FOREVER, uninterrupted
from walkeeper._position import position_of
from walkeeper.cluster._document import LogDocument, StoredSegment
from walkeeper.errors import (
    ClosedError,
    DamagedError,
    Error,
    ExistsError,
    FencedError,
    ForkedError,
    LedgerNotFoundError,
    LogDeletedError,
    check,
    new_error,
)
from walkeeper.ledgers._native_handles import in_this_process

if TYPE_CHECKING:
    from walkeeper._log import Log
    from walkeeper._position import Position
    from walkeeper.cluster._log import ClusterLog
    from walkeeper.cluster._namespace import ClusterNamespace
    from walkeeper.ledgers._ensemble_change import WatchedWriter
    from walkeeper.ledgers._native_handles import NativeHandle

__all__ = ["WRITERS", "ClusterWriter", "take_over"]

TAKE_OVERS_MAX = 50
RESOLVE_SECONDS = 5.0
"""A fenced writer waits so long for the one that took over to complete its segment, to know what became of a record."""

WRITERS: weakref.WeakValueDictionary[str, ClusterWriter] = weakref.WeakValueDictionary()
"""The last writer of each log in this process, by the log's id: whatever namespace it is of, its records are seen at
once by readers in this process."""

_SOURCES = {"unset": lib.WK_TXID_UNSET, "application": lib.WK_TXID_APPLICATION, "clock": lib.WK_TXID_CLOCK}
_CODECS = {"none": lib.WK_CODEC_NONE, "lz4": lib.WK_CODEC_LZ4, "zstd": lib.WK_CODEC_ZSTD}


def take_over(namespace: ClusterNamespace, log_id: str) -> tuple[LogDocument, int]:
    """The document, whose segments are all completed, and our number. No earlier writer can begin a segment any more,
    nor is any append of one acknowledged from now on."""
    owner = f"process {os.getpid()} on {socket.gethostname()}, since {time.strftime('%Y-%m-%d %H:%M:%S %z')}"
    store = namespace._store
    document = store.change(log_id, lambda now: replace(now, writer=now.writer + 1, owner=owner))
    mine = document.writer
    document = settled(namespace, log_id, document, mine)
    namespace._delete_leftovers(log_id, document)
    return document, mine


def settled(namespace: ClusterNamespace, log_id: str, document: LogDocument, mine: int) -> LogDocument:
    """The document once nothing in it is intended or open: what another writer left, or a try of this one that failed.
    FencedError."""
    store, ledgers = namespace._store, namespace._ledgers
    while True:
        if document.writer != mine:
            raise fenced(document)
        if document.intent is not None:  # an older writer was about to make it, and may just now
            ledgers.delete(document.intent)
            document = store.change(log_id, _without_intent(mine, document.intent))
            continue
        segment = next((one for one in document.segments if not one.completed), None)
        if segment is None:
            return document
        try:
            completed, ends = ledgers.recovered(segment)
        except LedgerNotFoundError as missing:
            document = _without_ledger(store.read(log_id)[0], mine, segment, missing)
            continue
        document = store.change(log_id, _completing(mine, completed, ends))


def _without_ledger(now: LogDocument, mine: int, segment: StoredSegment, missing: LedgerNotFoundError) -> LogDocument:
    """The document, where a newer writer has let the segment go. Else its records are lost: DamagedError, and nothing
    is written. FencedError."""
    if now.writer != mine:
        raise fenced(now)
    stored = now.segment(segment.segment)
    if stored is not None and not stored.completed:
        raise DamagedError(
            f"ledger {segment.ledger_id}, segment {segment.segment} of log {now.name!r}, was deleted by somebody: its"
            f" records, from {segment.first_sequence_id} on, are lost",
            log=now.name,
            ledger_id=segment.ledger_id,
            sequence_id=segment.first_sequence_id,
            hint="delete the log, or restore the ledger's metadata",
        ) from missing
    return now


def fenced(document: LogDocument) -> FencedError:
    return FencedError(
        f"another writer took log {document.name!r} over: {document.owner}", log=document.name, outcome="not_written"
    )


def _without_intent(mine: int, intent: int) -> Any:
    def decide(now: LogDocument) -> LogDocument | None:
        if now.writer != mine:
            raise fenced(now)
        return replace(now, intent=None) if now.intent == intent else None

    return decide


def _completing(mine: int, segment: StoredSegment, ends: bool) -> Any:
    def decide(now: LogDocument) -> LogDocument | None:
        if now.writer != mine:
            raise fenced(now)
        stored = now.segment(segment.segment)
        return None if stored is None or stored.completed else now.completing(segment, ends)

    return decide


class ClusterWriter(WriterCalls):
    """The calls of one writer. `native` is its wk_cluster_writer."""

    def __init__(self, namespace: ClusterNamespace, log: ClusterLog, log_id: str) -> None:
        self._log_name = log.name
        self._log = weakref.ref(log)
        self._namespace, self._log_id = namespace, log_id
        self._number = 0
        self._lock = threading.RLock()
        """One thread at a time ends and begins segments."""
        self._handle: NativeHandle | None = None
        self._watched: WatchedWriter | None = None
        self._segment: StoredSegment | None = None
        self._closed = True
        self._ends = False
        """Whether the end of the stream is in the open segment."""
        self._pid = os.getpid()
        self._completing: list[Completions] = []
        for tries in range(TAKE_OVERS_MAX):
            try:
                self._open(log)
                break
            except FencedError:  # another one came between: who is last has it
                if tries == TAKE_OVERS_MAX - 1:
                    raise
                time.sleep(random.uniform(0, 0.01 * (tries + 1)))
        namespace._writers[log_id] = self
        WRITERS[log_id] = self

    def _open(self, log: ClusterLog) -> None:
        """Takes the log over, and begins a segment. FencedError: another writer took it over meanwhile."""
        namespace, log_id = self._namespace, self._log_id
        document, self._number = take_over(namespace, log_id)
        options = ffi.new("wk_cluster_writer_options *")
        name = ffi.new("char[]", log.name.encode())
        options.log = name
        options.segment_bytes = document.options.segment_bytes
        options.segment_seconds = document.options.segment_seconds
        options.codec = _CODECS[document.options.codec]
        options.txid_source = _SOURCES[document.txid_source]
        options.end_of_stream = document.end_of_stream
        last = document.last
        options.last = [list(last.dlsn), last.sequence_id, last.txid]
        out, error = ffi.new("wk_cluster_writer **"), new_error()
        check(lib.wk_cluster_writer_open(options, out, error), error)
        self.native: Any = ffi.gc(out[0], in_this_process(lib.wk_cluster_writer_close))
        """Freed with this object, which the Writer keeps: also behind its close() the namespace may ask for it."""
        self._closed = False
        if not document.end_of_stream:
            try:
                self._begin_segment()
            except BaseException:
                self._closed = True
                raise

    # ---- calls ----

    @staticmethod
    def release(native: Any) -> None:
        """It is this object's."""

    def _check_process(self) -> None:
        """ForkedError in a child: C has no thread there, and would wait for it."""
        if self._pid != os.getpid():
            text = f"this writer of log {self._log_name!r} belongs to the parent process"
            raise ForkedError(text, log=self._log_name, outcome="not_written")

    def append(self, native: Any, data: Any, size: int, options: Any, at: Any, error: Any) -> int:
        self._check_process()
        while True:
            status = int(lib.wk_cluster_writer_append(native, data, size, options, at, error))
            if status != lib.WK_NEEDS_SEGMENT:
                return self._explained(status, error)
            self.next_segment(error.txid)

    def submit(self, native: Any, data: Any, size: int, options: Any, at: Any, ticket: Any, error: Any) -> int:
        self._check_process()
        while True:
            status = int(lib.wk_cluster_writer_submit(native, data, size, options, at, ticket, error))
            if status != lib.WK_NEEDS_SEGMENT:
                return self._explained(status, error)
            self.next_segment(error.txid)

    def append_many(
        self,
        native: Any,
        data: Any,
        sizes: Any,
        count: int,
        txids: Any,
        options: Any,
        wait: bool,
        first: Any,
        last: Any,
        ticket: Any,
        error: Any,
    ) -> int:
        """Goes on with the rest in the next segment where C accepted a part."""
        self._check_process()
        many, done, offset = lib.wk_cluster_writer_append_many, 0, 0
        start = ffi.from_buffer(data) if isinstance(data, bytes) else data
        begin = ffi.new("wk_position *")
        while True:
            rest = txids + done if txids else txids
            status = int(
                many(
                    native, start + offset, sizes + done, count - done, rest, options, wait, first, last, ticket, error
                )
            )
            if ticket[0] and done == 0:
                begin[0] = first[0]
            if status != lib.WK_NEEDS_SEGMENT:
                if done:
                    first[0] = begin[0]
                return self._explained(status, error)
            if ticket[0]:
                accepted = int(last.sequence_id - first.sequence_id) + 1
                offset += sum(sizes[index] for index in range(done, done + accepted))
                done += accepted
                options.expected = -1
            try:
                self.next_segment(error.txid)
            except Error as stop:
                if done:  # a part was accepted
                    stop.outcome = "unknown"
                    stop.sequence_id = int(begin.sequence_id)
                    stop.durable_count = 0
                raise

    def flush(self, native: Any, timeout_ns: int, at: Any, error: Any) -> int:
        self._check_process()
        status = int(lib.wk_cluster_writer_flush(native, timeout_ns, at, error))
        if status == lib.WK_FENCED and at == ffi.NULL and self._ends_before(-1):
            return int(lib.WK_OK)  # closing: nothing is of unknown outcome, and whoever appended was told
        return self._explained(status, error)

    @property
    def in_c(self) -> ClusterWriter:  # type: ignore[override]
        return self

    @property
    def address(self) -> int:
        return int(ffi.cast("uintptr_t", self.native))

    def explain(self, status: int, error: int) -> int:
        return self._explained(status, ffi.cast("wk_error *", error))

    def next(self, native: Any, at: Any) -> None:
        lib.wk_cluster_writer_next(native, at)

    def end_of_stream(self, native: Any, error: Any) -> int:
        self._check_process()
        while True:
            status = int(lib.wk_cluster_writer_end_of_stream(native, error))
            if status == lib.WK_NEEDS_SEGMENT:
                self.next_segment(error.txid)
                continue
            if status == lib.WK_OK:
                self._ends = True
                self._namespace._store.change(self._log_id, self._ending)
            return self._explained(status, error)

    def find(self, log: Log, sequence_id: int, at: Any, error: Any) -> int:
        found = log.find(sequence_id=sequence_id)
        at[0] = [list(found.dlsn), found.sequence_id, found.txid]
        return int(lib.WK_OK)

    def watch(self, log: Log, ticket: int, at: Position, deferred: bool) -> Future[Position]:
        return self._completions.watch(ticket, at, log.name, False)

    @property
    def _completions(self) -> Completions:
        with self._lock:
            if not self._completing:
                self._completing.append(
                    Completions(
                        self,  # type: ignore[arg-type]
                        lib.wk_cluster_writer_wait,
                        lib.wk_cluster_writer_durable,
                        self._failure_of,
                    )
                )
            return self._completing[0]

    # As a Handle, for Completions: `with self as native`.

    all_durable = False

    def __enter__(self) -> Any:
        if self._closed:
            raise ClosedError(f"the writer of log {self._log_name!r} was closed")
        return self.native

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def lac(self) -> tuple[int, int]:
        """The ledger of the open segment, and the last entry that is confirmed there; -1, -1: none is open."""
        handle = self._handle
        if handle is None or self._closed:
            return -1, -1
        try:
            return handle.ledger_id, handle.state().lac
        except Error:
            return -1, -1

    def handle_of(self, ledger_id: int) -> NativeHandle | None:
        """Of the open segment, where that is its ledger: whoever follows it in this process waits on it."""
        handle = self._handle
        return handle if handle is not None and handle.ledger_id == ledger_id and not self._closed else None

    def try_submit(self, native: Any, data: Any, size: int, options: Any, at: Any, ticket: Any, error: Any) -> int:
        self._check_process()
        status = int(lib.wk_cluster_writer_submit(native, data, size, options, at, ticket, error))
        if status == lib.WK_NEEDS_SEGMENT:  # which takes its time
            return int(lib.WK_WOULD_BLOCK)
        return self._explained(status, error)

    # ---- segments ----

    def _explained(self, status: int, error: Any) -> int:
        """The status, and in `error` what only the control plane knows."""
        if status == lib.WK_MISMATCH and error.sequence_id >= 0:
            self._name_the_record(error)
        if status != lib.WK_FENCED:
            return status
        try:
            self._namespace._store.read(self._log_id)
        except LogDeletedError:  # that is why it was fenced
            error.text = ffi.string(error.text).replace(b"another writer took over", b"the log was deleted")
            return int(lib.WK_DELETED)
        except Error:
            return status
        if error.outcome_unknown and error.sequence_id >= 0 and self._ends_before(error.sequence_id):
            error.outcome_unknown = False
            error.text = ffi.string(error.text).replace(b"may or may not be written", b"is not written")
        return status

    def _failure_of(self, status: int, error: Any, at: Position, log: str) -> Error:
        """Why a record that was accepted failed, and what became of it, as for an append."""
        error.sequence_id, error.outcome_unknown = at.sequence_id, True
        made = failure_of(self._explained(status, error), error, at, log)
        if not error.outcome_unknown:
            made.outcome = "not_written"
        return made

    def _name_the_record(self, error: Any) -> None:
        """The txid of the durable record at the expected id, which may be an earlier try of the caller's."""
        try:
            log = self._log()
            found = log.find(sequence_id=error.sequence_id) if log is not None else None
        except Error:
            return
        if found is not None and found.sequence_id == error.sequence_id:
            error.txid = found.txid

    def _ends_before(self, sequence_id: int) -> bool:
        """Whether the writer that took over has completed our segment before this record: it is definitely not written.
        -1: before any record that is not confirmed."""
        segment, deadline = self._segment, time.monotonic() + RESOLVE_SECONDS
        if segment is None:
            return False
        while True:
            try:
                document, _ = self._namespace._store.read(self._log_id)
            except Error:
                return False
            stored = document.segment(segment.segment)
            if stored is None:
                return sequence_id >= segment.first_sequence_id or sequence_id < 0
            if stored.completed:
                if sequence_id >= 0:
                    return stored.last.sequence_id < sequence_id
                handle = self._handle
                return handle is not None and handle.state().lac >= stored.last.dlsn.entry_id
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)

    def _mine(self, now: LogDocument) -> None:
        if now.writer != self._number:
            raise fenced(now)

    def _ending(self, now: LogDocument) -> LogDocument | None:
        self._mine(now)
        return None if now.end_of_stream else replace(now, end_of_stream=True)

    def next_segment(self, txid: int) -> None:
        """Whatever C needs before it takes another record. Raises with outcome "not_written" where it cannot be had."""
        with self._lock:
            if self._closed:
                raise ClosedError(f"this writer of log {self._log_name!r} was closed", outcome="not_written")
            try:
                self._serve_locked(txid)
            except Error as error:
                error.outcome = error.outcome or "not_written"
                raise

    def _serve_locked(self, txid: int) -> None:
        number, due = ffi.new("int64_t *"), ffi.new("bool *")
        lib.wk_cluster_writer_segment(self.native, number, due)
        if number[0] and due[0]:
            self._end_segment(FOREVER)
            number[0] = 0
        if not number[0]:
            self._begin_segment()
        document, _ = self._namespace._store.read(self._log_id)
        self._mine(document)
        if document.txid_source == "unset":
            source = "clock" if txid == -1 else "application"

            def decide(now: LogDocument) -> LogDocument | None:
                self._mine(now)
                return replace(now, txid_source=source) if now.txid_source == "unset" else None

            document = self._namespace._store.change(self._log_id, decide)
        lib.wk_cluster_writer_set_source(self.native, _SOURCES[document.txid_source])

    def _begin_segment(self) -> None:
        namespace = self._namespace
        store, ledgers = namespace._store, namespace._ledgers
        # The metadata store may have failed while the last segment ended, or while this one was begun before.
        settled(namespace, self._log_id, store.read(self._log_id)[0], self._number)
        while True:
            ledger_id = ledgers.next_id()

            def intend(now: LogDocument, ledger_id: int = ledger_id) -> LogDocument | None:
                self._mine(now)
                return replace(now, intent=ledger_id)

            document = store.change(self._log_id, intend)
            try:
                handle, watched = ledgers.create(ledger_id, self._log_id, document.next_segment)
                break
            except ExistsError:
                continue  # somebody chose this id by himself
        segment = StoredSegment(
            document.next_segment, ledger_id, document.last.sequence_id + 1, time.time_ns() // 1_000_000
        )

        def begin(now: LogDocument) -> LogDocument | None:
            self._mine(now)
            if now.segment(segment.segment) is not None:
                return None
            return now.with_segment(segment)

        try:
            store.change(self._log_id, begin)
        except (FencedError, LogDeletedError):  # whoever took over deleted the intent before the ledger was made
            ledgers.delete(ledger_id)
            handle.let_go()
            raise
        self._handle, self._watched, self._segment = handle, watched, segment
        error = new_error()
        with handle as native:
            check(lib.wk_cluster_writer_begin_segment(self.native, native, segment.segment, error), error)

    def _end_segment(self, timeout_ns: int) -> bool:
        """The open segment, if there is one, is completed. Whether everything that was accepted is confirmed."""
        end, error = ffi.new("wk_segment_end *"), new_error()
        status = uninterrupted(
            lambda left: lib.wk_cluster_writer_end_segment(self.native, left or 1, end, error), timeout_ns
        )
        if status == lib.WK_NOT_FOUND:
            return True
        check(status, error, log=self._log_name)
        segment, watched = self._segment, self._watched
        assert segment is not None
        assert watched is not None
        with watched.lock:
            self._namespace._ledgers.close(segment.ledger_id, int(end.last_entry), int(end.length))
        completed = StoredSegment(
            segment.segment,
            segment.ledger_id,
            segment.first_sequence_id,
            segment.created_ms,
            True,
            int(end.last_entry),
            position_of(end.last),
            int(end.records_count),
            int(end.payload_bytes),
        )
        document = self._namespace._store.change(self._log_id, _completing(self._number, completed, self._ends))
        self._segment = self._watched = None
        if self._handle is not None:
            self._handle.let_go()
        self._handle = None
        self._namespace._retain(self._log_id, document)
        return bool(end.whole)

    def finish(self, timeout_ns: int) -> None:
        """What Writer.close does, where nobody called it."""
        error = new_error()
        uninterrupted(lambda left: self.flush(self.native, left or 1, ffi.NULL, error), timeout_ns)
        self.close(timeout_ns)

    def close(self, timeout_ns: int) -> None:
        """Behind the last flush: the open segment is completed. One that another writer took over is its."""
        with self._lock:
            if self._closed:
                return
            try:
                self._end_segment(timeout_ns)
            except (FencedError, LogDeletedError, LedgerNotFoundError):
                pass  # another writer completes it, or has let it go
            finally:
                for completions in self._completing:
                    completions.stop(timeout_ns)
                self._closed = True
                for completions in self._completing:
                    completions.abandon(False)
                for writers in (self._namespace._writers, WRITERS):
                    if writers.get(self._log_id) is self:
                        del writers[self._log_id]
