"""ClusterLog: a log whose segments are ledgers on bookies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from walkeeper._log import Log, LogInfo, Segment, found_by, reader_starts_by
from walkeeper._native import ffi, lib
from walkeeper._options import GAPS, LogOptions, choice, durability_of, flag, milliseconds, nanoseconds, natural
from walkeeper._position import DLSN, Position, dlsn_of, sequence_id_of
from walkeeper._reader import Reader
from walkeeper._writer import Writer
from walkeeper.cluster._cursor import ClusterCursor, _of
from walkeeper.cluster._document import LogDocument, StoredSegment, dlsn_behind
from walkeeper.cluster._reader import ClusterReader
from walkeeper.cluster._writer import ClusterWriter
from walkeeper.errors import (
    CursorHoldsError,
    CursorNotFoundError,
    InvalidError,
    LedgerNotFoundError,
    ReadOnlyError,
    TruncatedError,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from walkeeper._options import Durability, Gaps
    from walkeeper.cluster._namespace import ClusterNamespace
    from walkeeper.ledgers._native_handles import NativeHandle

__all__ = ["ClusterLog"]

_WAYS = {"sequence_id": lib.WK_FROM_SEQUENCE_ID, "txid": lib.WK_FROM_TXID, "time": lib.WK_FROM_TIME_MS}


class _End:
    """Where a log ends now: its document, the open segment's LAC, and the last record."""

    __slots__ = ("document", "end_of_stream", "handle", "lac", "last")

    def __init__(self, document: LogDocument) -> None:
        self.document = document
        self.handle: NativeHandle | None = None
        self.lac = -1
        self.last = document.last
        self.end_of_stream = document.end_of_stream


class ClusterLog(Log):
    __slots__ = ("_log_id",)

    _namespace: ClusterNamespace

    def __init__(self, namespace: ClusterNamespace, name: str, log_id: str) -> None:
        self._namespace = namespace
        self._name = name
        self._log_id = log_id

    @property
    def namespace(self) -> ClusterNamespace:
        return self._namespace

    @property
    def options(self) -> LogOptions:
        return self._document().options

    def writer(self, *, durability: Durability = "sync") -> Writer:
        by_default = durability_of(durability)
        self._namespace._check()
        if self._namespace.read_only:
            raise ReadOnlyError(f"{self._namespace.path!r} was opened read-only", log=self._name)
        with _of(self._name):
            calls = ClusterWriter(self._namespace, self, self._log_id)
        return Writer(self, ffi.cast("wk_cluster_writer *", calls.native), by_default, calls)

    def reader(
        self,
        start: Position | DLSN | Literal["start", "end"] = "start",
        *,
        sequence_id: int | None = None,
        txid: int | None = None,
        time: datetime | float | None = None,
        end: Position | DLSN | None = None,
        follow: bool = False,
        timeout: float | None = None,
        gaps: Gaps = "raise",
    ) -> Reader[Any]:
        follows, yields_gaps = flag("follow", follow), choice("gaps", gaps, GAPS) == GAPS["yield"]
        nanoseconds(timeout)
        self._namespace._check()
        options = ffi.new("wk_cluster_reader_options *")
        setattr(options, "from", lib.WK_FROM_START)  # a word of Python
        by = reader_starts_by(start, sequence_id=sequence_id, txid=txid, time=time)
        with _of(self._name):
            fresh = by is None and isinstance(start, str) and start == "start"
            if by is not None:
                self._start_by(*by, options)  # what is behind the end is to be skipped
                found = self.find(sequence_id=sequence_id, txid=txid, time=time)
                at, number = found.dlsn, max(found.sequence_id, sequence_id or 0)
            elif fresh:
                first = self._document().first
                at, number = first.dlsn, first.sequence_id
            elif isinstance(start, str):
                if start != "end":
                    raise InvalidError(f'start={start!r}: a Position, a DLSN, "start" or "end"')
                behind = self.info().next
                at, number = behind.dlsn, behind.sequence_id
            else:
                at, number = dlsn_of(start), sequence_id_of(start)
                self._check_not_truncated(at, number)
                if number < 0:
                    number = self.find(dlsn=at).sequence_id
            options.at, options.next_sequence_id = list(at), number
            options.read_bytes = self._namespace._read_bytes
            if end is not None:
                options.has_end = True
                options.end = list(dlsn_of(end))
            calls = ClusterReader(self._namespace, self._name, self._log_id, options, follows, fresh)
        return Reader(self, calls.native, timeout, yields_gaps, calls)

    def info(self) -> LogInfo:
        with _of(self._name):
            end = self._end()
        document = end.document
        behind = self._behind(end)
        first = document.first
        count = max(0, behind.sequence_id - first.sequence_id)
        if count == 0:
            first = behind
        segments = [one for one in document.segments if not one.completed or one.records_count]
        open_segment = document.open_segment
        if open_segment is not None and behind.sequence_id <= open_segment.first_sequence_id:
            segments = [one for one in segments if one is not open_segment]
        return LogInfo(
            log_id=int(self._log_id, 16),
            options=document.options,
            txid_source=document.txid_source,  # type: ignore[arg-type]
            end_of_stream=end.end_of_stream,
            segments_count=len(segments),
            first=first,
            last=end.last if end.last.sequence_id >= 0 else Position((0, -1, -1, -1, -1)),
            next=behind,
            count=count,
        )

    def find(
        self,
        *,
        sequence_id: int | None = None,
        txid: int | None = None,
        time: datetime | float | None = None,
        dlsn: Position | DLSN | None = None,
    ) -> Position:
        by = found_by(sequence_id=sequence_id, txid=txid, time=time, dlsn=dlsn)
        known: _End | None = None
        options = ffi.new("wk_cluster_reader_options *")
        setattr(options, "from", lib.WK_FROM_START)
        with _of(self._name):
            if dlsn is not None:
                at = dlsn_of(dlsn)
                self._check_not_truncated(at, sequence_id_of(dlsn))
            else:
                at = self._start_by(*by, options)
            options.at = list(at)
            while True:
                options.next_sequence_id = self._document().first.sequence_id
                calls = ClusterReader(self._namespace, self._name, self._log_id, options, False, False)
                if known is not None and known.document.open_segment is not None:
                    calls.knows(known.document.open_segment, known.lac)
                with Reader[Any](self, calls.native, None, False, calls) as reader:
                    for record in reader.read(1):
                        return record.position  # type: ignore[no-any-return]
                end = self._end()
                if known is not None or not self._is_behind(end, at, int(options.value), getattr(options, "from")):
                    return self._behind(end)
                known = end  # a record came since the reader looked, and it may be the one

    def truncate(self, position: Position | DLSN, *, force: bool = False) -> None:
        wanted, forced = dlsn_of(position), flag("force", force)
        self._namespace._check()
        store = self._namespace._store
        if self._namespace.read_only:
            raise ReadOnlyError(f"{self._namespace.path!r} was opened read-only", log=self._name)
        with _of(self._name):
            if wanted <= self._document().first.dlsn:
                return
            first = self.find(dlsn=wanted)
            behind = self._behind(self._end())
            if wanted > behind.dlsn and wanted not in self._places_behind():
                raise InvalidError(f"truncating up to {tuple(wanted)}: the log ends at {tuple(behind.dlsn)}")

            def decide(now: LogDocument) -> LogDocument | None:
                if not forced:
                    for name, at in store.cursors(self._log_id).items():
                        if at.dlsn < first.dlsn and at.sequence_id < first.sequence_id:
                            raise CursorHoldsError(
                                f"cursor {name!r} still needs records from {tuple(at.dlsn)} on; nothing was truncated"
                            )
                changed = now.truncated(first)
                return None if changed is now else changed

            document = store.change(self._log_id, decide)
            self._namespace._delete_leftovers(self._log_id, document)

    def segments(self) -> list[Segment]:
        with _of(self._name):
            while True:
                end = self._end()
                try:
                    found = [self._segment(stored, end) for stored in end.document.segments]
                except LedgerNotFoundError:  # it was truncated, and let go of, since that look
                    continue
                return [segment for segment in found if segment is not None]

    def cursor(self, name: str, *, create: bool = True) -> ClusterCursor:
        if not isinstance(name, str):
            raise TypeError(f"a name is a str, not {shown(name)}")
        if not name or "\0" in name or len(name.encode()) > lib.WK_CURSOR_NAME_MAX:
            raise InvalidError(f"{name!r} is no name of a cursor: 1 to 255 bytes of UTF-8 without NUL")
        cursor, made = self._cursor(name), flag("create", create)
        self._namespace._check()
        while not cursor._exists():
            if not made:
                raise CursorNotFoundError(f"log {self._name!r} has no cursor {name!r}", log=self._name)
            try:
                cursor._set(self.info().first)
            except TruncatedError:
                continue  # its first record was let go just now
            except InvalidError:
                if not cursor._exists():
                    raise
        return cursor

    def cursors(self) -> list[str]:
        self._document()
        return sorted(self._namespace._store.cursors(self._log_id), key=str.encode)

    def _cursor(self, name: str) -> ClusterCursor:
        return ClusterCursor(self, name)

    # ---- looks ----

    def _document(self) -> LogDocument:
        self._namespace._check()
        with _of(self._name):
            return self._namespace._store.read(self._log_id)[0]

    def _end(self) -> _End:
        """One look. A segment that is completed meanwhile is looked at again."""
        ledgers = self._namespace._ledgers
        while True:
            end = _End(self._document())
            segment = end.document.open_segment
            if segment is None:
                return end
            try:
                end.handle = ledgers.reading(segment.ledger_id)
                end.lac = self._namespace._lac(self._log_id, segment, end.handle)
            except LedgerNotFoundError:
                continue
            for entry_id in range(end.lac, max(end.lac - 2, -1), -1):
                summary = ledgers.summary(end.handle, segment, entry_id)
                end.end_of_stream |= summary.end_of_stream
                if summary.records_count:
                    end.last = summary.last
                    break
            return end

    @staticmethod
    def _behind(end: _End) -> Position:
        """The position just behind the last record; its txid is not known."""
        segment = end.document.open_segment
        if end.last.sequence_id < 0:
            number = segment.segment if segment is not None else end.document.next_segment
            return Position((number, 0, 0, 0, -1))
        if segment is not None and end.last.dlsn.segment != segment.segment:
            return Position((segment.segment, 0, 0, end.last.sequence_id + 1, -1))
        behind = dlsn_behind(end.last)
        return Position((behind.segment, behind.entry_id, behind.slot, end.last.sequence_id + 1, -1))

    @staticmethod
    def _is_behind(end: _End, at: DLSN, value: int, way: int) -> bool:
        """Whether the last record is at or behind the place, and has the number that is looked for, or a higher one."""
        last = end.last
        if last.sequence_id < end.document.first.sequence_id or last.dlsn < at:
            return False
        number = last.sequence_id if way == lib.WK_FROM_SEQUENCE_ID else last.txid
        return way == lib.WK_FROM_START or number >= value

    def _places_behind(self) -> set[DLSN]:
        """Where a reader stands that has read all there is: the end of a stream takes an entry, too."""
        end = self._end()
        behind = self._behind(end).dlsn
        places = {DLSN(behind.segment, behind.entry_id + 1, 0), DLSN(behind.segment + 1, 0, 0)}
        segment = end.document.open_segment or (end.document.segments[-1] if end.document.segments else None)
        if segment is not None:
            last = segment.last_entry if segment.completed else end.lac
            places |= {DLSN(segment.segment, last + 1, 0), DLSN(segment.segment + 1, 0, 0)}
        return places

    def _check_not_truncated(self, at: DLSN, known: int) -> None:
        first = self._document().first
        if at < first.dlsn and (known < 0 or known < first.sequence_id):
            raise TruncatedError(f"the record at {tuple(at)} was let go: the log begins at {tuple(first.dlsn)}")

    def _start_by(self, way: str, value: Any, options: Any) -> DLSN:
        """A DLSN from which on a reader finds the first record with at least this number; the reader skips the rest."""
        options.value = wanted = natural(way, milliseconds(value) if way == "time" else value)
        setattr(options, "from", _WAYS[way])
        document = self._document()
        if way == "time" and document.txid_source == "application":
            raise InvalidError("the application numbers the records: there is no finding by time; find by txid")
        if way == "sequence_id" and wanted < document.first.sequence_id:
            raise TruncatedError(
                f"record {wanted} was let go: the log begins at sequence id {document.first.sequence_id}"
            )
        by = _sequence_id if way == "sequence_id" else _txid
        for segment in document.segments:
            if segment.completed and by(segment.last) < wanted:
                continue
            try:
                return max(self._search(segment, by, wanted), document.first.dlsn)
            except LedgerNotFoundError:  # it was truncated, and let go of, since that look
                return self._start_by(way, value, options)
        if document.segments:
            last = document.segments[-1]
            return DLSN(last.segment, last.last_entry + 1, 0)
        return document.first.dlsn

    def _search(self, segment: StoredSegment, by: Callable[[Position], int], wanted: int) -> DLSN:
        """The first entry of the segment whose last record has at least the number; by halves."""
        ledgers = self._namespace._ledgers
        handle = ledgers.reading(segment.ledger_id)
        last = segment.last_entry if segment.completed else self._namespace._lac(self._log_id, segment, handle)
        low, high = 0, last + 1
        while low < high:
            middle = (low + high) // 2
            summary = ledgers.summary(handle, segment, middle)
            if summary.records_count and by(summary.last) < wanted:
                low = middle + 1
            else:
                high = middle
        return DLSN(segment.segment, low, 0)

    def _segment(self, stored: StoredSegment, end: _End) -> Segment | None:
        ledgers = self._namespace._ledgers
        last_entry = stored.last_entry if stored.completed else end.lac
        last = stored.last if stored.completed else end.last
        if last.dlsn.segment != stored.segment or last.sequence_id < stored.first_sequence_id:
            return None
        handle = ledgers.reading(stored.ledger_id) if stored.completed or end.handle is None else end.handle
        first = ledgers.summary(handle, stored, 0).first
        payload = stored.payload_bytes
        count = last.sequence_id - stored.first_sequence_id + 1
        if not stored.completed:
            payload = ledgers.payload(handle, last_entry, count)
        return Segment(
            segment=stored.segment,
            ledger_id=stored.ledger_id,
            first_sequence_id=stored.first_sequence_id,
            first_txid=first.txid,
            last_entry_id=last_entry,
            records_count=count,
            payload_bytes=payload,
            created_ms=stored.created_ms,
            completed=stored.completed,
        )

    def _move_cursor(self, name: str, at: Position) -> None:
        behind = self._behind(self._end())

        places = self._places_behind()

        def check(now: LogDocument) -> None:
            if at.sequence_id > behind.sequence_id or (at.dlsn > behind.dlsn and at.dlsn not in places):
                raise InvalidError(
                    f"moving the cursor {name!r} to {tuple(at.dlsn)}, sequence id {at.sequence_id}: the next record of"
                    f" {self._name} will be {behind.sequence_id}; the position is another log's"
                )
            if at.sequence_id < now.first.sequence_id:
                raise TruncatedError(f"moving the cursor {name!r} to {tuple(at.dlsn)}: the records there were let go")

        self._namespace._store.set_cursor(self._log_id, name, at, check)


def _sequence_id(at: Position) -> int:
    return at.sequence_id


def _txid(at: Position) -> int:
    return at.txid
