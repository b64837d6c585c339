"""LedgerWriter: the one that adds to a ledger."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from walkeeper._native import ffi, lib
from walkeeper._options import nanoseconds, time_left, uninterrupted
from walkeeper._writer import _buffer, _checked, parts_of
from walkeeper.errors import (
    ClosedError,
    Error,
    FencedError,
    InterruptedError,
    LedgerNotFoundError,
    Outcome,
    QuorumTimeoutError,
    TooLargeError,
    new_error,
)
from walkeeper.ledgers._errors import explain, failure, translated
from walkeeper.ledgers._metadata_change import End, change, closed_by_writer
from walkeeper.ledgers._reader import LedgerHandle

if TYPE_CHECKING:
    from concurrent.futures import Future

    from walkeeper._options import Payload
    from walkeeper.ledgers._client import LedgerClient
    from walkeeper.ledgers._native_handles import NativeHandle
    from walkeeper.metadata import LedgerMetadata

__all__ = ["LedgerWriter"]

_LATE = {lib.WK_TIMEOUT: QuorumTimeoutError}
_MANY_BYTES_MAX = 2**32 - 1


class LedgerWriter(LedgerHandle):
    """Adds to the ledger that LedgerClient.create made, and reads it. A ledger has one writer.

    After an add has failed the writer accepts nothing any more; close() then ends the ledger behind its last confirmed
    entry. A context manager: leaving it closes the ledger. A writer that is garbage without close() leaves the ledger
    open: who opens it next recovers it.
    """

    def __init__(self, client: LedgerClient, native: NativeHandle, metadata: LedgerMetadata) -> None:
        super().__init__(client, native, metadata)
        self._watched = client._changes.watch(native, native.ledger_id, metadata)

    @property
    def metadata(self) -> LedgerMetadata:
        """The metadata, as this writer wrote them last: a bookie that failed may have been replaced."""
        return self._watched.metadata

    @property
    def lac(self) -> int:
        """The last add confirmed, -1 for none."""
        return self._native.state().lac

    @property
    def length(self) -> int:
        """The payload bytes of the entries up to the LAC."""
        return self._native.state().length

    @property
    def last_add_pushed(self) -> int:
        """The highest id that an entry was given, confirmed or not; -1: none."""
        return self._native.state().last_add_pushed

    def add(self, data: Payload, *, timeout: float | None = None) -> int:
        """Adds one entry, and returns its id. When it returns, `ack_quorum` bookies have the entry and every one before
        it durable: whoever opens the ledger later finds them.

        `data` is any contiguous buffer of at most 5 MiB - 512 bytes; `timeout` is in seconds. Without it the time is
        limited all the same: a bookie that does not answer within the client's add_timeout is left out.

        Definitely not written: TooLargeError, InvalidError, ClosedError, and whatever has no `entry_id`. For
        FencedError (somebody recovers the ledger), UnavailableError (fewer than `ack_quorum` bookies are left),
        QuorumTimeoutError and UnauthorizedError `outcome` says; where it is "unknown", close() or an open of the ledger
        finds out. Where a signal handler raises (KeyboardInterrupt), the exception's `__cause__` is an InterruptedError
        that says.
        """
        payload = data if type(data) is bytes else _buffer(data)
        timeout_ns = _checked(nanoseconds, timeout)
        entry_id, error = ffi.new("int64_t *", -1), new_error()
        started = time.monotonic_ns()
        try:
            with self._native as native:
                status = lib.wk_handle_add(native, payload, len(payload), timeout_ns, entry_id, error)
                while status == lib.WK_INTERRUPTED:
                    left = time_left(started, timeout_ns)
                    if entry_id[0] < 0:  # while it waited for room
                        status = lib.wk_handle_add(native, payload, len(payload), left, entry_id, error)
                    else:
                        status = lib.wk_handle_wait(native, entry_id[0], left, error)
        except BaseException as stop:
            explain(stop, self.ledger_id, int(entry_id[0]))
            raise
        if status != lib.WK_OK:
            raise self._failure(status, error, int(entry_id[0]))
        return int(entry_id[0])

    def add_many(self, payloads: Iterable[Payload], *, timeout: float | None = None) -> range:
        """Adds many entries with one call and one wait, and returns their ids, which are consecutive. When it returns,
        all of them are confirmed.

        All payloads are in memory at once, and copied. A failure may leave the first of them in the ledger: the
        exception carries the id of the first as `entry_id`, and as `durable_count` how many of them are known to be
        confirmed; where it has no `entry_id` none was written. The rest is as `add`. InterruptedError: a signal came
        while it waited for room, and another thread added in between; all are confirmed, but their ids are not
        consecutive.
        """
        data, sizes = _joined(payloads)
        timeout_ns = _checked(nanoseconds, timeout)
        first, accepted, error = ffi.new("int64_t *", -1), ffi.new("size_t *"), new_error()
        began, done, apart, last = -1, 0, False, -1
        started = time.monotonic_ns()
        try:
            with self._native as native:
                if not sizes:
                    return range(0)
                start, each = ffi.from_buffer(data), ffi.from_buffer("uint32_t[]", sizes)
                offset, status = 0, lib.WK_INTERRUPTED
                while status == lib.WK_INTERRUPTED:
                    first[0], accepted[0] = -1, 0
                    left = time_left(started, timeout_ns)
                    status = lib.wk_handle_submit_many(
                        native, start + offset, each + done, len(sizes) - done, left, first, accepted, error
                    )
                    count = int(accepted[0])
                    if count:
                        if began < 0:
                            began = int(first[0])
                        apart |= int(first[0]) != began + done
                        last = int(first[0]) + count - 1
                        offset += sum(sizes[done : done + count])
                        done += count
                        if done == len(sizes):
                            break
                if status in (lib.WK_OK, lib.WK_INTERRUPTED):
                    status = uninterrupted(
                        lambda left: lib.wk_handle_wait(native, last, left, error), time_left(started, timeout_ns)
                    )
        except BaseException as stop:
            explain(stop, self.ledger_id, max(began, int(first[0])))
            raise
        if status != lib.WK_OK:
            made = self._failure(status, error, began)
            made.durable_count = max(0, min(done, self.lac - began + 1)) if began >= 0 and not apart else 0
            raise made
        if apart:
            text = f"{done} entries were added to ledger {self.ledger_id}, and others of another thread between them"
            raise InterruptedError(text, ledger_id=self.ledger_id, entry_id=began, durable_count=done)
        return range(began, began + done)

    def submit(self, data: Payload, *, timeout: float | None = None) -> Future[int]:
        """Hands one entry over and returns a future, which is done, with the entry's id, when the entry is confirmed.

        Entries get their ids in the order in which they were submitted, and are confirmed in that order. Waits, up to
        `timeout` seconds, only for room (16 Ki entries, or 64 MiB, that are not confirmed); 0 raises WouldBlockError
        where there is none. What add raises before an entry has an id is raised here; what happens later is the
        future's exception, with an `outcome`. A future cannot be cancelled: the entry is on its way.
        """
        return self._submit(data, _checked(nanoseconds, timeout))[1]

    def _submit(self, data: Payload, timeout_ns: int) -> tuple[int, Future[int]]:
        payload = data if type(data) is bytes else _buffer(data)
        return self._client._completions.submit(self._native, payload, timeout_ns)

    def flush(self, timeout: float | None = None) -> int:
        """Waits until everything that was added or submitted is confirmed; returns the LAC, -1 for none.

        Raises what add raises, with outcome "unknown" for what was in flight.
        """
        timeout_ns, error = nanoseconds(timeout), new_error()
        with self._native as native:
            last = self.last_add_pushed
            if last < 0:
                return last
            status = uninterrupted(lambda left: lib.wk_handle_wait(native, last, left, error), timeout_ns)
        if status != lib.WK_OK:
            raise self._failure(status, error, last)
        return self.lac

    def read_last_confirmed(self, timeout: float | None = None) -> int:
        """The LAC: nobody knows it better than the writer."""
        del timeout
        with self._native:
            return self.lac

    def close(self, timeout: float | None = None) -> None:
        """Accepts nothing any more, waits until everything that was accepted is confirmed, or has failed, or up to
        `timeout` seconds, and closes the ledger in the metadata behind its last confirmed entry. Closing twice is fine.

        When it returns, the ledger ends with the entry `lac`, for ever; what was accepted behind it is definitely not
        written. It raises nothing for such entries: whoever added them was told, and their futures fail.

        FencedError: a recovery closed the ledger, with another end, which the text names; entries up to its `entry_id`
        are in the ledger, those behind are not. LedgerNotFoundError: it was deleted. UnavailableError: the metadata
        store does not answer; the ledger may still be open, or closed where `outcome` is "unknown": call close() again,
        or leave it to whoever opens the ledger. In a forked child it only forgets the handle.
        """
        timeout_ns = nanoseconds(timeout)
        if self._native.forked:
            self._native.let_go()
        if self._native.closed:
            return
        started = time.monotonic_ns()
        self._client._completions.leave(self._native)
        end = self.lac, self.length
        try:
            end = self._seal(timeout_ns)
            with (
                self._watched.lock,
                translated(f"closing ledger {self.ledger_id}", ledger_id=self.ledger_id, writes=True),
            ):
                found = change(self._client._ledgers, self.ledger_id, closed_by_writer(self.ledger_id, end))
        except BaseException as stop:
            if isinstance(stop, FencedError) and self.last_add_pushed > end[0]:
                stop.outcome = "unknown"
            self._settle(end, "unknown", started, timeout_ns)
            if isinstance(stop, (FencedError, LedgerNotFoundError)):
                self._native.let_go()
            raise
        self._metadata = self._watched.metadata = found.value
        self._settle(end, "not_written", started, timeout_ns)
        self._native.let_go()

    def _seal(self, timeout_ns: int) -> End:
        last, length, error = ffi.new("int64_t *", -1), ffi.new("uint64_t *"), new_error()
        with self._native as native:
            status = uninterrupted(lambda left: lib.wk_handle_seal(native, left, last, length, error), timeout_ns)
        if status != lib.WK_OK:
            raise failure(status, error, self.ledger_id, kinds=_LATE)
        return int(last[0]), int(length[0])

    def _settle(self, end: End, outcome: Outcome, started: int, timeout_ns: int) -> None:
        known = "is not written" if outcome == "not_written" else "may or may not be written"
        text = f"ledger {self.ledger_id} was closed before the entry was confirmed: it {known}"
        rest = ClosedError(text, ledger_id=self.ledger_id, outcome=outcome)
        self._client._completions.settle(self._native, end[0], rest, time_left(started, timeout_ns))

    def _failure(self, status: int, error: Any, entry_id: int) -> Error:
        """Of a write whose first entry got this id; -1: none got one."""
        given = entry_id >= 0
        outcome: Outcome = "unknown" if given else "not_written"
        kinds = _LATE if given else None
        return failure(
            status, error, self.ledger_id, outcome=outcome, entry_id=entry_id if given else None, kinds=kinds
        )


def _joined(payloads: Iterable[Payload]) -> tuple[bytes, array[int]]:
    """The payloads back to back, and the size of each."""
    many: Any = tuple(payloads)  # nobody else changes it
    parts = parts_of(many)
    sizes = [len(part) for part in parts]
    if max(sizes, default=0) > _MANY_BYTES_MAX:
        raise TooLargeError("an entry of 4 GiB or more", outcome="not_written")
    return b"".join(parts), array("I", sizes)
