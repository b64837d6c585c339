"""GcHold: which absent ledgers garbage collection holds back, because the listing as a whole looks wrong.

That many ledgers of a bookie vanish at once is normal: a broker restarts, a topic is deleted. A lost tree is known by
the listing of the whole cluster. Three findings hold ledgers back:

emptied    the listing is empty, and those before were not, or had no ledger of this bookie: until an operator looks
collapsed  the listing has less than a quarter of the ledgers of the last one, or of one of the last quarter of an
           hour: for the hold time
unlisted   the listing has no ledger of this bookie, and those before had none either, or had many: for the hold time

A held ledger goes when its hold is over, by the same two passes and direct questions as every other; one that is
listed again is held no longer. docs/adr/0024-gc-holds.md has the reasons. Nothing here asks a clock or writes a file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["REASONS", "Found", "GcState", "Hold", "Judgement", "Reason", "judge"]

FEW = 10
"""So many ledgers may be the last of a small cluster, or a small bookie: no finding is made of them."""
MANY = 50
"""A listing with fewer ledgers does not collapse."""
COLLAPSED_DIVISOR = 4
"""A broker that restarts replaces each ledger at most: the listing doubles for a while, and becomes half of that."""
PEAK_S = 900.0
"""A listing is compared with the largest of so long: a tree may be lost step by step, over several passes."""

Reason = Literal["emptied", "collapsed", "unlisted", "acknowledged"]
REASONS: tuple[Reason, ...] = ("emptied", "collapsed", "unlisted")
"""Those by which ledgers are held back."""


@dataclass(frozen=True)
class Hold:
    """Ledgers that were found absent together. `acknowledged`: an operator let them go; they are held no longer."""

    reason: Reason
    listed: int
    """Ledgers in the listing in which they were missing."""
    before: int
    """Ledgers in the listing with which that was compared."""
    until: float | None
    """By the clock of whoever judges; None: an operator must look."""
    bytes: int
    ledger_ids: frozenset[int]

    def holds(self, now: float) -> bool:
        """Whether they are held back still."""
        return self.reason != "acknowledged" and (self.until is None or self.until > now)

    def among(self, absent: frozenset[int], size_of: Callable[[Collection[int]], int]) -> Hold:
        """Without the ledgers that are absent no longer, or are not stored any more."""
        left = self.ledger_ids & absent
        return self if left == self.ledger_ids else replace(self, ledger_ids=left, bytes=size_of(left))


@dataclass(frozen=True)
class GcState:
    """What one pass must know of those before it, also of those of an earlier process."""

    listed: int | None = None
    """Ledgers in the last listing that was believed; None: there was none."""
    peak: int = 0
    """Ledgers in the largest listing of the last PEAK_S."""
    peak_until: float = 0.0
    here: int = 0
    """Ledgers of this bookie in the last listing that was believed."""
    met: bool = False
    """A listing had a ledger of this bookie."""
    holds: tuple[Hold, ...] = ()

    def before(self, now: float) -> int:
        """With how many ledgers the next listing is compared."""
        return max(self.listed or 0, self.peak if self.peak_until > now else 0)

    def after(self, listed: int, here: int, now: float, *, anew: bool) -> GcState:
        """With that listing, which is believed. `anew`: those before it count no more."""
        before = 0 if anew else self.before(now)
        if listed < before and self.peak_until > now:
            return replace(self, listed=listed, here=here)
        return replace(self, listed=listed, here=here, peak=max(listed, before), peak_until=now + PEAK_S)

    def held(self, now: float) -> frozenset[int]:
        """The ledgers that are held back."""
        return _ids(hold for hold in self.holds if hold.holds(now))


@dataclass(frozen=True)
class Found:
    """What a pass found: how many ledgers the listing has, how many are stored here, which of these it has not."""

    listed: int
    local: int
    absent: frozenset[int]


@dataclass(frozen=True)
class Judgement:
    """The state from now on, the ledgers that must not be deleted, and whether the operator's word was used."""

    state: GcState
    held: frozenset[int]
    acknowledged: bool


def judge(
    state: GcState,
    found: Found,
    now: float,
    hold_time: float,
    acknowledged: int,
    size_of: Callable[[Collection[int]], int],
) -> Judgement:
    """`acknowledged`: so many held ledgers an operator lets go. `size_of`: the bytes of these ledgers."""
    before = state.before(now)
    here = found.local - len(found.absent)
    state = replace(state, met=state.met or here > 0)
    unlisted = here == 0 and (state.here >= MANY if state.met else found.local > FEW)
    holds = tuple(one for hold in state.holds if (one := hold.among(found.absent, size_of)).ledger_ids)
    if emptied := found.listed == 0 and (before > FEW or unlisted):
        # Every question says "absent" now, so also those whose hold is over wait.
        believed, holds = replace(state, listed=before), _emptied(holds, found, before, size_of)
    else:
        collapsed = before >= MANY and found.listed * COLLAPSED_DIVISOR < before
        believed = state.after(found.listed, here, now, anew=collapsed)
        collapsed |= any(hold.until is None for hold in holds)
        holds = tuple(
            replace(hold, reason="collapsed", listed=found.listed, until=now + hold_time)
            if hold.until is None
            else hold
            for hold in holds
        )
        new = found.absent - _ids(holds)
        if new and (collapsed or unlisted):
            reason: Reason = "collapsed" if collapsed else "unlisted"
            holds += (Hold(reason, found.listed, before, now + hold_time, size_of(new), new),)
    held = _ids(hold for hold in holds if hold.holds(now))
    if held and acknowledged >= len(held):
        holds = tuple(replace(hold, reason="acknowledged", until=now) if hold.holds(now) else hold for hold in holds)
        if emptied:
            believed = state.after(0, 0, now, anew=True)
        return Judgement(replace(believed, holds=holds), frozenset(), acknowledged=True)
    return Judgement(replace(believed, holds=holds), held, acknowledged=False)


def _emptied(
    holds: tuple[Hold, ...], found: Found, before: int, size_of: Callable[[Collection[int]], int]
) -> tuple[Hold, ...]:
    """One hold of all that are absent, but for those that an operator let go."""
    let_go = tuple(hold for hold in holds if hold.reason == "acknowledged")
    waiting = found.absent - _ids(let_go)
    for hold in holds:
        if hold.reason == "emptied" and hold.ledger_ids == waiting:
            return (*let_go, hold)
    return (*let_go, Hold("emptied", 0, before, None, size_of(waiting), waiting)) if waiting else let_go


def _ids(holds: Iterable[Hold]) -> frozenset[int]:
    return frozenset[int]().union(*(hold.ledger_ids for hold in holds))
