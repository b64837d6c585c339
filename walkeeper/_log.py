"""Log: an ordered sequence of records, appended to by one writer and read by many."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

from walkeeper._options import LogOptions
from walkeeper._position import DLSN, Position
from walkeeper.errors import InvalidError, TruncatedError, shown

if TYPE_CHECKING:
    from datetime import datetime

    from walkeeper._cursor import Cursor
    from walkeeper._namespace import Namespace
    from walkeeper._options import Durability, Gaps
    from walkeeper._reader import Reader
    from walkeeper._record import Gap, Record
    from walkeeper._writer import Writer

__all__ = ["Log", "LogInfo", "Segment", "TxidSource"]

TxidSource = Literal["unset", "application", "clock"]


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


class Log(ABC):
    """A handle on one log; made by Namespace.log(). It is bound to the log, not to its name: after a rename it goes on,
    after a delete everything raises LogDeletedError, even where a log of the same name was made again."""

    __slots__ = ("__weakref__", "_name", "_namespace")

    _name: str

    @property
    def name(self) -> str:
        """The name it was opened under."""
        return self._name

    @property
    @abstractmethod
    def namespace(self) -> Namespace:
        """The namespace it is in."""

    @property
    def in_c(self) -> int | None:
        """For adapters in C, which link libwalkeeper: the address of its wk_log, which lives as long as this object.

        None: a cluster's log has none."""
        return None

    @property
    def options(self) -> LogOptions:
        """The options the log was created with."""
        return self.info().options

    @abstractmethod
    def writer(self, *, durability: Durability = "sync") -> Writer:
        """The writer of this log. An earlier one is fenced: its next append raises FencedError.

        What the earlier writer had in flight is durable, and readable, when this returns. `durability` is the default
        of the writer's appends. Raises ReadOnlyError, LogDeletedError, JournalFailedError, InvalidError. Warns
        (ClockJumpWarning) where the clock stands more than an hour behind the last record that it stamped.
        """

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
    @abstractmethod
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

    @abstractmethod
    def info(self) -> LogInfo:
        """What is known of the log now, in one consistent look."""

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

    @abstractmethod
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

    @abstractmethod
    def truncate(self, position: Position | DLSN, *, force: bool = False) -> None:
        """Lets go of every record before `position`; durable when it returns.

        They cannot be read from then on, and their space is given back in the background. A position before the
        truncation point changes nothing. Raises CursorHoldsError where a cursor still needs some of them, unless
        `force`; InvalidError for a position behind the end.
        """

    @abstractmethod
    def segments(self) -> list[Segment]:
        """The log segments that hold records not truncated, oldest first."""

    @abstractmethod
    def cursor(self, name: str, *, create: bool = True) -> Cursor:
        """The durable cursor of that name. Where there is none it is created, at the first record that can be read:
        from then on truncation waits for it. Raises CursorNotFoundError without `create`, and InvalidError for a name
        that is empty, longer than 255 bytes of UTF-8, or holds a NUL.
        """

    @abstractmethod
    def cursors(self) -> list[str]:
        """The names of the log's cursors, in byte order."""

    @abstractmethod
    def _cursor(self, name: str) -> Cursor:
        """A handle on a cursor that need not be there."""

    def __repr__(self) -> str:
        return f"<walkeeper.Log {self._name!r} in {self.namespace.path!r}>"


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
