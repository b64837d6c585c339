"""The C codecs against their models: the same bytes out, the same answer to any bytes in."""

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import example, given
from hypothesis import strategies as st

from tests.core_lib import ffi, lib
from tests.models import entry as entries
from tests.models import record as records
from tests.models.crc32c import crc32c
from tests.models.refused import Refused

T = TypeVar("T")

int64 = st.integers(-(2**63), 2**63 - 1)
near_zero = st.integers(-3, 3)
ids = st.integers(0, 2**63 - 1)
payloads = st.binary(max_size=300)
codecs = st.sampled_from([lib.WK_CODEC_NONE, lib.WK_CODEC_LZ4, lib.WK_CODEC_ZSTD])


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Bytes that were whole, then perhaps cut, extended, or changed in a few places."""
    data = bytearray(draw(whole))
    for at, value in draw(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=3)):
        if at < len(data):
            data[at] = value
    kept = draw(st.integers(0, len(data)) | st.just(len(data)))
    return bytes(data[:kept]) + draw(st.just(b"") | st.binary(max_size=5))


def model_says(decode: Callable[[bytes], T], data: bytes) -> T | str:
    """What the model decodes, or the name of the status with which it refuses."""
    try:
        return decode(data)
    except Refused as refusal:
        return refusal.status


def c_says(status: int, value: Callable[[], T]) -> T | str:
    """What the C decoded, or the name of its status."""
    if status == lib.WK_OK:
        return value()
    names = {lib.WK_CORRUPT: "WK_CORRUPT", lib.WK_UNSUPPORTED: "WK_UNSUPPORTED"}
    return names[status]


def buffer_of(data: bytes) -> Any:
    return ffi.new("uint8_t[]", data if data else b"\0")


def taken(pointer: Any, size: int) -> bytes:
    return bytes(ffi.buffer(pointer, size))


# entry


def c_encode_entry(entry: entries.Entry) -> bytes:
    payload = buffer_of(entry.payload)
    c = ffi.new("wk_entry *", (*entry[:4], payload, len(entry.payload)))
    header = ffi.new("uint8_t[36]")
    lib.wk_entry_encode_header(c, header)
    return bytes(header) + entry.payload


def c_decode_entry(data: bytes) -> entries.Entry | str:
    c, held = ffi.new("wk_entry *"), buffer_of(data)
    status = lib.wk_entry_decode(held, len(data), c)
    return c_says(
        status,
        lambda: entries.Entry(c.ledger_id, c.entry_id, c.lac, c.length, taken(c.payload, c.payload_size)),
    )


any_entry = st.builds(
    entries.Entry, near_zero | int64, near_zero | int64, near_zero | int64, near_zero | int64, payloads
)


@st.composite
def possible_entry(draw: st.DrawFn) -> entries.Entry:
    entry_id = draw(ids)
    lac = draw(st.integers(-1, entry_id - 1))
    return entries.Entry(draw(ids), entry_id, lac, draw(ids), draw(payloads))


@given(possible_entry())
@example(entries.Entry(1, 0, -1, 5, b"hello"))
def test_entry_encodes_to_the_models_bytes(entry: entries.Entry) -> None:
    data = entries.encode(entry)
    assert c_encode_entry(entry) == data
    assert c_decode_entry(data) == entry


@given(any_entry)
def test_entry_with_any_numbers_and_a_right_digest_gets_the_models_answer(entry: entries.Entry) -> None:
    data = entries.encode(entry)
    assert c_decode_entry(data) == model_says(entries.decode, data)


@given(damaged(possible_entry().map(entries.encode)))
def test_damaged_entry_gets_the_models_answer(data: bytes) -> None:
    assert c_decode_entry(data) == model_says(entries.decode, data)


def test_digest_of_hello_is_bookkeepers() -> None:
    assert entries.encode(entries.Entry(1, 0, -1, 5, b"hello"))[32:36] == bytes.fromhex("e3a5f74d")


# record


def c_encode_record(record: records.Record) -> bytes:
    c = ffi.new("wk_log_record *", (*record[:3], ffi.NULL, len(record.payload)))
    header = ffi.new("uint8_t[20]")
    lib.wk_log_record_encode_header(c, header)
    return bytes(header) + record.payload


def c_decode_record(data: bytes) -> tuple[records.Record, int] | str:
    c, consumed, held = ffi.new("wk_log_record *"), ffi.new("size_t *"), buffer_of(data)
    status = lib.wk_log_record_decode(held, len(data), c, consumed)
    return c_says(
        status,
        lambda: (records.Record(c.flags, c.position, c.txid, taken(c.payload, c.payload_size)), consumed[0]),
    )


possible_record = st.builds(
    records.Record, st.integers(0, 7), st.integers(1, 3) | st.integers(1, 2**32 - 1), ids, payloads
)
any_record = st.builds(
    records.Record, st.integers(0, 16), st.integers(0, 2) | st.integers(0, 2**40), near_zero | int64, payloads
)


@given(possible_record, st.binary(max_size=30))
@example(records.Record(1, 0, 0, b"control"), b"")
def test_record_encodes_to_the_models_bytes(record: records.Record, behind: bytes) -> None:
    data = records.encode_record(record)
    assert c_encode_record(record) == data
    assert c_decode_record(data + behind) == (record, len(data))


@given(damaged(any_record.map(records.encode_record)))
def test_damaged_record_gets_the_models_answer(data: bytes) -> None:
    assert c_decode_record(data) == model_says(records.decode_record, data)


# envelope


def c_encode_envelope(envelope: records.Envelope) -> bytes:
    c = ffi.new("wk_envelope *", (envelope.codec, envelope.original_size, len(envelope.stored), ffi.NULL))
    header = ffi.new("uint8_t[13]")
    lib.wk_envelope_encode_header(c, header)
    return bytes(header) + envelope.stored


def c_decode_envelope(data: bytes) -> records.Envelope | str:
    c, held = ffi.new("wk_envelope *"), buffer_of(data)
    status = lib.wk_envelope_decode(held, len(data), c)
    return c_says(status, lambda: records.Envelope(c.codec, c.original_size, taken(c.stored, c.stored_size)))


@st.composite
def possible_envelope(draw: st.DrawFn) -> records.Envelope:
    codec, stored = draw(codecs), draw(payloads)
    size = len(stored) if codec == lib.WK_CODEC_NONE else draw(st.integers(0, records.ENVELOPE_SIZE_MAX))
    return records.Envelope(codec, size, stored)


any_envelope = st.builds(records.Envelope, st.integers(-1, 8), st.integers(-2, 2**21) | st.just(300), payloads)


@given(possible_envelope())
def test_envelope_encodes_to_the_models_bytes(envelope: records.Envelope) -> None:
    data = records.encode_envelope(envelope)
    assert c_encode_envelope(envelope) == data
    assert c_decode_envelope(data) == envelope


@given(damaged((any_envelope | possible_envelope()).map(records.encode_envelope)))
def test_damaged_envelope_gets_the_models_answer(data: bytes) -> None:
    assert c_decode_envelope(data) == model_says(records.decode_envelope, data)


# record set


def c_encode_record_set(found: records.RecordSet) -> bytes:
    c = ffi.new("wk_record_set *", (found.codec, found.members_count, found.original_size, len(found.stored), ffi.NULL))
    header = ffi.new("uint8_t[16]")
    lib.wk_record_set_encode_header(c, header)
    return bytes(header) + found.stored


def c_decode_record_set(data: bytes) -> records.RecordSet | str:
    c, held = ffi.new("wk_record_set *"), buffer_of(data)
    status = lib.wk_record_set_decode(held, len(data), c)
    return c_says(status, lambda: records.RecordSet(c.codec, c.count, c.original_size, taken(c.stored, c.stored_size)))


def c_decode_members(body: bytes) -> list[bytes] | str:
    held, offset = buffer_of(body), ffi.new("size_t *")
    payload, size = ffi.new("const uint8_t **"), ffi.new("size_t *")
    members: list[bytes] = []
    while (status := lib.wk_record_set_next(held, len(body), offset, payload, size)) == lib.WK_OK:
        members.append(taken(payload[0], size[0]))
    return c_says(lib.WK_OK if status == lib.WK_END else status, lambda: members)


@st.composite
def possible_record_set(draw: st.DrawFn) -> records.RecordSet:
    codec, members = draw(codecs), draw(st.lists(st.binary(max_size=30), max_size=8))
    body = records.encode_members(members)
    if codec == lib.WK_CODEC_NONE:
        return records.RecordSet(codec, len(members), len(body), body)
    size = draw(st.integers(len(body), records.RECORD_SIZE_MAX))
    return records.RecordSet(codec, len(members), size, draw(payloads))


any_record_set = st.builds(
    records.RecordSet, st.integers(-1, 8), st.integers(-2, 100), st.integers(-2, 2**21) | st.integers(0, 400), payloads
)


@given(possible_record_set())
def test_record_set_encodes_to_the_models_bytes(found: records.RecordSet) -> None:
    data = records.encode_record_set(found)
    assert c_encode_record_set(found) == data
    assert c_decode_record_set(data) == found


@given(damaged((any_record_set | possible_record_set()).map(records.encode_record_set)))
def test_damaged_record_set_gets_the_models_answer(data: bytes) -> None:
    assert c_decode_record_set(data) == model_says(records.decode_record_set, data)


members_lists = st.lists(st.binary(max_size=30), max_size=8)


@given(members_lists)
def test_members_come_back_in_order(members: list[bytes]) -> None:
    assert c_decode_members(records.encode_members(members)) == members


@given(damaged(members_lists.map(records.encode_members)))
def test_damaged_members_get_the_models_answer(body: bytes) -> None:
    assert c_decode_members(body) == model_says(records.decode_members, body)


# DLSN

dlsns = st.builds(records.Dlsn, near_zero | int64, near_zero | int64, near_zero | int64)


def c_decode_dlsn(data: bytes) -> records.Dlsn | str:
    c, held = ffi.new("wk_dlsn *"), buffer_of(data)
    return c_says(lib.wk_dlsn_decode(held, len(data), c), lambda: records.Dlsn(c.segment, c.entry_id, c.slot))


@given(dlsns)
def test_dlsn_encodes_to_the_models_bytes(dlsn: records.Dlsn) -> None:
    data = ffi.new("uint8_t[25]")
    lib.wk_dlsn_encode(ffi.new("wk_dlsn *", tuple(dlsn)), data)
    assert bytes(data) == records.encode_dlsn(dlsn)
    assert c_decode_dlsn(bytes(data)) == dlsn


@given(damaged(dlsns.map(records.encode_dlsn)))
def test_damaged_dlsn_gets_the_models_answer(data: bytes) -> None:
    assert c_decode_dlsn(data) == model_says(records.decode_dlsn, data)


@given(dlsns, dlsns)
def test_dlsns_are_ordered_as_tuples(a: records.Dlsn, b: records.Dlsn) -> None:
    found = lib.wk_dlsn_compare(ffi.new("wk_dlsn *", tuple(a)), ffi.new("wk_dlsn *", tuple(b)))
    assert (found > 0) - (found < 0) == (a > b) - (a < b)


# checksum and limits


@given(st.binary(max_size=2000), st.integers(0, 2**32 - 1))
def test_checksum_is_the_models(data: bytes, before: int) -> None:
    expected = crc32c(data, before)
    assert lib.wk_crc32c_extend(before, data, len(data)) == expected
    assert lib.wk_crc32c_extend_portable(before, data, len(data)) == expected


def test_limits_of_the_models_are_those_of_the_headers() -> None:
    assert entries.HEADER_SIZE == lib.WK_ENTRY_HEADER_SIZE
    assert entries.SIZE_MAX == lib.WK_ENTRY_SIZE_MAX
    assert records.RECORD_SIZE_MAX == lib.WK_RECORD_SIZE_MAX
    assert records.ENVELOPE_SIZE_MAX == lib.WK_ENVELOPE_SIZE_MAX
    assert records.CONTROL == lib.WK_RECORD_CONTROL
    assert records.CODEC_NONE == lib.WK_CODEC_NONE
