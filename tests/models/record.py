"""DistributedLog's record, envelope, record set and DLSN, the obvious way.

The models of native/core/log_record.c, envelope.c, record_set.c and dlsn.c.
"""

import struct
from typing import NamedTuple

from tests.models.refused import refuse_if

RECORD_SIZE_MAX = 1024 * 1024 - 8 * 1024
ENVELOPE_SIZE_MAX = 1024 * 1024 - 4 * 1024
CONTROL = 1
CODEC_NONE = 0
CODEC_UNKNOWN = 3


class Record(NamedTuple):
    flags: int
    position: int
    txid: int
    payload: bytes


class Envelope(NamedTuple):
    codec: int
    original_size: int
    stored: bytes


class RecordSet(NamedTuple):
    codec: int
    members_count: int
    original_size: int
    stored: bytes


class Dlsn(NamedTuple):
    """Ordered as tuples are."""

    segment: int
    entry_id: int
    slot: int


def encode_record(record: Record) -> bytes:
    """The record's bytes. Encodes impossible records too."""
    return struct.pack(">qqi", record.position << 16 | record.flags, record.txid, len(record.payload)) + record.payload


def decode_record(data: bytes) -> tuple[Record, int]:
    """The record that starts `data`, and its whole size in bytes. Raises Refused."""
    refuse_if(len(data) < 20)
    metadata, txid, payload_size = struct.unpack_from(">Qqi", data)
    flags, position = metadata & 0xFFFF, metadata >> 16
    refuse_if(payload_size < 0 or 20 + payload_size > min(len(data), RECORD_SIZE_MAX))
    refuse_if(position > 0xFFFFFFFF or flags > 7 or txid < 0)
    refuse_if(position == 0 and not flags & CONTROL)
    return Record(flags, position, txid, data[20 : 20 + payload_size]), 20 + payload_size


def encode_envelope(envelope: Envelope) -> bytes:
    """The envelope's bytes. Encodes impossible envelopes too."""
    return struct.pack(">biii", 1, envelope.codec, envelope.original_size, len(envelope.stored)) + envelope.stored


def decode_envelope(data: bytes) -> Envelope:
    """The envelope whose bytes these are. Raises Refused."""
    refuse_if(len(data) < 13)
    version, flags, original_size, stored_size = struct.unpack_from(">biii", data)
    refuse_if(version != 1, "WK_UNSUPPORTED")
    refuse_if(flags & ~3 != 0)
    refuse_if(flags == CODEC_UNKNOWN, "WK_UNSUPPORTED")
    refuse_if(stored_size != len(data) - 13)
    refuse_if(not 0 <= original_size <= ENVELOPE_SIZE_MAX)
    refuse_if(flags == CODEC_NONE and original_size != stored_size)
    return Envelope(flags, original_size, data[13:])


def encode_record_set(records: RecordSet) -> bytes:
    """The bytes of a record set. Encodes impossible ones too."""
    head = struct.pack(
        ">iiii", 0x1000 | records.codec, records.members_count, records.original_size, len(records.stored)
    )
    return head + records.stored


def decode_record_set(data: bytes) -> RecordSet:
    """The record set whose bytes these are. Raises Refused."""
    refuse_if(len(data) < 16)
    metadata, count, original_size, stored_size = struct.unpack_from(">iiii", data)
    codec = metadata & 3
    refuse_if(metadata & ~0xF003 != 0)
    refuse_if(metadata & 0xF000 != 0x1000 or codec == CODEC_UNKNOWN, "WK_UNSUPPORTED")
    refuse_if(stored_size != len(data) - 16)
    refuse_if(not 0 <= original_size <= RECORD_SIZE_MAX)
    refuse_if(codec == CODEC_NONE and original_size != stored_size)
    refuse_if(not 0 <= 4 * count <= original_size)
    return RecordSet(codec, count, original_size, data[16:])


def encode_members(members: list[bytes]) -> bytes:
    """An uncompressed set body."""
    return b"".join(struct.pack(">i", len(member)) + member for member in members)


def decode_members(body: bytes) -> list[bytes]:
    """The members of an uncompressed set body. Raises Refused."""
    members = []
    while body:
        refuse_if(len(body) < 4)
        (size,) = struct.unpack_from(">i", body)
        refuse_if(not 0 <= size <= len(body) - 4)
        members.append(body[4 : 4 + size])
        body = body[4 + size :]
    return members


def encode_dlsn(dlsn: Dlsn) -> bytes:
    """The 25 bytes of a DLSN."""
    return struct.pack(">bqqq", 1, *dlsn)


def decode_dlsn(data: bytes) -> Dlsn:
    """The DLSN whose bytes these are. Raises Refused."""
    refuse_if(len(data) != 25)
    refuse_if(data[0] != 1, "WK_UNSUPPORTED")
    return Dlsn(*struct.unpack_from(">qqq", data, 1))
