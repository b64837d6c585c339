"""Files of every format version are read for ever: by the C, and by a reading of docs/formats without it."""

import pathlib
import struct
from typing import Any

import pytest

from tests import format_examples
from tests.core_lib import ffi, lib
from tests.golden import make
from tests.journals import BLOCK_SIZE, DIRECTORY_ID, records_of, recover
from tests.models.crc32c import crc32c

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
JOURNAL = (GOLDEN / "version-1" / "journal").read_bytes()
ENTRY_LOG = (GOLDEN / "version-1" / "entry_log").read_bytes()
INDEX = (GOLDEN / "version-1" / "index").read_bytes()
SUPERBLOCK = (GOLDEN / "version-1" / "superblock").read_bytes()
CATALOGUE = (GOLDEN / "version-1" / "catalogue").read_bytes()
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


# the entry log


def entries_of(data: bytes) -> list[tuple[int, int, bytes]]:
    """Ledger, entry and payload of the three entries, read by docs/formats/entry.md; their digests fit."""
    found = []
    for at, size in ((0, 41), (41, 41), (82, 40)):
        ledger_id, entry_id, _lac, _length, digest = struct.unpack_from(">qqqqI", data, at)
        payload = data[at + 36 : at + size]
        assert digest == crc32c(data[at : at + 32] + payload)
        found.append((ledger_id, entry_id, payload))
    return found


def test_the_entries_of_the_entry_log_are_what_the_page_says() -> None:
    assert entries_of(ENTRY_LOG) == [(1, 0, b"hello"), (3, 7, b"seven"), (3, 9, b"nine")]
    assert not any(ENTRY_LOG[122:PAGE])


def test_the_footer_of_the_entry_log_finds_each_entry() -> None:
    footer, count = ffi.new("wk_footer *"), ffi.new("uint32_t *")
    assert lib.wk_footer_decode(in_c(ENTRY_LOG[-PAGE:]), footer) == lib.WK_OK
    assert (footer.kind, footer.file_id, footer.file_size) == (lib.WK_FILE_ENTRY_LOG, 6, len(ENTRY_LOG))
    assert (footer.last_sequence, footer.end_offset, footer.incarnation, footer.states_count) == (4242, 122, 0, 0)
    items = ffi.new("wk_footer_item[]", lib.WK_PAGE_ITEMS)
    runs = ffi.new("wk_footer_run[]", lib.WK_PAGE_RUNS)
    assert lib.wk_footer_items(footer, in_c(ENTRY_LOG[PAGE : 2 * PAGE]), PAGE, items, count) == lib.WK_OK
    assert [(item.offset, item.size) for item in items[0 : count[0]]] == [(0, 41), (41, 41), (82, 40)]
    assert lib.wk_footer_runs(footer, in_c(ENTRY_LOG[2 * PAGE : 3 * PAGE]), 2 * PAGE, runs, count) == lib.WK_OK
    found = [(run.ledger_id, run.first_entry, run.count, run.first_item) for run in runs[0 : count[0]]]
    assert found == [(1, 0, 1, 0), (3, 7, 1, 1), (3, 9, 1, 2)]


# the index


def test_the_index_says_what_was_written() -> None:
    header, count = ffi.new("wk_index_header *"), ffi.new("uint32_t *")
    assert lib.wk_index_decode(in_c(INDEX[:PAGE]), header) == lib.WK_OK
    assert bytes(ffi.buffer(header.directory_id)) == format_examples.DIRECTORY_ID
    assert (header.generation, header.replay_epoch, header.replay_sequence) == (5, 9, 1)
    assert len(INDEX) == lib.wk_index_size(header.files_count, header.ledgers_count, header.ranges_count)
    files = ffi.new("wk_footer[]", lib.WK_INDEX_PAGE_FILES)
    ledgers = ffi.new("wk_index_ledger[]", lib.WK_INDEX_PAGE_LEDGERS)
    ranges = ffi.new("wk_index_range[]", lib.WK_INDEX_PAGE_RANGES)
    assert lib.wk_index_files(header, in_c(INDEX[PAGE : 2 * PAGE]), PAGE, files, count) == lib.WK_OK
    assert [(file.file_id, file.file_size, file.last_sequence) for file in files[0 : count[0]]] == [(1, 6 * PAGE, 1)]
    assert lib.wk_index_ledgers(header, in_c(INDEX[2 * PAGE : 3 * PAGE]), 2 * PAGE, ledgers, count) == lib.WK_OK
    keys = [(it.ledger_id, it.last_entry, bytes(ffi.buffer(it.key))[: it.key_size]) for it in ledgers[0 : count[0]]]
    assert keys == [(7, -1, bytes(range(20)))]
    assert lib.wk_index_ranges(header, in_c(INDEX[3 * PAGE :]), 3 * PAGE, ranges, count) == lib.WK_OK
    found = [(it.ledger_id, it.first_entry, it.last_entry, it.bytes, it.count) for it in ranges[0 : count[0]]]
    assert found == [(1, 0, 0, 41, 1)]


def test_the_pages_of_the_index_are_what_the_page_says() -> None:
    assert struct.unpack_from("<4sII", INDEX) == (b"WKIX", crc32c(INDEX[:4] + INDEX[8:PAGE]), 1)
    for kind, at in ((4, PAGE), (5, 2 * PAGE), (6, 3 * PAGE)):
        page, place = INDEX[at : at + PAGE], format_examples.DIRECTORY_ID + struct.pack("<QQ", 5, at)
        assert struct.unpack_from("<IHH", page) == (crc32c(place + page[4:]), 1, kind)


# the catalogue


def test_the_records_of_the_catalogue_are_what_the_page_says() -> None:
    assert struct.unpack_from("<IB3x8Q", CATALOGUE) == (71, lib.WK_CATALOGUE_CREATE, 1, 2**30, 0, 0, 2, 1, 0, 1)
    assert CATALOGUE[72:79] == b"flights"
    segment = struct.unpack_from("<IB3x4QqQ", CATALOGUE, 79)
    assert segment == (48, lib.WK_CATALOGUE_SEGMENT, 1, 1, 1, 0, -1, 1_790_000_000_000)
    found, consumed, held, at = ffi.new("wk_catalogue_record *"), ffi.new("size_t *"), in_c(CATALOGUE), 0
    types = []
    while at < len(CATALOGUE):
        assert lib.wk_catalogue_decode(held + at, len(CATALOGUE) - at, found, consumed) == lib.WK_OK
        types.append(found.type)
        at += consumed[0]
    assert types == [lib.WK_CATALOGUE_CREATE, lib.WK_CATALOGUE_SEGMENT]


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
