"""BookKeeper's entry, the obvious way: the model of native/core/entry.c."""

import struct
from typing import NamedTuple

from tests.models.crc32c import crc32c
from tests.models.refused import refuse_if

HEADER_SIZE = 36
SIZE_MAX = 5 * 1024 * 1024 + 64 * 1024


class Entry(NamedTuple):
    ledger_id: int
    entry_id: int
    lac: int
    length: int
    payload: bytes


def encode(entry: Entry) -> bytes:
    """The entry's bytes, digest included. Encodes impossible entries too."""
    metadata = struct.pack(">qqqq", *entry[:4])
    return metadata + struct.pack(">I", crc32c(metadata + entry.payload)) + entry.payload


def decode(data: bytes) -> Entry:
    """The entry whose bytes these are. Raises Refused."""
    refuse_if(not HEADER_SIZE <= len(data) <= SIZE_MAX)
    ledger_id, entry_id, lac, length = struct.unpack_from(">qqqq", data)
    entry = Entry(ledger_id, entry_id, lac, length, data[HEADER_SIZE:])
    refuse_if(encode(entry) != data)
    refuse_if(entry.ledger_id < 0 or entry.entry_id < 0 or entry.length < 0)
    refuse_if(not -1 <= entry.lac < entry.entry_id)
    return entry
