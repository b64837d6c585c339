"""LedgerEntry: what a ledger is made of."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LedgerEntry"]


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One entry of a ledger, whose digest was checked."""

    entry_id: int
    """Its number in the ledger, from 0."""
    payload: bytes
    lac: int
    """The writer's last add confirmed when it sent the entry, -1 for none. Of an entry that was written again, by a
    recovery or a repair, it may be higher than the entry's own id."""
    length: int
    """Payload bytes of the ledger up to and including this entry."""
    ledger_id: int
