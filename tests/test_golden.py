"""Files of every format version are read for ever: by the C, and by a reading of docs/formats without it."""

import pathlib
import struct
from typing import Any

import pytest

from tests.golden import make
from tests.journals import BLOCK_SIZE, DIRECTORY_ID, records_of, recover
from tests.models.crc32c import crc32c
from walkeeper._native import ffi, lib

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
JOURNAL = (GOLDEN / "version-1" / "journal").read_bytes()
SUPERBLOCK = (GOLDEN / "version-1" / "superblock").read_bytes()
PAGE = 4096
BLOCKS_AT = [(0, PAGE), (PAGE, 2 * PAGE), (3 * PAGE, PAGE)]  # offset and size of each
FOOTER_AT = 5 * PAGE  # behind the blocks is a page that was never used


def in_c(data: bytes) -> Any:
    return ffi.new("uint8_t[]", data)


@pytest.mark.parametrize("name", make.FILES)
def test_this_library_still_writes_the_golden_bytes(name: str) -> None:
    assert make.FILES[name]() == (make.FOLDER / name).read_bytes()


# the journal


def test_the_three_blocks_are_recovered() -> None:
    found = recover({make.EPOCH: JOURNAL})
    assert found.accepted == [1, 2, 3]
    assert (found.verdict, found.damaged) == ("absent", False)


def test_the_blocks_hold_what_was_written() -> None:
    held = [records_of(JOURNAL[at : at + size]) for at, size in BLOCKS_AT]
    assert held == [list(records) for records in make.blocks()]


def test_the_blocks_are_what_the_page_says() -> None:
    previous = 0
    for number, (at, size) in enumerate(BLOCKS_AT, 1):
        magic, crc, before, block_size = struct.unpack_from("<4sIII", JOURNAL, at)
        numbers = struct.unpack_from("<QQQQQIHH", JOURNAL, at + 32)
        assert (magic, block_size, JOURNAL[at + 16 : at + 32]) == (b"WKJB", size, DIRECTORY_ID)
        assert crc == crc32c(JOURNAL[at + 8 : at + size])
        assert before == previous
        assert numbers[:5] == (make.EPOCH, at, number, make.INCARNATION, number - 1)
        assert numbers[6:] == (2, int(number == 3))  # K, and the third is a confirm block
        previous = crc


def test_any_bad_byte_of_a_block_is_damage_or_the_torn_tail() -> None:
    for at in range(0, 4 * BLOCK_SIZE, 97):
        found = recover({make.EPOCH: JOURNAL[:at] + bytes([JOURNAL[at] ^ 0x55]) + JOURNAL[at + 1 :]})
        bad = 1 if at < PAGE else 2 if at < 3 * PAGE else 3
        assert found.accepted == list(range(1, bad))
        assert found.verdict == "broken"
        assert found.damaged == (bad < 3)  # the confirm block itself has no witness


# its footer


def trailer() -> Any:
    footer = ffi.new("wk_footer *")
    assert lib.wk_footer_decode(in_c(JOURNAL[-PAGE:]), footer) == lib.WK_OK
    return footer


def test_the_footer_fits_the_chain() -> None:
    footer = trailer()
    last_crc = struct.unpack_from("<I", JOURNAL, BLOCKS_AT[-1][0] + 4)[0]
    assert bytes(ffi.buffer(footer.directory_id)) == DIRECTORY_ID
    assert (footer.file_id, footer.file_size, footer.kind) == (make.EPOCH, len(JOURNAL), lib.WK_FILE_JOURNAL)
    assert (footer.first_sequence, footer.last_sequence, footer.end_offset) == (1, 3, 4 * PAGE)
    assert (footer.incarnation, footer.first_previous_crc, footer.last_crc) == (make.INCARNATION, 0, last_crc)


def test_the_footer_lists_the_entries_and_states() -> None:
    footer, count = trailer(), ffi.new("uint32_t *")
    items = ffi.new("wk_footer_item[]", lib.WK_PAGE_ITEMS)
    runs = ffi.new("wk_footer_run[]", lib.WK_PAGE_RUNS)
    states = ffi.new("wk_footer_state[]", lib.WK_PAGE_STATES)
    pages = [JOURNAL[at : at + PAGE] for at in range(FOOTER_AT, len(JOURNAL), PAGE)]
    assert lib.wk_footer_items(footer, in_c(pages[0]), FOOTER_AT, items, count) == lib.WK_OK
    stored = [JOURNAL[item.offset : item.offset + item.size] for item in items[0 : count[0]]]
    entries = [record.data for records in make.blocks() for record in records if record.type == lib.WK_BLOCK_ENTRY]
    assert stored == entries
    assert lib.wk_footer_runs(footer, in_c(pages[1]), FOOTER_AT + PAGE, runs, count) == lib.WK_OK
    found = [(run.ledger_id, run.first_entry, run.count, run.first_item) for run in runs[0 : count[0]]]
    assert found == [(make.CATALOGUE, 0, 1, 0), (make.ORDERS, 0, 2, 1)]
    assert lib.wk_footer_states(footer, in_c(pages[2]), FOOTER_AT + 2 * PAGE, states, count) == lib.WK_OK
    data = [(state.type, bytes(ffi.buffer(state.data))[: state.size]) for state in states[0 : count[0]]]
    assert data == [(lib.WK_BLOCK_MASTER_KEY, b"key"), (lib.WK_BLOCK_FENCE, b"")]


def test_the_pages_are_what_the_page_says() -> None:
    for kind, count in ((1, 3), (2, 2), (3, 2)):
        at = FOOTER_AT + (kind - 1) * PAGE
        page = JOURNAL[at : at + PAGE]
        place = DIRECTORY_ID + struct.pack("<QQ", make.EPOCH, at)
        assert struct.unpack_from("<IHH", page) == (crc32c(place + page[4:]), count, kind)
    page = JOURNAL[-PAGE:]
    assert struct.unpack_from("<4sIII", page) == (b"WKFT", crc32c(page[:4] + page[8:]), 1, 1)


# the superblock


def test_the_newer_slot_is_chosen() -> None:
    found = ffi.new("wk_superblock *")
    assert lib.wk_superblock_choose(in_c(SUPERBLOCK), found) == 0
    assert (found.generation, found.incarnation, found.file_id_ceiling) == (7, make.INCARNATION, 16)
    assert (found.replay_epoch, found.replay_sequence, found.index_generation) == (make.EPOCH, 2, 1)
    assert [(place.first_entry, place.last_entry) for place in found.snapshots] == [(0, 0), (-1, -1)]
    assert (found.sync_method, found.probe_device, found.clean) == (2, 0x803, True)
    assert (found.probe_dsync_ns, found.probe_write_then_sync_ns) == (407_000, 90_000)


def test_the_slots_are_what_the_page_says() -> None:
    for slot, generation in ((SUPERBLOCK[:PAGE], 7), (SUPERBLOCK[PAGE:], 6)):
        assert struct.unpack_from("<4sIII", slot) == (b"WKSB", crc32c(slot[:4] + slot[8:]), 1, int(generation == 7))
        assert slot[16:32] == DIRECTORY_ID
        assert struct.unpack_from("<QQQQQQ", slot, 32) == (generation, make.INCARNATION, 16, make.EPOCH, 2, 1)
        assert struct.unpack_from("<qqqqIIQQQ", slot, 80) == (0, 0, -1, -1, 2, 0, 0x803, 407_000, 90_000)
        assert not any(slot[144:])


def test_a_bad_slot_leaves_the_other() -> None:
    found = ffi.new("wk_superblock *")
    assert lib.wk_superblock_choose(in_c(bytes(PAGE) + SUPERBLOCK[PAGE:]), found) == 1
    assert found.generation == 6
