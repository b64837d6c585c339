"""ReadBatch: the records that one read of a client of a gateway brought, as columns."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from walkeeper import Position
from walkeeper.errors import Error
from walkeeper.gateway._columns import COLUMNS, numbers_in
from walkeeper.gateway._log_fields import End, Way, place_of
from walkeeper.gateway._protocol import Body

if TYPE_CHECKING:
    import pyarrow

__all__ = ["ReadBatch"]

_HEAD_SIZE = 40


class ReadBatch:
    """Records that follow each other; perhaps none. Nothing was done for each of them in Python.

    `segment`, `entry_id`, `slot`, `sequence_id` and `txid` have a number for each record. `data` has the payloads back
    to back: number i is data[offsets[i]:offsets[i + 1]]. All of them are views of one answer of the gateway.
    """

    __slots__ = ("_count", "_end", "_place", "data", "entry_id", "offsets", "segment", "sequence_id", "slot", "txid")

    def __init__(self, answer: memoryview) -> None:
        head = Body(bytes(answer[:_HEAD_SIZE]))
        self._end, self._count = head.u8(), head.u32()
        self._place = place_of(head)
        head.align()
        columns: list[memoryview] = []
        at, size = _HEAD_SIZE, 8 * self._count
        for _ in COLUMNS if self._count else ():
            columns.append(numbers_in(answer[at : at + size]))
            at += size
        none = memoryview(b"").cast("q")
        self.segment, self.entry_id, self.slot, self.sequence_id, self.txid = columns or [none] * len(COLUMNS)
        behind = at + size + 8 if self._count else at
        self.offsets = numbers_in(answer[at:behind]) if self._count else memoryview(bytes(8)).cast("q")
        self.data = answer[behind:].toreadonly()

    def __len__(self) -> int:
        return self._count

    @property
    def next(self) -> Position | None:
        """Where to read on: just behind the last record. Of a batch without records None where it was asked for by a
        number or from the start: ask so again."""
        return self._place.dlsn if self._place.way == Way.DLSN else None

    @property
    def end_of_log(self) -> bool:
        """There was nothing more when it was answered."""
        return self._end != End.MORE

    @property
    def end_of_stream(self) -> bool:
        """There is nothing more, and there never will be."""
        return self._end == End.OF_STREAM

    @property
    def payloads(self) -> list[memoryview]:
        """Each of them; views."""
        return [self.data[start:end] for start, end in pairwise(self.offsets.tolist())]

    def position(self, index: int) -> Position:
        """Of the record at this index."""
        return Position(
            (
                self.segment[index],
                self.entry_id[index],
                self.slot[index],
                self.sequence_id[index],
                self.txid[index],
            )
        )

    def to_arrow(self) -> pyarrow.RecordBatch:
        """As Reader.read_arrow gives them; nothing is copied. Needs pyarrow (the extra walkeeper[arrow])."""
        try:
            import pyarrow
        except ImportError as missing:
            raise Error("to_arrow needs pyarrow", hint="pip install walkeeper[arrow]") from missing
        numbers = [
            pyarrow.Array.from_buffers(pyarrow.int64(), self._count, [None, pyarrow.py_buffer(getattr(self, name))])
            for name in COLUMNS
        ]
        buffers = [None, pyarrow.py_buffer(self.offsets), pyarrow.py_buffer(self.data)]
        payloads = pyarrow.Array.from_buffers(pyarrow.large_binary(), self._count, buffers)
        fields = [pyarrow.field(name, pyarrow.int64(), nullable=False) for name in COLUMNS]
        fields.append(pyarrow.field("payload", pyarrow.large_binary(), nullable=False))
        return pyarrow.RecordBatch.from_arrays([*numbers, payloads], schema=pyarrow.schema(fields))

    def __repr__(self) -> str:
        return f"<walkeeper.gateway.ReadBatch of {self._count} records>"
