"""Bodies of requests whose last field is payloads. They come in two parts, so that the payloads are not copied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from walkeeper.errors import InvalidError, TooLargeError
from walkeeper.gateway._arguments import Payloads, flag, natural, payloads_of
from walkeeper.gateway._columns import packed_numbers
from walkeeper.gateway._protocol import FRAME_MAX, packed_i64, packed_text, packed_u32, packed_u64

if TYPE_CHECKING:
    import pyarrow
    from typing_extensions import Buffer

    from walkeeper.idempotent import Staged

__all__ = ["Parts", "append_once_request", "append_request"]

Parts = tuple[bytes, bytes | memoryview]
"""Of a body: what stands before the payloads, and the payloads back to back."""


def append_request(
    log: str,
    payloads: Iterable[Buffer] | pyarrow.Array,
    *,
    txids: Sequence[int] | None,
    expected: int | None,
    atomic: bool,
) -> Parts:
    """Of an `append_many`. Raises what append_many raises before anything is sent."""
    found = payloads_of(payloads)
    if not found.count:
        raise InvalidError("append_many was given nothing to append", outcome="not_written")
    numbers = None if txids is None else [natural("txids", txid) for txid in txids]
    if numbers is not None and len(numbers) != found.count:
        raise InvalidError(f"{found.count} payloads and {len(numbers)} txids: one each", outcome="not_written")
    head = packed_text(log) + flag("atomic", atomic)
    head += packed_i64(-1 if expected is None else natural("expected", expected))
    head += bytes([numbers is not None]) + packed_u32(found.count)
    return _parts(head, b"" if numbers is None else packed_numbers(numbers), found)


def append_once_request(
    log: str, app_id: str, version: int, payloads: Sequence[Buffer], staged: Sequence[Staged]
) -> Parts:
    """Of an `append_once`."""
    found = payloads_of(payloads)
    head = packed_text(log) + packed_text(app_id) + packed_u64(natural("version", version))
    head += packed_u32(found.count) + packed_u32(len(staged))
    for part in staged:
        first, count = natural("first_sequence_id", part.first_sequence_id), natural("count", part.count)
        head += packed_text(part.log) + packed_u64(first) + packed_u64(count)
    return _parts(head, b"", found)


def _parts(head: bytes, txids: bytes, payloads: Payloads) -> Parts:
    """TooLargeError where they do not fit a frame."""
    begin = b"".join([head, bytes(-len(head) % 8), txids, payloads.offsets])
    size = len(begin) + len(payloads.data)
    if size > FRAME_MAX - 5:
        text = (
            f"{size} bytes of payloads and their numbers are more than one request has ({FRAME_MAX - 5}): append fewer"
        )
        raise TooLargeError(text, outcome="not_written")
    return begin, payloads.data
