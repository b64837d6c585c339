"""A client of both versions of the protocol over the native encoders, and the raw socket behind it, to be misused."""

from __future__ import annotations

import hashlib
import socket
import struct
from dataclasses import dataclass
from typing import Any

from tests.core_lib import ffi, lib

HOST = "127.0.0.1"
PATIENCE_S = 60.0
KEY = hashlib.sha1(b"ledger").digest()
DIGEST_SIZE = 4  # CRC-32C

OK = int(lib.WK_WIRE_OK)
NO_LEDGER, NO_ENTRY = int(lib.WK_WIRE_NO_LEDGER), int(lib.WK_WIRE_NO_ENTRY)
IO_ERROR, BAD_REQUEST = int(lib.WK_WIRE_IO_ERROR), int(lib.WK_WIRE_BAD_REQUEST)
FENCED, READ_ONLY = int(lib.WK_WIRE_FENCED), int(lib.WK_WIRE_READ_ONLY)
TOO_MANY_REQUESTS, UNKNOWN_STATE = int(lib.WK_WIRE_TOO_MANY_REQUESTS), int(lib.WK_WIRE_UNKNOWN_STATE)
FENCE, RECOVERY, HIGH_PRIORITY = int(lib.WK_WIRE_FENCE), int(lib.WK_WIRE_RECOVERY), int(lib.WK_WIRE_HIGH_PRIORITY)


@dataclass(frozen=True)
class Reply:
    """What a bookie answered."""

    operation: int
    code: int
    txn_id: int
    ledger_id: int
    entry_id: int
    body: bytes
    lac_update_ms: int = 0
    """Of a long poll: when the LAC changed last, by the bookie's wall clock."""

    @property
    def payload(self) -> bytes:
        """Of a read: what the client's user had given."""
        return self.body[lib.WK_WIRE_ENTRY_HEADER_SIZE + DIGEST_SIZE :]


def make_entry(ledger_id: int, entry_id: int, payload: bytes) -> bytes:
    """An entry with header and CRC-32C, as a writer sends it."""
    head = struct.pack(">qqqq", ledger_id, entry_id, entry_id - 1, len(payload))
    data = bytearray(head + bytes(DIGEST_SIZE) + payload)
    lib.wk_wire_digest_put(ffi.from_buffer("uint8_t[]", data), len(data), lib.WK_DIGEST_CRC32C)
    return bytes(data)


def frame(payload: bytes) -> bytes:
    """With its length before it."""
    return struct.pack(">I", len(payload)) + payload


def request(version: int, operation: int, ledger_id: int = -1, entry_id: int = -1, **more: Any) -> bytes:
    """A whole frame. `more`: further fields of wk_wire_request; `key` and `body` as bytes."""
    asked = ffi.new("wk_wire_request *")
    asked.version = asked.header_version = version
    asked.operation, asked.ledger_id, asked.entry_id = operation, ledger_id, entry_id
    asked.lac = asked.previous_lac = -1
    kept = []
    for name, value in more.items():
        if isinstance(value, bytes):
            kept.append(ffi.from_buffer("uint8_t[]", value))
            setattr(asked, f"{name}_size", len(value))
            value = kept[-1]
        setattr(asked, name, value)
    head = ffi.new("uint8_t[]", lib.WK_WIRE_HEAD_SIZE_MAX)
    size = lib.wk_wire_request_encode(asked, head)
    return bytes(ffi.buffer(head, size)) + more.get("body", b"")


def add_request(version: int, ledger_id: int, entry_id: int, payload: bytes, flags: int = 0, txn_id: int = 0) -> bytes:
    entry = make_entry(ledger_id, entry_id, payload)
    return request(
        version, lib.WK_WIRE_ADD, ledger_id, entry_id, key=KEY, body=entry, flags=flags, **_txn(version, txn_id)
    )


def read_request(version: int, ledger_id: int, entry_id: int, flags: int = 0, txn_id: int = 0) -> bytes:
    more: dict[str, Any] = {"key": KEY} if flags & FENCE else {}
    return request(version, lib.WK_WIRE_READ, ledger_id, entry_id, flags=flags, **more, **_txn(version, txn_id))


def _txn(version: int, txn_id: int) -> dict[str, int]:
    return {"txn_id": txn_id} if version == 3 else {}


class WireClient:
    """One connection that speaks one version."""

    def __init__(
        self, port: int, version: int = 3, receive_buffer: int = 0, timeout: float = PATIENCE_S, source: str = HOST
    ) -> None:
        self.version = version
        self.socket = socket.socket()
        self.socket.bind((source, 0))
        self.socket.settimeout(timeout)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.socket.connect((HOST, port))
        except OSError:
            self.socket.close()
            raise
        self._txn_id = 0

    def __enter__(self) -> WireClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> Reply:
        """The next answer. Raises ConnectionError where the bookie closed the connection, TimeoutError."""
        (size,) = struct.unpack(">I", self._take(lib.WK_FRAME_PREFIX_SIZE))
        payload = self._take(size)
        reply = ffi.new("wk_wire_reply *")
        status = lib.wk_wire_reply_decode(ffi.from_buffer("uint8_t[]", payload), size, self.version, reply)
        assert status == lib.WK_OK, (status, payload[:100])
        body = bytes(ffi.buffer(reply.body, reply.body_size)) if reply.body_size else b""
        return Reply(
            reply.operation, reply.code, reply.txn_id, reply.ledger_id, reply.entry_id, body, reply.lac_update_ms
        )

    def is_closed(self) -> bool:
        """Whether the bookie closes this connection, in the time of the socket's timeout; what comes before is read."""
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        return True

    def add(self, ledger_id: int, entry_id: int, payload: bytes = b"hello", flags: int = 0) -> int:
        """The code that is answered."""
        self.send(add_request(self.version, ledger_id, entry_id, payload, flags, self._next()))
        return self._answer(ledger_id, entry_id).code

    def read(self, ledger_id: int, entry_id: int, flags: int = 0) -> Reply:
        self.send(read_request(self.version, ledger_id, entry_id, flags, self._next()))
        return self._answer(ledger_id, entry_id)

    def _next(self) -> int:
        self._txn_id += 1
        return self._txn_id

    def _answer(self, ledger_id: int, entry_id: int) -> Reply:
        reply = self.receive()
        assert (reply.ledger_id, reply.entry_id) == (ledger_id, entry_id), reply
        assert self.version == 2 or reply.txn_id == self._txn_id, reply
        return reply

    def _take(self, size: int) -> bytes:
        found = bytearray(size)
        view, at = memoryview(found), 0
        while at < size:
            some = self.socket.recv_into(view[at:])
            if some == 0:
                raise ConnectionError("the bookie closed the connection")
            at += some
        return bytes(found)
