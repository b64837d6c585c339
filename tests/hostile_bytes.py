"""What nobody sends who means well: lengths around every limit, and protobuf that was made to hurt."""

from __future__ import annotations

__all__ = ["FRAME_MAX", "LENGTHS", "PROTOBUF"]

FRAME_MAX = 5 * 1024 * 1024
NEAR = (0, 8, 24, 2**8, 2**16, 2**24, FRAME_MAX, 2**31, 2**32 - 2)
LENGTHS = sorted({number + more for number in NEAR for more in range(-5, 6) if 0 <= number + more < 2**32})


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


HEADER = b"\x0a\x06\x08\x03\x10\x01\x18\x07"  # v3, READ, transaction 7
PROTOBUF = {
    "a million unknown fields": HEADER + b"\xa0\x06\x01" * 1_000_000,
    "a million headers": HEADER * 500_000,
    "groups in groups": HEADER + b"\xa3\x06" * 1_000_000,
    "groups that end": HEADER + b"\xa3\x06" * 500_000 + b"\xa4\x06" * 500_000,
    "a length of 2**63": HEADER + b"\xa2\x06" + varint(2**63),
    "a length of 2**64 - 1": HEADER + b"\xa2\x06" + varint(2**64 - 1),
    "a length of 2**31": HEADER + b"\xa2\x06" + varint(2**31) + bytes(100),
    "a number without end": HEADER + b"\xa0\x06" + b"\xff" * 1_000_000,
    "field 0": HEADER + b"\x00\x00",
    "messages in messages": HEADER + b"\xa2\x06" + varint(900_000) + b"\xa2\x06" * 450_000,
    "a million contexts": HEADER + b"\xa2\x06\x04\x0a\x01a\x12" * 500_000,
}
