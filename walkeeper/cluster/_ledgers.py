"""LogLedgers: the ledgers of a log's segments, by the ledger client: made, recovered, closed, read, deleted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from walkeeper._native import ffi, lib
from walkeeper._options import FOREVER, time_left, uninterrupted
from walkeeper._position import Position, position_of
from walkeeper.cluster._document import NO_POSITION, StoredSegment
from walkeeper.errors import Error, NotEnoughBookiesError, check, new_error
from walkeeper.ledgers._errors import failure, translated
from walkeeper.ledgers._metadata_change import change, closed_by_writer, recover
from walkeeper.ledgers._native_handles import NativeHandle
from walkeeper.ledgers._spec import Secret, check_password, new_spec, secret_of
from walkeeper.metadata import DigestType, LedgerMetadata

if TYPE_CHECKING:
    from walkeeper.ledgers._client import LedgerClient
    from walkeeper.ledgers._ensemble_change import WatchedWriter

__all__ = ["LOG", "NAMESPACE", "SEGMENT", "LogLedgers", "Summary"]

NAMESPACE, LOG, SEGMENT = "walkeeper.namespace", "walkeeper.log", "walkeeper.segment"
"""What the custom metadata of a segment's ledger say."""

ENVELOPE = lib.WK_ENVELOPE_HEADER_SIZE
RECORD_HEADER = lib.WK_RECORD_HEADER_SIZE


class Summary(NamedTuple):
    """What an entry holds."""

    first: Position
    last: Position
    records_count: int
    end_of_stream: bool


class LogLedgers:
    """The ledgers of one namespace: their quorums and their password."""

    def __init__(
        self, client: LedgerClient, namespace: str, quorums: tuple[int, int, int], strict: bool, password: bytes
    ) -> None:
        self.client = client
        self._namespace = namespace
        self._quorums = quorums
        self._strict = strict
        self._password = bytes(password)
        self.secret: Secret = secret_of(password, "crc32c")

    # ---- writing ----

    def next_id(self) -> int:
        with translated("taking a ledger id", writes=True):
            return self.client._ledgers.next_id()

    def create(self, ledger_id: int, log_id: str, segment: int) -> tuple[NativeHandle, WatchedWriter]:
        """The ledger of a segment, with an id that was taken, and its writer. NotEnoughBookiesError."""
        client = self.client
        ensemble, write, ack = self._quorums
        with translated(f"creating ledger {ledger_id}", ledger_id=ledger_id, writes=True):
            try:
                bookies = client._choice.new_ensemble(ensemble, write, ack)
            except NotEnoughBookiesError:
                if self._strict:
                    raise
                up = len(client._cluster.bookies.writable_bookies())
                if up < ack:
                    text = f"a segment needs {ack} bookies (ack_quorum) that are up and writable: there are {up}"
                    raise NotEnoughBookiesError(text, outcome="not_written") from None
                ensemble = write = min(up, ensemble)
                bookies = client._choice.new_ensemble(ensemble, write, ack)
            numbers = client._numbers.of(bookies)
            metadata = LedgerMetadata(
                ensemble,
                write,
                ack,
                segments={0: bookies},
                digest_type=DigestType.CRC32C,
                password=self._password,
                ctime=time.time_ns() // 1_000_000,
                custom_metadata={
                    NAMESPACE: self._namespace.encode(),
                    LOG: log_id.encode(),
                    SEGMENT: b"%d" % segment,
                },
            )
            client._cluster.ledgers.create(metadata, ledger_id)
        spec, kept = new_spec(ledger_id, metadata, numbers, self.secret)
        handle = NativeHandle(client._native, ledger_id, spec, lib.WK_HANDLE_WRITE)
        del kept
        return handle, client._changes.watch(handle, ledger_id, metadata)

    def close(self, ledger_id: int, last_entry: int, length: int) -> None:
        """By its writer. FencedError where it was closed with another end; LedgerNotFoundError."""
        with translated(f"closing ledger {ledger_id}", ledger_id=ledger_id, writes=True):
            change(self.client._ledgers, ledger_id, closed_by_writer(ledger_id, (last_entry, length)))

    def delete(self, ledger_id: int) -> None:
        """One that is not there is no error."""
        with translated(f"deleting ledger {ledger_id}", ledger_id=ledger_id, writes=True):
            self.client._ledgers.delete(ledger_id)

    # ---- recovery ----

    def recovered(self, segment: StoredSegment, timeout_ns: int = FOREVER) -> tuple[StoredSegment, bool]:
        """The segment, completed: its ledger is fenced, recovered and closed. And whether it ends the stream.

        LedgerNotFoundError; UnauthorizedError: another password.
        """
        started = time.monotonic_ns()
        handles: list[NativeHandle] = []

        def find_end(now: LedgerMetadata) -> tuple[int, int]:
            handle = self._handle(segment.ledger_id, now)
            handles[:] = [handle]
            last, length, error = ffi.new("int64_t *", -1), ffi.new("uint64_t *"), new_error()
            with handle as native:
                status = uninterrupted(
                    lambda left: lib.wk_handle_recover(native, left, last, length, error),
                    time_left(started, timeout_ns),
                )
            if status != lib.WK_OK:
                raise failure(status, error, segment.ledger_id)
            return int(last[0]), int(length[0])

        self._metadata(segment.ledger_id)
        with translated(f"recovering ledger {segment.ledger_id}", ledger_id=segment.ledger_id):
            found = recover(self.client._ledgers, segment.ledger_id, find_end).value
        handle = self._handle(segment.ledger_id, found)
        last, ends = NO_POSITION, False
        for entry_id in range(found.last_entry_id, max(found.last_entry_id - 2, -1), -1):
            summary = self.summary(handle, segment, entry_id)
            ends |= summary.end_of_stream
            if summary.records_count:
                last = summary.last
                break
        return self._completed(segment, found.last_entry_id, found.length, last), ends

    @staticmethod
    def _completed(segment: StoredSegment, last_entry: int, length: int, last: Position) -> StoredSegment:
        count = last.sequence_id - segment.first_sequence_id + 1 if last.sequence_id >= 0 else 0
        payload = max(0, length - (last_entry + 1) * ENVELOPE - count * RECORD_HEADER)
        return StoredSegment(
            segment.segment,
            segment.ledger_id,
            segment.first_sequence_id,
            segment.created_ms,
            True,
            last_entry,
            last,
            count,
            payload,
        )

    # ---- reading ----

    def reading(self, ledger_id: int) -> NativeHandle:
        """A handle that reads, by the metadata of this moment. LedgerNotFoundError; UnauthorizedError."""
        return self._handle(ledger_id, self._metadata(ledger_id))

    def _metadata(self, ledger_id: int) -> LedgerMetadata:
        found = self.client._metadata_of(ledger_id)
        check_password(ledger_id, found, self._password)
        return found

    def _handle(self, ledger_id: int, metadata: LedgerMetadata) -> NativeHandle:
        return self.client._read_handle(ledger_id, metadata, self.secret)

    def refresh(self, handle: NativeHandle) -> LedgerMetadata:
        """The handle knows the metadata of this moment: other bookies, perhaps closed."""
        metadata = self.client._metadata_of(handle.ledger_id)
        spec, kept = self.client._spec_of(handle.ledger_id, metadata, self.secret)
        error = new_error()
        with handle as native:
            check(lib.wk_handle_update(native, spec, error), error)
        del kept
        return metadata

    def lac(self, handle: NativeHandle, timeout_ns: int = FOREVER) -> int:
        """What a quorum of the last segment's bookies knows. UnavailableError."""
        lac, error = ffi.new("int64_t *", -1), new_error()
        with handle as native:
            status = uninterrupted(lambda left: lib.wk_handle_read_lac(native, left, lac, error), timeout_ns)
        if status != lib.WK_OK:
            raise failure(status, error, handle.ledger_id)
        return int(lac[0])

    def payload(self, handle: NativeHandle, last_entry: int, records: int) -> int:
        """The payload bytes of the records up to an entry; where they are compressed, what they take."""
        if last_entry < 0:
            return 0
        out, error, count = ffi.new("wk_entries **"), new_error(), ffi.new("size_t *")
        with handle as native:
            status = uninterrupted(
                lambda left: lib.wk_handle_read(native, last_entry, last_entry, 1, left, out, error), FOREVER
            )
        if status != lib.WK_OK:
            raise failure(status, error, handle.ledger_id)
        length = int(lib.wk_entries_get(out[0], count).length)
        lib.wk_entries_release(out[0])
        return max(0, length - (last_entry + 1) * int(ENVELOPE) - records * int(RECORD_HEADER))

    def summary(self, handle: NativeHandle, segment: StoredSegment, entry_id: int) -> Summary:
        """What an entry holds, which is confirmed."""
        out, error, count = ffi.new("wk_entries **"), new_error(), ffi.new("size_t *")
        with handle as native:
            status = uninterrupted(
                lambda left: lib.wk_handle_read(native, entry_id, entry_id, 1, left, out, error), FOREVER
            )
        if status != lib.WK_OK:
            raise failure(status, error, handle.ledger_id)
        found: Any = ffi.new("wk_entry_summary *")
        try:
            entry = lib.wk_entries_get(out[0], count)
            status = lib.wk_entry_summarise(entry, segment.segment, segment.first_sequence_id, found)
        finally:
            lib.wk_entries_release(out[0])
        if status != lib.WK_OK:
            raise Error(f"entry {entry_id} of ledger {handle.ledger_id} holds no records of a log")
        return Summary(
            position_of(found.first), position_of(found.last), int(found.records_count), bool(found.end_of_stream)
        )
