"""Arrangements: the racks of an ensemble's slots, and how many racks its write sets have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

__all__ = ["NO_RACK", "filled", "levelled", "missing_racks", "spread"]

NO_RACK = ""
"""Of a slot whose bookie failed, and that gets no other now: entries are not written there."""

SEARCH_SLOTS = 50_000
"""Slots of write sets that a search looks at, tens of milliseconds; then it takes the best that it has found."""


def missing_racks(
    racks: Sequence[str | None], write_quorum: int, wanted: int, touched: Collection[int] | None = None
) -> int:
    """How many racks the write sets lack, all added up: 0 where each has `wanted` racks.

    A slot without a rack is not decided yet, and counts as a rack of its own. With `touched`, only write sets that have
    one of these slots count.
    """
    size, missing = len(racks), 0
    for first in range(size if write_quorum < size else 1):
        slots = [(first + offset) % size for offset in range(write_quorum)]
        if touched is None or any(slot in touched for slot in slots):
            missing += max(
                0, wanted - len({slot if racks[slot] is None else racks[slot] for slot in slots} - {NO_RACK})
            )
    return missing


def levelled(rooms: Mapping[str, int], size: int, at_least: Mapping[str, int] | None = None) -> dict[str, int]:
    """How many bookies of each rack make `size` together, so that the rack with most has as few as can be."""
    counts = dict.fromkeys(rooms, 0) | dict(at_least or {})
    for _ in range(size - sum(counts.values())):
        rack = min((rack for rack in rooms if counts[rack] < rooms[rack]), key=lambda rack: counts[rack])
        counts[rack] += 1
    return {rack: count for rack, count in counts.items() if count}


def spread(counts: Mapping[str, int]) -> list[str]:
    """The racks of the slots of an ensemble with so many bookies of each rack. The slots are a ring.

    No two neighbours have the same rack where that is possible. Otherwise one rack has more than half of the slots. Its
    slots are then in runs as equal as can be, with one slot of another rack between two runs.
    """
    size = sum(counts.values())
    by_count = sorted(counts, key=lambda rack: -counts[rack])
    most = counts[by_count[0]]
    if most <= size // 2:
        places = [*range(0, size, 2), *range(1, size, 2)]
    else:
        own = [slot for slot in range(size) if (slot + 1) * most // size > slot * most // size]
        places = [*own, *(slot for slot in range(size) if slot not in own)]
    racks = [rack for rack in by_count for _ in range(counts[rack])]
    return [rack for _, rack in sorted(zip(places, racks, strict=True))]


def filled(
    racks: Sequence[str | None], rooms: Mapping[str, int], write_quorum: int, wanted: int
) -> tuple[list[str | None], int]:
    """The racks with those that are None filled in, and how many racks the write sets of these slots lack then.

    Racks that come first in `rooms` are tried first. Slots for which there is no room get NO_RACK.
    """
    empty = [slot for slot, rack in enumerate(racks) if rack is None]
    slots = empty[: sum(rooms.values())]
    now, left, steps = list(racks), Counter(rooms), 0
    for slot in empty[len(slots) :]:
        now[slot] = NO_RACK
    best: list[str | None] = now
    steps_max = SEARCH_SLOTS // (len(racks) * write_quorum)
    least: int | None = None

    def search(depth: int) -> None:
        nonlocal best, least, steps
        steps += 1
        missing = missing_racks(now, write_quorum, wanted, slots)
        if least is not None and (missing >= least or steps > steps_max):
            return
        if depth == len(slots):
            best, least = list(now), missing
            return
        for rack in rooms:
            if left[rack] and least != 0:
                left[rack] -= 1
                now[slots[depth]] = rack
                search(depth + 1)
                now[slots[depth]] = None
                left[rack] += 1

    search(0)
    return best, least or 0
