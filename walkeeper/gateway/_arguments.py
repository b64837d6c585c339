"""What callers of a client of a gateway give, checked before anything is sent, and as the protocol takes it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from walkeeper import DLSN, Position
from walkeeper.errors import InvalidError, shown

if TYPE_CHECKING:
    import pyarrow
    from typing_extensions import Buffer

__all__ = ["flag", "joined", "limit", "milliseconds", "natural", "position_of", "seconds"]

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


def joined(payloads: Iterable[Buffer] | pyarrow.Array) -> tuple[bytes | memoryview, list[int]]:
    """The payloads back to back, and the size of each."""
    if type(payloads).__module__ == "pyarrow.lib":
        return _joined_in_arrow(payloads)
    parts = [payload if type(payload) is bytes else bytes(memoryview(payload)) for payload in payloads]
    return b"".join(parts), [*map(len, parts)]


def _joined_in_arrow(payloads: Any) -> tuple[bytes | memoryview, list[int]]:
    import pyarrow

    binary = (pyarrow.binary(), pyarrow.string(), pyarrow.large_binary(), pyarrow.large_string())
    if not isinstance(payloads, pyarrow.Array) or payloads.type not in binary:
        kind = getattr(payloads, "type", type(payloads).__name__)
        raise TypeError(f"a pyarrow Array of binary or string values is wanted, not {kind}")
    if payloads.null_count:
        raise InvalidError(f"{payloads.null_count} of the payloads are null", outcome="not_written")
    array = payloads.cast(pyarrow.large_string() if payloads.type == pyarrow.string() else pyarrow.large_binary())
    _, offsets, data = array.buffers()
    begins = memoryview(offsets).cast("B").cast("q")[array.offset : array.offset + len(array) + 1].tolist()
    sizes = [end - begin for begin, end in pairwise(begins)]
    return (memoryview(data).cast("B")[begins[0] : begins[-1]] if data is not None else b""), sizes
