"""Write the golden files of this format version: python -m tests.golden.make

They are made once for a released version and then read for ever: test_golden.py reads them, and checks that this
library still writes the same bytes. When a format changes, its version does too, and a new folder is begun; files of
an old one are never written again.
"""

from __future__ import annotations

import pathlib

from tests.core_lib import ffi, lib
from tests.format_examples import catalogue_records, entry_bytes, entry_log_bytes, index_bytes
from tests.journals import BLOCK_SIZE, DIRECTORY_ID, Record, seal

FOLDER = pathlib.Path(__file__).resolve().parent / f"version-{lib.WK_FORMAT_VERSION}"
EPOCH, INCARNATION, GAP_SIZE = 5, 3, BLOCK_SIZE
CATALOGUE, ORDERS = 0, 7  # ledgers


def fields_of(ledger_id: int) -> bytes:
    return ledger_id.to_bytes(8, "little")


def blocks() -> list[tuple[Record, ...]]:
    """What three blocks hold. The second takes two pages, the third is a confirm block."""
    orders = [entry_bytes(ORDERS, entry_id, entry_id - 1, 3000 * (entry_id + 1), b"o" * 3000) for entry_id in range(2)]
    return [
        (Record(lib.WK_BLOCK_ENTRY, entry_bytes(CATALOGUE, 0, -1, 9, b"catalogue")),),
        (
            Record(lib.WK_BLOCK_MASTER_KEY, fields_of(ORDERS) + b"key"),
            *(Record(lib.WK_BLOCK_ENTRY, order) for order in orders),
            Record(lib.WK_BLOCK_FENCE, fields_of(ORDERS)),
        ),
        (),
    ]


def journal() -> bytes:
    """Three blocks, a page that was never used, and the footer."""
    data, crc, items = b"", 0, []
    for index, records in enumerate(blocks()):
        at = len(data) + lib.WK_BLOCK_HEADER_SIZE
        for record in records:
            at += lib.WK_BLOCK_RECORD_HEADER_SIZE
            if record.type == lib.WK_BLOCK_ENTRY:
                items.append((at, len(record.data)))
            at += len(record.data)
        block, crc = seal(
            index + 1,
            records=records,
            epoch=EPOCH,
            offset=len(data),
            previous_crc=crc,
            incarnation=INCARNATION,
            durable_through=index,
            flags=0 if records else lib.WK_BLOCK_CONFIRM,
        )
        data += block
    return data + bytes(GAP_SIZE) + footer(len(data), crc, items)


def footer(end_offset: int, last_crc: int, items: list[tuple[int, int]]) -> bytes:
    """The footer of a file whose blocks end there."""
    runs = [(CATALOGUE, 0, items[0][1], 1, 0), (ORDERS, 0, items[1][1] + items[2][1], 2, 1)]
    states = [(ORDERS, lib.WK_BLOCK_MASTER_KEY, 3, b"key"), (ORDERS, lib.WK_BLOCK_FENCE, 0, b"")]
    size = lib.wk_footer_size(len(items), len(runs), len(states))
    c, held = ffi.new("wk_footer *"), ffi.new("uint8_t[]", size)
    ffi.buffer(c.directory_id)[:] = DIRECTORY_ID
    c.file_id, c.file_size, c.incarnation = EPOCH, end_offset + GAP_SIZE + size, INCARNATION
    c.first_sequence, c.last_sequence, c.end_offset, c.last_crc = 1, len(blocks()), end_offset, last_crc
    c.items_count, c.runs_count, c.states_count = len(items), len(runs), len(states)
    c.kind = lib.WK_FILE_JOURNAL
    lib.wk_footer_encode(
        c,
        ffi.new("wk_footer_item[]", items),
        ffi.new("wk_footer_run[]", runs),
        ffi.new("wk_footer_state[]", states),
        held,
    )
    return bytes(held)


def superblock() -> bytes:
    """Generation 7 in the first slot, 6 in the second."""
    slots = b""
    for generation in (7, 6):
        c, slot = ffi.new("wk_superblock *"), ffi.new("uint8_t[4096]")
        ffi.buffer(c.directory_id)[:] = DIRECTORY_ID
        c.generation, c.incarnation, c.file_id_ceiling = generation, INCARNATION, 16
        c.replay_epoch, c.replay_sequence, c.index_generation = EPOCH, 2, 1
        c.snapshots[0].first_entry = c.snapshots[0].last_entry = 0
        c.snapshots[1].first_entry = c.snapshots[1].last_entry = -1
        c.sync_method, c.probe_device = 2, 0x803
        c.probe_dsync_ns, c.probe_write_then_sync_ns = 407_000, 90_000
        c.clean = generation == 7
        lib.wk_superblock_encode(c, slot)
        slots += bytes(slot)
    return slots


def catalogue() -> bytes:
    """The payload of an entry of ledger 0: a log, and its first segment."""
    return b"".join(catalogue_records())


FILES = {
    "journal": journal,
    "entry_log": entry_log_bytes,
    "index": index_bytes,
    "superblock": superblock,
    "catalogue": catalogue,
}


def main() -> None:
    """Write all of them."""
    FOLDER.mkdir(exist_ok=True)
    for name, make in FILES.items():
        (FOLDER / name).write_bytes(make())
        print(FOLDER / name)


if __name__ == "__main__":
    main()
