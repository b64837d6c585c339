"""What changes the files of a root: a change is decided, appended to the root's log as one record, and then applied.

The bytes of a record: docs/formats/file_record.md.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass, field, replace

from walkeeper.errors import CorruptError, UnsupportedError
from walkeeper.gateway._path import Path, parse, shown
from walkeeper.gateway._protocol import OPERATION_SIZE, Body, Operation, Refused, packed_text, packed_u64

__all__ = ["Change", "Kind", "decode", "encode"]

FORMAT = 1
_HEAD = struct.Struct(f">BBq{OPERATION_SIZE}sQQ")
NO_OPERATION = bytes(OPERATION_SIZE)
"""Of what the gateway does by itself."""


class Kind(enum.IntEnum):
    PUT = 1
    """A file whose bytes stand in this record."""
    PUT_DATA = 2
    """A file whose bytes are a log of their own."""
    DELETE = 3
    RENAME = 4
    MKDIR = 5
    ACQUIRE = 6


@dataclass(frozen=True)
class Change:
    kind: Kind
    path: Path
    operation: Operation = NO_OPERATION
    epoch: int = 0
    """Of the owner that asks for it; of ACQUIRE, the one that it gives."""
    modified_ms: int = 0
    version: int = 0
    """Of a file: another number for each content."""
    content: bytes = field(default=b"", repr=False)
    """PUT."""
    size: int = 0
    """PUT_DATA: bytes of the file ..."""
    log: str = ""
    """... and the log that has them."""
    target: Path = ()
    """RENAME."""
    owner: str = ""
    """ACQUIRE."""
    replaces: bool = False
    """PUT, PUT_DATA, RENAME: where a file is there, it is replaced. Asked for, not recorded."""
    recursive: bool = False
    """DELETE. Asked for, not recorded."""

    def numbered(self, *, version: int, modified_ms: int, epoch: int) -> Change:
        return replace(self, version=version, modified_ms=modified_ms, epoch=epoch)


def encode(change: Change) -> bytes:
    """The record."""
    head = _HEAD.pack(
        change.kind, FORMAT, change.modified_ms, change.operation, change.epoch, change.version
    ) + packed_text(shown(change.path))
    if change.kind == Kind.PUT:
        return head + change.content
    if change.kind == Kind.PUT_DATA:
        return head + packed_u64(change.size) + packed_text(change.log)
    if change.kind == Kind.RENAME:
        return head + packed_text(shown(change.target))
    if change.kind == Kind.ACQUIRE:
        return head + packed_text(change.owner)
    return head


def decode(record: bytes) -> Change:
    """CorruptError: it is no record of a root. UnsupportedError: of a later version."""
    body = Body(record)
    try:
        number, version_of_format, modified_ms, operation, epoch, version = _HEAD.unpack(body.raw(_HEAD.size))
        if version_of_format != FORMAT:
            raise UnsupportedError(f"a record of files has version {version_of_format}: this walkeeper knows {FORMAT}")
        kind = Kind(number)
        path = parse(body.text())
        change = Change(kind, path, operation, epoch, modified_ms, version)
        if kind == Kind.PUT:
            change = replace(change, content=bytes(body.rest()))
        elif kind == Kind.PUT_DATA:
            change = replace(change, size=body.u64(), log=body.text())
        elif kind == Kind.RENAME:
            change = replace(change, target=parse(body.text()))
        elif kind == Kind.ACQUIRE:
            change = replace(change, owner=body.text())
        body.end()
    except (Refused, ValueError) as wrong:
        raise CorruptError(f"a record of files cannot be read: {wrong}") from wrong
    return change
