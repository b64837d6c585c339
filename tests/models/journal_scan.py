"""Torn tail or damage, the obvious way: the model of native/core/journal_scan.c over blocks that need no bytes."""

from typing import NamedTuple


class Block(NamedTuple):
    """A block in its place. `follows`: it carries the checksum of the block that stands before it."""

    sequence: int
    incarnation: int
    durable_through: int
    in_flight_max: int
    follows: bool
    whole: bool


def recover(places: list[Block | None]) -> tuple[int, str, bool]:
    """How many blocks the chain holds, the verdict on the place behind them, and whether it ended in damage."""
    end, incarnation = 0, 0
    while end < len(places) and _goes_on(places[end], end + 1, incarnation):
        incarnation = places[end].incarnation  # type: ignore[union-attr]
        end += 1
    bad = end + 1
    later = [block for block in places[end:] if block is not None and block.whole and block.sequence >= bad]
    claimed = any(block.durable_through >= bad for block in later)
    implied = any(block.sequence >= bad + block.in_flight_max and block.incarnation >= incarnation for block in later)
    return end, _verdict(places[end] if end < len(places) else None), claimed or implied


def _goes_on(block: Block | None, sequence: int, incarnation: int) -> bool:
    if block is None or not block.whole or not block.follows:
        return False
    return block.sequence == sequence and block.incarnation >= incarnation


def _verdict(block: Block | None) -> str:
    if block is None:
        return "absent"
    return "stale" if block.whole else "broken"
