"""What a request about a log is refused with, as the bytes of an answer and as the exception that the client raises."""

from __future__ import annotations

import enum
import logging
import struct
from typing import get_args

from walkeeper import Gap, errors
from walkeeper.errors import Error, GapError, Outcome
from walkeeper.gateway._protocol import Body, Refused, Status, packed_text

__all__ = ["ErrorCode", "error_of", "refusal"]

log = logging.getLogger("walkeeper.gateway")


class ErrorCode(enum.IntEnum):
    """The exception of the embedded API, as a number that stays."""

    OTHER = 0
    INVALID = 1
    TOO_LARGE = 2
    LIMIT = 3
    LOG_NOT_FOUND = 4
    CURSOR_NOT_FOUND = 5
    CURSOR_HOLDS = 6
    CLOSED = 7
    READ_ONLY = 8
    UNSUPPORTED = 9
    TIMEOUT = 10
    QUORUM_TIMEOUT = 11
    UNAVAILABLE = 12
    NOT_ENOUGH_BOOKIES = 13
    FENCED = 14
    SEQUENCE_MISMATCH = 15
    TXID = 16
    END_OF_STREAM = 17
    LOG_DELETED = 18
    TRUNCATED = 19
    STORAGE = 20
    NO_SPACE = 21
    JOURNAL_FAILED = 22
    CORRUPT = 23
    DAMAGED = 24
    GAP = 25
    NO_MEMORY = 26


_KINDS: dict[ErrorCode, tuple[type[Error], Status]] = {
    ErrorCode.OTHER: (Error, Status.FAILED),
    ErrorCode.INVALID: (errors.InvalidError, Status.INVALID),
    ErrorCode.TOO_LARGE: (errors.TooLargeError, Status.INVALID),
    ErrorCode.LIMIT: (errors.LimitError, Status.UNAVAILABLE),
    ErrorCode.LOG_NOT_FOUND: (errors.LogNotFoundError, Status.NOT_FOUND),
    ErrorCode.CURSOR_NOT_FOUND: (errors.CursorNotFoundError, Status.NOT_FOUND),
    ErrorCode.CURSOR_HOLDS: (errors.CursorHoldsError, Status.REFUSED),
    ErrorCode.CLOSED: (errors.ClosedError, Status.UNAVAILABLE),
    ErrorCode.READ_ONLY: (errors.ReadOnlyError, Status.REFUSED),
    ErrorCode.UNSUPPORTED: (errors.UnsupportedError, Status.FAILED),
    ErrorCode.TIMEOUT: (errors.TimeoutError, Status.UNAVAILABLE),
    ErrorCode.QUORUM_TIMEOUT: (errors.QuorumTimeoutError, Status.UNAVAILABLE),
    ErrorCode.UNAVAILABLE: (errors.UnavailableError, Status.UNAVAILABLE),
    ErrorCode.NOT_ENOUGH_BOOKIES: (errors.NotEnoughBookiesError, Status.UNAVAILABLE),
    ErrorCode.FENCED: (errors.FencedError, Status.NOT_OWNER),
    ErrorCode.SEQUENCE_MISMATCH: (errors.SequenceMismatchError, Status.REFUSED),
    ErrorCode.TXID: (errors.TxidError, Status.REFUSED),
    ErrorCode.END_OF_STREAM: (errors.EndOfStreamError, Status.REFUSED),
    ErrorCode.LOG_DELETED: (errors.LogDeletedError, Status.NOT_FOUND),
    ErrorCode.TRUNCATED: (errors.TruncatedError, Status.REFUSED),
    ErrorCode.STORAGE: (errors.StorageError, Status.FAILED),
    ErrorCode.NO_SPACE: (errors.NoSpaceError, Status.REFUSED),
    ErrorCode.JOURNAL_FAILED: (errors.JournalFailedError, Status.FAILED),
    ErrorCode.CORRUPT: (errors.CorruptError, Status.FAILED),
    ErrorCode.DAMAGED: (errors.DamagedError, Status.FAILED),
    ErrorCode.GAP: (GapError, Status.FAILED),
    ErrorCode.NO_MEMORY: (errors.NoMemoryError, Status.UNAVAILABLE),
}
_CODES = {kind: code for code, (kind, _) in _KINDS.items()}
_OF_STATUS = {
    Status.INVALID: ErrorCode.INVALID,
    Status.NOT_OWNER: ErrorCode.FENCED,
    Status.UNAVAILABLE: ErrorCode.UNAVAILABLE,
}
"""Of what the gateway itself refuses."""

_OUTCOMES: tuple[Outcome | None, ...] = (None, *sorted(get_args(Outcome)))
assert _OUTCOMES == (None, "not_written", "unknown")

_FACTS = struct.Struct(">BB3q")
"""Error code, outcome, sequence id, txid, durable count; -1 for a number that does not apply."""
_LOST = struct.Struct(">5q3qQ")
"""Of GAP: the position of the first record that is lost, the DLSN behind the gap, and how many are lost."""


def refusal(error: Exception) -> tuple[Status, bytes]:
    """The status and the body of the answer."""
    if isinstance(error, Refused):
        code, status = _OF_STATUS.get(error.status, ErrorCode.OTHER), error.status
    else:
        code = next((_CODES[kind] for kind in type(error).__mro__ if kind in _CODES), ErrorCode.OTHER)
        status = _KINDS[code][1]
    text = packed_text(str(error) or type(error).__name__)
    if not isinstance(error, Error):
        log.error("a request failed", exc_info=error)
        return status, text + _FACTS.pack(code, 0, -1, -1, -1)
    numbers = [-1 if number is None else number for number in (error.sequence_id, error.txid, error.durable_count)]
    body = text + _FACTS.pack(code, _OUTCOMES.index(error.outcome), *numbers)
    if isinstance(error, GapError):
        gap = error.gap
        body += _LOST.pack(*gap.dlsn, gap.sequence_id, gap.position.txid, *gap.next.dlsn, gap.count)
    return status, body


def error_of(body: Body, log_name: str | None) -> Error:
    """The exception that refusal() was given, but for its traceback. Refused: it is no such body."""
    text = body.text()
    code, outcome, *numbers = _FACTS.unpack(body.raw(_FACTS.size))
    if code not in _KINDS or outcome >= len(_OUTCOMES):
        raise Refused(Status.INVALID, f"error {code} with outcome {outcome} is not known: {text}")
    sequence_id, txid, durable_count = (None if number < 0 else number for number in numbers)
    error = _KINDS[code][0](
        text,
        log=log_name,
        sequence_id=sequence_id,
        txid=txid,
        outcome=_OUTCOMES[outcome],
        durable_count=durable_count,
    )
    if isinstance(error, GapError):
        *position, segment, entry_id, slot, count = _LOST.unpack(body.raw(_LOST.size))
        error.gap = Gap((0, 0, *position, segment, entry_id, slot, count, 1))
    body.end()
    return error
