"""Frames of the gateway protocol, and what stands in them (docs/formats/gateway_protocol.md). No sockets here."""

from __future__ import annotations

import enum
import struct

from walkeeper.errors import Error

__all__ = ["Body", "Operation", "Refused", "Request", "Status", "answer", "packed_bytes", "packed_text"]

MAGIC = 0x574B4757
VERSION = 1
HEAD = struct.Struct(">IIB")
"""Length of what follows, number of the request, code."""
FRAME_MAX = 4 * 1024 * 1024
CONTENT_MAX = 1024 * 1024 - 64 * 1024
"""Bytes of a file that one record has."""

_U32, _U64, _I64 = struct.Struct(">I"), struct.Struct(">Q"), struct.Struct(">q")
_STATUS = struct.Struct(">BQqQ")

Operation = bytes
"""24 bytes: who asks, and a number that rises; the same for a change that is asked for again."""
OPERATION_SIZE = 24


class Request(enum.IntEnum):
    HELLO = 1
    ACQUIRE = 2
    PUT = 3
    GET = 4
    STAT = 5
    LIST = 6
    MKDIR = 7
    DELETE = 8
    RENAME = 9
    UPLOAD = 10
    CHUNK = 11
    PUBLISH = 12
    DISCARD = 13
    TAKE = 14

    LOGS = 32
    OPEN_LOG = 33
    LOG_INFO = 34
    APPEND_MANY = 35
    READ = 36
    FIND = 37
    TRUNCATE = 38
    CURSORS = 39
    CURSOR = 40
    ADVANCE_CURSOR = 41
    DELETE_CURSOR = 42
    DELETE_LOG = 43
    MARK_END_OF_STREAM = 44
    TAKE_LOG = 45
    APPEND_ONCE = 46
    LAST_VERSION = 47


class Status(enum.IntEnum):
    OK = 0
    NOT_FOUND = 1
    EXISTS = 2
    NOT_EMPTY = 3
    IS_A_DIRECTORY = 4
    NOT_A_DIRECTORY = 5
    FENCED = 6
    NOT_OWNER = 7
    INVALID = 8
    UNAVAILABLE = 9
    FAILED = 10
    UNAUTHORIZED = 11
    GONE = 12
    REFUSED = 13


class Refused(Error):
    """A request is answered by this status, and changed nothing."""

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(text, outcome="not_written")
        self.status = status


class Body:
    """What stands behind the head of a frame, or in a record, taken from its front on. Refused: it ends early."""

    __slots__ = ("_at", "_bytes")

    def __init__(self, given: bytes) -> None:
        self._bytes = given
        self._at = 0

    def raw(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._bytes):
            raise Refused(Status.INVALID, f"{size} bytes are wanted at {self._at}, of {len(self._bytes)}")
        taken = self._bytes[self._at : end]
        self._at = end
        return taken

    def u8(self) -> int:
        return self.raw(1)[0]

    def flag(self) -> bool:
        value = self.u8()
        if value > 1:
            raise Refused(Status.INVALID, f"a flag is 0 or 1, not {value}")
        return value == 1

    def u32(self) -> int:
        return int(_U32.unpack(self.raw(4))[0])

    def u64(self) -> int:
        return int(_U64.unpack(self.raw(8))[0])

    def i64(self) -> int:
        return int(_I64.unpack(self.raw(8))[0])

    def align(self) -> None:
        """Passes the zero bytes up to a multiple of 8 bytes of the body."""
        if any(self.raw(-self._at % 8)):
            raise Refused(Status.INVALID, "bytes that are not zero stand where columns are aligned")

    def packed(self) -> bytes:
        return self.raw(self.u32())

    def text(self) -> str:
        try:
            return self.packed().decode()
        except UnicodeDecodeError as wrong:
            raise Refused(Status.INVALID, f"a text is not UTF-8: {wrong}") from None

    def rest(self) -> memoryview:
        """All that is left, where it stands: nothing is copied."""
        taken = memoryview(self._bytes)[self._at :]
        self._at = len(self._bytes)
        return taken

    def end(self) -> None:
        if self._at != len(self._bytes):
            raise Refused(Status.INVALID, f"{len(self._bytes) - self._at} bytes are left behind the last field")


def packed_bytes(given: bytes) -> bytes:
    return _U32.pack(len(given)) + given


def packed_text(given: str) -> bytes:
    return packed_bytes(given.encode())


def packed_u64(given: int) -> bytes:
    return _U64.pack(given)


def packed_i64(given: int) -> bytes:
    return _I64.pack(given)


def packed_u32(given: int) -> bytes:
    return _U32.pack(given)


def packed_status(is_directory: bool, size: int, modified_ms: int, version: int) -> bytes:
    return _STATUS.pack(1 if is_directory else 2, size, modified_ms, version)


def answer(request: int, status: Status, body: bytes = b"") -> bytes:
    """A frame."""
    return HEAD.pack(len(body) + 5, request, status) + body
