"""Writer: the one that appends to a log."""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from walkeeper._calls import DIRECTORY_WRITER, WriterCalls, WriterInC
from walkeeper._native import ffi, lib
from walkeeper._options import FOREVER, Durability, durability_of, flag, nanoseconds, natural, time_left, uninterrupted
from walkeeper._position import CELLS, AppendRange, Position, position_of
from walkeeper.errors import (
    ClosedError,
    Error,
    ForkedError,
    InterruptedError,
    InvalidError,
    TooLargeError,
    check,
    exception_of,
    new_error,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

    from typing_extensions import TypeIs

    from walkeeper._log import Log
    from walkeeper._options import ArrowArray, Payload

__all__ = ["Writer"]

# Bound once: append is called a million times, and each look-up is a part of its price.
_from_buffer = ffi.from_buffer
_cells_of = CELLS.unpack


class Joined(NamedTuple):
    """Payloads that are back to back already. append_many takes them as they are; only the gateway makes them."""

    data: bytes | memoryview
    sizes: array[int] | memoryview
    """Of each payload, uint32."""


class _Frame:
    """The C structs of one call. A writer keeps the idle ones: a call takes one, so that threads never share it."""

    __slots__ = ("at", "cells", "error", "last", "last_cells", "options", "ticket")

    def __init__(self) -> None:
        self.at = ffi.new("wk_position *")
        self.cells = ffi.buffer(self.at)
        self.last = ffi.new("wk_position *")
        self.last_cells = ffi.buffer(self.last)
        self.ticket = ffi.new("uint64_t *")
        self.options = ffi.new("wk_append_options *")
        self.error = new_error()


class Writer:
    """Appends to a log. A log has one writer: opening another fences this one.

    Every method may be called from any thread. A context manager: leaving it closes the writer. Garbage collection
    closes it too, without waiting; what was submitted becomes durable all the same.
    """

    __slots__ = (
        "_append",
        "_append_many",
        "_calls",
        "_durability",
        "_frames",
        "_log",
        "_native",
        "_notifying",
        "_options",
        "_pid",
        "_submit",
        "_try_submit",
    )

    def __init__(self, log: Log, native: Any, durability: int, calls: WriterCalls = DIRECTORY_WRITER) -> None:
        self._log = log
        self._calls = calls
        self._append, self._submit, self._append_many = calls.append, calls.submit, calls.append_many
        self._try_submit = calls.try_submit
        # Closing drops this reference; the C writer is freed when the last call that is inside has returned.
        self._native: Any = ffi.gc(native, calls.release)
        self._frames: list[_Frame] = []
        self._durability = durability
        self._options = ffi.new("wk_append_options *")
        self._pid = os.getpid()
        self._fill(self._options, None, None, None, FOREVER)
        self._notifying: Any = None
        """The options of _submit_notified."""

    @property
    def log(self) -> Log:
        """The log it appends to."""
        return self._log

    @property
    def closed(self) -> bool:
        """Whether close() was called; one that was fenced is not closed."""
        return self._native is None

    @property
    def in_c(self) -> WriterInC | None:
        """For adapters in C: the calls of a writer on bookies, without Python. None: C opens the directory itself."""
        return self._calls.in_c

    @property
    def next_sequence_id(self) -> int:
        """The sequence id that the next record gets, if nobody else appends before."""
        at = ffi.new("wk_position *")
        if self._pid != os.getpid():  # C's answer has no status: who may not ask must not get one
            raise ForkedError(f"this writer of log {self._log.name!r} belongs to the parent process")
        self._calls.next(self._open(), at)
        return int(at.sequence_id)

    def append(
        self,
        payload: Payload,
        *,
        txid: int | None = None,
        expected: int | None = None,
        durability: Durability | None = None,
        timeout: float | None = None,
    ) -> Position:
        """Appends one record. When it returns, the record is durable, and every record before it is.

        `payload` is any contiguous buffer of at most 1 MiB - 8 KiB - 20 bytes; `txid` the application's number (None:
        the log stamps milliseconds); `expected` the sequence id it must get. With durability="deferred" it returns when
        the record is accepted: durable and readable a little later (see flush). `timeout` is in seconds; 0 does not
        wait for room.

        Definitely not written: TooLargeError, SequenceMismatchError, TxidError, EndOfStreamError, NoSpaceError,
        WouldBlockError, ClosedError. For FencedError, TimeoutError and JournalFailedError `outcome` says. Where a
        signal handler raises (KeyboardInterrupt), the exception's `__cause__` is an InterruptedError that says.
        """
        native = self._native
        if native is None:
            raise self._closed_error()
        data = payload if type(payload) is bytes else _buffer(payload)
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame()
        started = timeout_ns = 0
        if timeout is None and txid is None and expected is None and durability is None:
            options = self._options
        else:
            timeout_ns = _checked(nanoseconds, timeout)
            options = self._fill(frame.options, txid, expected, durability, timeout_ns)
            started = time.monotonic_ns() if timeout else 0
        call = self._append  # by itself: Python looks up the slot faster than a method of that name
        try:
            status = call(native, data, len(data), options, frame.at, frame.error)
            if status == 0:
                at = Position(_cells_of(frame.cells))
                self._frames.append(frame)
                return at
            if status == lib.WK_INTERRUPTED:
                status = self._go_on_appending(native, data, options, frame, started, timeout_ns)
        except BaseException as stop:
            _explain(stop, frame.error)
            raise
        check(status, frame.error, log=self._log.name, write=True)
        return position_of(frame.at)

    def append_many(
        self,
        payloads: Iterable[Payload] | ArrowArray,
        *,
        txids: Sequence[int] | None = None,
        expected: int | None = None,
        atomic: bool = False,
        durability: Durability | None = None,
        timeout: float | None = None,
    ) -> AppendRange:
        """Appends many records with one call and one wait. When it returns, all of them are durable.

        `payloads` may be an Arrow array (of pyarrow, or of what has the Arrow PyCapsule interface) of binary or string
        values without nulls, as read_arrow gives them: then nothing is done for each record in Python. Needs pyarrow.

        They keep their order; `expected` is the sequence id of the first; `txids` are one each, not falling. Their ids
        are consecutive, but for this: where a signal comes while it waits for room in the middle, handlers run, and
        what others append to this log meanwhile stands in between (`last` is then further than `count` from `first`).
        With `atomic` nothing ever does: they are one entry, and after a crash all of them are there, or none;
        TooLargeError where they are more than an entry holds. Otherwise a failure may leave the first `durable_count`
        of them (an attribute of the exception) in the log. InvalidError where there is nothing to append. For the rest
        see append.
        """
        return self._many(payloads, txids, expected, atomic, durability, timeout, wait=True)[0]

    def submit(
        self,
        payload: Payload,
        *,
        txid: int | None = None,
        expected: int | None = None,
        durability: Durability | None = None,
        timeout: float | None = None,
    ) -> Future[Position]:
        """Hands one record over and returns a future, which is done when the record is durable (deferred too).

        Records become durable in the order in which they were submitted. Waits (up to `timeout` seconds) only for
        room; 0 raises WouldBlockError where there is none. What append raises before a record is accepted is raised
        here; what happens later is the future's exception. A future cannot be cancelled: the record is on its way.
        After a SequenceMismatchError every later submit with `expected` is refused too, until flush().
        """
        at, ticket = self._one(payload, txid, expected, durability, timeout)
        return self._calls.watch(self._log, ticket, at, self._defers(durability))

    def flush(self, timeout: float | None = None) -> Position:
        """Waits until everything this writer appended or submitted is durable; returns the position just behind it.

        Raises TimeoutError, JournalFailedError or FencedError, with outcome "unknown" for what was in flight.
        """
        native, at, error = self._open(), ffi.new("wk_position *"), new_error()
        status = uninterrupted(lambda left: self._calls.flush(native, left or 1, at, error), nanoseconds(timeout))
        check(status, error, log=self._log.name, write=True)
        self._log.namespace._look_at_the_clock()
        return position_of(at)

    def mark_end_of_stream(self) -> None:
        """Ends the log for ever: no record can follow, and followers come to an end. Durable when it returns.

        Raises EndOfStreamError where it was ended before, by this writer or another.
        """
        native, error = self._open(), new_error()
        status = uninterrupted(lambda _: self._calls.end_of_stream(native, error))
        check(status, error, log=self._log.name, write=True)

    def close(self, timeout: float | None = None) -> None:
        """Waits as flush does, and closes the writer whatever comes of it. Closing twice is fine.

        Raises what flush raises, and InvalidError for a `timeout` that cannot be: the writer is then as it was. In a
        forked child it only forgets the handle: the writer is the parent's.
        """
        timeout_ns = nanoseconds(timeout)
        native, self._native = self._native, None
        if native is None or os.getpid() != self._pid:
            return
        error = new_error()
        try:
            status = uninterrupted(lambda left: self._calls.flush(native, left or 1, ffi.NULL, error), timeout_ns)
            self._calls.close(timeout_ns)
        finally:
            native = None  # the last reference, unless another thread is inside: an exception may keep this frame
        if status not in (lib.WK_CLOSED, lib.WK_DELETED):
            check(status, error, log=self._log.name, write=True)
        self._log.namespace._look_at_the_clock()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<walkeeper.Writer of log {self._log.name!r}, {state}>"

    def _one(
        self,
        payload: Payload,
        txid: int | None,
        expected: int | None,
        durability: Durability | None,
        timeout: float | None,
        notify: bool = False,
    ) -> tuple[Position, int]:
        """Submits one record: its position and its ticket, for which the eventfd is armed where that is wanted."""
        native = self._open()
        data = payload if type(payload) is bytes else _buffer(payload)
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame()
        timeout_ns = _checked(nanoseconds, timeout)
        options = self._fill(frame.options, txid, expected, durability, timeout_ns)
        options.notify = notify
        started = time.monotonic_ns() if timeout else 0
        try:
            status = self._submit(native, data, len(data), options, frame.at, frame.ticket, frame.error)
            while status == lib.WK_INTERRUPTED:  # while it waited for room
                options.timeout_ns = time_left(started, timeout_ns)
                status = self._submit(native, data, len(data), options, frame.at, frame.ticket, frame.error)
            if status == 0:
                done = Position(_cells_of(frame.cells)), frame.ticket[0]
                self._frames.append(frame)
                return done
        except BaseException as stop:
            _explain(stop, frame.error)
            raise
        raise exception_of(status, frame.error, log=self._log.name, write=True)

    def _submit_notified(self, payload: Payload) -> tuple[Position, int] | None:
        """_one without conditions, and with the eventfd armed: what asyncio does most. None where there is no room."""
        native, options = self._native, self._notifying
        if native is None:
            raise self._closed_error()
        if options is None:
            options = self._fill(ffi.new("wk_append_options *"), None, None, None, 0)
            options.notify = True
            self._notifying = options
        data = payload if type(payload) is bytes else _buffer(payload)
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame()
        call = self._try_submit  # as in append
        try:
            status = call(native, data, len(data), options, frame.at, frame.ticket, frame.error)
            if status == 0:
                done = Position(_cells_of(frame.cells)), frame.ticket[0]
                self._frames.append(frame)
                return done
        except BaseException as stop:
            _explain(stop, frame.error)
            raise
        if status in (lib.WK_WOULD_BLOCK, lib.WK_INTERRUPTED):
            return None
        raise exception_of(status, frame.error, log=self._log.name, write=True)

    def _many(
        self,
        payloads: Iterable[Payload] | ArrowArray,
        txids: Sequence[int] | None,
        expected: int | None,
        atomic: bool,
        durability: Durability | None,
        timeout: float | None,
        wait: bool,
    ) -> tuple[AppendRange, int]:
        """Appends many records: their range and the ticket of the last."""
        native = self._open()
        data, sizes = _joined(payloads)
        numbers = ffi.NULL
        if txids is not None:
            kept = _numbers(txids)
            if len(kept) != len(sizes):
                raise InvalidError(f"{len(sizes)} payloads and {len(kept)} txids: one each", outcome="not_written")
            numbers = _from_buffer("int64_t[]", kept)
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame()
        timeout_ns = _checked(nanoseconds, timeout)
        options = self._fill(frame.options, None, expected, durability, timeout_ns)
        options.atomic = _checked(flag, "atomic", atomic)
        started = time.monotonic_ns() if timeout else 0
        each = ffi.cast("uint32_t *", _from_buffer(sizes))  # no more than an address: see _buffer
        start = data if type(data) is bytes else ffi.cast("char *", _from_buffer(data))
        try:
            status = self._append_many(
                native, start, each, len(sizes), numbers, options, wait, frame.at, frame.last, frame.ticket, frame.error
            )
            if status == lib.WK_INTERRUPTED:
                status = self._go_on_appending_many(
                    native, data, sizes, each, numbers, wait, frame, started, timeout_ns
                )
            if status == 0:
                first, last = Position(_cells_of(frame.cells)), Position(_cells_of(frame.last_cells))
                done = AppendRange(first, last, len(sizes)), frame.ticket[0]
                self._frames.append(frame)
                return done
        except BaseException as stop:
            _explain(stop, frame.error)
            raise
        raise exception_of(status, frame.error, log=self._log.name, write=True)

    def _fill(
        self,
        options: Any,
        txid: int | None,
        expected: int | None,
        durability: Durability | None,
        timeout_ns: int,
    ) -> Any:
        options.txid = -1 if txid is None else _number("txid", txid)
        options.expected = -1 if expected is None else _number("expected", expected)
        options.timeout_ns = timeout_ns
        options.durability = self._durability if durability is None else _checked(durability_of, durability)
        options.atomic = options.notify = False
        return options

    def _defers(self, durability: Durability | None) -> bool:
        return bool((self._durability if durability is None else durability_of(durability)) != lib.WK_SYNC)

    def _go_on_appending(
        self, native: Any, data: Any, options: Any, frame: _Frame, started: int, timeout_ns: int
    ) -> int:
        """After a signal: waits on for a record that was accepted, or appends again one that was not."""
        if not timeout_ns:
            timeout_ns = options.timeout_ns
        again = ffi.new("wk_append_options *", options[0])
        status = lib.WK_INTERRUPTED
        while status == lib.WK_INTERRUPTED and not frame.error.outcome_unknown:
            again.timeout_ns = time_left(started, timeout_ns)
            status = self._append(native, data, len(data), again, frame.at, frame.error)
        if status == lib.WK_INTERRUPTED:
            sequence_id = frame.error.sequence_id
            status = self._wait_for_durable(native, frame, sequence_id, started, timeout_ns)
            if status == 0:
                status = self._calls.find(self._log, sequence_id, frame.at, frame.error)
        return int(status)

    def _go_on_appending_many(
        self,
        native: Any,
        data: bytes | memoryview,
        sizes: array[int] | memoryview,
        each: Any,
        numbers: Any,
        wait: bool,
        frame: _Frame,
        started: int,
        timeout_ns: int,
    ) -> int:
        """After a signal: hands over the rest of the records, where it came before all were accepted, and waits on."""
        start, options = ffi.cast("char *", _from_buffer(data)), frame.options
        first = ffi.new("wk_position *", frame.at[0])
        status, done = lib.WK_INTERRUPTED, 0
        while status == lib.WK_INTERRUPTED:
            if frame.error.outcome_unknown:  # then `at` and `last` are those of the first and last accepted
                if done == 0:
                    first[0] = frame.at[0]
                    options.expected = -1
                done += frame.last.sequence_id - frame.at.sequence_id + 1
            if done == len(sizes):
                break
            options.timeout_ns = time_left(started, timeout_ns)
            rest = (start + sum(sizes[:done]), each + done, len(sizes) - done, numbers + done if numbers else numbers)
            status = self._append_many(native, *rest, options, wait, frame.at, frame.last, frame.ticket, frame.error)
        if done:
            frame.at[0] = first[0]
        if status == lib.WK_INTERRUPTED:
            status = self._wait_for_durable(native, frame, first.sequence_id, started, timeout_ns)
        elif status != 0 and done:
            frame.error.outcome_unknown = True
            frame.error.sequence_id = first.sequence_id
            frame.error.durable_count = 0
        return int(status)

    def _wait_for_durable(self, native: Any, frame: _Frame, sequence_id: int, started: int, timeout_ns: int) -> int:
        """Waits until all that this writer has accepted is durable; `sequence_id` is the first record in question."""
        error = new_error()
        status = lib.WK_INTERRUPTED
        while status == lib.WK_INTERRUPTED:
            # C would take 0 for "for ever".
            status = self._calls.flush(native, time_left(started, timeout_ns) or 1, ffi.NULL, error)
        if status != 0:
            frame.error[0] = error[0]
            frame.error.outcome_unknown = True
            frame.error.sequence_id = sequence_id
        return int(status)

    def _open(self) -> Any:
        native = self._native
        if native is None:
            raise self._closed_error()
        return native

    def _closed_error(self) -> ClosedError:
        name = self._log.name
        return ClosedError(f"this writer of log {name!r} was closed", log=name, outcome="not_written")


def _checked(convert: Callable[..., int], *argument: object) -> int:
    """An argument of an append, as C takes it. Where it cannot be, nothing was written, and the exception says so."""
    try:
        return convert(*argument)
    except InvalidError as wrong:
        wrong.outcome = "not_written"
        raise


def _number(name: str, value: int) -> int:
    return _checked(natural, name, value)


def _numbers(txids: Iterable[int]) -> array[int]:
    """The txids as C takes them."""
    many = txids if isinstance(txids, array) else list(txids)
    try:
        kept = array("q", many)
    except (OverflowError, TypeError):
        kept = None
    if kept is None or (many is not txids and [*map(type, many)].count(bool)):
        kept = array("q", (_number("txids", txid) for txid in many))
    if kept and min(kept) < 0:
        _number("txids", min(kept))
    return kept


def _buffer(payload: Any) -> Any:
    """The memory of a payload that is not bytes."""
    try:
        data = _from_buffer(payload)
    except TypeError:
        raise TypeError(f"a payload is a bytes-like object, not {type(payload).__name__}") from None
    except (BufferError, ValueError) as wrong:  # it has holes, or was released
        text = f"a payload is one contiguous buffer ({wrong}): of a view with steps, append bytes(view)"
        raise InvalidError(text, outcome="not_written") from None
    # The traceback of an exception keeps what a frame has, and CPython 3.11 dies where it collects a memoryview of
    # which somebody has the memory yet: so of a memoryview nobody has it.
    return bytes(payload) if type(payload) is memoryview else data


def parts_of(payloads: Iterable[Any]) -> list[Any]:
    """The bytes of each payload. len() of another buffer would count its items."""
    found = [payload if type(payload) is bytes else _buffer(payload) for payload in payloads]
    return [data if type(data) is bytes else ffi.buffer(data) for data in found]


def _joined(payloads: Iterable[Payload] | ArrowArray) -> tuple[bytes | memoryview, array[int] | memoryview]:
    """The payloads back to back, and the size of each."""
    if is_arrow(payloads):
        return _arrow_columns(payloads)
    many: Any = tuple(payloads) if type(payloads) is not Joined else payloads.sizes  # nobody else changes it
    if not many:
        raise InvalidError("append_many was given nothing to append", outcome="not_written")
    if type(payloads) is Joined:
        return payloads
    try:
        if [*map(type, many)].count(bytes) == len(many):
            return b"".join(many), array("I", [*map(len, many)])
        parts = parts_of(many)
        return b"".join(parts), array("I", [*map(len, parts)])
    except OverflowError:
        raise TooLargeError("a payload of 4 GiB or more", outcome="not_written") from None


def is_arrow(payloads: object) -> TypeIs[ArrowArray]:
    """Whether they have the Arrow PyCapsule interface."""
    return hasattr(payloads, "__arrow_c_array__")


def _arrow_columns(payloads: Any) -> tuple[memoryview | bytes, memoryview]:
    """The payloads of an Array back to back, where it has them, and the size of each (uint32)."""
    import pyarrow
    from pyarrow import compute

    payloads = payloads if isinstance(payloads, pyarrow.Array) else pyarrow.array(payloads)
    short, long = (pyarrow.binary(), pyarrow.string()), (pyarrow.large_binary(), pyarrow.large_string())
    if payloads.type not in (*short, *long):
        raise TypeError(f"append_many takes an Arrow array of binary or string values, not of {payloads.type}")
    if payloads.null_count:
        raise InvalidError(f"{payloads.null_count} of the payloads are null", outcome="not_written")
    if not len(payloads):
        raise InvalidError("append_many was given nothing to append", outcome="not_written")
    try:
        lengths = compute.call_function("binary_length", [payloads]).cast(pyarrow.uint32())
    except pyarrow.ArrowInvalid:
        raise TooLargeError("a payload of 4 GiB or more", outcome="not_written") from None
    sizes = memoryview(lengths.buffers()[1]).cast("B").cast("I")[lengths.offset : lengths.offset + len(lengths)]
    _, offsets, values = payloads.buffers()
    words = memoryview(offsets).cast("B").cast("i" if payloads.type in short else "q")
    begins = words[payloads.offset : payloads.offset + len(payloads) + 1]
    data = memoryview(values).cast("B")[begins[0] : begins[-1]] if values is not None else b""
    return data, sizes


def _explain(stop: BaseException, error: Any) -> None:
    """Says, as the cause of what a signal handler raised, what became of the append that it cut short."""
    if isinstance(stop, Error) or stop.__cause__ is not None:
        return
    unknown = error.status == 0 or error.outcome_unknown
    sequence_id = int(error.sequence_id) if error.status != 0 and error.sequence_id >= 0 else None
    text = "the append was cut short: it was not written"
    if unknown:
        which = "the record" if sequence_id is None else f"the record with sequence id {sequence_id}"
        text = f"the append was cut short: {which} may or may not have been written"
    stop.__cause__ = InterruptedError(text, outcome="unknown" if unknown else "not_written", sequence_id=sequence_id)
