"""RackAwarePolicy: the bookies of each write set stand in several racks."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from walkeeper.errors import InvalidError, NotEnoughBookiesError
from walkeeper.ledgers.placement._ordered import OrderedPolicy
from walkeeper.ledgers.placement._policy import DEFAULT_RACK, Candidate, checked_count, usable
from walkeeper.ledgers.placement._racks import NO_RACK, filled, levelled, missing_racks, spread
from walkeeper.ledgers.placement._random import RandomPolicy
from walkeeper.ledgers.placement._weighted import WeightedPolicy

__all__ = ["RackAwarePolicy"]

DRAWS = 16
"""Ensembles that are drawn by chance before one is built by the number of bookies in each rack. What is drawn loads the
bookies of a small rack no more than it must."""


@dataclass(frozen=True)
class RackAwarePolicy:
    """Each write set has bookies of at least `min_racks` racks; where Qw is smaller, each bookie in another.

    Where there are fewer racks, or the racks have too few bookies, it comes as near as can be; with `enforce` it raises
    NotEnoughBookiesError. Quarantined bookies are chosen where the others are too few, or do not allow what
    is enforced.
    `weighted`: within what the racks allow, bookies are chosen by their free space, as WeightedPolicy does.
    """

    min_racks: int = 2
    enforce: bool = False
    weighted: bool = False
    max_weight_multiple: float = 3.0
    chance: random.Random = field(default_factory=random.SystemRandom)

    def __post_init__(self) -> None:
        if self.min_racks < 1:
            raise InvalidError(f"min_racks={self.min_racks}: at least 1 is wanted")
        WeightedPolicy(self.max_weight_multiple, self.chance)

    @property
    def needs_weights(self) -> bool:
        return self.weighted

    def new_ensemble(
        self, size: int, write_quorum: int, ack_quorum: int, bookies: Sequence[Candidate], exclude: Collection[str]
    ) -> tuple[str, ...]:
        everyone = usable(bookies, exclude)
        checked_count(size, len(everyone))
        if size == 0:
            return ()
        missing = 0
        best: tuple[str, ...] = ()
        healthy = [bookie for bookie in everyone if not bookie.quarantined]
        for pool, always in ((healthy, []) if len(healthy) >= size else (everyone, healthy), (everyone, [])):
            found, missing = self._arranged(size, write_quorum, bookies, pool, _rooms(always))
            best = best or found
            if missing == 0:
                return found
            if not self.enforce:
                break
        if self.enforce:
            raise self._refusal(write_quorum, everyone)
        return best

    def replacements(
        self,
        ensemble: Sequence[str],
        failed_slots: Sequence[int],
        write_quorum: int,
        bookies: Sequence[Candidate],
        exclude: Collection[str],
    ) -> dict[int, str]:
        everyone = usable(bookies, {*exclude, *ensemble})
        if not everyone:
            raise NotEnoughBookiesError("no bookie is up that could replace one that failed", outcome="not_written")
        racks = {bookie.bookie_id: bookie.rack for bookie in bookies}
        there = [racks.get(bookie_id, DEFAULT_RACK) for bookie_id in ensemble]
        for slots in (failed_slots, *([slot] for slot in failed_slots if len(failed_slots) > 1)):
            for pool in _pools(everyone, len(slots)):
                now = [NO_RACK if slot in failed_slots else rack for slot, rack in enumerate(there)]
                found, missing = self._filled(now, slots, write_quorum, bookies, pool)
                if missing == 0 or not self.enforce:
                    return found
        raise self._refusal(write_quorum, everyone)

    def _arranged(
        self,
        size: int,
        write_quorum: int,
        bookies: Sequence[Candidate],
        pool: Sequence[Candidate],
        at_least: Mapping[str, int],
    ) -> tuple[tuple[str, ...], int]:
        """An ensemble with at least so many bookies of each rack, and how many racks its write sets lack."""
        wanted = self._wanted(write_quorum, (bookie.rack for bookie in pool))
        best: list[str] = []
        least: int | None = None
        ordered: list[Candidate] = []
        for draw in range(DRAWS + 2):
            if draw < DRAWS:
                ordered = self._order(bookies, pool)
                racks = spread(Counter(bookie.rack for bookie in ordered[:size]))
            else:
                rooms = _rooms(ordered)
                if draw == DRAWS:
                    racks = spread(levelled(rooms, size, at_least))
                else:
                    racks = [rack or "" for rack in filled([None] * size, rooms, write_quorum, wanted)[0]]
            missing = missing_racks(racks, write_quorum, wanted)
            if least is None or missing < least:
                best, least = _named(racks, ordered), missing
            # Of two racks spread() is the best there is.
            if least == 0 or (draw == DRAWS and (wanted <= 2 or at_least)):
                break
        turn = self.chance.randrange(size)
        return (*best[turn:], *best[:turn]), least or 0

    def _filled(
        self,
        racks: Sequence[str],
        slots: Sequence[int],
        write_quorum: int,
        bookies: Sequence[Candidate],
        pool: Sequence[Candidate],
    ) -> tuple[dict[int, str], int]:
        """A bookie for each of the slots that there is one for, and how many racks their write sets lack then."""
        ordered = self._order(bookies, pool)
        now = [None if slot in slots else rack for slot, rack in enumerate(racks)]
        wanted = self._wanted(write_quorum, (rack for rack in (*racks, *_rooms(pool)) if rack != NO_RACK))
        found, missing = filled(now, _rooms(ordered), write_quorum, wanted)
        taken = [slot for slot in slots if found[slot] != NO_RACK]
        names = _named([found[slot] or "" for slot in taken], ordered)
        return dict(zip(taken, names, strict=True)), missing

    def _wanted(self, write_quorum: int, racks: Iterable[str]) -> int:
        wanted = min(self.min_racks, write_quorum)
        return wanted if self.enforce else min(wanted, len(set(racks)))

    def _order(self, bookies: Sequence[Candidate], pool: Sequence[Candidate]) -> list[Candidate]:
        by: OrderedPolicy = RandomPolicy(self.chance)
        if self.weighted:
            by = WeightedPolicy(self.max_weight_multiple, self.chance)
        return sorted(by.order(bookies, pool), key=lambda bookie: bookie.quarantined)

    def _refusal(self, write_quorum: int, pool: Sequence[Candidate]) -> NotEnoughBookiesError:
        wanted, racks = min(self.min_racks, write_quorum), len(_rooms(pool))
        return NotEnoughBookiesError(
            f"each write set needs bookies of {wanted} racks: {len(pool)} bookies in {racks} racks do not allow it",
            outcome="not_written",
            hint="start bookies in other racks, or let the policy come as near as it can (enforce=False)",
        )


def _pools(everyone: Sequence[Candidate], size: int) -> list[Sequence[Candidate]]:
    """What is chosen from: first those that are not quarantined, if they are enough."""
    healthy = [bookie for bookie in everyone if not bookie.quarantined]
    return [healthy, everyone] if size <= len(healthy) < len(everyone) else [everyone]


def _rooms(bookies: Iterable[Candidate]) -> dict[str, int]:
    """How many bookies each rack has, in the order in which the racks come."""
    return dict(Counter(bookie.rack for bookie in bookies))


def _named(racks: Sequence[str], ordered: Sequence[Candidate]) -> list[str]:
    """The bookies of slots with these racks: of each rack those that come first."""
    left: dict[str, list[str]] = {}
    for bookie in reversed(ordered):
        left.setdefault(bookie.rack, []).append(bookie.bookie_id)
    return [left[rack].pop() for rack in racks]
