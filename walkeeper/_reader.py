"""Reader: the records of a log in order, as they become durable."""

from __future__ import annotations

import operator
import time
from collections.abc import Iterator
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any

from walkeeper._native import ffi, lib
from walkeeper._options import FOREVER, nanoseconds, natural, time_left
from walkeeper._position import DLSN
from walkeeper._record import Gap, Record, new_batch, records_of
from walkeeper.errors import ClosedError, Error, InvalidError, fail, new_error

if TYPE_CHECKING:
    import pyarrow

    from walkeeper._log import Log

__all__ = ["Reader"]

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
        self.records = iter(fetched)
        self.out = new_batch()


class Reader:
    """Yields the records of a log, oldest first, each once; and a Gap where loss was accepted. It never skips.

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

    __slots__ = ("_ended", "_log", "_native", "_stage", "_timeout_ns")

    def __init__(self, log: Log, native: Any, timeout: float | None) -> None:
        self._log = log
        # Closing drops this reference; C's reader is freed when the call that may be inside has returned.
        self._native: Any = ffi.gc(native, lib.wk_reader_release)
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
        if stage.out[0] != ffi.NULL:  # of a read_arrow() that was cut short: the next one begins with it
            first = lib.wk_batch_records(stage.out[0], ffi.new("size_t *"))[0].at.dlsn
            return DLSN(first.segment, first.entry_id, first.slot)
        at = ffi.new("wk_dlsn *")
        lib.wk_reader_position(self._open(), at)
        return DLSN(at.segment, at.entry_id, at.slot)

    def __iter__(self) -> Iterator[Record | Gap]:
        batches = self._batches()
        next(batches)
        return chain.from_iterable(batches)

    def __next__(self) -> Record | Gap:
        for record in self._stage.records:
            return record
        if not self._fetch(FETCH_RECORDS, FETCH_BYTES, self._timeout_ns):
            raise StopIteration
        for record in self._stage.records:
            return record
        raise self._closed_error()  # just now

    def read(
        self, max_records: int | None = None, max_bytes: int | None = None, timeout: float | None = None
    ) -> list[Record | Gap]:
        """The next records: at least one, at most `max_records`, about `max_bytes` of payload (one may be larger).

        Empty where there is nothing more, and, following, where nothing came in `timeout` seconds (None: those of the
        reader); `ended` tells. Raises TruncatedError where the records it stands before were truncated, DamagedError,
        LogDeletedError, ClosedError. It may be asked again after any of them.
        """
        records_max = _limit("max_records", max_records, FETCH_RECORDS)
        bytes_max = _limit("max_bytes", max_bytes, FETCH_BYTES)
        timeout_ns = self._timeout_ns if timeout is None else nanoseconds(timeout)
        if not self._left() and not self._fetch(records_max, bytes_max, timeout_ns):
            return []
        stage = self._stage
        first = len(stage.fetched) - operator.length_hint(stage.records)
        taken = stage.fetched[first : first + records_max]
        if max_bytes is not None:
            del taken[_count_within(taken, bytes_max) :]
        if not taken:
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
        """
        pyarrow = _pyarrow()
        out = self._arrive(max_records, max_bytes, timeout)
        if out is None:
            return None
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

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        where = "closed" if self.closed else f"at {tuple(self.position)}"
        return f"<walkeeper.Reader of log {self._log.name!r}, {where}>"

    def _batches(self) -> Iterator[Iterator[Record | Gap]]:
        """What an iterator yields. Raising here would be the end of it: what is yielded instead raises in there.

        A signal handler runs where a generator goes on, so each `yield` stands in the `try`, and the first, which
        yields nothing, is asked for before anybody has the iterator.
        """
        records: Iterator[Record | Gap] = iter(())
        while True:
            try:
                while True:
                    yield records
                    if not self._left() and not self._fetch(FETCH_RECORDS, FETCH_BYTES, self._timeout_ns):
                        return  # next() or read() may have left something
                    records = self._stage.records
            except GeneratorExit:  # noqa: PERF203  a round is an error
                raise
            except BaseException as error:
                records = _raising(error)

    def _left(self) -> int:
        return operator.length_hint(self._stage.records)

    def _holds(self) -> bool:
        """Whether there is something to yield already."""
        stage = self._stage
        return operator.length_hint(stage.records) > 0 or stage.out[0] != ffi.NULL

    def _arrive(self, max_records: int | None, max_bytes: int | None, timeout: float | None) -> Any:
        """The next batch, of records alone, as C gave it: the stage keeps it. None: there is none."""
        records_max = _limit("max_records", max_records, FETCH_RECORDS)
        bytes_max = _limit("max_bytes", max_bytes, FETCH_BYTES)
        timeout_ns = self._timeout_ns if timeout is None else nanoseconds(timeout)
        out = self._stage.out
        if out[0] != ffi.NULL and not _is_arrow(out[0]):
            self._take(out)
        if left := self._left():
            text = f"{left} records were fetched and not yet yielded: take them with read() first"
            raise InvalidError(text, log=self._log.name)
        # As in _fetch. It is here until the caller has the Arrow batch: nothing can raise behind the last assignment.
        arrived = out[0] != ffi.NULL or self._wait(
            lambda native, left, error: lib.wk_reader_next_records(native, records_max, bytes_max, left, out, error),
            timeout_ns,
        )
        return out if arrived else None

    def _fetch(self, max_records: int, max_bytes: int, timeout_ns: int) -> bool:
        """Gets the next batch; False where there is none."""
        out = self._stage.out  # this one: close() puts another stage there
        # A signal handler may have raised just after the last batch arrived: then it is still here.
        if out[0] == ffi.NULL and not self._wait(
            lambda native, left, error: lib.wk_reader_next(native, max_records, max_bytes, left, out, error),
            timeout_ns,
        ):
            return False
        self._take(out)
        return True

    def _take(self, out: Any) -> None:
        """The batch that has come, as records to yield."""
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


def _raising(error: BaseException) -> Iterator[Record | Gap]:
    yield from ()
    raise error


def _count_within(records: list[Record | Gap], bytes_max: int) -> int:
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
