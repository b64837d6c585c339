"""Protobuf's text format, as far as BookKeeper's metadata needs it.

Read is what protobuf and what LightProto write, and the freedom that both give who edits by hand: `<` for `{`, a colon
before a message or none, `;` or `,` behind a value, comments, lists, strings in pieces and either quotes, numbers in
hexadecimal and octal. Written is what protobuf's C++ and Python write: a field a line, everything but printable ASCII
escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from walkeeper.metadata._corrupt import corrupt
from walkeeper.metadata._protobuf import SIZE_MAX, Field, Message, Values, check_complete, put_value

# No position can be matched in two ways: hostile text costs no more time than any other.
_SPACE = re.compile(rb"(?:[ \t\r\n\f\v]|#[^\n]*(?:\n|\Z))*")
_TOKEN = re.compile(
    rb"""(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>[0-9][0-9A-Za-z_.]*)
    | (?P<string>"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*')
    | (?P<mark>[][{}<>:;,-])
    | (?P<end>\Z)""",
    re.VERBOSE,
)
_ESCAPE = re.compile(
    rb"""\\(?:(?P<octal>[0-7]{1,3})|[xX](?P<hex>[0-9A-Fa-f]{1,2})|u(?P<short>[0-9A-Fa-f]{4})|U(?P<long>[0-9A-Fa-f]{8})
    |(?P<letter>[abfnrtv\\'"?])|(?P<bad>.?))""",
    re.VERBOSE | re.DOTALL,
)
_LETTERS = dict(zip(b"abfnrtv\\'\"?", b"\a\b\f\n\r\t\v\\'\"?", strict=True))
_WRITTEN = {ord("\n"): b"\\n", ord("\r"): b"\\r", ord("\t"): b"\\t", ord('"'): b'\\"', ord("'"): b"\\'", 92: b"\\\\"}
_CLOSE = {b"{": b"}", b"<": b">"}


class _Token(NamedTuple):
    kind: str
    text: bytes
    at: int


class _Tokens:
    """The text as tokens, one looked at ahead."""

    def __init__(self, data: bytes, what: str) -> None:
        self.data = data
        self.what = what
        self.next = self._read(0)

    def _read(self, at: int) -> _Token:
        space = _SPACE.match(self.data, at)
        at = space.end() if space else at
        found = _TOKEN.match(self.data, at)
        if found is None:
            quoted = self.data[at : at + 1] in (b'"', b"'")
            corrupt(self.what, at, "a string without an end" if quoted else "nothing begins so", self.data)
        kind = str(found.lastgroup)
        return _Token(kind, found[kind], found.start(kind))

    def take(self) -> _Token:
        """The next one, and past it."""
        token = self.next
        if token.kind != "end":
            self.next = self._read(token.at + len(token.text))
        return token

    def take_if(self, *texts: bytes) -> _Token | None:
        """The next one where it is a mark out of these, and past it."""
        return self.take() if self.next.kind == "mark" and self.next.text in texts else None

    def refuse(self, token: _Token, expected: str) -> NoReturn:
        """CorruptMetadataError: something else was expected."""
        corrupt(self.what, token.at, f"{expected} was expected" + (", not the end" * (token.kind == "end")), self.data)


def decode_text(message: Message, data: bytes, what: str, at: int = 0) -> Values:
    """The message that the text behind `at` is. CorruptMetadataError says where it is none.

    A field that is not in the schema is an error, as it is to protobuf.
    """
    if len(data) > SIZE_MAX:
        corrupt(what, at, f"{len(data)} bytes: at most {SIZE_MAX} are read")
    return _message(message, _Tokens(b" " * at + data[at:], what), None)


def _message(message: Message, tokens: _Tokens, close: bytes | None) -> Values:
    """Up to `close`, or to the end. As deep as the schema, and no deeper."""
    values: Values = {}
    while True:
        token = tokens.take()
        if (token.kind == "end" and close is None) or (token.kind == "mark" and token.text == close):
            check_complete(message, values, tokens.what, token.at)
            return values
        if token.kind != "name":
            tokens.refuse(token, "the name of a field")
        field = message.field(token.text.decode())
        if field is None:
            corrupt(tokens.what, token.at, f"{message.name} has no such field", tokens.data)
        colon = tokens.take_if(b":")
        if colon is None and field.kind != "message":
            tokens.refuse(tokens.next, "a colon")
        if field.rule == "repeated" and tokens.take_if(b"["):
            while not tokens.take_if(b"]"):
                put_value(field, values, _value(field, tokens))
                if not tokens.take_if(b",") and tokens.next.text != b"]":
                    tokens.refuse(tokens.next, "a comma, or the list's end")
        else:
            put_value(field, values, _value(field, tokens))
        tokens.take_if(b";", b",")


def _value(field: Field, tokens: _Tokens) -> Any:
    if field.kind == "message":
        opened = tokens.take_if(b"{", b"<")
        if opened is None:
            tokens.refuse(tokens.next, "a message")
        assert field.message is not None
        return _message(field.message, tokens, _CLOSE[opened.text])
    if field.kind in ("string", "bytes"):
        return _string(field, tokens)
    if field.values is not None and tokens.next.kind == "name":
        token = tokens.take()
        value = field.values.get(token.text.decode())
        if value is None:
            corrupt(tokens.what, token.at, f"{field.name} has no such value", tokens.data)
        return value
    return _number(field, tokens)


def _number(field: Field, tokens: _Tokens) -> int:
    at = tokens.next.at
    sign = -1 if tokens.take_if(b"-") else 1
    token = tokens.take()
    text = token.text
    try:
        if token.kind != "number" or b"_" in text or len(text) > 24:
            raise ValueError
        octal = len(text) > 1 and text.startswith(b"0") and text[1:2] not in b"xX"
        number = sign * (int(text, 8) if octal else int(text, 16 if text[:2] in (b"0x", b"0X") else 10))
    except ValueError:
        tokens.refuse(token, "a whole number")
    bits = 64 if field.kind == "int64" else 32
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        corrupt(tokens.what, at, f"{field.name} does not fit {bits} bits", tokens.data)
    if field.values is not None and number not in field.values.values():
        corrupt(tokens.what, at, f"{field.name} is {number}, which means nothing", tokens.data)
    return number


def _string(field: Field, tokens: _Tokens) -> Any:
    at = tokens.next.at
    if tokens.next.kind != "string":
        tokens.refuse(tokens.next, "a string")
    out = bytearray()
    while tokens.next.kind == "string":
        token = tokens.take()
        out += _unescape(token, tokens)
    if field.kind == "bytes":
        return bytes(out)
    try:
        return out.decode()
    except UnicodeDecodeError:
        corrupt(tokens.what, at, f"{field.name} is not UTF-8", tokens.data)


def _unescape(token: _Token, tokens: _Tokens) -> bytes:
    def character(found: re.Match[bytes]) -> bytes:
        if found["letter"] is not None:
            return bytes([_LETTERS[found["letter"][0]]])
        number = -1
        if found["octal"] is not None:
            number = int(found["octal"], 8)
        elif found["hex"] is not None:
            number = int(found["hex"], 16)
        elif found["bad"] is None:
            number = int(found["short"] or found["long"], 16)
            if number < 0x110000 and not 0xD800 <= number < 0xE000:
                return chr(number).encode()
            number = -1
        if not 0 <= number < 256:
            corrupt(tokens.what, token.at + 1 + found.start(), "an escape that means nothing", tokens.data)
        return bytes([number])

    return _ESCAPE.sub(character, token.text[1:-1])


def encode_text(message: Message, values: Mapping[str, Any]) -> bytes:
    """The text: a field a line, in the order of their numbers."""
    return b"".join(_lines(message, values, b""))


def _lines(message: Message, values: Mapping[str, Any], indent: bytes) -> list[bytes]:
    lines: list[bytes] = []
    for field in message.fields:
        if field.name not in values:
            continue
        name = indent + field.name.encode()
        for value in values[field.name] if field.rule == "repeated" else (values[field.name],):
            if field.kind == "message":
                assert field.message is not None
                lines += [name, b" {\n", *_lines(field.message, value, indent + b"  "), indent, b"}\n"]
            else:
                lines += [name, b": ", _written(field, value), b"\n"]
    return lines


def _written(field: Field, value: Any) -> bytes:
    if field.values is not None:
        return next(name for name, number in field.values.items() if number == value).encode()
    if field.kind in ("int32", "int64"):
        return b"%d" % value
    data = value.encode() if field.kind == "string" else value
    return b'"' + b"".join(_WRITTEN.get(b) or (b"%c" % b if 32 <= b < 127 else b"\\%03o" % b) for b in data) + b'"'
