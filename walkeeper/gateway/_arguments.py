"""What callers of a client of a gateway give, checked before anything is sent, and as the protocol takes it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from walkeeper import DLSN, Position
from walkeeper.errors import InvalidError, shown
from walkeeper.gateway._columns import little_endian, packed_numbers

if TYPE_CHECKING:
    import pyarrow
    from typing_extensions import Buffer

__all__ = ["Payloads", "flag", "limit", "milliseconds", "natural", "payloads_of", "position_of", "seconds"]

LIMIT_MAX = 2**32 - 1


def natural(name: str, value: object) -> int:
    """A whole number from 0 to 2**63 - 1."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise InvalidError(f"{name}={shown(value)}: a whole number is wanted, 0 or more, and below 2**63")
    return value


def flag(name: str, value: object) -> bytes:
    """True or False, as one byte."""
    if not isinstance(value, bool):
        raise InvalidError(f"{name}={shown(value)}: True or False is wanted")
    return bytes([value])


def limit(name: str, value: int | None) -> int:
    """At least 1; 0 where none was given."""
    if value is None:
        return 0
    if natural(name, value) < 1:
        raise InvalidError(f"{name}={value}: 1 or more, or None")
    return min(value, LIMIT_MAX)


def seconds(name: str, value: float) -> float:
    """How long to wait."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise InvalidError(f"{name}={shown(value)}: seconds, 0 or more")
    return value


def milliseconds(time: datetime | float) -> int:
    """A moment, in whole milliseconds since 1970."""
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise InvalidError(f"time={time!r} has no time zone: its instant is not known")
        found = (time - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)
    elif isinstance(time, bool) or not isinstance(time, (int, float)) or not math.isfinite(time):
        raise InvalidError(f"time={shown(time)}: an aware datetime, or seconds since 1970")
    else:
        found = math.floor(time * 1000)
    return natural("time in milliseconds", found)


def position_of(place: Position | DLSN) -> Position:
    """Of a DLSN one whose sequence id is not known. TypeError for anything else."""
    if isinstance(place, DLSN):
        place = Position((place.segment, place.entry_id, place.slot, -1, -1))
    if not isinstance(place, Position):
        raise TypeError(f"a Position or a DLSN is wanted, not {shown(place)}")
    for number in (*place.dlsn, place.sequence_id, place.txid):
        if not isinstance(number, int) or not -(2**63) <= number < 2**63:
            raise InvalidError(f"{shown(number)} in a position: a whole number below 2**63 is wanted")
    return place


@dataclass(frozen=True)
class Payloads:
    """Payloads as the last fields of a body have them."""

    count: int
    offsets: bytes | memoryview
    """The column: one number more than there are payloads."""
    data: bytes | memoryview
    """The payloads back to back."""


def payloads_of(given: Iterable[Buffer] | pyarrow.Array) -> Payloads:
    """Of an Arrow array nothing is done for each payload, and none is copied."""
    if type(given).__module__ == "pyarrow.lib":
        return _payloads_of_arrow(given)
    parts = [payload if type(payload) is bytes else bytes(memoryview(payload)) for payload in given]
    return Payloads(len(parts), packed_numbers(accumulate(map(len, parts), initial=0)), b"".join(parts))


def _payloads_of_arrow(given: Any) -> Payloads:
    import pyarrow
    from pyarrow import compute

    binary = (pyarrow.binary(), pyarrow.string(), pyarrow.large_binary(), pyarrow.large_string())
    if not isinstance(given, pyarrow.Array) or given.type not in binary:
        kind = getattr(given, "type", type(given).__name__)
        raise TypeError(f"a pyarrow Array of binary or string values is wanted, not {kind}")
    if given.null_count:
        raise InvalidError(f"{given.null_count} of the payloads are null", outcome="not_written")
    if not len(given):
        return Payloads(0, packed_numbers([0]), b"")
    array = given.cast(pyarrow.large_string() if given.type == pyarrow.string() else pyarrow.large_binary())
    _, offsets, data = array.buffers()
    begins = pyarrow.Array.from_buffers(pyarrow.int64(), len(array) + 1, [None, offsets], offset=array.offset)
    first, end = begins[0].as_py(), begins[-1].as_py()
    if first:
        begins = compute.call_function("subtract", [begins, begins[0]])
    _, numbers = begins.buffers()
    column = memoryview(numbers).cast("B")[8 * begins.offset : 8 * (begins.offset + len(begins))]
    payloads = b"" if data is None else memoryview(data).cast("B")[first:end]
    return Payloads(len(array), little_endian(column), payloads)
