"""Reads records as columns. They are the buffers of the Arrow record batch that Reader.read_arrow makes.

C makes them here, too, so pyarrow need not be there, and nothing is done for each record in Python. No public name does
that: this is the one file of the gateway that knows how a reader of the embedded API is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walkeeper import Position
from walkeeper._native import ffi, lib
from walkeeper._reader import _is_gap, _release_array, _release_schema, _Stage
from walkeeper.errors import fail, new_error
from walkeeper.gateway._columns import COLUMNS, little_endian

if TYPE_CHECKING:
    import walkeeper
    import walkeeper.aio

__all__ = ["fetched_columns"]

_CHILDREN, _BUFFERS = 6, 5
"""Words of struct ArrowArray."""


async def fetched_columns(
    reader: walkeeper.aio.Reader[Any], records_max: int, bytes_max: int, wait: float
) -> tuple[int, Position, bytes] | None:
    """The next records: how many, the position behind the last one, and their columns. None: none came in time.

    Raises what Reader.read_arrow raises: GapError before a gap, which the reader has passed then. They are fetched, and
    made, in one thread.
    """
    sync = await reader._opened()
    found: list[tuple[int, Position, bytes]] = []

    def fetch(wait_in_thread: float) -> bool:
        columns = _read_columns(sync, records_max, bytes_max, min(wait_in_thread, wait))
        if columns is not None:
            found.append(columns)
        return columns is not None

    return found[0] if await reader._until(fetch, wait) else None


def _read_columns(
    reader: walkeeper.Reader[Any], records_max: int, bytes_max: int, timeout: float
) -> tuple[int, Position, bytes] | None:
    out = reader._arrive(records_max, bytes_max, timeout)
    if out is None:
        return None
    if _is_gap(out[0]):
        reader._raise_gap()
    count = ffi.new("size_t *")
    last = lib.wk_batch_records(out[0], count)[count[0] - 1]
    behind = Position((last.next.segment, last.next.entry_id, last.next.slot, last.at.sequence_id + 1, -1))
    found = int(count[0]), behind, _columns_of(out[0], count[0])
    reader._stage = _Stage([])  # the batch is let go of
    return found


def _columns_of(batch: Any, count: int) -> bytes:
    schema = ffi.gc(ffi.new("uint64_t[9]"), _release_schema)
    arrow = ffi.gc(ffi.new("uint64_t[10]"), _release_array)
    status = lib.wk_batch_to_arrow(batch, schema, arrow)
    if status != 0:
        fail(status, new_error())
    children = ffi.cast("uint64_t **", arrow[_CHILDREN])
    columns = [
        _memory(ffi.cast("uint64_t *", children[index][_BUFFERS])[1], 8 * count) for index in range(len(COLUMNS))
    ]
    buffers = ffi.cast("uint64_t *", children[len(COLUMNS)][_BUFFERS])
    offsets = _memory(buffers[1], 8 * (count + 1))
    payloads = _memory(buffers[2], offsets.cast("q")[count])
    return b"".join([*map(little_endian, columns), little_endian(offsets), payloads])


def _memory(address: int, size: int) -> memoryview:
    return memoryview(ffi.buffer(ffi.cast("char *", address), size))
