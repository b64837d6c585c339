"""The worked examples of docs/formats, made by the C: python -m tests.format_examples --write puts them into the pages.

A page holds an example between a line <!-- example: NAME --> and the fenced block behind it; test_format_docs.py
compares.
"""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.core_lib import ffi, lib
from tests.journals import Record, seal
from tests.metadata_examples import examples as metadata_examples
from tests.sqlite_records import Image, record_bytes
from walkeeper._position import Position
from walkeeper.gateway._append_request import append_request
from walkeeper.gateway._change import Change, Kind, encode
from walkeeper.gateway._columns import packed_numbers
from walkeeper.gateway._log_fields import Place
from walkeeper.gateway._log_service import packed_found
from walkeeper.gateway._logs import Found
from walkeeper.gateway._protocol import HEAD, Request, answer, packed_text, packed_u64
from walkeeper.gateway._protocol import Status as GatewayStatus
from walkeeper.idempotent._intent import Intent, Staged
from walkeeper.idempotent._intent import encode as encode_transaction_record

PAGES = pathlib.Path(__file__).resolve().parents[1] / "docs" / "formats"
DIRECTORY_ID = bytes.fromhex("00112233445566778899aabbccddeeff")
PAGE_SIZE = 4096
EXAMPLE = re.compile(r"(<!-- example: (\w+) -->\n```\n)(.*?)(^```$)", re.MULTILINE | re.DOTALL)


class Field(NamedTuple):
    """So many bytes and what they are."""

    size: int
    meaning: str


def show(data: bytes, fields: list[Field], base: int = 0) -> str:
    """A line for every field: its offset, its bytes, its meaning. ValueError: the fields do not cover the bytes."""
    lines, at = [], 0
    for size, meaning in fields:
        part = data[at : at + size]
        if size > 16 and not any(part):
            lines.append(f"{base + at:5}  {'00 …':23}  {size} zero bytes{', ' + meaning if meaning else ''}")
        else:
            for start in range(0, size, 8):
                shown = part[start : start + 8].hex(" ")
                lines.append(f"{base + at + start:5}  {shown:23}  {meaning if start == 0 else ''}".rstrip())
        at += size
    if at != len(data):
        raise ValueError(f"{at} bytes are named, there are {len(data)}")
    return "\n".join(lines) + "\n"


def entry_bytes(ledger_id: int, entry_id: int, lac: int, length: int, payload: bytes) -> bytes:
    held = ffi.new("uint8_t[]", payload)
    entry = ffi.new("wk_entry *", (ledger_id, entry_id, lac, length, held, len(payload)))
    header = ffi.new("uint8_t[36]")
    lib.wk_entry_encode_header(entry, header)
    return bytes(header) + payload


def entry() -> str:
    data = entry_bytes(1, 0, -1, 5, b"hello")
    names = ["ledger 1", "entry 0", "LAC -1: none yet", "length 5: the payload bytes of the ledger so far"]
    return show(data, [*(Field(8, name) for name in names), Field(4, "digest"), Field(5, 'payload "hello"')])


def record() -> str:
    held = ffi.new("uint8_t[]", b"paid 42")
    c = ffi.new("wk_log_record *", (0, 1, 1_790_000_000_000, held, 7))
    header = ffi.new("uint8_t[20]")
    lib.wk_log_record_encode_header(c, header)
    fields = [
        Field(8, "metadata: position 1 in its segment, no flags"),
        Field(8, "txid 1,790,000,000,000: milliseconds, as a clock gives it"),
        Field(4, "payload size 7"),
        Field(7, 'payload "paid 42"'),
    ]
    return show(bytes(header) + b"paid 42", fields)


def envelope() -> str:
    c = ffi.new("wk_envelope *", (lib.WK_CODEC_NONE, 27, 27, ffi.NULL))
    header = ffi.new("uint8_t[13]")
    lib.wk_envelope_encode_header(c, header)
    fields = [
        Field(1, "version 1"),
        Field(4, "flags: codec 0, none"),
        Field(4, "original size 27: the record above"),
        Field(4, "stored size 27"),
    ]
    return show(bytes(header), fields)


def record_set() -> str:
    c = ffi.new("wk_record_set *", (lib.WK_CODEC_NONE, 2, 11, 11, ffi.NULL))
    header = ffi.new("uint8_t[16]")
    lib.wk_record_set_encode_header(c, header)
    body = b"\0\0\0\1a\0\0\0\2bc"
    fields = [
        Field(4, "metadata: version 0x1000, codec 0"),
        Field(4, "two members"),
        Field(4, "original size 11"),
        Field(4, "stored size 11"),
        Field(4, "size 1"),
        Field(1, '"a"'),
        Field(4, "size 2"),
        Field(2, '"bc"'),
    ]
    return show(bytes(header) + body, fields)


def dlsn() -> str:
    data = ffi.new("uint8_t[25]")
    lib.wk_dlsn_encode(ffi.new("wk_dlsn *", (1, 0, 0)), data)
    return show(bytes(data), [Field(1, "version 1"), Field(8, "segment 1"), Field(8, "entry 0"), Field(8, "slot 0")])


def _block() -> tuple[bytes, int]:
    """Block 1 of a journal, one entry and one fence, and its CRC."""
    stored = entry_bytes(1, 0, -1, 5, b"hello")
    records = (Record(lib.WK_BLOCK_ENTRY, stored), Record(lib.WK_BLOCK_FENCE, (7).to_bytes(8, "little")))
    return seal(1, records=records, directory_id=DIRECTORY_ID)


def block() -> str:
    data, _ = _block()
    fields = [
        Field(4, 'magic "WKJB"'),
        Field(4, "CRC-32C of bytes 8 to 4095"),
        Field(4, "CRC of the block before: none"),
        Field(4, "size 4096"),
        Field(16, "directory id"),
        Field(8, "epoch 1"),
        Field(8, "offset 0"),
        Field(8, "sequence 1"),
        Field(8, "incarnation 1"),
        Field(8, "durable_through 0"),
        Field(4, "used 137"),
        Field(2, "K is 2"),
        Field(2, "no flags"),
        Field(4, "record: type 1 (an entry), size 41"),
        Field(41, "the entry of entry.md"),
        Field(4, "record: type 2 (a fence), size 8"),
        Field(8, "ledger 7"),
        Field(3959, "padding"),
    ]
    return show(data, fields)


def _footer() -> tuple[Any, list[bytes]]:
    footer = ffi.new("wk_footer *")
    footer.file_id, footer.file_size, footer.incarnation = 1, 6 * PAGE_SIZE, 1
    footer.first_sequence, footer.last_sequence, footer.end_offset = 1, 1, PAGE_SIZE
    _, footer.last_crc = _block()
    footer.items_count = footer.runs_count = footer.states_count = 1
    footer.kind = lib.WK_FILE_JOURNAL
    ffi.buffer(footer.directory_id)[:] = DIRECTORY_ID
    items = ffi.new("wk_footer_item[]", [(84, 41)])
    runs = ffi.new("wk_footer_run[]", [(1, 0, 41, 1, 0)])
    states = ffi.new("wk_footer_state[]", [(7, lib.WK_BLOCK_FENCE, 0, b"")])
    size = lib.wk_footer_size(1, 1, 1)
    data = ffi.new("uint8_t[]", size)
    lib.wk_footer_encode(footer, items, runs, states, data)
    whole = bytes(data)
    return footer, [whole[at : at + PAGE_SIZE] for at in range(0, size, PAGE_SIZE)]


def footer_pages() -> str:
    footer, (items, runs, states, _) = _footer()
    head = [Field(4, "CRC-32C"), Field(2, "one member")]
    item_fields = [*head, Field(2, "kind 1: items"), Field(4, "offset 84"), Field(4, "size 41"), Field(4080, "")]
    run_fields = [
        *head,
        Field(2, "kind 2: runs"),
        Field(8, "ledger 1"),
        Field(8, "first entry 0"),
        Field(8, "41 bytes"),
        Field(4, "one entry"),
        Field(4, "its first item is item 0"),
        Field(4056, ""),
    ]
    state_fields = [
        *head,
        Field(2, "kind 3: states"),
        Field(8, "ledger 7"),
        Field(4, "type 2: a fence"),
        Field(4, "no data"),
        Field(48, ""),
        Field(4024, ""),
    ]
    return (
        show(items, item_fields, lib.wk_footer_item_page(footer, 0))
        + show(runs, run_fields, lib.wk_footer_run_page(footer, 0))
        + show(states, state_fields, lib.wk_footer_state_page(footer, 0))
    )


def footer_trailer() -> str:
    footer, pages = _footer()
    fields = [
        Field(4, 'magic "WKFT"'),
        Field(4, "CRC-32C of the other 4092 bytes"),
        Field(4, "version 1"),
        Field(4, "kind 1: a journal file"),
        Field(16, "directory id"),
        Field(8, "file id: epoch 1"),
        Field(8, "file size 24,576"),
        Field(8, "incarnation 1"),
        Field(8, "first sequence 1"),
        Field(8, "last sequence 1"),
        Field(8, "end offset 4096"),
        Field(4, "CRC before the first block: none"),
        Field(4, "CRC of the last block"),
        Field(4, "one item"),
        Field(4, "one run"),
        Field(4, "one state"),
        Field(3996, ""),
    ]
    return show(pages[-1], fields, footer.file_size - PAGE_SIZE)


ENTRY_LOG_ID = 6


def entry_log_bytes() -> bytes:
    """An entry log of three entries: one of ledger 1, two of ledger 3 with a hole between them."""
    stored = [
        (1, 0, entry_bytes(1, 0, -1, 5, b"hello")),
        (3, 7, entry_bytes(3, 7, 6, 40, b"seven")),
        (3, 9, entry_bytes(3, 9, 8, 50, b"nine")),
    ]
    entries = b"".join(data for _, _, data in stored)
    items, at = [], 0
    for _, _, data in stored:
        items.append((at, len(data)))
        at += len(data)
    runs = [(ledger, entry_id, len(data), 1, item) for item, (ledger, entry_id, data) in enumerate(stored)]
    size = lib.wk_footer_size(len(items), len(runs), 0)
    footer, data = ffi.new("wk_footer *"), ffi.new("uint8_t[]", size)
    ffi.buffer(footer.directory_id)[:] = DIRECTORY_ID
    footer.kind, footer.file_id, footer.file_size = lib.WK_FILE_ENTRY_LOG, ENTRY_LOG_ID, PAGE_SIZE + size
    footer.last_sequence, footer.end_offset = 4242, len(entries)
    footer.items_count, footer.runs_count = len(items), len(runs)
    lib.wk_footer_encode(footer, ffi.new("wk_footer_item[]", items), ffi.new("wk_footer_run[]", runs), ffi.NULL, data)
    return entries + bytes(PAGE_SIZE - len(entries)) + bytes(data)


def entry_log() -> str:
    def entry_fields(ledger_id: int, entry_id: int, payload: str) -> list[Field]:
        names = [f"ledger {ledger_id}", f"entry {entry_id}", "LAC", "length"]
        return [*(Field(8, name) for name in names), Field(4, "digest"), Field(len(payload), f'payload "{payload}"')]

    def run_fields(ledger_id: int, entry_id: int, size: int, item: int) -> list[Field]:
        names = [f"ledger {ledger_id}", f"first entry {entry_id}", f"{size} bytes"]
        return [*(Field(8, name) for name in names), Field(4, "one entry"), Field(4, f"its first item is item {item}")]

    head = [Field(4, "CRC-32C"), Field(2, "three members")]
    places = [(0, 41), (41, 41), (82, 40)]
    fields = [
        *entry_fields(1, 0, "hello"),
        *entry_fields(3, 7, "seven"),
        *entry_fields(3, 9, "nine"),
        Field(PAGE_SIZE - 122, "padding"),
        *[*head, Field(2, "kind 1: items")],
        *[field for at, size in places for field in (Field(4, f"offset {at}"), Field(4, f"size {size}"))],
        Field(PAGE_SIZE - 8 - 3 * 8, ""),
        *[*head, Field(2, "kind 2: runs")],
        *run_fields(1, 0, 41, 0),
        *run_fields(3, 7, 41, 1),
        *run_fields(3, 9, 40, 2),
        Field(PAGE_SIZE - 8 - 3 * 32, ""),
        Field(4, 'magic "WKFT"'),
        Field(4, "CRC-32C of the other 4092 bytes"),
        Field(4, "version 1"),
        Field(4, "kind 2: an entry log"),
        Field(16, "directory id"),
        Field(8, f"file id {ENTRY_LOG_ID}"),
        Field(8, "file size 16,384"),
        Field(8, "no incarnation"),
        Field(8, "no first sequence"),
        Field(8, "last sequence 4242: what was durable when the mover chose"),
        Field(8, "end offset 122"),
        Field(8, "no CRCs"),
        Field(4, "three items"),
        Field(4, "three runs"),
        Field(4, "no states"),
        Field(3996, ""),
    ]
    return show(entry_log_bytes(), fields)


def _index() -> tuple[Any, list[bytes]]:
    """An index file of one file, one ledger and one range, and its pages."""
    header = ffi.new("wk_index_header *")
    ffi.buffer(header.directory_id)[:] = DIRECTORY_ID
    header.generation, header.replay_epoch, header.replay_sequence = 5, 9, 1
    header.files_count, header.ledgers_count, header.ranges_count = 1, 1, 1
    footer, _ = _footer()
    ledgers = ffi.new("wk_index_ledger[1]")
    ledgers[0].ledger_id, ledgers[0].last_entry = 7, -1
    ledgers[0].bits, ledgers[0].key_size = lib.WK_LEDGER_FENCED | lib.WK_LEDGER_HAS_KEY, 20
    ffi.buffer(ledgers[0].key)[:20] = bytes(range(20))
    ranges = ffi.new("wk_index_range[]", [(1, 0, 0, 41, 0, 1, 0, 1, 0, 0)])
    size = lib.wk_index_size(1, 1, 1)
    data = ffi.new("uint8_t[]", size)
    lib.wk_index_encode(header, footer, ledgers, ranges, data)
    whole = bytes(data)
    return header, [whole[at : at + PAGE_SIZE] for at in range(0, size, PAGE_SIZE)]


def index_bytes() -> bytes:
    """A whole index file."""
    return b"".join(_index()[1])


def index_header() -> str:
    _, pages = _index()
    fields = [
        Field(4, 'magic "WKIX"'),
        Field(4, "CRC-32C of the other 4092 bytes"),
        Field(4, "version 1"),
        Field(4, "zero"),
        Field(16, "directory id"),
        Field(8, "generation 5"),
        Field(8, "replay epoch 9: the mark"),
        Field(8, "replay sequence 1"),
        Field(4, "one file"),
        Field(4, "one ledger"),
        Field(4, "one range"),
        Field(4028, ""),
    ]
    return show(pages[0], fields)


def index_pages() -> str:
    header, (_, files, ledgers, ranges) = _index()

    def page(kind: str, members: list[Field]) -> list[Field]:
        rest = PAGE_SIZE - 8 - sum(member.size for member in members)
        head = [Field(4, "CRC-32C"), Field(2, "one member"), Field(2, f"kind {kind}")]
        return [*head, *members, Field(rest, "")]

    file_fields = [
        Field(8, "file id 1"),
        Field(8, "file size 24,576"),
        Field(8, "incarnation 1"),
        Field(8, "first sequence 1"),
        Field(8, "last sequence 1"),
        Field(8, "end offset 4096"),
        Field(4, "CRC before the first block: none"),
        Field(4, "CRC of the last block"),
        Field(4, "one item"),
        Field(4, "one run"),
        Field(4, "one state"),
        Field(4, "kind 1: a journal file"),
    ]
    ledger_fields = [
        Field(8, "ledger 7"),
        Field(8, "last entry -1: none"),
        Field(8, "first live entry 0"),
        Field(8, "length not known"),
        Field(4, "bits: fenced, has a key"),
        Field(1, "size of the key 20"),
        Field(1, "size of the LAC 0"),
        Field(2, "zero"),
        Field(20, "the key"),
        Field(28, ""),
        Field(48, ""),
    ]
    range_fields = [
        Field(8, "ledger 1"),
        Field(8, "first entry 0"),
        Field(8, "last entry 0"),
        Field(8, "41 bytes"),
        Field(4, "in file 0: the first of the index"),
        Field(4, "one entry"),
        Field(4, "none of them dead"),
        Field(4, "one run"),
        Field(4, "its first item is item 0"),
        Field(4, "and no more of them dead than it says"),
    ]
    return (
        show(files, page("4: files", file_fields), lib.wk_index_file_page(header, 0))
        + show(ledgers, page("5: ledgers", ledger_fields), lib.wk_index_ledger_page(header, 0))
        + show(ranges, page("6: ranges", range_fields), lib.wk_index_range_page(header, 0))
    )


WAYS, DEPTHS = ("RWF_DSYNC", "write, then sync"), (1, 2, 4, 8)


def superblock() -> str:
    c, slot = ffi.new("wk_superblock *"), ffi.new("uint8_t[4096]")
    ffi.buffer(c.directory_id)[:] = DIRECTORY_ID
    c.generation, c.incarnation, c.file_id_ceiling = 12, 3, 32
    c.replay_epoch, c.replay_sequence, c.index_generation = 9, 4242, 5
    c.snapshots[0].first_entry, c.snapshots[0].last_entry = 20, 21
    c.snapshots[1].first_entry = c.snapshots[1].last_entry = -1
    c.sync_method, c.probe_device = 1, 0xFD01
    times = ((90_000, 135_000), (48_000, 92_000), (30_000, 66_000), (21_000, 60_000))
    for way in range(2):
        for depth in range(4):
            c.grid.block_ns[way][depth] = [ns + way * 10_000 for ns in times[depth]]
    c.blocks_in_flight = 4
    c.probe_dsync_ns, c.probe_write_then_sync_ns, c.clean = 90_000, 104_000, True
    c.closed_sequence = 4243
    lib.wk_superblock_encode(c, slot)
    fields = [
        Field(4, 'magic "WKSB"'),
        Field(4, "CRC-32C of the other 4092 bytes"),
        Field(4, "version 1"),
        Field(4, "flags: clean"),
        Field(16, "directory id"),
        Field(8, "generation 12"),
        Field(8, "incarnation 3"),
        Field(8, "file id ceiling 32"),
        Field(8, "replay epoch 9"),
        Field(8, "replay sequence 4242"),
        Field(8, "index generation 5"),
        Field(8, "newest snapshot: entries 20 ..."),
        Field(8, "... to 21 of ledger 0"),
        Field(8, "snapshot before it: none"),
        Field(8, ""),
        Field(4, "sync method 1: RWF_DSYNC"),
        Field(4, "4 blocks in flight"),
        Field(8, "probed on device 0xfd01"),
        Field(8, "90,000 ns by RWF_DSYNC"),
        Field(8, "104,000 ns by write, then sync"),
        *[Field(8, f"ns a block by {way}, {depth} at once: of 4 KiB, of 64 KiB") for way in WAYS for depth in DEPTHS],
        Field(4, "kind 0: logs"),
        Field(4, ""),
        Field(8, "closed behind block 4243"),
        Field(3872, ""),
    ]
    return show(bytes(slot), fields)


def _catalogue(**fields: object) -> bytes:
    c, data = ffi.new("wk_catalogue_record *"), ffi.new("uint8_t[]", lib.WK_CATALOGUE_RECORD_MAX)
    name = ffi.new("char[]", b"flights")
    for field, value in fields.items():
        setattr(c, field, value)
    c.name, c.name_size = name, 7
    return bytes(ffi.buffer(data, lib.wk_catalogue_encode(c, data)))


def catalogue_records() -> list[bytes]:
    """Log 1 is made, and its first segment begun in ledger 1."""
    create = _catalogue(type=lib.WK_CATALOGUE_CREATE, log_id=1, segment_bytes=2**30, codec=2, txid_source=1, segment=1)
    segment = _catalogue(
        type=lib.WK_CATALOGUE_SEGMENT, log_id=1, segment=1, ledger_id=1, txid=-1, created_ms=1_790_000_000_000
    )
    return [create, segment]


def owner() -> str:
    c, slot = ffi.new("wk_owner *"), ffi.new("uint8_t[4096]")
    ffi.buffer(c.directory_id)[:] = DIRECTORY_ID
    c.incarnation = 3
    lib.wk_owner_encode(c, slot)
    fields = [
        Field(4, 'magic "WKJO"'),
        Field(4, "CRC-32C of the other 4092 bytes"),
        Field(4, "version 1"),
        Field(4, ""),
        Field(16, "directory id"),
        Field(8, "incarnation 3"),
        Field(4056, ""),
    ]
    return show(bytes(ffi.buffer(slot)), fields)


def catalogue() -> str:
    create_fields = [
        Field(4, "size of the body 71"),
        Field(4, "type 1: CREATE"),
        Field(8, "log 1"),
        Field(8, "segment_bytes 1 GiB"),
        Field(8, "segment_seconds 0"),
        Field(8, "retention_seconds 0"),
        Field(8, "codec 2: zstd"),
        Field(8, "txid source 1: the application"),
        Field(8, "no flags"),
        Field(8, "its next segment is 1"),
        Field(7, '"flights"'),
    ]
    segment_fields = [
        Field(4, "size of the body 48"),
        Field(4, "type 2: SEGMENT"),
        Field(8, "log 1"),
        Field(8, "segment 1"),
        Field(8, "ledger 1"),
        Field(8, "first sequence id 0"),
        Field(8, "first txid -1: unknown"),
        Field(8, "made at 1,790,000,000,000 ms"),
    ]
    return show(b"".join(catalogue_records()), create_fields + segment_fields)


def lock() -> str:
    text, data = ffi.new("wk_lock_text *"), ffi.new("uint8_t[]", lib.WK_LOCK_TEXT_SIZE)
    text.pid, text.boot_known = 4711, True
    ffi.buffer(text.boot)[:] = DIRECTORY_ID
    lib.wk_lock_text_encode(text, data)
    fields = [
        Field(5, 'pid "4711\\n"'),
        Field(32, 'boot id "00112233445566778899aabbccddeeff"'),
        Field(1, "a space"),
        Field(8, "CRC-32C of the 32 digits before it, in digits"),
        Field(1, '"\\n"'),
        Field(49, ""),
    ]
    return show(bytes(data), fields)


def file_record() -> str:
    change = Change(
        Kind.PUT, ("app", "q", "offsets", "0"), bytes(range(16)) + packed_u64(5), 9, 1790000000000, 7, b"v1\n"
    )
    fields = [
        Field(1, "put"),
        Field(1, "format 1"),
        Field(8, "modified 1790000000000"),
        Field(24, "operation: the client, and its fifth"),
        Field(8, "epoch 9"),
        Field(8, "version 7"),
        Field(4, "length of the path"),
        Field(len("/app/q/offsets/0"), '"/app/q/offsets/0"'),
        Field(3, '"v1\\n"'),
    ]
    return show(encode(change), fields)


def transaction_record() -> str:
    intent = Intent("query-7", 12, 500, 0, (b"one", b"two"), (Staged("staging/9", 0, 3),))
    fields = [
        Field(1, "intent"),
        Field(1, "format 1"),
        Field(2, "zero"),
        Field(4, "two payloads in the record"),
        Field(8, "first sequence id 500"),
        Field(8, "five payloads"),
        Field(8, "none is there already"),
        Field(8, "version 12"),
        Field(4, "length of the application's id"),
        Field(len("query-7"), '"query-7"'),
        Field(4, "one staged part"),
        Field(4, "length of the name of its log"),
        Field(len("staging/9"), '"staging/9"'),
        Field(8, "from sequence id 0"),
        Field(8, "three records"),
        Field(4, "length of the payload"),
        Field(3, '"one"'),
        Field(4, "length of the payload"),
        Field(3, '"two"'),
    ]
    return show(encode_transaction_record(intent), fields)


def sqlite_record() -> str:
    images = [Image(1, [(24, b"\x00\x00\x00\x02")]), Image(2, [(200, b"row"), (1, b"!")], delta=True)]
    data, _ = record_bytes(images, transaction=1, pages=2, before=0x0A0B0C0D)
    fields = [
        Field(1, "format 1"),
        Field(1, "commit"),
        Field(1, "the first part and the last"),
        Field(1, "pages of 2^9 bytes"),
        Field(4, "CRC-32C"),
        Field(4, "that of the record before"),
        Field(4, "part 0"),
        Field(8, "database"),
        Field(8, "transaction 1"),
        Field(4, "two pages"),
        Field(4, "two images"),
        Field(4, "page 1"),
        Field(4, "six bytes, against zeros"),
        Field(1, "24 equal bytes"),
        Field(1, "then four"),
        Field(4, "the change counter"),
        Field(4, "page 2"),
        Field(4, "nine bytes, against the page before"),
        Field(2, "200 equal bytes"),
        Field(1, "then three"),
        Field(3, '"row"'),
        Field(1, "one equal byte"),
        Field(1, "then one"),
        Field(1, '"!"'),
    ]
    return show(data, fields)


def gateway_protocol() -> str:
    body = packed_text("/app/q") + packed_u64(0)
    fields = [
        Field(4, "length 23"),
        Field(4, "request 3"),
        Field(1, "stat"),
        Field(4, "length of the path"),
        Field(6, '"/app/q"'),
        Field(8, "epoch 0: nobody's"),
    ]
    return show(HEAD.pack(len(body) + 5, 3, Request.STAT) + body, fields)


def gateway_append() -> str:
    body = b"".join(append_request("flights", [b"paid", b"sent"], txids=None, expected=7, atomic=False))
    fields = [
        Field(4, "length 69"),
        Field(4, "request 4"),
        Field(1, "append_many"),
        Field(4, "length of the name"),
        Field(7, '"flights"'),
        Field(1, "not atomic"),
        Field(8, "expected sequence id 7"),
        Field(1, "no txids"),
        Field(4, "two records"),
        Field(7, "zero, up to byte 32 of the body"),
        Field(8, "little-endian: the first payload begins at 0 ..."),
        Field(8, "... and ends at 4, where the second begins ..."),
        Field(8, "... and ends at 8"),
        Field(4, '"paid"'),
        Field(4, '"sent"'),
    ]
    return show(HEAD.pack(len(body) + 5, 4, Request.APPEND_MANY) + body, fields)


def gateway_read() -> str:
    columns = [[1, 1], [3, 3], [0, 1], [7, 8], [1_790_000_000_000, 1_790_000_000_000], [0, 4, 8]]
    place = Place.at(Position((1, 3, 2, 9, -1)))
    body = packed_found(Found(2, place, b"".join(map(packed_numbers, columns)) + b"paidsent", False))
    fields = [
        Field(4, "length 157"),
        Field(4, "request 5"),
        Field(1, "ok"),
        Field(1, "there may be more"),
        Field(4, "two records"),
        Field(1, "read on: by a DLSN ..."),
        Field(8, "... that belongs to sequence id 9 ..."),
        Field(8, "... in segment 1 ..."),
        Field(8, "... entry 3 ..."),
        Field(8, "... slot 2"),
        Field(2, "zero, up to byte 40 of the body"),
        Field(16, "little-endian: the segments"),
        Field(16, "the entry ids"),
        Field(16, "the slots"),
        Field(16, "the sequence ids"),
        Field(16, "the txids: milliseconds"),
        Field(24, "where the payloads begin and end"),
        Field(4, '"paid"'),
        Field(4, '"sent"'),
    ]
    return show(answer(5, GatewayStatus.OK, body), fields)


EXAMPLES: dict[str, Callable[[], str]] = {
    function.__name__: function
    for function in (
        entry,
        record,
        envelope,
        record_set,
        dlsn,
        block,
        footer_pages,
        footer_trailer,
        entry_log,
        index_header,
        index_pages,
        superblock,
        owner,
        catalogue,
        lock,
        file_record,
        transaction_record,
        sqlite_record,
        gateway_protocol,
        gateway_append,
        gateway_read,
    )
} | metadata_examples(lambda data, fields: show(data, [Field(*field) for field in fields]))


def main() -> None:
    """Rewrite the examples of every page."""
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text()
        page.write_text(EXAMPLE.sub(lambda found: found[1] + EXAMPLES[found[2]]() + found[4], text))


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    main()
