"""The exceptions of walkeeper, and `check`, the one function that makes them from a wk_status.

Every exception derives from `Error`. Its text says what was being done, to what, what was found and what to do. The
facts are attributes, None where they do not apply. Exceptions of a write carry `outcome`:

    "not_written"   the record is not in the log and never will be: append again if you like
    "unknown"       it may or may not be there: read the log to learn, or append with expected= and be told
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from walkeeper._native import ffi, lib

if TYPE_CHECKING:
    from walkeeper._record import Gap

__all__ = [
    "ClockJumpWarning",
    "ClosedError",
    "CorruptError",
    "CursorHoldsError",
    "CursorNotFoundError",
    "DamagedError",
    "DirectoryLockedError",
    "EndOfStreamError",
    "Error",
    "ExistsError",
    "FencedError",
    "ForkedError",
    "GapError",
    "InterruptedError",
    "InvalidError",
    "JournalFailedError",
    "LedgerNotFoundError",
    "LimitError",
    "LogDeletedError",
    "LogNotFoundError",
    "NoMemoryError",
    "NoSpaceError",
    "NotEnoughBookiesError",
    "NotFoundError",
    "Outcome",
    "QuorumTimeoutError",
    "ReadOnlyError",
    "SequenceMismatchError",
    "StorageError",
    "TimeoutError",
    "TooLargeError",
    "TruncatedError",
    "TxidError",
    "UnauthorizedError",
    "UnavailableError",
    "UnsupportedError",
    "WouldBlockError",
]

Outcome = Literal["unknown", "not_written"]


class Error(Exception):
    """Something walkeeper was asked for did not happen."""

    hint: str | None = None
    """What a person or a program can do about it."""

    def __init__(
        self,
        message: str = "",
        *,
        log: str | None = None,
        ledger_id: int | None = None,
        entry_id: int | None = None,
        sequence_id: int | None = None,
        txid: int | None = None,
        outcome: Outcome | None = None,
        durable_count: int | None = None,
        system_error: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.log = log
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.sequence_id = sequence_id
        """The record in question. With an unknown outcome: the id it has if it was written."""
        self.txid = txid
        self.outcome = outcome
        """Of a write: "not_written" or "unknown"."""
        self.durable_count = durable_count
        """Of append_many, not atomic: this many records, from the first on, are known to be durable."""
        self.system_error = system_error
        """The errno of the kernel's answer."""
        if hint is not None:
            self.hint = hint


class ClockJumpWarning(RuntimeWarning):
    """The clock that stamps txids jumped by more than an hour. Issued where a writer is opened, flushed or closed."""


class InvalidError(Error, ValueError):
    """An argument breaks the call's rules; nothing was done."""


class TooLargeError(Error, ValueError):
    """A record, or an atomic batch, is larger than the format allows; nothing was written."""

    hint = "a record holds at most 1 MiB - 8 KiB, an atomic batch 1 MiB - 4 KiB with all its heads: split it"


class LimitError(Error):
    """A named limit is reached: records that were read and are still held take `read_bytes`."""

    hint = "let go of records, or keep bytes(record.payload); or open with a larger read_bytes"


class NotFoundError(Error, LookupError):
    """What was named does not exist; that is certain."""


class LogNotFoundError(NotFoundError):
    """The namespace has no log of that name."""


class CursorNotFoundError(NotFoundError):
    """The log has no cursor of that name."""


class LedgerNotFoundError(NotFoundError):
    """The cluster has no ledger of that id: it was never created, or it was deleted."""


class ExistsError(Error):
    """The name is taken."""


class CursorHoldsError(Error):
    """A cursor still needs records that the truncation would let go; nothing was truncated."""

    hint = "advance or delete the cursor, or truncate with force=True"


class ClosedError(Error):
    """The handle was closed."""


class ForkedError(Error):
    """The handle belongs to the parent process; it was not harmed."""

    hint = "open the namespace after the fork, in the process that uses it"


class ReadOnlyError(Error):
    """The namespace was opened read-only."""


class UnsupportedError(Error):
    """A format, codec, file system or URI that this build refuses."""


class DirectoryLockedError(Error):
    """Another process writes this directory."""

    holder_pid: int | None = None
    """The process that holds the lock, where it is known."""

    hint = "stop that process, wait longer with lock_timeout=, or open with read_only=True to follow it"


class TimeoutError(Error, builtins.TimeoutError):
    """The time given has passed. For a write, `outcome` says what became of it."""


class QuorumTimeoutError(TimeoutError):
    """An entry was not confirmed in the time given: too few bookies have said that they stored it.

    Its outcome is "unknown". It may be confirmed later, and entries behind it only then.
    """


class UnavailableError(Error):
    """Too few bookies answer, or the metadata store cannot be reached. For a write, `outcome` says what became of it.

    A writer of a ledger that raised it for an add accepts nothing any more: close it, and create another ledger.
    """


class NotEnoughBookiesError(UnavailableError):
    """Fewer bookies are up and writable than the ensemble of a new ledger needs; no ledger was created."""

    hint = "start bookies, or ask for a smaller ensemble_size"


class UnauthorizedError(Error):
    """The password is not that of the ledger."""


class WouldBlockError(Error):
    """There is no room for the record now, and the caller asked not to wait; nothing was written."""

    hint = "wait for earlier appends, or give timeout= more than 0"


class InterruptedError(Error):
    """A signal handler raised, or a callback asked to stop, while a call waited.

    Where a signal handler raises (KeyboardInterrupt) during a write, this is the `__cause__` of what it raised, and
    carries `outcome` and `sequence_id`.
    """


class FencedError(Error):
    """Another writer took over this log, or somebody recovered the ledger. Of what was in flight, `outcome` says what
    is known."""

    hint = "there is one writer a log: find out who opened the newer one before you open another"


class SequenceMismatchError(Error):
    """`expected=` names another sequence id than the next one; nothing was written.

    `sequence_id` and `txid` are those of the durable record that sits at the expected id (an earlier try of yours,
    perhaps), or `sequence_id` is the next id where there is no such record.
    """


class TxidError(Error):
    """The txid goes back, or the application's txids are mixed with the clock's; nothing was written."""

    hint = "a log's txids come from the application or from the clock, as its first record has it, and never fall"


class EndOfStreamError(Error):
    """The log was ended for ever by mark_end_of_stream(); nothing was written."""


class LogDeletedError(Error):
    """The log was deleted; a log made later under its name is another log."""


class TruncatedError(Error):
    """The position lies before the truncation point: its records were let go."""

    hint = 'read from the first record that is left: start="start", or log.first()'


class StorageError(Error):
    """The kernel failed a call; `system_error` is the errno."""


class NoSpaceError(Error):
    """The disk is full. Appends are refused until there is space; reading and truncating go on."""

    hint = "truncate or delete logs, or free space on the disk; appending works again by itself"


class JournalFailedError(Error):
    """A write or a sync of the journal failed. This namespace only reads and closes from now on."""

    hint = "look at the disk; then close the namespace and open it again: recovery finds what is durable"


class CorruptError(Error):
    """Bytes break the validity rule of their format."""


class DamagedError(Error):
    """Records that were acknowledged can no longer be read."""

    hint = "walkeeper verify shows the extent; on_damage= at open decides what to give up"


class GapError(DamagedError):
    """The reader stands before a gap: acknowledged records that are lost, whose loss was accepted by on_damage= at an
    open of the directory.

    `gap` says what is lost: `gap.count` records, from `gap.position` (its first is `gap.sequence_id`) up to, and not
    including, `gap.next`. The caller may conclude that these records were acknowledged, that no reader will ever yield
    them, and that their sequence ids will not be given to others. It may not conclude anything about their contents.

    The reader has passed the gap when it raises this: each gap is told once by a reader, and the next read goes on with
    the first record behind it. A reader that is opened with gaps="yield" yields the Gap instead.
    """

    gap: Gap
    """The records that are lost."""

    hint = 'read on: the reader goes on behind the gap; or open it with gaps="yield"'


class NoMemoryError(Error, MemoryError):
    """The engine could not get memory."""


_KINDS: dict[int, type[Error]] = {
    lib.WK_CORRUPT: CorruptError,
    lib.WK_INVALID: InvalidError,
    lib.WK_FENCED: FencedError,
    lib.WK_FULL: LimitError,
    lib.WK_NOT_FOUND: NotFoundError,
    lib.WK_IO: StorageError,
    lib.WK_LOCKED: DirectoryLockedError,
    lib.WK_TIMEOUT: TimeoutError,
    lib.WK_WOULD_BLOCK: WouldBlockError,
    lib.WK_INTERRUPTED: InterruptedError,
    lib.WK_CLOSED: ClosedError,
    lib.WK_FAILED: JournalFailedError,
    lib.WK_NO_SPACE: NoSpaceError,
    lib.WK_TRUNCATED: TruncatedError,
    lib.WK_DELETED: LogDeletedError,
    lib.WK_MISMATCH: SequenceMismatchError,
    lib.WK_TOO_LARGE: TooLargeError,
    lib.WK_EXISTS: ExistsError,
    lib.WK_NO_MEMORY: NoMemoryError,
    lib.WK_FORKED: ForkedError,
    lib.WK_READ_ONLY: ReadOnlyError,
    lib.WK_TXID: TxidError,
    lib.WK_END_OF_STREAM: EndOfStreamError,
    lib.WK_UNSUPPORTED: UnsupportedError,
    lib.WK_DAMAGED: DamagedError,
    lib.WK_NO_LEDGER: LedgerNotFoundError,
    lib.WK_WRONG_KEY: UnauthorizedError,
    lib.WK_UNAVAILABLE: UnavailableError,
}


def check(
    status: int,
    error: Any,
    *,
    log: str | None = None,
    write: bool = False,
    kinds: Mapping[int, type[Error]] | None = None,
) -> None:
    """Raises what `status` and the wk_error stand for; returns on WK_OK.

    `write` says that the call was an append, so that the exception gets its `outcome`. `kinds` narrows a status where
    the caller knows better (which thing was not found).
    """
    if status != 0:
        fail(status, error, log=log, write=write, kinds=kinds)


def fail(
    status: int,
    error: Any,
    *,
    log: str | None = None,
    write: bool = False,
    kinds: Mapping[int, type[Error]] | None = None,
) -> NoReturn:
    """Raises what `status`, which is not WK_OK, and the wk_error stand for."""
    raise exception_of(status, error, log=log, write=write, kinds=kinds)


def exception_of(
    status: int,
    error: Any,
    *,
    log: str | None = None,
    write: bool = False,
    kinds: Mapping[int, type[Error]] | None = None,
) -> Error:
    """The exception that `status` and the wk_error stand for, not raised."""
    kind = (kinds or {}).get(status) or _KINDS.get(status, Error)
    text = ffi.string(error.text).decode("utf-8", "replace") or ffi.string(lib.wk_status_text(status)).decode()
    made = kind(
        text,
        log=log,
        ledger_id=_known(error.ledger_id),
        entry_id=_known(error.entry_id),
        sequence_id=_known(error.sequence_id),
        txid=_known(error.txid),
        system_error=int(error.system_error) or None,
    )
    if write:
        made.outcome = "unknown" if error.outcome_unknown else "not_written"
        made.durable_count = int(error.durable_count)
    if isinstance(made, DirectoryLockedError):
        made.holder_pid = _known(error.holder_pid)
    return made


def new_error() -> Any:
    """A wk_error for a call to fill; where C has nothing to say its fields mean "does not apply"."""
    error = ffi.new("wk_error *")
    error.ledger_id = error.entry_id = error.sequence_id = error.txid = error.holder_pid = -1
    return error


def shown(value: object) -> str:
    """What a caller gave, for the text of an exception. Python refuses to write numbers of thousands of digits."""
    try:
        return repr(value)
    except ValueError:
        return f"<{type(value).__name__}, too long to be shown>"


def _known(number: int) -> int | None:
    return None if number < 0 else int(number)
