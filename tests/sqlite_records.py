"""Records of a SQLite database, written from their page (docs/formats/sqlite_record.md) and not by the C."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from tests.models.crc32c import crc32c

COMMIT, SNAPSHOT = 1, 2
FIRST, LAST = 1, 2
HEADER = 40


class Image(NamedTuple):
    number: int
    ranges: Sequence[tuple[int, bytes]]
    """The equal bytes since the range before, and what stands behind them."""
    delta: bool = False


def varint(value: int) -> bytes:
    data = b""
    while value >= 0x80:
        data += bytes([value & 0x7F | 0x80])
        value >>= 7
    return data + bytes([value])


def image_bytes(image: Image) -> bytes:
    body = b"".join(varint(gap) + varint(len(data)) + data for gap, data in image.ranges)
    return struct.pack("<II", image.number, len(body) | image.delta << 31) + body


def record_bytes(
    images: Sequence[Image],
    *,
    kind: int = COMMIT,
    transaction: int,
    pages: int,
    before: int = 0,
    part: int = 0,
    last: bool = True,
    database: int = 0x1122334455667788,
    page_size: int = 512,
) -> tuple[bytes, int]:
    """The record, and its crc."""
    flags = (FIRST if part == 0 else 0) | (LAST if last else 0)
    head = struct.pack("<BBBB", 1, kind, flags, page_size.bit_length() - 1)
    rest = struct.pack("<IIQQII", before, part, database, transaction, pages if last else 0, len(images))
    rest += b"".join(map(image_bytes, images))
    crc = crc32c(head + rest)
    return head + struct.pack("<I", crc) + rest, crc
