"""Where a record is: DLSN, Position, and the range that append_many answers."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from walkeeper._native import ffi, lib
from walkeeper.errors import CorruptError, InvalidError, shown

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["DLSN", "AppendRange", "Position"]

CELLS = struct.Struct("@5q")
"""A wk_position in memory: segment, entry id, slot, sequence id, txid."""

assert ffi.sizeof("wk_position") == CELLS.size
assert ffi.offsetof("wk_position", "sequence_id") == 24

_NUMBERS = struct.Struct(">2q")


class DLSN(NamedTuple):
    """DistributedLog sequence number: (segment, entry id, slot). Ordered; that of a log's first record is (1, 0, 0)."""

    segment: int
    entry_id: int
    slot: int

    def to_bytes(self) -> bytes:
        """The 25 bytes that DistributedLog writes for it; they sort as the DLSN does."""
        _check_range(self)
        memory = ffi.new("uint8_t[]", lib.WK_DLSN_SIZE)
        lib.wk_dlsn_encode(ffi.new("wk_dlsn *", self), memory)
        return bytes(ffi.buffer(memory))

    @classmethod
    def from_bytes(cls, data: Buffer) -> DLSN:
        """The DLSN that to_bytes() wrote, from any bytes-like object. Raises CorruptError for anything else in it."""
        stored, dlsn = _bytes_of(data), ffi.new("wk_dlsn *")
        if len(stored) != lib.WK_DLSN_SIZE or lib.wk_dlsn_decode(stored, len(stored), dlsn) != lib.WK_OK:
            raise CorruptError(f"not a DLSN: {stored[:32]!r} ({len(stored)} bytes)")
        return cls(dlsn.segment, dlsn.entry_id, dlsn.slot)


class Position:
    """A place in a log: of a record, or just behind the last one.

    Ordered as the DLSN; two positions with one DLSN are equal. Accepted wherever a DLSN is, and comparable with one.
    `cells` is (segment, entry id, slot, sequence id, txid); -1 for a sequence id or txid that is not known.
    """

    __slots__ = ("_cells",)

    def __init__(self, cells: tuple[int, int, int, int, int]) -> None:
        self._cells = cells

    @property
    def dlsn(self) -> DLSN:
        """Segment, entry id and slot."""
        return DLSN(*self._cells[:3])

    @property
    def sequence_id(self) -> int:
        """The record's dense number in its log, from 0; -1 where it is not known."""
        return self._cells[3]

    @property
    def txid(self) -> int:
        """The record's txid; -1 where there is no record yet, or it is not known."""
        return self._cells[4]

    def to_bytes(self) -> bytes:
        """41 bytes: the DLSN's 25, then sequence id and txid, big-endian.

        Those of different DLSNs sort as the positions do. Positions with one DLSN are equal; their bytes are not where
        one of them does not know its sequence id or txid.
        """
        _check_range(self._cells)
        return self.dlsn.to_bytes() + _NUMBERS.pack(*self._cells[3:])

    @classmethod
    def from_bytes(cls, data: Buffer) -> Position:
        """The position that to_bytes() wrote; also from the 25 bytes of a DLSN, with sequence id and txid unknown.

        `data` is any bytes-like object. Raises CorruptError for anything else in it.
        """
        stored, size = _bytes_of(data), lib.WK_DLSN_SIZE
        if len(stored) not in (size, size + _NUMBERS.size):
            raise CorruptError(f"not a position: {stored[:48]!r} ({len(stored)} bytes)")
        sequence_id, txid = _NUMBERS.unpack(stored[size:]) if len(stored) > size else (-1, -1)
        dlsn = DLSN.from_bytes(stored[:size])
        return cls((dlsn.segment, dlsn.entry_id, dlsn.slot, sequence_id, txid))

    def __eq__(self, other: object) -> bool:
        key = _key(other)
        return NotImplemented if key is None else self._cells[:3] == key

    def __lt__(self, other: Position | DLSN) -> bool:
        key = _key(other)
        return NotImplemented if key is None else self._cells[:3] < key

    def __le__(self, other: Position | DLSN) -> bool:
        key = _key(other)
        return NotImplemented if key is None else self._cells[:3] <= key

    def __gt__(self, other: Position | DLSN) -> bool:
        key = _key(other)
        return NotImplemented if key is None else self._cells[:3] > key

    def __ge__(self, other: Position | DLSN) -> bool:
        key = _key(other)
        return NotImplemented if key is None else self._cells[:3] >= key

    def __hash__(self) -> int:
        return hash(self._cells[:3])

    def __reduce__(self) -> tuple[type[Position], tuple[tuple[int, int, int, int, int]]]:
        return Position, (self._cells,)

    def __repr__(self) -> str:
        segment, entry_id, slot, sequence_id, txid = self._cells
        return f"Position(dlsn=({segment}, {entry_id}, {slot}), sequence_id={sequence_id}, txid={txid})"


@dataclass(frozen=True, slots=True)
class AppendRange:
    """What append_many appended: `count` records from `first` to `last`, mostly with consecutive ids (see there)."""

    first: Position
    last: Position
    count: int


def _key(place: object) -> tuple[int, int, int] | None:
    if isinstance(place, Position):
        return place._cells[:3]
    return place if isinstance(place, DLSN) else None


def position_of(at: Any) -> Position:
    """The Position in a wk_position (a struct or a pointer to one)."""
    dlsn = at.dlsn
    return Position((dlsn.segment, dlsn.entry_id, dlsn.slot, at.sequence_id, at.txid))


def _bytes_of(data: Buffer) -> bytes:
    """What a caller stored. TypeError for what is not bytes-like: a list of numbers, or a number, made bytes too."""
    return data if type(data) is bytes else bytes(memoryview(data))


def _check_range(numbers: Iterable[object]) -> None:
    """Raises InvalidError where one of them is no whole number of 64 bits."""
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool) or not -(2**63) <= number < 2**63:
            raise InvalidError(f"{shown(number)} in a position: a whole number below 2**63 is wanted")


def sequence_id_of(place: Position | DLSN) -> int:
    """The sequence id of what a caller gave, -1 where that does not say."""
    return place.sequence_id if isinstance(place, Position) else -1


def dlsn_of(place: Position | DLSN) -> DLSN:
    """The DLSN of what a caller gave; TypeError for anything but a Position or a DLSN, InvalidError for one that no
    record can have."""
    if isinstance(place, Position):
        _check_range(place._cells)
        return place.dlsn
    if isinstance(place, DLSN):
        _check_range(place)
        return place
    raise TypeError(f"a Position or a DLSN is wanted, not {shown(place)}")
