"""The smallest client of a bookie, on a plain socket: one request, one reply, in both protocols. It shares no code with
the server, so that it can find it wrong."""

from __future__ import annotations

import socket
import struct
import zlib
from dataclasses import dataclass
from types import TracebackType

__all__ = ["Connection", "ProtocolError", "Reply", "entry_bytes"]

V2 = 2
V3 = 3
FENCE = 1
ADD = 1  # v2's numbers; v3 has them the other way round
READ = 2
V3_READ, V3_ADD, V3_INFO = 1, 2, 8
MASTER_KEY = bytes.fromhex("850bf1071c5e3d8c24235676f8816ae0cbe2f14f")  # of the empty password
FRAME_MAX = 6 * 2**20
ENTRY_HEADER = struct.Struct(">qqqq")


class ProtocolError(Exception):
    """What came is no reply to what was asked."""


@dataclass(frozen=True)
class Reply:
    """A code, as its protocol numbers it, and what came with it."""

    code: int
    body: bytes = b""
    total_bytes: int = 0
    free_bytes: int = 0


def entry_bytes(ledger_id: int, entry_id: int, payload: bytes) -> bytes:
    """An entry with a CRC32 digest, as clients add it; each payload of the ledger as long as this one."""
    head = ENTRY_HEADER.pack(ledger_id, entry_id, entry_id - 1, len(payload) * (entry_id + 1))
    return head + struct.pack(">q", zlib.crc32(payload, zlib.crc32(head))) + payload


class Connection:
    """A connection that speaks one of the two protocols. Raises OSError and ProtocolError."""

    def __init__(self, host: str, port: int, version: int, timeout: float) -> None:
        self._socket = socket.create_connection((host, port), timeout)
        self._version = version
        self._number = 0

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def add(self, ledger_id: int, entry_id: int, payload: bytes) -> Reply:
        entry = entry_bytes(ledger_id, entry_id, payload)
        if self._version == V2:
            return self._ask_v2(ADD, 0, ledger_id, entry_id, MASTER_KEY + entry)
        fields = _number(1, ledger_id) + _number(2, entry_id) + _bytes(3, MASTER_KEY) + _bytes(4, entry)
        return self._ask_v3(V3_ADD, 101, fields)

    def read(self, ledger_id: int, entry_id: int, *, fence: bool = False) -> Reply:
        if self._version == V2:
            rest = struct.pack(">qq", ledger_id, entry_id) + (MASTER_KEY if fence else b"")
            return self._ask_v2(READ, FENCE if fence else 0, ledger_id, entry_id, rest)
        fields = _number(1, ledger_id) + _number(2, entry_id)
        if fence:
            fields += _bytes(3, MASTER_KEY) + _number(100, FENCE)
        return self._ask_v3(V3_READ, 100, fields)

    def info(self) -> Reply:
        """v3: how large the disk is, and how much of it is free."""
        return self._ask_v3(V3_INFO, 105, _number(1, 3))

    def _ask_v2(self, operation: int, flags: int, ledger_id: int, entry_id: int, rest: bytes) -> Reply:
        self._send(struct.pack(">BBH", V2, operation, flags) + rest)
        frame = self._receive()
        if len(frame) < 24:
            raise ProtocolError(f"a reply of {len(frame)} bytes")
        version, answered, _, code, ledger, entry = struct.unpack(">BBHiqq", frame[:24])
        if (version, answered, ledger, entry) != (V2, operation, ledger_id, entry_id):
            raise ProtocolError(f"a reply to something else: {frame[:24].hex()}")
        return Reply(code, frame[24:])

    def _ask_v3(self, operation: int, field: int, fields: bytes) -> Reply:
        self._number += 1
        header = _number(1, V3) + _number(2, operation) + _number(3, self._number)
        self._send(_bytes(1, header) + _bytes(field, fields))
        reply = _fields(self._receive())
        head = _fields(_part(reply, 1))
        if (head.get(2), head.get(3)) != (operation, self._number):
            raise ProtocolError(f"a reply to something else: {head!r}")
        code = reply.get(2)
        inner = _fields(_part(reply, field)) if field in reply else {}
        if not isinstance(code, int) or inner.get(1, code) != code:
            raise ProtocolError(f"the outer status is {code!r}, the inner one {inner.get(1)!r}")
        if operation == V3_INFO:
            return Reply(code, b"", _int(inner, 2), _int(inner, 3))
        return Reply(code, _part(inner, 4) if 4 in inner else b"")

    def _send(self, payload: bytes) -> None:
        self._socket.sendall(struct.pack(">I", len(payload)) + payload)

    def _receive(self) -> bytes:
        size = int.from_bytes(self._exactly(4), "big")
        if size > FRAME_MAX:
            raise ProtocolError(f"a reply of {size} bytes")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            some = self._socket.recv(min(65536, size - len(found)))
            if not some:
                raise ProtocolError("the bookie closed the connection")
            found += some
        return bytes(found)


# ---- protobuf ----


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _fields(message: bytes) -> dict[int, int | bytes]:
    """The numbers and byte strings of a message by field, the last of each."""
    found: dict[int, int | bytes] = {}
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        value, at = _read_varint(message, at)
        if tag & 7 == 2:
            if value > len(message) - at:
                raise ProtocolError("a message that is cut off")
            found[tag >> 3] = message[at : at + value]
            at += value
        elif tag & 7 == 0:
            found[tag >> 3] = value
        else:
            raise ProtocolError(f"a field of wire type {tag & 7}")
    return found


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 70:
        value |= (message[at] & 127) << shift
        at += 1
        if message[at - 1] < 128:
            return value & (2**64 - 1), at
        shift += 7
    raise ProtocolError("a number that is cut off")


def _part(message: dict[int, int | bytes], field: int) -> bytes:
    value = message.get(field)
    if not isinstance(value, bytes):
        raise ProtocolError(f"field {field} is missing")
    return value


def _int(message: dict[int, int | bytes], field: int) -> int:
    value = message.get(field, 0)
    if not isinstance(value, int):
        raise ProtocolError(f"field {field} is no number")
    return value
