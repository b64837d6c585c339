"""CentralisedPolicy: ensembles that one client of the cluster deals for all; FairDealer: how it deals them."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol, runtime_checkable

from walkeeper.ledgers.placement._policy import Candidate, PlacementPolicy, checked_count, usable
from walkeeper.ledgers.placement._weighted import WeightedPolicy, capped_weights

__all__ = ["CentralisedPolicy", "Dealer", "DealingPolicy", "FairDealer", "fits"]

LAG_SLOTS = 4.0
"""How many slots a bookie may be owed. One that could not be given its share is not given all of it at once later."""


class Dealer(Protocol):
    """Deals ensembles one behind another, and remembers what it dealt. One thread calls it."""

    def deal(self, size: int, write_quorum: int, ack_quorum: int, bookies: Sequence[Candidate]) -> tuple[str, ...]:
        """`size` different bookies that are writable. NotEnoughBookiesError."""
        ...


@runtime_checkable
class DealingPolicy(PlacementPolicy, Protocol):
    """A policy whose ensembles one client deals for all: the one that has the cluster's lease. The others claim what it
    has dealt. Where nothing is dealt they ask `new_ensemble` themselves.
    """

    def dealer(self) -> Dealer:
        """A new one, for a client that got the lease."""
        ...


@dataclass(frozen=True)
class CentralisedPolicy(WeightedPolicy):
    """By free space, as WeightedPolicy, but dealt by one client for all, who knows what it dealt before: slots follow
    the space as closely as whole ensembles can. Where nothing is dealt, and for replacements, it is WeightedPolicy.
    """

    def dealer(self) -> Dealer:
        return FairDealer(self.max_weight_multiple, self.chance)


class FairDealer:
    """Gives each slot to the bookie that waited longest for one, by its weight; of equal ones by chance.

    A bookie's time rises by 1 / weight with each slot, and the earliest times are next. So the slots of two bookies are
    as their weights, to one slot. A bookie that joins begins at the median time: it takes its share from now on.
    """

    def __init__(self, max_weight_multiple: float = 3.0, chance: random.Random | None = None) -> None:
        self._multiple = max_weight_multiple
        self._chance = random.SystemRandom() if chance is None else chance
        self._times: dict[str, float] = {}

    def deal(self, size: int, write_quorum: int, ack_quorum: int, bookies: Sequence[Candidate]) -> tuple[str, ...]:
        pool = [bookie.bookie_id for bookie in usable(bookies, ()) if not bookie.quarantined]
        checked_count(size, len(pool))
        if size == 0:
            return ()
        weights = capped_weights(bookies, self._multiple)
        there = [self._times[name] for name in pool if name in self._times]
        middle = median(there) if there else 0.0
        # A full bookie has no share. It is dealt where there are too few others.
        step = {name: 1 / weights[name] if weights[name] > 0 else 0.0 for name in pool}
        times = {name: max(self._times.get(name, middle), middle - LAG_SLOTS * step[name]) for name in pool}
        order = sorted(
            pool, key=lambda name: (weights[name] <= 0, times[name] + step[name], self._chance.getrandbits(64))
        )
        chosen = order[:size]
        for name in chosen:
            times[name] += step[name]
        self._times = times
        self._chance.shuffle(chosen)
        return tuple(chosen)


def fits(ensemble: Sequence[str], size: int, bookies: Sequence[Candidate], exclude: Collection[str] = ()) -> bool:
    """Whether an ensemble that was dealt some time ago is right now: all of it are up, and none failed lately."""
    able = {bookie.bookie_id for bookie in usable(bookies, exclude) if not bookie.quarantined}
    return len(ensemble) == len(set(ensemble)) == size and set(ensemble) <= able
