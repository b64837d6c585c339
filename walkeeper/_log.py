"""Log: an ordered sequence of records, appended to by one writer and read by many."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, overload

from walkeeper._cursor import Cursor
from walkeeper._native import ffi, lib
from walkeeper._options import (
    GAPS,
    Durability,
    Gaps,
    LogOptions,
    choice,
    durability_of,
    flag,
    milliseconds,
    name_of,
    natural,
    stored_log_options,
    uninterrupted,
)
from walkeeper._position import DLSN, Position, dlsn_of, position_of, sequence_id_of
from walkeeper._reader import Reader
from walkeeper._writer import Writer
from walkeeper.errors import (
    CursorHoldsError,
    CursorNotFoundError,
    InvalidError,
    TruncatedError,
    check,
    new_error,
    shown,
)

if TYPE_CHECKING:
    from walkeeper._namespace import Namespace
    from walkeeper._record import Gap, Record

__all__ = ["Log", "LogInfo", "Segment", "TxidSource"]

TxidSource = Literal["unset", "application", "clock"]

_TXID_SOURCES: dict[str, int] = {
    "unset": lib.WK_TXID_UNSET,
    "application": lib.WK_TXID_APPLICATION,
    "clock": lib.WK_TXID_CLOCK,
}
_SEGMENTS_AT_ONCE = 256


@dataclass(frozen=True)
class LogInfo:
    """A log at one moment."""

    log_id: int
    """Never used again, even when the name is."""
    options: LogOptions
    txid_source: TxidSource
    """Who numbers the records; fixed by the first of them."""
    end_of_stream: bool
    """Whether the log was ended for ever."""
    segments_count: int
    """Log segments that hold records not truncated."""
    first: Position
    """The first record not truncated; equal to `next` where there is none."""
    last: Position
    """The last durable record; sequence id -1 where there never was one."""
    next: Position
    """Just behind the last durable record."""
    count: int
    """Records that can be read now."""


@dataclass(frozen=True)
class Segment:
    """A log segment: the span of a log that one ledger holds."""

    segment: int
    """Its sequence number, from 1."""
    ledger_id: int
    first_sequence_id: int
    first_txid: int
    last_entry_id: int
    """-1 where it is empty."""
    records_count: int
    payload_bytes: int
    """Of its durable records; what was compressed before this process opened the log counts as it is stored. An end
    that was lost, and accepted as lost, is not in it."""
    created_ms: int
    """Wall clock, milliseconds since 1970."""
    completed: bool


class Log:
    """A handle on one log; made by Namespace.log(). It is bound to the log, not to its name: after a rename it goes on,
    after a delete everything raises LogDeletedError, even where a log of the same name was made again."""

    __slots__ = ("__weakref__", "_name", "_namespace", "_native")

    def __init__(self, namespace: Namespace, name: str, native: Any) -> None:
        self._namespace = namespace
        self._name = name
        self._native = ffi.gc(native, lib.wk_log_release)

    @property
    def name(self) -> str:
        """The name it was opened under."""
        return self._name

    @property
    def namespace(self) -> Namespace:
        """The namespace it is in."""
        return self._namespace

    @property
    def options(self) -> LogOptions:
        """The options the log was created with."""
        return self.info().options

    def writer(self, *, durability: Durability = "sync") -> Writer:
        """The writer of this log. An earlier one is fenced: its next append raises FencedError.

        What the earlier writer had in flight is durable, and readable, when this returns. `durability` is the default
        of the writer's appends. Raises ReadOnlyError, LogDeletedError, JournalFailedError, InvalidError. Warns
        (ClockJumpWarning) where the clock stands more than an hour behind the last record that it stamped.
        """
        by_default = durability_of(durability)  # before the earlier one is fenced
        out, error = ffi.new("wk_writer **"), new_error()
        status = uninterrupted(lambda _: lib.wk_writer_open(self._native, out, error))
        check(status, error, log=self._name)
        writer = Writer(self, out[0], by_default)
        self._namespace._look_at_the_clock()
        return writer

    @overload
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
        gaps: Literal["raise"] = "raise",
    ) -> Reader[Record]: ...
    @overload
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
        gaps: Gaps,
    ) -> Reader[Record | Gap]: ...
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
    ) -> Reader[Record] | Reader[Record | Gap]:
        """A reader from `start` on, inclusive: its first record is the first one at or after it.

        Or from the first record with at least this sequence id, txid, or time (an aware datetime, or seconds since
        1970; only where the clock numbers the records). By txid or time it begins with the first record that is still
        there: nobody knows the numbers of what was truncated. It stops before `end`, or at the end of the log; with
        `follow` it waits there for more: iteration ends after `timeout` seconds in which nothing came (None: never).
        Where records are lost and the loss was accepted, a reader raises GapError, or yields a Gap with gaps="yield".
        Raises TruncatedError where the start was truncated ("start" never is), InvalidError.
        """
        options = ffi.new("wk_read_options *")
        lib.wk_read_options_init(options)
        options.follow = flag("follow", follow)
        yields_gaps = choice("gaps", gaps, GAPS) == GAPS["yield"]
        number = reader_starts_by(start, sequence_id=sequence_id, txid=txid, time=time)
        if number is not None:
            way, options.value = _way(*number, _FROM)
            setattr(options, "from", way)  # a word of Python
        elif isinstance(start, str):
            if start not in ("start", "end"):
                raise InvalidError(f'start={start!r}: a Position, a DLSN, "start" or "end"')
            setattr(options, "from", lib.WK_FROM_START if start == "start" else lib.WK_FROM_END)
        else:
            setattr(options, "from", lib.WK_FROM_DLSN)
            options.start = dlsn_of(start)
            options.value = sequence_id_of(start)
        if end is not None:
            options.has_end = True
            options.end = dlsn_of(end)
        out, error = ffi.new("wk_reader **"), new_error()
        status = uninterrupted(lambda _: lib.wk_reader_open(self._native, options, out, error))
        check(status, error, log=self._name)
        return Reader(self, out[0], timeout, yields_gaps)

    def info(self) -> LogInfo:
        """What is known of the log now, in one consistent look."""
        native, error = ffi.new("wk_log_info *"), new_error()
        status = uninterrupted(lambda _: lib.wk_log_describe(self._native, native, error))
        check(status, error, log=self._name)
        return LogInfo(
            log_id=native.log_id,
            options=stored_log_options(native.options),
            txid_source=name_of(native.txid_source, _TXID_SOURCES),  # type: ignore[arg-type]
            end_of_stream=native.end_of_stream,
            segments_count=native.segments_count,
            first=position_of(native.first),
            last=position_of(native.last),
            next=position_of(native.next),
            count=native.count,
        )

    def first(self) -> Position | None:
        """The first record that can be read; None where there is none."""
        while True:
            info = self.info()
            if info.count == 0:
                return None
            if info.first.txid >= 0:
                return info.first
            try:  # it was truncated up to its end, and grew since
                return self.find(dlsn=info.first)
            except TruncatedError:  # and was truncated meanwhile
                continue

    def last(self) -> Position | None:
        """The last durable record, truncated or not; None where there never was one."""
        last = self.info().last
        return last if last.sequence_id >= 0 else None

    def count(self) -> int:
        """How many records can be read now."""
        return self.info().count

    def find(
        self,
        *,
        sequence_id: int | None = None,
        txid: int | None = None,
        time: datetime | float | None = None,
        dlsn: Position | DLSN | None = None,
    ) -> Position:
        """The first durable record whose number is at least the one given; past the end, the position just behind the
        last record. Give exactly one.

        Raises TruncatedError where it lies before the truncation point, InvalidError for a time where the application
        numbers the records.
        """
        number = found_by(sequence_id=sequence_id, txid=txid, time=time, dlsn=dlsn)
        place = ffi.NULL
        if dlsn is not None:
            by, value, place = lib.WK_FIND_DLSN, sequence_id_of(dlsn), ffi.new("wk_dlsn *", dlsn_of(dlsn))
        else:
            by, value = _way(*number, _FIND)
        at, error = ffi.new("wk_position *"), new_error()
        status = uninterrupted(lambda _: lib.wk_log_find(self._native, by, value, place, at, error))
        check(status, error, log=self._name)
        return position_of(at)

    def truncate(self, position: Position | DLSN, *, force: bool = False) -> None:
        """Lets go of every record before `position`; durable when it returns.

        They cannot be read from then on, and their space is given back in the background. A position before the
        truncation point changes nothing. Raises CursorHoldsError where a cursor still needs some of them, unless
        `force`; InvalidError for a position behind the end.
        """
        before, forced, error = ffi.new("wk_dlsn *", dlsn_of(position)), flag("force", force), new_error()
        status = uninterrupted(lambda _: lib.wk_log_truncate(self._native, before, forced, error))
        check(status, error, log=self._name, kinds={lib.WK_EXISTS: CursorHoldsError})

    def segments(self) -> list[Segment]:
        """The log segments that hold records not truncated, oldest first."""
        found: list[Segment] = []
        start = 0
        segments, count, error = ffi.new("wk_segment_info[]", _SEGMENTS_AT_ONCE), ffi.new("size_t *"), new_error()
        while True:
            status = lib.wk_log_segments(self._native, start, segments, _SEGMENTS_AT_ONCE, count, error)
            if status == lib.WK_INTERRUPTED:
                continue
            check(status, error, log=self._name)
            for index in range(count[0]):
                native = segments[index]
                found.append(Segment(**{name: getattr(native, name) for name in Segment.__dataclass_fields__}))
            if count[0] < _SEGMENTS_AT_ONCE:
                return found
            start = found[-1].segment + 1

    def cursor(self, name: str, *, create: bool = True) -> Cursor:
        """The durable cursor of that name. Where there is none it is created, at the first record that can be read:
        from then on truncation waits for it. Raises CursorNotFoundError without `create`, and InvalidError for a name
        that is empty, longer than 255 bytes of UTF-8, or holds a NUL.
        """
        cursor = Cursor(self, name)
        made = flag("create", create)
        tried: Position | None = None
        while not cursor._exists():
            if not made:
                raise CursorNotFoundError(f"log {self._name!r} has no cursor {name!r}", log=self._name)
            first = self.info().first
            try:
                cursor._set(first)
                break
            except (InvalidError, TruncatedError):  # another made it and moved it on; or the first record was let go
                if first == tried:
                    raise
                tried = first
        return cursor

    def cursors(self) -> list[str]:
        """The names of the log's cursors, in byte order."""
        names, size, count, error = (
            ffi.new("char **"),
            ffi.new("size_t *"),
            ffi.new("uint64_t *"),
            new_error(),
        )
        status = uninterrupted(lambda _: lib.wk_cursor_names(self._native, names, size, count, error))
        check(status, error, log=self._name)
        return names_of(names[0], size[0])

    def __repr__(self) -> str:
        return f"<walkeeper.Log {self._name!r} in {self._namespace.path!r}>"


_FROM: dict[str, int] = {
    "sequence_id": lib.WK_FROM_SEQUENCE_ID,
    "txid": lib.WK_FROM_TXID,
    "time": lib.WK_FROM_TIME_MS,
}
_FIND: dict[str, int] = {
    "sequence_id": lib.WK_FIND_SEQUENCE_ID,
    "txid": lib.WK_FIND_TXID,
    "time": lib.WK_FIND_TIME_MS,
}


def reader_starts_by(start: object, **ways: Any) -> tuple[str, Any] | None:
    """The number that a reader starts by, behind its name; None: `start` says where. InvalidError: there is more than
    one way."""
    given = [(name, value) for name, value in ways.items() if value is not None]
    if len(given) > 1 or (given and start != "start"):
        names = " and ".join(name for name, _ in given)
        raise InvalidError(f"a reader starts in one way, not by {names} and start={shown(start)}")
    return given[0] if given else None


def found_by(**ways: Any) -> tuple[str, Any]:
    """The one number that find() was given, behind its name. InvalidError."""
    given = [(name, value) for name, value in ways.items() if value is not None]
    if len(given) != 1:
        raise InvalidError(f"find wants exactly one of {', '.join(ways)}; {len(given)} were given")
    return given[0]


def _way(name: str, value: Any, ways: dict[str, int]) -> tuple[int, int]:
    return ways[name], natural(name, milliseconds(value) if name == "time" else value)


def names_of(names: Any, size: int) -> list[str]:
    """The names in a list that C made (each followed by a NUL byte), which is freed."""
    try:
        text = bytes(ffi.buffer(names, size)) if size else b""
    finally:
        lib.wk_free(names)
    return [name.decode("utf-8") for name in text.split(b"\0")[:-1]]
