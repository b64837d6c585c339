"""Digests of entries and explicit LAC packets, and SHA-1, against Python's own: native/core/digest.c and sha1.c."""

from __future__ import annotations

import hashlib
import hmac
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core_lib import ffi, lib
from tests.models.crc32c import crc32c

HEADER_SIZE, LAC_HEADER_SIZE = 32, 16
TYPES = {
    "CRC32": lib.WK_DIGEST_CRC32,
    "MAC": lib.WK_DIGEST_MAC,
    "CRC32C": lib.WK_DIGEST_CRC32C,
    "DUMMY": lib.WK_DIGEST_DUMMY,
}
SIZES = {"CRC32": 8, "MAC": 20, "CRC32C": 4, "DUMMY": 0}


def key(purpose: str, password: str) -> bytes:
    return hashlib.sha1(f"{purpose}{password}".encode()).digest()


def digest_of(kind: str, mac_key: bytes = bytes(20)) -> object:
    return ffi.new("wk_digest *", (TYPES[kind], mac_key))


def expected(kind: str, mac_key: bytes, data: bytes) -> bytes:
    if kind == "CRC32":
        return zlib.crc32(data).to_bytes(8, "big")
    if kind == "CRC32C":
        return crc32c(data).to_bytes(4, "big")
    return hmac.digest(mac_key, data, "sha1") if kind == "MAC" else b""


def put(kind: str, mac_key: bytes, head: bytes, payload: bytes) -> bytes:
    out = ffi.new("uint8_t[]", lib.WK_DIGEST_SIZE_MAX)
    digest = digest_of(kind, mac_key)
    lib.wk_digest_put(digest, head, len(head), payload or ffi.NULL, len(payload), out)
    return bytes(ffi.buffer(out, lib.wk_digest_size(digest)))


def header(ledger: int, entry: int, lac: int, length: int) -> bytes:
    return b"".join(number.to_bytes(8, "big", signed=True) for number in (ledger, entry, lac, length))


def entry_bytes(kind: str, mac_key: bytes, head: bytes, payload: bytes) -> bytes:
    return head + expected(kind, mac_key, head + payload) + payload


def opened(kind: str, mac_key: bytes, data: bytes, ledger: int, entry: int) -> tuple[int, tuple[int, int], bytes]:
    """The status; LAC and length; the payload."""
    found, payload, size = ffi.new("wk_wire_entry *"), ffi.new("uint8_t **"), ffi.new("size_t *")
    at = ffi.from_buffer(data) if data else ffi.NULL
    status = lib.wk_digest_open(
        digest_of(kind, mac_key), at, len(data), ledger, entry, found, ffi.cast("const uint8_t **", payload), size
    )
    if status != lib.WK_OK:
        return status, (0, 0), b""
    return status, (found.lac, found.length), bytes(ffi.buffer(payload[0], size[0]))


# The vectors of BookKeeper's own tests and sources.


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("CRC32", "0000000030a56872"),
        ("CRC32C", "e3a5f74d"),
        ("MAC", "1fc10b7ef25ddc35686904654653862deb5d2933"),
        ("DUMMY", ""),
    ],
)
def test_the_digest_of_an_entry_is_bookkeepers(kind: str, found: str) -> None:
    assert put(kind, key("mac", "testPasswd"), header(1, 0, -1, 5), b"hello").hex() == found


@pytest.mark.parametrize(("kind", "found"), [("CRC32", "00000000fbc05f16"), ("CRC32C", "b64e4ca2")])
def test_the_digest_of_a_lac_packet_is_bookkeepers(kind: str, found: str) -> None:
    assert put(kind, bytes(20), header(1, 0, 0, 0)[:LAC_HEADER_SIZE], b"").hex() == found


@pytest.mark.parametrize(
    ("purpose", "password", "found"),
    [
        ("ledger", "", "850bf1071c5e3d8c24235676f8816ae0cbe2f14f"),
        ("mac", "", "347ead6348e936507920c15d2ae8266ac6ce9b49"),
        ("ledger", "testPasswd", "2e2a69d870796fe05c0e77c52a29ce5e4222b758"),
        ("mac", "testPasswd", "1bc765c5e5e8cb34bb1bc45884394f3a2b8f8311"),
    ],
)
def test_keys_are_bookkeepers(purpose: str, password: str, found: str) -> None:
    assert sha1([f"{purpose}{password}".encode()]).hex() == found


# Whatever is given.


def sha1(parts: list[bytes]) -> bytes:
    state, out = ffi.new("wk_sha1 *"), ffi.new("uint8_t[]", 20)
    lib.wk_sha1_begin(state)
    for part in parts:
        lib.wk_sha1_add(state, part, len(part))
    lib.wk_sha1_end(state, out)
    return bytes(ffi.buffer(out))


@given(st.lists(st.binary(max_size=200), max_size=6))
def test_sha1_is_pythons_however_it_is_cut(parts: list[bytes]) -> None:
    assert sha1(parts) == hashlib.sha1(b"".join(parts)).digest()


def test_sha1_of_each_size_around_a_block() -> None:
    for size in range(200):
        data = bytes(range(size))
        assert sha1([data]) == hashlib.sha1(data).digest()


@given(st.binary(max_size=64), st.binary(max_size=200), st.binary(max_size=200))
def test_hmac_is_pythons(mac_key: bytes, a: bytes, b: bytes) -> None:
    out = ffi.new("uint8_t[]", 20)
    lib.wk_hmac_sha1(mac_key, len(mac_key), a, len(a), b, len(b), out)
    assert bytes(ffi.buffer(out)) == hmac.digest(mac_key, a + b, "sha1")


kinds, keys, int64 = st.sampled_from(sorted(TYPES)), st.binary(min_size=20, max_size=20), st.integers(0, 2**63 - 1)


@given(kinds, keys, st.binary(max_size=40), st.binary(max_size=300))
def test_a_digest_is_that_of_its_model(kind: str, mac_key: bytes, head: bytes, payload: bytes) -> None:
    assert put(kind, mac_key, head, payload) == expected(kind, mac_key, head + payload)
    assert lib.wk_digest_size(digest_of(kind)) == SIZES[kind]


@given(kinds, keys, int64, int64, st.integers(-1, 2**63 - 1), int64, st.binary(max_size=100))
def test_an_entry_is_opened_as_it_was_written(
    kind: str, mac_key: bytes, ledger: int, entry: int, lac: int, length: int, payload: bytes
) -> None:
    data = entry_bytes(kind, mac_key, header(ledger, entry, lac, length), payload)
    for asked in (entry, -1):
        assert opened(kind, mac_key, data, ledger, asked) == (lib.WK_OK, (lac, length), payload)
    assert opened(kind, mac_key, data, ledger ^ 1, entry)[0] == lib.WK_CORRUPT
    assert opened(kind, mac_key, data, ledger, entry ^ 1)[0] == lib.WK_CORRUPT


@given(st.sampled_from(["CRC32", "CRC32C", "MAC"]), keys, st.binary(max_size=60), st.data())
def test_a_changed_byte_is_noticed(kind: str, mac_key: bytes, payload: bytes, data: st.DataObject) -> None:
    good = entry_bytes(kind, mac_key, header(7, 3, 2, 99), payload)
    at, by = data.draw(st.integers(0, len(good) - 1)), data.draw(st.integers(1, 255))
    bad = good[:at] + bytes([good[at] ^ by]) + good[at + 1 :]
    assert opened(kind, mac_key, bad, 7, 3)[0] == lib.WK_CORRUPT


@given(kinds, st.integers(0, HEADER_SIZE + 20))
def test_an_entry_shorter_than_its_head_is_corrupt(kind: str, size: int) -> None:
    data = entry_bytes(kind, bytes(20), header(7, 3, 2, 99), b"")[:size]
    whole = size >= HEADER_SIZE + SIZES[kind]
    assert (opened(kind, bytes(20), data, 7, 3)[0] == lib.WK_OK) == whole


@pytest.mark.parametrize("head", [header(7, -1, -1, 0), header(7, 3, -2, 0), header(7, 3, 2, -1)])
def test_what_no_writer_says_is_corrupt(head: bytes) -> None:
    assert opened("CRC32C", bytes(20), entry_bytes("CRC32C", bytes(20), head, b"x"), 7, -1)[0] == lib.WK_CORRUPT


@given(kinds, keys, int64, int64)
def test_a_lac_packet_is_opened_as_it_was_written(kind: str, mac_key: bytes, ledger: int, lac: int) -> None:
    head, found = header(ledger, lac, 0, 0)[:LAC_HEADER_SIZE], ffi.new("int64_t *")
    packet = head + expected(kind, mac_key, head)
    digest = digest_of(kind, mac_key)
    assert lib.wk_digest_open_lac(digest, packet, len(packet), ledger, found) == lib.WK_OK
    assert found[0] == lac
    assert lib.wk_digest_open_lac(digest, packet, len(packet), ledger ^ 1, found) == lib.WK_CORRUPT
    assert lib.wk_digest_open_lac(digest, packet, len(packet) - 1, ledger, found) == lib.WK_CORRUPT
    if kind != "DUMMY":
        bad = packet[:-1] + bytes([packet[-1] ^ 1])
        assert lib.wk_digest_open_lac(digest, bad, len(bad), ledger, found) == lib.WK_CORRUPT
