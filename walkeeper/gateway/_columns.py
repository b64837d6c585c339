"""Columns: records as arrays of little-endian numbers and their payloads back to back, as in the body of a frame."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from itertools import accumulate, islice
from operator import sub

from walkeeper._writer import Joined
from walkeeper.gateway._protocol import Body, Refused, Status

__all__ = ["COLUMNS", "joined_of", "little_endian", "numbers_in", "packed_numbers", "payloads_of"]

COLUMNS = ("segment", "entry_id", "slot", "sequence_id", "txid")
"""Of a read, one number for each record; behind them the offsets of the payloads, and the payloads."""


def joined_of(body: Body, count: int) -> Joined:
    """The payloads in the last fields of a body, where they stand: none is copied.

    Refused where the offsets are not those of the bytes behind them.
    """
    offsets = array("q", body.raw(8 * (count + 1)))
    if sys.byteorder == "big":
        offsets.byteswap()
    data = body.rest()
    try:
        sizes = array("I", map(sub, islice(offsets, 1, None), offsets))  # it takes no number below 0
    except OverflowError:
        sizes = None
    if sizes is None or offsets[0] != 0 or offsets[-1] != len(data):
        raise Refused(Status.INVALID, f"the offsets of {count} payloads must rise from 0 to {len(data)}")
    return Joined(data, sizes)


def payloads_of(body: Body, count: int) -> list[bytes]:
    """The same, each by itself."""
    data, sizes = joined_of(body, count)
    ends = accumulate(sizes)
    return [bytes(data[end - size : end]) for end, size in zip(ends, sizes, strict=True)]


def numbers_in(data: bytes | memoryview) -> memoryview:
    """The numbers of a column."""
    if sys.byteorder == "little":
        return memoryview(data).cast("q")
    numbers = array("q", data)
    numbers.byteswap()
    return memoryview(numbers)


def packed_numbers(numbers: Iterable[int]) -> bytes:
    """A column."""
    return bytes(little_endian(memoryview(array("q", numbers)).cast("B")))


def little_endian(column: memoryview) -> memoryview:
    """The bytes of a column, from those of its numbers in this machine."""
    if sys.byteorder == "little":
        return column
    swapped = array("q", column.tobytes())
    swapped.byteswap()
    return memoryview(swapped).cast("B")
