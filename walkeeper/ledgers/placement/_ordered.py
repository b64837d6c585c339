"""OrderedPolicy: takes the first bookies of an order that a subclass makes; quarantined ones are last."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from walkeeper.errors import NotEnoughBookiesError
from walkeeper.ledgers.placement._policy import Candidate, checked_count, usable

__all__ = ["OrderedPolicy"]


class OrderedPolicy:
    """A policy for which any set of bookies will do."""

    needs_weights = False

    def order(self, bookies: Sequence[Candidate], pool: Sequence[Candidate]) -> list[Candidate]:
        """The bookies of the pool, the best first. `bookies` are all that are known."""
        raise NotImplementedError

    def new_ensemble(
        self, size: int, write_quorum: int, ack_quorum: int, bookies: Sequence[Candidate], exclude: Collection[str]
    ) -> tuple[str, ...]:
        pool = usable(bookies, exclude)
        checked_count(size, len(pool))
        return tuple(bookie.bookie_id for bookie in self._last_the_quarantined(bookies, pool)[:size])

    def replacements(
        self,
        ensemble: Sequence[str],
        failed_slots: Sequence[int],
        write_quorum: int,
        bookies: Sequence[Candidate],
        exclude: Collection[str],
    ) -> dict[int, str]:
        pool = usable(bookies, {*exclude, *ensemble})
        if not pool:
            raise NotEnoughBookiesError("no bookie is up that could replace one that failed", outcome="not_written")
        chosen = self._last_the_quarantined(bookies, pool)
        return {slot: bookie.bookie_id for slot, bookie in zip(failed_slots, chosen, strict=False)}

    def _last_the_quarantined(self, bookies: Sequence[Candidate], pool: Sequence[Candidate]) -> list[Candidate]:
        return sorted(self.order(bookies, pool), key=lambda bookie: bookie.quarantined)  # a stable sort
