"""Columns: records as arrays of little-endian numbers and their payloads back to back, as in the body of a frame."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from itertools import pairwise
from operator import le

from walkeeper.gateway._protocol import Body, Refused, Status

__all__ = ["COLUMNS", "little_endian", "numbers_in", "packed_numbers", "payloads_of"]

COLUMNS = ("segment", "entry_id", "slot", "sequence_id", "txid")
"""Of a read, one number for each record; behind them the offsets of the payloads, and the payloads."""


def payloads_of(body: Body, count: int) -> list[bytes]:
    """Those of the last fields of a body. Refused where the offsets are not those of the bytes behind them."""
    offsets = numbers_in(body.raw(8 * (count + 1)))
    data = body.rest()
    if offsets[0] != 0 or offsets[-1] != len(data) or not all(map(le, offsets, offsets[1:])):
        raise Refused(Status.INVALID, f"the offsets of {count} payloads must rise from 0 to {len(data)}")
    return [data[start:end] for start, end in pairwise(offsets.tolist())]


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
