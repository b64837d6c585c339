"""What goes wrong with ledgers, as exceptions of walkeeper: errors of metadata stores, and the engine's statuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from walkeeper import metadata as stores
from walkeeper.errors import (
    ClosedError,
    CorruptError,
    DamagedError,
    Error,
    ExistsError,
    FencedError,
    InterruptedError,
    InvalidError,
    NotFoundError,
    Outcome,
    TooLargeError,
    UnauthorizedError,
    UnavailableError,
    UnsupportedError,
    WouldBlockError,
    exception_of,
)

__all__ = ["explain", "failure", "translated"]

# The first that fits. Of InvalidKeyError and InvalidBookieIdError the caller's argument is the cause.
_OF_STORES: tuple[tuple[type[stores.MetadataError], type[Error]], ...] = (
    (stores.UnavailableError, UnavailableError),
    (stores.UnknownOutcomeError, UnavailableError),
    (stores.ConflictError, UnavailableError),
    (stores.ClosedError, ClosedError),
    (stores.ExistsError, ExistsError),
    (stores.MissingError, NotFoundError),
    (stores.UnsupportedMetadataError, UnsupportedError),
    (stores.CorruptMetadataError, CorruptError),
    (stores.InvalidKeyError, InvalidError),
    (stores.InvalidBookieIdError, InvalidError),
    (stores.LimitError, InvalidError),
)

_HINTS: dict[type[Error], str | None] = {
    FencedError: "open the ledger to learn which entries it has; to go on writing, create another one",
    DamagedError: None,
    TooLargeError: "an entry holds at most 5 MiB - 512 bytes: split it",
    WouldBlockError: "wait for earlier adds, or give timeout= more than 0",
    UnauthorizedError: "give the password that the ledger was created with",
}
"""Where the exception's own hint speaks of logs."""


@contextmanager
def translated(
    what: str, *, ledger_id: int | None = None, writes: bool = False, otherwise: type[Error] = Error
) -> Iterator[None]:
    """Turns what a metadata store raises into an exception of walkeeper, with the former as its `__cause__`.

    `what` was being done. `writes`: something may have been written, so that the exception gets an `outcome`.
    `otherwise`: what a MetadataError that says no more becomes.
    """
    try:
        yield
    except stores.MetadataError as error:
        kind = next((ours for theirs, ours in _OF_STORES if isinstance(error, theirs)), otherwise)
        outcome: Outcome | None = None
        if writes:
            outcome = "unknown" if isinstance(error, stores.UnknownOutcomeError) else "not_written"
        raise kind(f"{what}: {error}", ledger_id=ledger_id, outcome=outcome) from error
    except Error:
        raise
    except ValueError as error:  # the cluster's layout has no key for such a ledger id
        raise InvalidError(f"{what}: {error}", ledger_id=ledger_id) from error


def failure(
    status: int,
    error: Any,
    ledger_id: int,
    *,
    outcome: Outcome | None = None,
    entry_id: int | None = None,
    kinds: Mapping[int, type[Error]] | None = None,
) -> Error:
    """The exception that a status of a call about a ledger, which is not WK_OK, and its wk_error stand for."""
    made = exception_of(status, error, kinds=kinds)
    made.ledger_id = ledger_id
    made.outcome = outcome
    if entry_id is not None:
        made.entry_id = entry_id
    if type(made) in _HINTS:
        made.hint = _HINTS[type(made)]
    return made


def explain(stop: BaseException, ledger_id: int, entry_id: int) -> None:
    """Says, as the cause of what a signal handler raised, what became of the add that it cut short. An exception of
    ours says it itself.

    `entry_id` is the first entry that was accepted; -1: none was.
    """
    if isinstance(stop, Error):
        stop.outcome = stop.outcome or ("unknown" if entry_id >= 0 else "not_written")
        return
    if stop.__cause__ is not None:
        return
    if entry_id >= 0:
        text = f"the add was cut short: entry {entry_id} of ledger {ledger_id} may or may not have been written"
        cause = InterruptedError(text, ledger_id=ledger_id, entry_id=entry_id, outcome="unknown")
    else:
        text = f"the add to ledger {ledger_id} was cut short: nothing was written"
        cause = InterruptedError(text, ledger_id=ledger_id, outcome="not_written")
    stop.__cause__ = cause
