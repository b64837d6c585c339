"""Changes of a ledger's metadata: read, decide, write instead of what was read, and again where somebody came between.

Only the compare-and-set decides who closed a ledger, and where. A decision is a pure function of the metadata that were
read: it may be made again and again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from walkeeper.errors import FencedError, LedgerNotFoundError
from walkeeper.metadata import (
    ConflictError,
    LedgerMetadata,
    Ledgers,
    LedgerState,
    MissingError,
    UnavailableError,
    UnknownOutcomeError,
    Versioned,
)

__all__ = ["End", "change", "closed_by_writer", "read", "recover"]

TRIES_MAX = 100
"""How often others may come between. A ledger is changed by its writer, and by those who recover or repair it."""

Decision: TypeAlias = "Callable[[LedgerMetadata], LedgerMetadata | None]"
"""The metadata that are to be written; None: what there is may stay. It may raise."""
End: TypeAlias = "tuple[int, int]"
"""The last entry, -1 for none, and the payload bytes of all."""


def read(ledgers: Ledgers, ledger_id: int) -> Versioned[LedgerMetadata]:
    """The metadata, not older than any write that ended before. LedgerNotFoundError."""
    found = ledgers.read(ledger_id, linearizable=True)
    if found is None:
        raise LedgerNotFoundError(f"there is no ledger {ledger_id}", ledger_id=ledger_id)
    return found


def change(ledgers: Ledgers, ledger_id: int, decide: Decision) -> Versioned[LedgerMetadata]:
    """What the metadata are once `decide` has had its way, or what they were where it wanted nothing.

    A write whose outcome was unknown is settled (Ledgers.write). LedgerNotFoundError; UnavailableError: nothing was
    written; UnknownOutcomeError; and what `decide` raises.
    """
    tried = False
    for _ in range(TRIES_MAX):
        try:
            found = read(ledgers, ledger_id)
            wanted = decide(found.value)
            if wanted is None:
                return found
            version = ledgers.write(ledger_id, wanted, found.version)
        except (ConflictError, MissingError):
            tried = True  # and perhaps written, and then overwritten
            continue
        except UnavailableError as error:
            if not tried:
                raise
            raise UnknownOutcomeError(f"it is not known what became of ledger {ledger_id}", error.key) from error
        return Versioned(replace(wanted, ctoken=None), version)
    raise UnknownOutcomeError(f"the metadata of ledger {ledger_id} change as often as they are read")


def closed_by_writer(ledger_id: int, end: End) -> Decision:
    """The decision of a writer that closes its ledger. FencedError where it is closed with another end."""

    def decide(now: LedgerMetadata) -> LedgerMetadata | None:
        if not now.is_closed:  # also IN_RECOVERY: what a writer was promised is where a recovery finds it
            return _closed(now, end)
        if (now.last_entry_id, now.length) == end:
            return None
        last = f"entry {now.last_entry_id}" if now.last_entry_id >= 0 else "no entry"
        raise FencedError(
            f"ledger {ledger_id} was closed by a recovery: its last is {last} ({now.length} bytes), and this writer's"
            f" last confirmed one {end[0]} ({end[1]} bytes)",
            ledger_id=ledger_id,
            entry_id=now.last_entry_id if now.last_entry_id >= 0 else None,
            hint="open the ledger to learn which entries it has; to go on writing, create another one",
        )

    return decide


def recover(ledgers: Ledgers, ledger_id: int, find_end: Callable[[LedgerMetadata], End]) -> Versioned[LedgerMetadata]:
    """Closes the ledger where `find_end` finds its end, or adopts the end that somebody else closed it with.

    `find_end` is given metadata that are IN_RECOVERY; it fences the bookies of the last segment, so that no end that it
    finds can be passed by the writer. It is asked again where the segments are others when it has found one.
    """
    for _ in range(TRIES_MAX):
        found = change(ledgers, ledger_id, _in_recovery)
        if found.value.is_closed:
            return found
        end = find_end(found.value)
        try:
            return change(ledgers, ledger_id, _closed_by_recovery(found.value, end))
        except _OtherSegments:
            continue
    raise UnavailableError(f"the segments of ledger {ledger_id} change as often as its end is looked for")


class _OtherSegments(Exception):
    """The end that was found is that of other segments."""


def _in_recovery(now: LedgerMetadata) -> LedgerMetadata | None:
    return replace(now, state=LedgerState.IN_RECOVERY) if now.state is LedgerState.OPEN else None


def _closed_by_recovery(recovered: LedgerMetadata, end: End) -> Decision:
    def decide(now: LedgerMetadata) -> LedgerMetadata | None:
        if now.is_closed:
            return None
        if now.state is not LedgerState.IN_RECOVERY or dict(now.segments) != dict(recovered.segments):
            raise _OtherSegments
        return _closed(now, end)

    return decide


def _closed(now: LedgerMetadata, end: End) -> LedgerMetadata:
    return replace(now, state=LedgerState.CLOSED, last_entry_id=end[0], length=end[1])
