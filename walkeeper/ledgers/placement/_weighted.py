"""WeightedPolicy: bookies by their free space, by weighted rendezvous hashing."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from statistics import median

from walkeeper.errors import InvalidError
from walkeeper.ledgers.placement._ordered import OrderedPolicy
from walkeeper.ledgers.placement._policy import Candidate

__all__ = ["WeightedPolicy", "capped_weights", "rendezvous"]

_HASHES = 2**64


def rendezvous(key: bytes, weights: Mapping[str, float]) -> list[str]:
    """The bookies in the order in which this key prefers them.

    The first is a given bookie with a chance that is its share of all weights; the next ones are so among those that
    are left. A bookie that joins or leaves changes the order of no two others. Bookies of weight 0 are last.
    """

    def place(bookie_id: str) -> tuple[bool, float, str]:
        drawn = int.from_bytes(blake2b(bookie_id.encode(), key=key, digest_size=8).digest(), "big")
        weight = weights[bookie_id]
        return weight <= 0, -math.log((drawn + 1) / (_HASHES + 1)) / (weight if weight > 0 else 1), bookie_id

    return sorted(weights, key=place)


def capped_weights(bookies: Sequence[Candidate], multiple: float) -> dict[str, float]:
    """The weight of each bookie, at most `multiple` times the median of those that are known and not 0.

    A weight that is not known is the median. Where none is known, all are 1.
    """
    known = [bookie.weight for bookie in bookies if bookie.writable and bookie.weight is not None and bookie.weight > 0]
    middle = float(median(known)) if known else 1.0
    return {
        bookie.bookie_id: middle if bookie.weight is None else min(float(max(bookie.weight, 0)), multiple * middle)
        for bookie in bookies
    }


@dataclass(frozen=True)
class WeightedPolicy(OrderedPolicy):
    """A bookie with twice the free space gets twice the entries, as far as an ensemble has room for it.

    No bookie counts for more than `max_weight_multiple` times the median. So a bookie that joins with an empty disk is
    not in every ensemble.
    """

    max_weight_multiple: float = 3.0
    chance: random.Random = field(default_factory=random.SystemRandom)
    needs_weights = True

    def __post_init__(self) -> None:
        if not 1 <= self.max_weight_multiple < math.inf:
            raise InvalidError(f"max_weight_multiple={self.max_weight_multiple}: a number from 1 on is wanted")

    def order(self, bookies: Sequence[Candidate], pool: Sequence[Candidate]) -> list[Candidate]:
        weights = capped_weights(bookies, self.max_weight_multiple)
        by_id = {bookie.bookie_id: bookie for bookie in pool}
        key = self.chance.getrandbits(128).to_bytes(16, "big")
        return [by_id[bookie_id] for bookie_id in rendezvous(key, {name: weights[name] for name in by_id})]
