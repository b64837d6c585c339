"""Protobuf's wire format, as far as BookKeeper's metadata needs it. Its text format is in `_protobuf_text.py`.

A message is a dictionary: the name of a field and its value, a list where the field is repeated; what is absent has no
key. The schema says what is expected, and how deep: messages nest as their schema does, whatever the bytes say. Fields
that are not in the schema are skipped, as newer writers may know more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from walkeeper.metadata._corrupt import corrupt

SIZE_MAX = 8 * 1024 * 1024  # eight times what a ZooKeeper server takes unless told otherwise
GROUPS_MAX = 100  # how deep groups of unknown fields may nest

_VARINT, _FIXED64, _BYTES, _GROUP, _GROUP_END, _FIXED32 = range(6)
_VARINT_BYTES_MAX = 10
_TAG_MAX = (1 << 32) - 1

Kind = Literal["int32", "int64", "enum", "string", "bytes", "message"]
Rule = Literal["required", "optional", "repeated"]
Values = dict[str, Any]


@dataclass(frozen=True)
class Field:
    """A field of a message: `values` are an enum's names and numbers, `message` is what a message field holds."""

    number: int
    name: str
    kind: Kind
    rule: Rule = "optional"
    values: Mapping[str, int] | None = None
    message: Message | None = None


@dataclass(frozen=True)
class Message:
    """A message of the schema."""

    name: str
    fields: tuple[Field, ...]

    def field(self, key: int | str) -> Field | None:
        """The field of that number or name."""
        for field in self.fields:
            if key in (field.number, field.name):
                return field
        return None


def check_complete(message: Message, values: Values, what: str, offset: int) -> None:
    """CorruptMetadataError where a required field is absent."""
    for field in message.fields:
        if field.rule == "required" and field.name not in values:
            corrupt(what, offset, f"{message.name} ends, and had no {field.name}")


def put_value(field: Field, values: Values, value: Any) -> None:
    """Adds a value that was read: the last one of a field counts, except where it is repeated."""
    if field.rule == "repeated":
        values.setdefault(field.name, []).append(value)
    else:
        values[field.name] = value


def encode(message: Message, values: Mapping[str, Any]) -> bytes:
    """The bytes, fields in the order of their numbers."""
    out = bytearray()
    for field in message.fields:
        if field.name in values:
            for value in values[field.name] if field.rule == "repeated" else (values[field.name],):
                _encode_field(out, field, value)
    return bytes(out)


def _encode_field(out: bytearray, field: Field, value: Any) -> None:
    if field.kind in ("int32", "int64", "enum"):
        out += varint(field.number << 3 | _VARINT) + varint(value & (1 << 64) - 1)
        return
    if field.kind == "message":
        assert field.message is not None
        body = encode(field.message, value)
    else:
        body = value.encode() if field.kind == "string" else value
    out += varint(field.number << 3 | _BYTES) + varint(len(body)) + body


def varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data: bytes, at: int, end: int, what: str) -> tuple[int, int]:
    """The number at `at`, and where it ends. CorruptMetadataError where it does not, or is larger than 64 bits."""
    number = 0
    for count in range(_VARINT_BYTES_MAX):
        if at + count >= end:
            corrupt(what, at, "a number is cut off", data[:end])
        byte = data[at + count]
        number |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            if number >> 64:
                break
            return number, at + count + 1
    return corrupt(what, at, "a number of more than 64 bits", data)


def decode(message: Message, data: bytes, what: str, at: int = 0, end: int | None = None) -> Values:
    """The message between `at` and `end` of `data`. CorruptMetadataError says where it is none."""
    if end is None:
        end = len(data)
    if end - at > SIZE_MAX:
        corrupt(what, at, f"{end - at} bytes: at most {SIZE_MAX} are read")
    values: Values = {}
    while at < end:
        start = at
        tag, at = read_varint(data, at, end, what)
        if not 8 <= tag <= _TAG_MAX:
            corrupt(what, start, "this is no field's number", data)
        field = message.field(tag >> 3)
        if field is None:
            at = _skip(data, start, at, end, tag, what)
            continue
        expected = _VARINT if field.kind in ("int32", "int64", "enum") else _BYTES
        if tag & 7 != expected:
            corrupt(what, start, f"{field.name} has wire type {tag & 7} instead of {expected}", data)
        number, at = read_varint(data, at, end, what)
        if expected == _VARINT:
            put_value(field, values, _number(field, number, start, data, what))
            continue
        if number > end - at:
            corrupt(what, start, f"{field.name} has {number} bytes, of which {end - at} are there", data)
        put_value(field, values, _body(field, data, at, at + number, what))
        at += number
    check_complete(message, values, what, end)
    return values


def _number(field: Field, number: int, start: int, data: bytes, what: str) -> int:
    bits = 64 if field.kind == "int64" else 32
    number &= (1 << bits) - 1
    if number >> (bits - 1):
        number -= 1 << bits
    if field.values is not None and number not in field.values.values():
        corrupt(what, start, f"{field.name} is {number}, which means nothing", data)
    return number


def _body(field: Field, data: bytes, at: int, end: int, what: str) -> Any:
    if field.kind == "message":
        assert field.message is not None
        return decode(field.message, data, what, at, end)
    if field.kind == "bytes":
        return data[at:end]
    try:
        return data[at:end].decode()
    except UnicodeDecodeError as error:
        corrupt(what, at + error.start, f"{field.name} is not UTF-8", data[:end])


def _skip(data: bytes, start: int, at: int, end: int, tag: int, what: str) -> int:
    """Where a field ends that nobody here knows. Groups are counted, not descended into."""
    groups: list[int] = []
    while True:
        wire_type = tag & 7
        if wire_type == _VARINT:
            _, at = read_varint(data, at, end, what)
        elif wire_type == _GROUP:
            groups.append(tag >> 3)
        elif wire_type == _GROUP_END:
            if not groups or groups.pop() != tag >> 3:
                corrupt(what, start, "a group ends that did not begin", data)
        elif wire_type in (_FIXED64, _FIXED32, _BYTES):
            size = 8 if wire_type == _FIXED64 else 4
            if wire_type == _BYTES:
                size, at = read_varint(data, at, end, what)
            if size > end - at:
                corrupt(what, start, f"field {tag >> 3} has {size} bytes, of which {end - at} are there", data)
            at += size
        else:
            corrupt(what, start, f"there is no wire type {wire_type}", data)
        if not groups:
            return at
        if len(groups) > GROUPS_MAX:
            corrupt(what, start, f"more than {GROUPS_MAX} groups in each other", data)
        start = at
        tag, at = read_varint(data, at, end, what)
        if not 8 <= tag <= _TAG_MAX:
            corrupt(what, start, "this is no field's number", data)
