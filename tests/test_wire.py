"""The wire protocol against Google's protobuf: what is a message, what it says, and that it reads what we write."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.core_lib import ffi, lib

pytest.importorskip("google.protobuf", reason="Google's protobuf is the model")

from google.protobuf.unknown_fields import UnknownFieldSet

from tests.models import bookkeeper_protocol as model

int64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 300)
uint64 = st.integers(0, 2**64 - 1) | st.integers(0, 300)
KINDS: dict[int, st.SearchStrategy[Any]] = {
    1: st.integers(0, 2**64 - 1),  # never asked for: there are no doubles
    3: int64,
    4: uint64,
    5: st.integers(-(2**31), 2**31 - 1),
    9: st.text(max_size=20),
    12: st.binary(max_size=60),
    13: st.integers(0, 2**32 - 1),
}
GROUP = 3


@st.composite
def messages(draw: st.DrawFn, kind: Any, whole: bool = True) -> Any:
    """A message of the kind, each optional field there or not; not `whole`: required ones may be missing too."""
    message = kind()
    for field in kind.DESCRIPTOR.fields:
        optional = not field.is_required
        if (optional and draw(st.booleans())) or (not whole and draw(st.integers(0, 15)) == 0):
            continue
        if field.message_type is not None:
            inner = draw(messages(type(getattr(message, field.name)), whole)) if not field.is_repeated else None
            if inner is not None:
                getattr(message, field.name).CopyFrom(inner)
                getattr(message, field.name).SetInParent()
            else:
                for key, value in draw(st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4)), max_size=2)):
                    getattr(message, field.name).add(key=key, value=value)
        elif field.enum_type is not None:
            setattr(message, field.name, draw(st.sampled_from([value.number for value in field.enum_type.values])))
        else:
            setattr(message, field.name, draw(KINDS[field.type]))
    return message


@st.composite
def changed(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Bytes that were a message, then perhaps cut, extended, doubled, or changed in a few places."""
    data = bytearray(draw(whole))
    for at, value in draw(st.lists(st.tuples(st.integers(0, 80), st.integers(0, 255)), max_size=3)):
        if at < len(data):
            data[at] = value
    kept = draw(st.integers(0, len(data)) | st.just(len(data)))
    return bytes(data[:kept]) + draw(st.just(b"") | st.binary(max_size=12) | whole)


def payloads(kind: Any) -> st.SearchStrategy[bytes]:
    sound = messages(kind).map(lambda message: message.SerializeToString())
    partial = messages(kind, whole=False).map(lambda message: message.SerializePartialToString())
    return sound | changed(sound) | partial | changed(partial)


def holds_group(message: Any) -> bool:
    """Whether a field that nobody knows is a group, here or in a message inside."""
    if any(field.wire_type == GROUP for field in UnknownFieldSet(message)):
        return True
    inner = [value for field, value in message.ListFields() if field.message_type is not None]
    flat = [one for value in inner for one in (value if hasattr(value, "__len__") else [value])]
    return any(holds_group(one) for one in flat)


def taken(pointer: Any, size: int) -> bytes:
    return bytes(ffi.buffer(pointer, size)) if size else b""


def decoded_request(payload: bytes, version: int = 3) -> tuple[int, int, Any, Any]:
    """Status, the version afterwards, the request, and what its pointers point into."""
    held = ffi.new("uint8_t[]", payload if payload else b"\0")
    spoken, request = ffi.new("uint32_t *", version), ffi.new("wk_wire_request *")
    status = lib.wk_wire_request_decode(held, len(payload), spoken, request)
    return status, spoken[0], request, held


def says_the_same(request: Any, message: Any) -> None:
    """The request says what the message says."""
    header = message.header
    assert (request.header_version, request.operation) == (header.version, header.operation)
    assert (request.txn_id, request.priority) == (header.txnId, header.priority)
    assert bool(request.flags & lib.WK_WIRE_HIGH_PRIORITY) == (header.priority > 0)
    name = model.REQUEST_OF.get(header.operation)
    assert bool(request.bare) == (name is None or not message.HasField(name))
    if request.bare:
        assert (request.ledger_id, request.entry_id) == (-1, -1)
        return
    inner = getattr(message, str(name))
    assert request.ledger_id == getattr(inner, "ledgerId", -1)
    assert request.entry_id == getattr(inner, "entryId", -1)
    assert request.lac == getattr(inner, "lac", 0)
    assert taken(request.key, request.key_size) == getattr(inner, "masterKey", b"")
    assert taken(request.body, request.body_size) == getattr(inner, "body", getattr(inner, "payload", b""))
    if name == "readRequest":
        fence = inner.flag == 1 and inner.HasField("flag")
        assert bool(request.flags & lib.WK_WIRE_FENCE) == fence
        assert bool(request.flags & lib.WK_WIRE_PIGGYBACK) == (inner.flag == 2)
        polls = inner.HasField("previousLAC") and not fence
        assert bool(request.flags & lib.WK_WIRE_LONG_POLL) == polls
        if polls:
            assert (request.previous_lac, request.timeout_ms) == (inner.previousLAC, inner.timeOut)
            assert bool(request.has_timeout) == inner.HasField("timeOut")
    if name == "addRequest":
        assert bool(request.flags & lib.WK_WIRE_RECOVERY) == inner.HasField("flag")
        assert bool(request.flags & lib.WK_WIRE_DEFERRED) == bool(inner.writeFlags & 1)
    if name == "getBookieInfoRequest":
        assert request.wanted == inner.requested & 3


@given(payloads(model.Request))
def test_a_request_is_one_where_protobuf_says_so_and_says_the_same(payload: bytes) -> None:
    message = model.parsed(model.Request, payload)
    _, version, request, _held = decoded_request(payload)
    if message is None:
        assert version == lib.WK_WIRE_V2
    elif version == lib.WK_WIRE_V2:
        assert holds_group(message)  # we take none, and no client sends any
    else:
        says_the_same(request, message)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_request_where_protobuf_says_so(payload: bytes) -> None:
    message = model.parsed(model.Request, payload)
    _, version, _request, _held = decoded_request(payload)
    assert (version == lib.WK_WIRE_V3) == (message is not None and not holds_group(message))


@given(messages(model.Request))
def test_what_protobuf_reads_of_a_request_of_ours_is_what_it_wrote(message: Any) -> None:
    payload = message.SerializeToString()
    status, _, request, _held = decoded_request(payload)
    assert status == lib.WK_OK
    assume(request.key_size <= 48 and request.auth_name_size <= lib.WK_WIRE_AUTH_NAME_MAX)
    head = ffi.new("uint8_t[]", lib.WK_WIRE_HEAD_SIZE_MAX)
    size = lib.wk_wire_request_encode(request, head)
    frame = taken(head, size) + taken(request.body, request.body_size)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    again = model.parsed(model.Request, frame[4:])
    assert again is not None
    says_the_same(request, again)


@st.composite
def replies(draw: st.DrawFn) -> tuple[Any, bytes, list[Any]]:
    """A reply, its body, and what its pointers point into."""
    operation = draw(st.integers(1, 12))
    name = model.RESPONSE_OF.get(operation)
    lac, plugin = draw(st.binary(max_size=48)), draw(st.binary(max_size=128))
    held = [ffi.new("uint8_t[]", lac or b"\0"), ffi.new("uint8_t[]", plugin or b"\0")]
    reply = ffi.new(
        "wk_wire_reply *",
        {
            "version": 3,
            "header_version": 3,
            "operation": operation,
            "code": draw(st.sampled_from(sorted(model.STATUSES.values()))),
            "txn_id": draw(uint64),
            "ledger_id": draw(int64),
            "entry_id": draw(int64),
            "has_max_lac": draw(st.booleans()),
            "has_space": draw(st.booleans()),
            "wanted": draw(st.integers(0, 3)),
            "max_lac": draw(int64),
            "lac_update_ms": draw(uint64),
            "total_bytes": draw(int64),
            "free_bytes": draw(int64),
            "bare": name is None or draw(st.booleans()),
            "auth_name": held[1],
            "auth_name_size": len(plugin),
        },
    )
    if draw(st.booleans()):
        reply.lac, reply.lac_size = held[0], len(lac)
    bodies = {"readResponse", "authResponse", "readLacResponse", "getListOfEntriesOfLedgerResponse"}
    reply.has_body = name in bodies and not reply.bare and (name == "authResponse" or draw(st.booleans()))
    body = draw(st.binary(max_size=300)) if reply.has_body else b""
    reply.body_size = len(body)
    return reply, body, held


@given(replies())
def test_protobuf_reads_our_replies(made: tuple[Any, bytes, list[Any]]) -> None:
    reply, body, _held = made
    head = ffi.new("uint8_t[]", lib.WK_WIRE_HEAD_SIZE_MAX)
    frame = taken(head, lib.wk_wire_reply_encode(reply, head)) + body
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    message = model.parsed(model.Response, frame[4:])
    assert message is not None
    assert (message.header.version, message.header.operation) == (3, reply.operation)
    assert (message.header.txnId, message.status) == (reply.txn_id, reply.code)
    name = model.RESPONSE_OF.get(reply.operation)
    assert [field.name for field, _ in message.ListFields()][2:] == ([] if reply.bare else [name])
    if not reply.bare:
        read_reply(reply, body, getattr(message, str(name)), str(name))


def read_reply(reply: Any, body: bytes, inner: Any, name: str) -> None:
    """The message inside says what the reply says, and has the fields that it has to have."""
    assert getattr(inner, "status", reply.code) == reply.code
    assert getattr(inner, "ledgerId", reply.ledger_id) == reply.ledger_id
    assert getattr(inner, "entryId", reply.entry_id) == reply.entry_id
    if name == "readResponse":
        assert (inner.HasField("body"), inner.body) == (reply.has_body, body)
        assert inner.HasField("maxLAC") == reply.has_max_lac
        assert inner.maxLAC == (reply.max_lac if reply.has_max_lac else 0)
        assert inner.lacUpdateTimestamp % 2**64 == reply.lac_update_ms
    elif name == "readLacResponse":
        assert (inner.HasField("lastEntryBody"), inner.lastEntryBody) == (reply.has_body, body)
        assert inner.HasField("lacBody") == (reply.lac != ffi.NULL)
        assert inner.lacBody == taken(reply.lac, reply.lac_size)
    elif name == "getBookieInfoResponse":
        assert inner.HasField("totalDiskCapacity") == bool(reply.has_space and reply.wanted & 1)
        assert inner.HasField("freeDiskSpace") == bool(reply.has_space and reply.wanted & 2)
        assert inner.totalDiskCapacity == (reply.total_bytes if inner.HasField("totalDiskCapacity") else 0)
        assert inner.freeDiskSpace == (reply.free_bytes if inner.HasField("freeDiskSpace") else 0)
    elif name == "authResponse":
        assert (
            inner.SerializeToString()
            == bytes([0x0A, *varint(reply.auth_name_size)])
            + taken(reply.auth_name, reply.auth_name_size)
            + bytes([0x12, *varint(len(body))])
            + body
        )
    elif name == "getListOfEntriesOfLedgerResponse":
        assert inner.availabilityOfEntriesOfLedger == body


def varint(number: int) -> list[int]:
    return [number] if number < 0x80 else [number & 0x7F | 0x80, *varint(number >> 7)]


@given(payloads(model.Response))
def test_a_reply_is_one_where_protobuf_says_so_and_says_the_same(payload: bytes) -> None:
    message = model.parsed(model.Response, payload)
    held = ffi.new("uint8_t[]", payload if payload else b"\0")
    reply = ffi.new("wk_wire_reply *")
    status = lib.wk_wire_reply_decode(held, len(payload), lib.WK_WIRE_V3, reply)
    if message is None or status != lib.WK_OK:
        assert status == lib.WK_CORRUPT
        assert message is None or holds_group(message)
        return
    assert (reply.header_version, reply.operation) == (message.header.version, message.header.operation)
    assert reply.txn_id == message.header.txnId
    name = model.RESPONSE_OF.get(reply.operation)
    assert bool(reply.bare) == (name is None or not message.HasField(name))
    if reply.bare:
        assert reply.code == message.status
        return
    inner = getattr(message, str(name))
    assert reply.code == (message.status or getattr(inner, "status", 0))
    assert reply.ledger_id == getattr(inner, "ledgerId", -1)
    assert reply.entry_id == getattr(inner, "entryId", -1)
    body = {"readResponse": "body", "readLacResponse": "lastEntryBody", "authResponse": "payload"}.get(
        str(name), "availabilityOfEntriesOfLedger"
    )
    assert taken(reply.body, reply.body_size) == getattr(inner, body, b"")


# docs/protocol.md

PAGE = Path(__file__).resolve().parent.parent / "docs/protocol.md"


def frames_of_page() -> list[bytes]:
    """The frames on the page: in blocks of code, a line of hexadecimal and those behind it that are indented."""
    blocks = re.findall(r"^```\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = "".join(block for block in blocks if re.match(r"[0-9a-f]{8} ", block))
    return [bytes.fromhex(frame) for frame in re.sub(r"\n +", " ", text).splitlines()]


def encoded_again(payload: bytes) -> list[bytes]:
    """The payload, as request and as reply of the version it is of, decoded and encoded."""
    held, head = ffi.new("uint8_t[]", payload), ffi.new("uint8_t[]", lib.WK_WIRE_HEAD_SIZE_MAX)
    version = lib.WK_WIRE_V3 if payload[0] == 0x0A else lib.WK_WIRE_V2
    found = []
    status, _, request, _held = decoded_request(payload, version)
    if status == lib.WK_OK and (version == lib.WK_WIRE_V3 or lib.wk_wire_refusal(request, ffi.new("bool *")) == 0):
        found.append(taken(head, lib.wk_wire_request_encode(request, head)) + taken(request.body, request.body_size))
    reply = ffi.new("wk_wire_reply *")
    if lib.wk_wire_reply_decode(held, len(payload), version, reply) == lib.WK_OK:
        found.append(taken(head, lib.wk_wire_reply_encode(reply, head)) + taken(reply.body, reply.body_size))
    return found


def test_the_frames_on_the_page_are_what_the_c_reads_and_writes() -> None:
    frames = frames_of_page()
    assert len(frames) >= 25
    for frame in frames:
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4, frame.hex()
        assert frame in encoded_again(frame[4:]), frame.hex()


def test_every_operation_is_on_the_page_in_both_directions() -> None:
    requests, replies = set(), set()
    for frame in frames_of_page():
        if frame[4] == 0x0A:
            message = model.parsed(model.Response, frame[4:])
            name = model.REQUEST_OF[frame[9]]
            (requests if message is None else replies).add(name)
    assert requests == set(model.REQUEST_OF.values())
    assert replies == requests
