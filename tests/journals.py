"""Journal files in memory, written and recovered through the C: what specs, models and golden files share."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.core_lib import ffi, lib

DIRECTORY_ID = bytes(range(0xA0, 0xB0))
BLOCK_SIZE = 4096
VERDICTS = {
    lib.WK_SCAN_ACCEPTED: "accepted",
    lib.WK_SCAN_ABSENT: "absent",
    lib.WK_SCAN_BROKEN: "broken",
    lib.WK_SCAN_STALE: "stale",
}


class Record(NamedTuple):
    """What a block holds: `type` is one of WK_BLOCK_ENTRY, WK_BLOCK_FENCE..."""

    type: int
    data: bytes


class Recovered(NamedTuple):
    """Sequences accepted, the verdict on what follows, and the block that proves damage (0: none does)."""

    accepted: list[int]
    verdict: str
    witness: int

    @property
    def damaged(self) -> bool:
        return self.witness != 0


def seal(
    sequence: int,
    *,
    records: tuple[Record, ...] = (),
    epoch: int = 1,
    offset: int = 0,
    previous_crc: int = 0,
    incarnation: int = 1,
    durable_through: int = 0,
    in_flight_max: int = 2,
    flags: int = 0,
    directory_id: bytes = DIRECTORY_ID,
) -> tuple[bytes, int]:
    """One block of 4096 bytes or as many more as its records need, and its CRC."""
    framed = b"".join(_record_header(record) + record.data for record in records)
    used = lib.WK_BLOCK_HEADER_SIZE + len(framed)
    size = -(-used // BLOCK_SIZE) * BLOCK_SIZE
    held = bytearray(size)
    held[lib.WK_BLOCK_HEADER_SIZE : used] = framed
    header = ffi.new("wk_block_header *")
    header.previous_crc, header.size, header.used = previous_crc, size, used
    header.epoch, header.offset, header.sequence = epoch, offset, sequence
    header.incarnation, header.durable_through = incarnation, durable_through
    header.in_flight_max, header.flags = in_flight_max, flags
    ffi.buffer(header.directory_id)[:] = directory_id
    lib.wk_block_seal(ffi.from_buffer("uint8_t[]", held, require_writable=True), header)
    return bytes(held), header.crc


def _record_header(record: Record) -> bytes:
    header = ffi.new("uint8_t[]", lib.WK_BLOCK_RECORD_HEADER_SIZE)
    lib.wk_block_put_record_header(header, record.type, len(record.data))
    return bytes(ffi.buffer(header))


def records_of(block: bytes) -> list[Record]:
    """The records of a whole block. ValueError: it is not whole."""
    held, header = ffi.from_buffer("uint8_t[]", block), ffi.new("wk_block_header *")
    if lib.wk_block_decode(held, len(block), header) != lib.WK_OK:
        raise ValueError("not a whole block")
    cursor, record = ffi.new("uint32_t *", lib.WK_BLOCK_HEADER_SIZE), ffi.new("wk_block_record *")
    found = []
    while lib.wk_block_next(held, header, cursor, record) == lib.WK_OK:
        found.append(Record(record.type, bytes(ffi.buffer(record.bytes, record.size))))
    return found


def recover(files: dict[int, bytes], *, anchored: bool = True) -> Recovered:
    """Along the chain from the lowest epoch on, then every whole block behind its end. Files by epoch."""
    scan, header = ffi.new("wk_scan *"), ffi.new("wk_block_header *")
    lib.wk_scan_init(scan, ffi.new("uint8_t[16]", DIRECTORY_ID))
    scan.anchored = anchored
    accepted: list[int] = []
    verdict = lib.WK_SCAN_ABSENT
    for epoch in sorted(files):
        lib.wk_scan_file(scan, epoch)
        while (verdict := _scan_block(scan, files[epoch], header)) == lib.WK_SCAN_ACCEPTED:
            accepted.append(header.sequence)
        if verdict != lib.WK_SCAN_ABSENT or not _ends_whole(scan, files[epoch]):
            break
    for epoch in sorted(files):
        if epoch < scan.epoch:
            continue
        start = scan.offset if epoch == scan.epoch else 0
        for at in range(start, len(files[epoch]), BLOCK_SIZE):
            held = ffi.from_buffer("uint8_t[]", files[epoch][at:])
            whole = lib.wk_block_decode(held, len(files[epoch]) - at, header) == lib.WK_OK
            if whole and header.epoch == epoch and header.offset == at:
                lib.wk_scan_later(scan, header)
    assert bool(lib.wk_scan_damaged(scan)) == (scan.witness != 0)
    return Recovered(accepted, VERDICTS[verdict], scan.witness)


def _scan_block(scan: Any, data: bytes, header: Any) -> int:
    rest = data[scan.offset :]
    return int(lib.wk_scan_block(scan, ffi.from_buffer("uint8_t[]", rest), len(rest), header))


def _ends_whole(scan: Any, data: bytes) -> bool:
    """The chain used the file up, so it goes on in the next one."""
    return bool(scan.offset == len(data))
