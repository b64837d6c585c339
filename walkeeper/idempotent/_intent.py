"""Records of a transaction log (docs/formats/transaction_record.md). Pure: no log is touched here."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from walkeeper.errors import CorruptError, InvalidError, UnsupportedError

__all__ = ["APP_ID_MAX", "Done", "Intent", "Staged", "Versions", "decode", "encode", "versions_records"]

FORMAT = 1
APP_ID_MAX = 1024
"""Bytes of UTF-8."""
VERSIONS_BYTES_MAX = 512 * 1024
"""Of one record of versions."""

_INTENT, _DONE, _VERSIONS = 1, 2, 3
_HEAD = struct.Struct("<BBHI")
"""Kind, format, zero, how many of what follows."""
_PLACE = struct.Struct("<qqqQ")
"""First sequence id, count, skip, version."""
_U32, _VERSION, _SPAN = struct.Struct("<I"), struct.Struct("<Q"), struct.Struct("<qq")


@dataclass(frozen=True)
class Staged:
    """Records of another log of the namespace that are to be appended: `count` from `first_sequence_id` on."""

    log: str
    first_sequence_id: int
    count: int


@dataclass(frozen=True)
class Intent:
    """What is about to be appended: the payloads from number `skip` on get the sequence ids from `first` on."""

    app_id: str
    version: int
    first: int
    skip: int
    """So many of the payloads stand in the log already, before `first`."""
    payloads: tuple[bytes, ...]
    staged: tuple[Staged, ...]
    """Behind the payloads."""

    @property
    def count(self) -> int:
        """Of all payloads."""
        return len(self.payloads) + sum(part.count for part in self.staged)


@dataclass(frozen=True)
class Done:
    """The intent before it was carried out."""


@dataclass(frozen=True)
class Versions:
    """The last version of each application: what the records before it say together."""

    of: Mapping[str, int]


TransactionRecord: TypeAlias = "Intent | Done | Versions"


def encode(record: TransactionRecord) -> bytes:
    """Its bytes. InvalidError where a field is out of its range."""
    if isinstance(record, Done):
        return _HEAD.pack(_DONE, FORMAT, 0, 0)
    if isinstance(record, Versions):
        parts = [_HEAD.pack(_VERSIONS, FORMAT, 0, len(record.of))]
        for app_id, version in record.of.items():
            parts += [_text(app_id), _VERSION.pack(version)]
        return b"".join(parts)
    parts = [
        _HEAD.pack(_INTENT, FORMAT, 0, len(record.payloads)),
        _PLACE.pack(record.first, record.count, record.skip, record.version),
        _text(record.app_id),
        _U32.pack(len(record.staged)),
    ]
    for part in record.staged:
        parts += [_text(part.log), _SPAN.pack(part.first_sequence_id, part.count)]
    for payload in record.payloads:
        parts += [_U32.pack(len(payload)), payload]
    return b"".join(parts)


def versions_records(versions: Mapping[str, int]) -> Iterator[Versions]:
    """All of them, in records that are not too large."""
    part: dict[str, int] = {}
    size = 0
    for app_id, version in versions.items():
        part[app_id] = version
        size += len(app_id.encode()) + 12
        if size >= VERSIONS_BYTES_MAX:
            yield Versions(part)
            part, size = {}, 0
    yield Versions(part)


def decode(data: bytes) -> TransactionRecord:
    """Raises CorruptError for bytes that are no record, UnsupportedError for a newer format."""
    try:
        return _decode(data)
    except (struct.error, UnicodeDecodeError) as wrong:
        raise CorruptError(f"a record of a transaction log of {len(data)} bytes: {wrong}") from None


def _decode(data: bytes) -> TransactionRecord:
    kind, version, zero, count = _HEAD.unpack_from(data)
    if version != FORMAT:
        raise UnsupportedError(f"a record of a transaction log has format {version}, known is {FORMAT}")
    at = _HEAD.size
    record: TransactionRecord
    if kind == _DONE and count == 0:
        record = Done()
    elif kind == _VERSIONS:
        of: dict[str, int] = {}
        for _ in range(count):
            app_id, at = _text_at(data, at)
            (of[app_id],) = _VERSION.unpack_from(data, at)
            at += _VERSION.size
        record = Versions(of)
    elif kind == _INTENT:
        record, at = _intent_at(data, at, count)
    else:
        raise CorruptError(f"a record of a transaction log has kind {kind}")
    if zero or at != len(data):
        raise CorruptError(f"a record of a transaction log of {len(data)} bytes has {at}")
    return record


def _intent_at(data: bytes, at: int, payloads_count: int) -> tuple[Intent, int]:
    first, count, skip, version = _PLACE.unpack_from(data, at)
    app_id, at = _text_at(data, at + _PLACE.size)
    (staged_count,) = _U32.unpack_from(data, at)
    at += _U32.size
    staged: list[Staged] = []
    for _ in range(staged_count):
        log, at = _text_at(data, at)
        staged.append(Staged(log, *_SPAN.unpack_from(data, at)))
        at += _SPAN.size
    payloads: list[bytes] = []
    for _ in range(payloads_count):
        payload, at = _bytes_at(data, at)
        payloads.append(payload)
    intent = Intent(app_id, version, first, skip, tuple(payloads), tuple(staged))
    if intent.count != count or first < 0 or not 0 <= skip <= count or any(part.count < 0 for part in staged):
        raise CorruptError(f"an intent of {intent.count} payloads says {count}, from {first}, without {skip}")
    return intent, at


def _text(given: str) -> bytes:
    raw = given.encode()
    return _U32.pack(len(raw)) + raw


def _text_at(data: bytes, at: int) -> tuple[str, int]:
    raw, at = _bytes_at(data, at)
    return raw.decode(), at


def _bytes_at(data: bytes, at: int) -> tuple[bytes, int]:
    (size,) = _U32.unpack_from(data, at)
    at += _U32.size
    if at + size > len(data):
        raise CorruptError(f"a record of a transaction log ends within {size} bytes at {at}")
    return data[at : at + size], at + size


def check_intent(app_id: str, version: int, staged: Sequence[Staged]) -> None:
    """InvalidError for what no intent can say."""
    if not app_id or len(app_id.encode()) > APP_ID_MAX:
        raise InvalidError(f"an application's id has 1 to {APP_ID_MAX} bytes of UTF-8", outcome="not_written")
    if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version < 2**63:
        raise InvalidError(f"a version is a whole number from 0 to 2**63 - 1, not {version!r}", outcome="not_written")
    for part in staged:
        if part.count < 0 or part.first_sequence_id < 0:
            raise InvalidError(f"{part} names no records", outcome="not_written")
