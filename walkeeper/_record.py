"""What a reader reads: records, and gaps where loss was accepted. Both are views of one batch of C memory."""

from __future__ import annotations

import struct
import sys
from itertools import repeat
from typing import Any, TypeAlias

from walkeeper._native import ffi, lib
from walkeeper._position import DLSN, Position

__all__ = ["Gap", "Record"]

CELLS = struct.Struct("@PQ5q3qQI4x")
"""A wk_record in memory: payload address and size; position (5); next (3); gap count; kind."""

assert ffi.sizeof("wk_record") == CELLS.size
assert [ffi.offsetof("wk_record", name) for name in ("at", "next", "gap_count", "kind")] == [16, 56, 80, 88]

_Cells: TypeAlias = "tuple[int, int, int, int, int, int, int, int, int, int, int, int]"
_WORDS = CELLS.size // 8
_KIND_BYTE = 88 if sys.byteorder == "little" else 91


class Record:
    """One record of a log.

    `payload` is a read-only view of the reader's memory, not a copy. It stays valid for as long as you keep it, after
    the reader and the namespace are closed too, and keeps its whole batch (about 1 MiB) in memory: take
    `bytes(record.payload)` to keep a few records for long.
    """

    __slots__ = ("_batch", "_cells")

    def __init__(self, cells: _Cells, batch: Batch) -> None:
        self._cells = cells
        self._batch = batch

    @property
    def payload(self) -> memoryview:
        """The bytes of the record: a view that is read-only."""
        batch = self._batch
        start = self._cells[0] - batch.low
        return batch.view[start : start + self._cells[1]]

    @property
    def position(self) -> Position:
        """Where it is: a reader started here yields it first."""
        return Position(self._cells[2:7])

    @property
    def next(self) -> Position:
        """The position just behind this record: where a cursor that has handled it stands. Its txid is not known."""
        cells = self._cells
        return Position((*cells[7:10], cells[5] + 1, -1))

    @property
    def dlsn(self) -> DLSN:
        """Its DLSN."""
        return DLSN(*self._cells[2:5])

    @property
    def sequence_id(self) -> int:
        """Its number in its log, from 0, without holes."""
        return self._cells[5]

    @property
    def txid(self) -> int:
        """The application's number, or milliseconds since 1970."""
        return self._cells[6]

    def __reduce__(self) -> tuple[Any, tuple[_Cells, bytes]]:
        return _record_from, (self._cells, bytes(self.payload))

    def __repr__(self) -> str:
        payload = self.payload
        shown = f"{bytes(payload)!r}" if len(payload) <= 40 else f"<{len(payload)} bytes {bytes(payload[:32])!r}...>"
        return f"Record(dlsn={tuple(self.dlsn)}, sequence_id={self.sequence_id}, txid={self.txid}, payload={shown})"


class Gap:
    """Lost records, whose loss was accepted with on_damage= at an open: `count` of them from `position` on.

    A reader raises GapError where they would have been, and the error carries the Gap. A reader that was opened with
    gaps="yield" yields it. It has no payload; a program that does not want to go on without the records stops here.
    """

    __slots__ = ("_cells",)

    def __init__(self, cells: _Cells) -> None:
        self._cells = cells

    @property
    def count(self) -> int:
        """How many records are lost."""
        return self._cells[10]

    @property
    def position(self) -> Position:
        """Where the first of them was."""
        return Position(self._cells[2:7])

    @property
    def next(self) -> Position:
        """The position just behind the gap."""
        cells = self._cells
        return Position((*cells[7:10], cells[5] + cells[10], -1))

    @property
    def dlsn(self) -> DLSN:
        """Of the first record that is lost, or where it would have been."""
        return DLSN(*self._cells[2:5])

    @property
    def sequence_id(self) -> int:
        """Of the first record that is lost."""
        return self._cells[5]

    def __reduce__(self) -> tuple[type[Gap], tuple[_Cells]]:
        return Gap, (self._cells,)

    def __repr__(self) -> str:
        return f"Gap(dlsn={tuple(self.dlsn)}, sequence_id={self.sequence_id}, count={self.count})"


class Batch:
    """The memory behind the records of one wk_batch; the C batch is released when the last view of it is gone.

    `view` spans from the lowest payload to the end of the highest. Only slices that are payloads are handed out:
    what lies between two payloads is not ours to read.
    """

    __slots__ = ("low", "view")

    def __init__(self, low: int, view: memoryview) -> None:
        self.low = low
        self.view = view


def new_batch() -> Any:
    """A wk_batch ** for C to fill. What it got is released when nobody refers to it any more, nor to a record of it."""
    return ffi.gc(ffi.new("wk_batch **"), _release)


def _release(out: Any, release: Any = lib.wk_batch_release, null: Any = ffi.NULL) -> None:
    if out[0] != null:
        release(out[0])


class _Hold:
    """The destructor of a pointer into a batch: it does nothing, and is there for as long as the pointer."""

    __slots__ = ("_out",)

    def __init__(self, out: Any) -> None:
        self._out = out

    def __call__(self, _: Any) -> None:
        pass


def records_of(out: Any) -> list[Record | Gap]:
    """The records of a new_batch() that C has filled."""
    count = ffi.new("size_t *")
    first = lib.wk_batch_records(out[0], count)
    cells = memoryview(ffi.buffer(first, count[0] * CELLS.size))
    words = cells.cast("Q")
    addresses, sizes = words[0::_WORDS].tolist(), words[1::_WORDS].tolist()
    if 0 in sizes:  # an empty payload may have any address
        filled = [(address, size) for address, size in zip(addresses, sizes, strict=True) if size]
        addresses, sizes = [address for address, _ in filled], [size for _, size in filled]
    low = min(addresses, default=0)
    high = max(map(int.__add__, addresses, sizes), default=0)

    # A view holds the buffer, the buffer holds this pointer, and this pointer holds the batch.
    start = ffi.cast("uint8_t *", low if high else first)
    memory = Batch(low, memoryview(ffi.buffer(ffi.gc(start, _Hold(out)), high - low)).toreadonly())

    if any(cells[_KIND_BYTE :: CELLS.size]):
        gap = lib.WK_RECORD_GAP
        return [Gap(row) if row[11] == gap else Record(row, memory) for row in CELLS.iter_unpack(cells)]
    return list(map(Record, CELLS.iter_unpack(cells), repeat(memory)))


def _record_from(cells: _Cells, payload: bytes) -> Record:
    return Record((0, *cells[1:]), Batch(0, memoryview(payload)))
