"""Records of a SQLite database, written from their page (docs/formats/sqlite_record.md) and not by the C."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from tests.models.crc32c import crc32c

COMMIT, SNAPSHOT, JOINT, NAME = 1, 2, 3, 4
FIRST, LAST, NAMED = 1, 2, 4
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
    named: bool = False,
    body: bytes | None = None,
    count: int | None = None,
) -> tuple[bytes, int]:
    """The record, and its crc. `body` in place of images."""
    flags = (FIRST if part == 0 else 0) | (LAST if last else 0) | (NAMED if named else 0)
    head = struct.pack("<BBBB", 1, kind, flags, page_size.bit_length() - 1)
    number = len(images) if count is None else count
    rest = struct.pack("<IIQQII", before, part, database, transaction, pages if last else 0, number)
    rest += b"".join(map(image_bytes, images)) if body is None else body
    crc = crc32c(head + rest)
    return head + struct.pack("<I", crc) + rest, crc


def joint_bytes(*records: bytes, behind: bytes = b"") -> bytes:
    """A transaction over several databases: their last parts."""
    body = b"".join(struct.pack("<I", len(record)) + record for record in records) + behind
    return record_bytes([], kind=JOINT, transaction=1, pages=0, body=body, count=len(records))[0]


def name_bytes(name: str, database: int) -> bytes:
    return record_bytes(
        [], kind=NAME, transaction=0, pages=0, last=False, database=database, named=True, body=name.encode()
    )[0]
