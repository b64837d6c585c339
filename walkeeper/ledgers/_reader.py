"""Reading a ledger: what every handle can, and LedgerReader."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any

from walkeeper._native import ffi, lib
from walkeeper._options import FOREVER, nanoseconds, natural, uninterrupted
from walkeeper.errors import DamagedError, InvalidError, TimeoutError, new_error
from walkeeper.ledgers._entry import LedgerEntry
from walkeeper.ledgers._errors import failure
from walkeeper.ledgers._native_handles import NativeHandle

if TYPE_CHECKING:
    from typing_extensions import Self

    from walkeeper.ledgers._client import LedgerClient
    from walkeeper.ledgers._spec import Secret
    from walkeeper.metadata import LedgerMetadata

__all__ = ["LedgerHandle", "LedgerReader"]

CHUNK_BYTES = 1 << 20
"""Payload bytes that a read asks for at once."""
_POLL_SECONDS = 1.0
"""Bookies hold a long poll so long; then the metadata are looked at."""
_PAUSE_SECONDS = 0.001
_PAUSE_SECONDS_MAX = 0.02
"""Where no bookie holds a poll, as none has the ledger yet, it is asked again so soon; it doubles up to the latter."""
_INT64_MAX = 2**63 - 1
_WORTH_A_LOOK = (lib.WK_NOT_FOUND, lib.WK_NO_LEDGER, lib.WK_UNAVAILABLE, lib.WK_DAMAGED)
"""Where a read fails like this, the metadata may have changed: the ledger was deleted, or its bookies were replaced."""


class LedgerHandle:
    """What a writer and a reader have in common. Every method may be called from any thread."""

    def __init__(self, client: LedgerClient, native: NativeHandle, metadata: LedgerMetadata) -> None:
        self._client = client
        self._native = native
        self._metadata = metadata

    @property
    def ledger_id(self) -> int:
        """The id of the ledger in its cluster."""
        return self._native.ledger_id

    @property
    def metadata(self) -> LedgerMetadata:
        """The metadata, as this handle saw them last."""
        return self._metadata

    @property
    def closed(self) -> bool:
        """Whether close() has done its work."""
        return self._native.closed

    @property
    def lac(self) -> int:
        """The last add confirmed that this handle knows, -1 for none. Entries up to it are there for ever."""
        raise NotImplementedError

    @property
    def length(self) -> int | None:
        """The payload bytes up to the LAC; None where they are not known."""
        raise NotImplementedError

    def read(
        self, first: int = 0, last: int | None = None, *, max_bytes: int = CHUNK_BYTES, timeout: float | None = None
    ) -> Iterator[LedgerEntry]:
        """The entries from `first` to `last`, both included; without `last` up to the LAC of this moment. None where
        `last` comes before `first`.

        They are read as they are iterated over, `max_bytes` at a time or one entry. `timeout` is for each such step, in
        seconds. Every entry that is yielded is as its writer wrote it, and there for ever.

        InvalidError, before anything is read: one of them is not confirmed, as far as this handle knows
        (read_last_confirmed asks). The iterator raises UnavailableError (the bookies of an entry do not answer),
        DamagedError (no bookie has the entry any more, or none has it whole), LedgerNotFoundError (the ledger was
        deleted), TimeoutError. Each leaves the handle as it was: iterate anew from the entry behind the last one.
        """
        return chain.from_iterable(self._steps(first, last, max_bytes, timeout))

    def read_unconfirmed(
        self, first: int, last: int | None = None, *, max_bytes: int = CHUNK_BYTES, timeout: float | None = None
    ) -> Iterator[LedgerEntry]:
        """The entries from `first` to `last`, confirmed or not; without `last` up to the first that no bookie has.

        An entry above the LAC was perhaps never acknowledged: it may be gone after a recovery. With `last`, the
        iterator raises NotFoundError where every bookie that should have an entry says that it has none. The rest is as
        `read`.
        """
        return chain.from_iterable(self._unconfirmed_steps(first, last, max_bytes, timeout))

    def close(self) -> None:
        """Lets go of the handle."""
        self._native.let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<walkeeper.{type(self).__name__} of ledger {self.ledger_id}, {state}>"

    def _steps(
        self, first: int, last: int | None, max_bytes: int, timeout: float | None
    ) -> Iterator[list[LedgerEntry]]:
        """What `read` reads, step by step."""
        begin, lac = natural("first", first), self.lac
        end = lac if last is None else natural("last", last)
        if max(end, begin - 1) > lac:
            known = f"its last confirmed entry is {lac}" if lac >= 0 else "it has no confirmed entry"
            text = f"entry {max(begin, end)} of ledger {self.ledger_id} cannot be read: {known}"
            raise InvalidError(text, ledger_id=self.ledger_id, hint="read_last_confirmed() asks for a newer one")
        return self._walk(begin, end, natural("max_bytes", max_bytes), nanoseconds(timeout), True, True)

    def _unconfirmed_steps(
        self, first: int, last: int | None, max_bytes: int, timeout: float | None
    ) -> Iterator[list[LedgerEntry]]:
        begin = natural("first", first)
        end = _INT64_MAX if last is None else natural("last", last)
        return self._walk(begin, end, natural("max_bytes", max_bytes), nanoseconds(timeout), False, last is not None)

    def _walk(
        self, first: int, last: int, max_bytes: int, timeout_ns: int, confirmed: bool, must_be_there: bool
    ) -> Iterator[list[LedgerEntry]]:
        at = first
        while at <= last:
            entries = self._read(at, last, max_bytes, timeout_ns, confirmed, must_be_there)
            if not entries:
                return
            yield entries
            at = entries[-1].entry_id + 1

    def _read(
        self, first: int, last: int, max_bytes: int, timeout_ns: int, confirmed: bool, must_be_there: bool
    ) -> list[LedgerEntry]:
        """One step; empty where `first` is not there and need not be."""
        out, error, looked = ffi.new("wk_entries **"), new_error(), False
        while True:
            with self._native as native:
                status = uninterrupted(
                    lambda left: lib.wk_handle_read(native, first, last, max_bytes, left, out, error), timeout_ns
                )
            if status == lib.WK_OK:
                return _taken(out[0], self.ledger_id)
            if status == lib.WK_NOT_FOUND and not must_be_there:
                return []
            if looked or status not in _WORTH_A_LOOK or not self._look_again():
                kinds = {lib.WK_NOT_FOUND: DamagedError} if confirmed else None
                raise failure(status, error, self.ledger_id, entry_id=first, kinds=kinds)
            looked = True

    def _look_again(self) -> bool:
        """Whether the metadata changed since they were read; the handle then goes by the new ones."""
        return False


class LedgerReader(LedgerHandle):
    """Reads a ledger: one that is closed, or, from open_no_recovery, one that is still written.

    A context manager: leaving it closes the reader. Garbage collection closes it too.
    """

    def __init__(
        self, client: LedgerClient, native: NativeHandle, metadata: LedgerMetadata, secret: Secret, lac: int = -1
    ) -> None:
        super().__init__(client, native, metadata)
        self._secret = secret
        self._lac = lac

    @property
    def lac(self) -> int:
        """The last add confirmed that this handle knows, -1 for none; of a closed ledger its last entry."""
        metadata = self._metadata
        return metadata.last_entry_id if metadata.is_closed else self._lac

    @property
    def length(self) -> int | None:
        """The payload bytes of a closed ledger; None of another one."""
        metadata = self._metadata
        return metadata.length if metadata.is_closed else None

    def read_last_confirmed(self, timeout: float | None = None) -> int:
        """Asks the metadata, and of a ledger that is not closed a quorum of its bookies, for the LAC; -1: no entry.

        Whatever the writer knew to be confirmed when it sent the last confirmed entry is seen, and all that is
        confirmed a moment after it has nothing more to send: it then tells its bookies. The answer never falls.
        UnavailableError: too few bookies answered, or the metadata store did not; LedgerNotFoundError; TimeoutError;
        UnauthorizedError.
        """
        timeout_ns = nanoseconds(timeout)
        with self._native:
            pass
        if not self._metadata.is_closed:
            self._look_again()
        if not self._metadata.is_closed:
            self._ask(timeout_ns)
        return self.lac

    def wait_last_confirmed(self, beyond: int, timeout: float | None = None) -> int:
        """Waits until the LAC is above `beyond` (-1: until there is an entry), and returns it.

        The bookies hold the question until they know of more (long polls): a follower costs little, and hears of an
        entry as soon as a bookie does. See read_last_confirmed for when that is. Of a ledger that was closed the call
        returns the last entry at once, also where that is not above `beyond`: nothing comes any more.
        `timeout` in seconds: TimeoutError where nothing came in time. Bookies that do not answer are asked again until
        then. The other errors are those of read_last_confirmed.
        """
        if beyond != -1:
            natural("beyond", beyond)
        timeout_ns = nanoseconds(timeout)
        deadline = None if timeout_ns == FOREVER else time.monotonic() + timeout_ns / 1e9
        pause = _PAUSE_SECONDS
        while not self._metadata.is_closed and self.lac <= beyond:
            left = _POLL_SECONDS if deadline is None else min(_POLL_SECONDS, deadline - time.monotonic())
            if left <= 0:
                text = f"no entry behind {beyond} of ledger {self.ledger_id} was confirmed in time"
                raise TimeoutError(text, ledger_id=self.ledger_id)
            began = time.monotonic()
            if self._poll(beyond, int(left * 1e9)):
                return self.lac
            self._look_again()
            if (
                time.monotonic() - began < left / 2 and not self._metadata.is_closed
            ):  # nobody waits: nobody knows it yet
                time.sleep(min(pause, left))
                pause = min(2 * pause, _PAUSE_SECONDS_MAX)
        return self.lac

    def _poll(self, beyond: int, timeout_ns: int) -> bool:
        lac, entry, error = ffi.new("int64_t *", -1), ffi.new("wk_entries **"), new_error()
        with self._native as native:
            status = uninterrupted(
                lambda left: lib.wk_handle_wait_lac(native, beyond, left, lac, entry, error), timeout_ns
            )
        if status in (lib.WK_TIMEOUT, lib.WK_UNAVAILABLE):
            return False
        if status != lib.WK_OK:
            raise failure(status, error, self.ledger_id)
        if entry[0] != ffi.NULL:
            lib.wk_entries_release(entry[0])
        self._lac = max(self._lac, int(lac[0]))
        return self._lac > beyond

    def _ask(self, timeout_ns: int) -> None:
        lac, error = ffi.new("int64_t *", -1), new_error()
        with self._native as native:
            status = uninterrupted(lambda left: lib.wk_handle_read_lac(native, left, lac, error), timeout_ns)
        if status != lib.WK_OK:
            raise failure(status, error, self.ledger_id)
        self._lac = max(self._lac, int(lac[0]))

    def _look_again(self) -> bool:
        now = self._client._metadata_of(self.ledger_id)
        if now == self._metadata:
            return False
        self._go_by(now)
        return True

    def _go_by(self, metadata: LedgerMetadata) -> None:
        """From now on the handle goes by these metadata."""
        spec, kept = self._client._spec_of(self.ledger_id, metadata, self._secret)
        error = new_error()
        with self._native as native:
            status = lib.wk_handle_update(native, spec, error)
        del kept  # until here C looked at it
        if status != lib.WK_OK:
            raise failure(status, error, self.ledger_id)
        self._metadata = metadata


def _taken(entries: Any, ledger_id: int) -> list[LedgerEntry]:
    """Copies of the entries, which are released."""
    try:
        count = ffi.new("size_t *")
        first = lib.wk_entries_get(entries, count)
        return [
            LedgerEntry(
                int(entry.entry_id),
                bytes(ffi.buffer(entry.payload, entry.size)) if entry.size else b"",
                int(entry.lac),
                int(entry.length),
                ledger_id,
            )
            for entry in (first[at] for at in range(count[0]))
        ]
    finally:
        lib.wk_entries_release(entries)
