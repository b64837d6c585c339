"""Reader: the records of a log in order, as they become durable."""

from __future__ import annotations

import operator
import time
from collections.abc import Iterator
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic

from walkeeper._calls import DIRECTORY_READER, ReaderCalls
from walkeeper._native import ffi, lib
from walkeeper._options import FOREVER, nanoseconds, natural, time_left
from walkeeper._position import DLSN
from walkeeper._record import Gap, Record, new_batch, records_of
from walkeeper.errors import ClosedError, Error, GapError, InvalidError, fail, new_error

if TYPE_CHECKING:
    import pyarrow
    from typing_extensions import Self, TypeVar

    from walkeeper._log import Log

    Item_co = TypeVar("Item_co", bound="Record | Gap", default=Record, covariant=True)
    """What a reader yields: Record, or with gaps="yield" Record | Gap."""
else:
    from typing import TypeVar

    Item_co = TypeVar("Item_co", covariant=True)  # typing's has no default yet

__all__ = ["Item_co", "Reader"]

FETCH_RECORDS = 16384
FETCH_BYTES = 1024 * 1024
_WAIT_NS = 500_000_000
"""How long a following reader stays in C at most; one that another thread closes ends within that."""


class _Stage:
    """What was fetched, what of it is not yet yielded, and where C puts the next batch, which the stage then owns.

    One object, so that one assignment moves a reader on: an exception from a signal handler finds it before or after.
    """

    __slots__ = ("fetched", "out", "records")

    def __init__(self, fetched: list[Record | Gap]) -> None:
        self.fetched = fetched
        self.records: Iterator[Any] = iter(fetched)
        self.out = new_batch()


class Reader(Generic[Item_co]):
    """Yields the records of a log, oldest first, each once. It never skips.

    Where the loss of records was accepted (on_damage= at an open) it raises GapError, which carries the Gap: once for
    each gap. The next read goes on behind it, and so does a new `for` loop over the reader. A reader that was opened
    with gaps="yield", a Reader[Record | Gap], yields the Gap in its place instead.

    Iteration ends at the end of the log. With follow=True it waits there for more, and ends at the end of the stream,
    at `end`, or after `timeout` seconds without a new record; iterate again to go on. `ended` tells the first two from
    the last. Records are readable as soon as they are durable, and not before.

    Records that you keep hold their memory (see Record). What all of them hold is limited by the `read_bytes` that the
    namespace was opened with: at that limit reading raises LimitError, at once, as nobody but you can let go; the
    reader stands where it stood. A loop that keeps no more than the batch it is at is never refused where it is the
    only one. Several hold a batch each, and who reads on takes the next beside it: 10 MiB of `read_bytes` for each are
    enough, unless their records lie far apart between those of other logs. Then a batch may be half of `read_bytes`,
    and read() with a small `max_records` takes less.

    Iterating and reading may be mixed: what was fetched and not yet yielded comes first. An iterator that raised an
    error may be asked again, as read() may: it goes on where the reader stands. A reader is used by one thread at a
    time (close may come from any). A context manager: leaving it closes the reader.
    """

    __slots__ = ("_calls", "_ended", "_log", "_native", "_stage", "_timeout_ns", "_yields_gaps")

    def __init__(
        self,
        log: Log,
        native: Any,
        timeout: float | None,
        yields_gaps: bool = False,
        calls: ReaderCalls = DIRECTORY_READER,
    ) -> None:
        self._log = log
        self._calls = calls
        self._yields_gaps = yields_gaps
        # Closing drops this reference; C's reader is freed when the call that may be inside has returned.
        self._native: Any = ffi.gc(native, calls.release)
        self._timeout_ns = nanoseconds(timeout)
        self._stage = _Stage([])
        self._ended = False

    @property
    def log(self) -> Log:
        """The log it reads."""
        return self._log

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._native is None

    @property
    def ended(self) -> bool:
        """Whether the last answer was "nothing more": the end of the log, of the stream, or the `end` asked for."""
        return self._ended and not self._holds()

    @property
    def position(self) -> DLSN:
        """Where the reader stands: a reader started here yields what this one would yield next.

        Behind the last record of a segment that is not to be told once the log was truncated up to the next one: a
        reader started here raises TruncatedError then, as records may have stood between. `next` of the last record
        knows better, as it has a sequence id.
        """
        stage = self._stage
        left = operator.length_hint(stage.records)
        if left:
            return stage.fetched[-left].dlsn
        if stage.out[0] != ffi.NULL:  # a gap, or of a read_arrow() that was cut short: the next one begins with it
            first = lib.wk_batch_records(stage.out[0], ffi.new("size_t *"))[0].at.dlsn
            return DLSN(first.segment, first.entry_id, first.slot)
        at = ffi.new("wk_dlsn *")
        self._calls.position(self._open(), at)
        return DLSN(at.segment, at.entry_id, at.slot)

    def __iter__(self) -> Iterator[Item_co]:
        batches = self._batches()
        next(batches)
        return chain.from_iterable(batches)

    def __next__(self) -> Item_co:
        record: Item_co
        for record in self._stage.records:
            return record
        if not self._fetch(FETCH_RECORDS, FETCH_BYTES, self._timeout_ns):
            raise StopIteration
        for record in self._stage.records:
            return record
        self._raise_gap()
        raise self._closed_error()  # just now

    def read(
        self, max_records: int | None = None, max_bytes: int | None = None, timeout: float | None = None
    ) -> list[Item_co]:
        """The next records: at least one, at most `max_records`, about `max_bytes` of payload (one may be larger).

        Empty where there is nothing more, and, following, where nothing came in `timeout` seconds (None: those of the
        reader); `ended` tells. Raises TruncatedError where the records it stands before were truncated, DamagedError,
        LogDeletedError, ClosedError. It may be asked again after any of them. GapError is raised where the reader
        stands before a gap, which it has passed then; the records before the gap are the answer of the call before.
        """
        records_max = _limit("max_records", max_records, FETCH_RECORDS)
        bytes_max = _limit("max_bytes", max_bytes, FETCH_BYTES)
        timeout_ns = self._timeout_ns if timeout is None else nanoseconds(timeout)
        if not self._left() and not self._fetch(records_max, bytes_max, timeout_ns):
            return []
        stage = self._stage
        first = len(stage.fetched) - operator.length_hint(stage.records)
        taken: list[Any] = stage.fetched[first : first + records_max]
        if max_bytes is not None:
            del taken[_count_within(taken, bytes_max) :]
        if not taken:
            self._raise_gap()
            raise self._closed_error()  # just now
        # A signal handler that raises here leaves the reader where it stood: what it had taken nobody would get.
        try:
            stage.records.__setstate__(first + len(taken))  # type: ignore[attr-defined]  # a list's has it
            return taken
        except BaseException:
            stage.records.__setstate__(first)  # type: ignore[attr-defined]
            raise

    def read_arrow(
        self, max_records: int | None = None, max_bytes: int | None = None, timeout: float | None = None
    ) -> pyarrow.RecordBatch | None:
        """The next records as a pyarrow.RecordBatch, made in C; None where read() would answer an empty list.

        Columns: segment, entry_id, slot, sequence_id, txid (int64) and payload (large_binary). Needs pyarrow (the extra
        walkeeper[arrow]). InvalidError where records were fetched and not yet yielded, by iterating or reading: take
        them with read() first. Behind a call that a signal handler cut short, the next one gives the batch that had
        come for it, whole: that may be larger than `max_records` and `max_bytes`.

        A RecordBatch has no place for a gap: a batch ends before one, and the next call raises GapError, also with
        gaps="yield"; the call after that goes on behind it.
        """
        pyarrow = _pyarrow()
        out = self._arrive(max_records, max_bytes, timeout)
        if out is None:
            return None
        if _is_gap(out[0]):
            self._raise_gap()
        schema = ffi.gc(ffi.new("uint64_t[9]"), _release_schema)  # struct ArrowSchema
        array = ffi.gc(ffi.new("uint64_t[10]"), _release_array)  # struct ArrowArray
        status = lib.wk_batch_to_arrow(out[0], schema, array)
        if status != 0:
            fail(status, new_error(), log=self._log.name)
        pointers = (int(ffi.cast("uintptr_t", array)), int(ffi.cast("uintptr_t", schema)))
        made = pyarrow.RecordBatch._import_from_c(*pointers)
        self._stage = _Stage([])
        return made

    def close(self) -> None:
        """Closes the reader; records and payloads that it gave out stay valid. Closing twice is fine.

        What was fetched and not yet yielded is let go: who iterates or reads on gets ClosedError.
        """
        self._native = None
        stage, self._stage = self._stage, _Stage([])
        for _ in stage.records:  # an iterator that somebody has ends here, and asks for more
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        where = "closed" if self.closed else f"at {tuple(self.position)}"
        return f"<walkeeper.Reader of log {self._log.name!r}, {where}>"

    def _batches(self) -> Iterator[Iterator[Any]]:
        """What an iterator yields. Raising here would be the end of it: what is yielded instead raises in there.

        A signal handler runs where a generator goes on, so each `yield` stands in the `try`, and the first, which
        yields nothing, is asked for before anybody has the iterator.
        """
        records: Iterator[Any] = iter(())
        while True:
            try:
                while True:
                    yield records
                    if not self._left() and not self._fetch(FETCH_RECORDS, FETCH_BYTES, self._timeout_ns):
                        return  # next() or read() may have left something
                    stage = self._stage
                    records = stage.records if stage.out[0] == ffi.NULL else self._raising_gap()
            except GeneratorExit:  # noqa: PERF203  a round is an error
                raise
            except BaseException as error:
                records = _raising(error)

    def _raising_gap(self) -> Iterator[Any]:
        """What an iterator yields where the reader stands before a gap: nothing, and the GapError."""
        yield from ()
        self._raise_gap()

    def _raise_gap(self) -> None:
        """Raises GapError where a gap has come, and moves the reader behind it; returns where there is none.

        Both or neither: a signal handler that raises here leaves the reader before the gap, and the next call tells.
        """
        stage = self._stage
        if stage.out[0] == ffi.NULL:
            return
        gap = records_of(stage.out)[0]
        assert isinstance(gap, Gap)
        first, last = gap.sequence_id, gap.next.sequence_id - 1
        lost = f"record {first} is" if first == last else f"records {first} to {last} are"
        text = f"reading log {self._log.name!r}: {lost} lost; an open with on_damage= accepted the loss"
        error = GapError(text, log=self._log.name, entry_id=gap.dlsn.entry_id, sequence_id=gap.sequence_id)
        error.gap = gap
        behind = _Stage([])
        try:
            self._stage = behind
            raise error
        except BaseException as stop:
            if stop is not error:
                self._stage = stage
            raise

    def _left(self) -> int:
        return operator.length_hint(self._stage.records)

    def _holds(self) -> bool:
        """Whether there is something to yield already."""
        stage = self._stage
        return operator.length_hint(stage.records) > 0 or stage.out[0] != ffi.NULL

    def _arrive(self, max_records: int | None, max_bytes: int | None, timeout: float | None) -> Any:
        """The next batch, of records alone or a gap alone, as C gave it: the stage keeps it. None: there is none."""
        records_max = _limit("max_records", max_records, FETCH_RECORDS)
        bytes_max = _limit("max_bytes", max_bytes, FETCH_BYTES)
        timeout_ns = self._timeout_ns if timeout is None else nanoseconds(timeout)
        out = self._stage.out
        if out[0] != ffi.NULL and not _is_arrow(out[0]) and not _is_gap(out[0]):
            self._take(out)
        if left := self._left():
            text = f"{left} records were fetched and not yet yielded: take them with read() first"
            raise InvalidError(text, log=self._log.name)
        # As in _fetch. It is here until the caller has the Arrow batch: nothing can raise behind the last assignment.
        arrived = out[0] != ffi.NULL or self._wait(
            lambda native, left, error: self._calls.next_apart(native, records_max, bytes_max, left, out, error),
            timeout_ns,
        )
        return out if arrived else None

    def _fetch(self, max_records: int, max_bytes: int, timeout_ns: int) -> bool:
        """Gets the next batch; False where there is none. A gap that is to be raised stays in the stage's `out`."""
        next_batch = self._calls.next if self._yields_gaps else self._calls.next_apart
        out = self._stage.out  # this one: close() puts another stage there
        # A signal handler may have raised just after the last batch arrived: then it is still here.
        if out[0] == ffi.NULL and not self._wait(
            lambda native, left, error: next_batch(native, max_records, max_bytes, left, out, error),
            timeout_ns,
        ):
            return False
        self._take(out)
        return True

    def _take(self, out: Any) -> None:
        """The batch that has come, as records to yield."""
        if not self._yields_gaps and _is_gap(out[0]):
            return
        self._stage = _Stage(records_of(out))
        if self._native is None:  # another thread, or a signal handler, closed the reader meanwhile
            self._stage = _Stage([])
            raise self._closed_error()

    def _wait(self, call: Any, timeout_ns: int) -> bool:
        """Calls until there is an answer or the time is over. The handle is asked for each time: another thread may
        close the reader."""
        started = time.monotonic_ns() if timeout_ns not in (0, FOREVER) else 0
        left = timeout_ns
        error = new_error()
        while True:
            status = call(self._open(), min(left, _WAIT_NS), error)
            if status == 0:
                self._ended = False
                return True
            if status == lib.WK_END:
                self._ended = True
                return False
            if status not in (lib.WK_TIMEOUT, lib.WK_INTERRUPTED):
                fail(status, error, log=self._log.name)
            left = time_left(started, timeout_ns)
            if left == 0:
                self._ended = False
                return False

    def _open(self) -> Any:
        native = self._native
        if native is None:
            raise self._closed_error()
        return native

    def _closed_error(self) -> ClosedError:
        return ClosedError(f"this reader of log {self._log.name!r} was closed", log=self._log.name)


def _raising(error: BaseException) -> Iterator[Any]:
    yield from ()
    raise error


def _count_within(records: list[Any], bytes_max: int) -> int:
    """How many of them reach `bytes_max` of payload."""
    size = 0
    for count, record in enumerate(records, 1):
        size += len(record.payload) if isinstance(record, Record) else 0
        if size >= bytes_max:
            return count
    return len(records)


def _limit(name: str, value: int | None, default: int) -> int:
    if value is None:
        return default
    if natural(name, value) < 1:
        raise InvalidError(f"{name}={value}: 1 or more, or None")
    return value


def _is_gap(batch: Any) -> bool:
    """Whether a batch is a gap alone."""
    count = ffi.new("size_t *")
    first = lib.wk_batch_records(batch, count)
    return bool(count[0] == 1 and first[0].kind == lib.WK_RECORD_GAP)


def _is_arrow(batch: Any) -> bool:
    """Whether a batch that an earlier call left may be the answer: it has no gap, as one that read() left may have."""
    count = ffi.new("size_t *")
    first = lib.wk_batch_records(batch, count)
    return all(first[i].kind != lib.WK_RECORD_GAP for i in range(count[0]))


def _release_schema(schema: Any) -> None:
    _call_release(schema, schema[7])


def _release_array(array: Any) -> None:
    _call_release(array, array[8])


def _call_release(arrow: Any, release: int) -> None:
    """What pyarrow has taken has no release any more."""
    if release:
        ffi.cast("void (*)(void *)", release)(arrow)


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as missing:
        raise Error(
            "read_arrow needs pyarrow: install walkeeper[arrow]", hint="pip install walkeeper[arrow]"
        ) from missing
    return pyarrow
