"""RandomPolicy: any bookies, by chance."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from walkeeper.ledgers.placement._ordered import OrderedPolicy
from walkeeper.ledgers.placement._policy import Candidate

__all__ = ["RandomPolicy"]


@dataclass(frozen=True)
class RandomPolicy(OrderedPolicy):
    """Each writable bookie is as likely as any other."""

    chance: random.Random = field(default_factory=random.SystemRandom)

    def order(self, bookies: Sequence[Candidate], pool: Sequence[Candidate]) -> list[Candidate]:
        return self.chance.sample(pool, len(pool))
