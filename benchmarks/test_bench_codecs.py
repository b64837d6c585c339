"""What the pure functions cost through the Python border: for a developer at work, never a gate.

pytest benchmarks/test_bench_codecs.py --benchmark-only
"""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

native = pytest.importorskip("walkeeper._native", reason="the compiled module is not built")
lib, ffi = native.lib, native.ffi

SIZES = (64, 1024, 64 * 1024)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("function", ["wk_crc32c_extend", "wk_crc32c_extend_portable"])
def test_checksum(benchmark: BenchmarkFixture, function: str, size: int) -> None:
    data = b"\x5a" * size
    found = benchmark(getattr(lib, function), 0, data, size)
    assert found == lib.wk_crc32c(data, size)


@pytest.mark.parametrize("size", SIZES)
def test_entry_header(benchmark: BenchmarkFixture, size: int) -> None:
    payload = ffi.from_buffer(b"\x5a" * size)
    entry = ffi.new("wk_entry *", {"ledger_id": 1, "entry_id": 7, "lac": 6, "length": 8 * size, "payload_size": size})
    entry.payload = ffi.cast("const uint8_t *", payload)
    header = ffi.new("uint8_t[36]")
    benchmark(lib.wk_entry_encode_header, entry, header)
    decoded = ffi.new("wk_entry *")
    whole = bytes(ffi.buffer(header)) + bytes(ffi.buffer(payload))
    assert lib.wk_entry_decode(whole, len(whole), decoded) == lib.WK_OK
    assert decoded.entry_id == 7


def test_record_header_and_back(benchmark: BenchmarkFixture) -> None:
    payload = b"\x5a" * 1024
    kept = ffi.from_buffer(payload)
    record = ffi.new("wk_log_record *", {"flags": 0, "position": 1, "txid": 42, "payload_size": len(payload)})
    record.payload = ffi.cast("const uint8_t *", kept)
    header = ffi.new("uint8_t[20]")
    lib.wk_log_record_encode_header(record, header)
    whole = bytes(ffi.buffer(header)) + payload
    decoded, consumed = ffi.new("wk_log_record *"), ffi.new("size_t *")
    assert benchmark(lib.wk_log_record_decode, whole, len(whole), decoded, consumed) == lib.WK_OK
    assert decoded.txid == 42
    assert consumed[0] == len(whole)
