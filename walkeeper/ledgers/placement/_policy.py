"""PlacementPolicy: what chooses the bookies of a ledger; Candidate: what it knows of a bookie."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from walkeeper.errors import NotEnoughBookiesError

__all__ = ["Candidate", "DEFAULT_RACK", "PlacementPolicy", "checked_count", "usable"]

DEFAULT_RACK = "/default-rack"
"""The rack of a bookie of which nobody says where it stands."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A bookie, as a policy sees it."""

    bookie_id: str
    rack: str = DEFAULT_RACK
    weight: int | None = None
    """Its free bytes; None: not known."""
    writable: bool = True
    """Whether it may be chosen. One that may not is listed for its rack."""
    quarantined: bool = False
    """It failed a writer of this client lately: it is chosen where no other can be."""


@runtime_checkable
class PlacementPolicy(Protocol):
    """Chooses bookies. A policy depends on its arguments and on a random source alone: it has no clock and does no I/O.
    Several threads may call it at once.
    """

    @property
    def needs_weights(self) -> bool:
        """Whether it looks at Candidate.weight. The client reads the free space of bookies only for such a policy."""
        ...

    def new_ensemble(
        self, size: int, write_quorum: int, ack_quorum: int, bookies: Sequence[Candidate], exclude: Collection[str]
    ) -> tuple[str, ...]:
        """`size` different bookies that are writable and not in `exclude`, in the order of their slots.

        NotEnoughBookiesError where there are not so many, or where a rule of the policy cannot be kept.
        """
        ...

    def replacements(
        self,
        ensemble: Sequence[str],
        failed_slots: Sequence[int],
        write_quorum: int,
        bookies: Sequence[Candidate],
        exclude: Collection[str],
    ) -> dict[int, str]:
        """A bookie for each slot that failed, or for some of them; none is in the ensemble or in `exclude`.

        NotEnoughBookiesError where there is none for any slot.
        """
        ...


def usable(bookies: Iterable[Candidate], exclude: Collection[str]) -> list[Candidate]:
    """Those that may be chosen, each once."""
    found = {bookie.bookie_id: bookie for bookie in bookies if bookie.writable and bookie.bookie_id not in exclude}
    return list(found.values())


def checked_count(size: int, there: int) -> None:
    """NotEnoughBookiesError where fewer than `size` are there."""
    if there < size:
        said = f"an ensemble of {size} needs as many bookies that are up and writable: there are {there}"
        raise NotEnoughBookiesError(said, outcome="not_written")
