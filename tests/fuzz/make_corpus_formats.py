"""Write the corpora of the engine's own formats: python tests/fuzz/make_corpus_formats.py

Each function returns the inputs of one fuzzer by file name, from the layouts in docs/formats alone (the fuzzers put
checksums right where they can). The inputs are a first step into each branch of a decoder. Files already in a corpus
under other names (saved findings) are left alone. The output never changes from run to run.
"""

import pathlib
import struct
import sys
from collections.abc import Callable

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.models.crc32c import crc32c  # noqa: E402  (the path to it is set just above)
from tests.sqlite_records import SNAPSHOT, Image, record_bytes  # noqa: E402

DIRECTORY_ID = b"directory id 16\0"
PAGE = 4096
CONFIRM, DEFERRED = 1, 2


def block_header(used: int, size: int = PAGE, sequence: int = 7, durable: int = 6, k: int = 2, flags: int = 0) -> bytes:
    """The 80 bytes before the records, without magic and checksum."""
    numbers = struct.pack("<QQQQQIHH", 3, 8192, sequence, 1, durable, used, k, flags)
    return struct.pack("<IIII", 0, 0, 0x01020304, size) + DIRECTORY_ID + numbers


def block_record(kind: int, data: bytes) -> bytes:
    return struct.pack("<I", kind << 28 | len(data)) + data


def sealed(block: bytes) -> bytes:
    """With its padding, its magic and its checksum."""
    behind_crc = block[8:].ljust(PAGE - 8, b"\0")
    return b"WKJB" + struct.pack("<I", crc32c(behind_crc)) + behind_crc


def fuzz_journal_block() -> dict[str, bytes]:
    """Blocks from their first byte on; the padding may be left out."""

    def block(*records: bytes, **fields: int) -> bytes:
        data = b"".join(records)
        return block_header(80 + len(data), **fields) + data

    entry, fence = block_record(1, b"an entry of a ledger"), block_record(2, bytes(8))
    every_kind = [block_record(kind, bytes(range(kind))) for kind in range(1, 7)]
    return {
        "whole": sealed(block(entry, fence)),
        "whole_confirm": sealed(block(flags=CONFIRM)),
        "two_records": block(entry, fence),
        "every_kind": block(*every_kind, flags=DEFERRED),
        "no_records": block(),
        "two_pages": block(block_record(1, bytes(5000)), size=2 * PAGE),
        "confirm_with_a_record": block(fence, flags=CONFIRM),
        "type_0": block(block_record(0, b"abc")),
        "type_7": block(block_record(7, b"abc")),
        "record_too_long": block(entry[:-1]),
        "three_bytes_left": block(entry, b"abc"),
        "padding_not_zero": block(entry) + b"\1",
        "used_too_small": block_header(79),
        "used_above_size": block_header(5000),
        "sequence_0": block(sequence=0, durable=0),
        "knows_itself_durable": block(durable=7),
        "k_0": block(k=0),
        "k_9": block(k=9),
        "unknown_flag": block(flags=4),
        "size_not_aligned": block(size=PAGE + 512),
        "header_cut": block()[:79],
        "nothing": b"",
    }


def fuzz_journal_scan() -> dict[str, bytes]:
    """The first byte: anchored or not. Then a block every four bytes: fate, what it knew and K, incarnation, a byte."""
    whole, missing, changed, torn, unchained, misplaced, other_epoch, other_directory = range(8)

    def journal(*blocks: tuple[int, int, int], anchored: int = 1, byte: int = 0) -> bytes:
        return bytes([anchored]) + b"".join(bytes([fate, k << 4 | below, life, byte]) for fate, below, life in blocks)

    k = 1  # stands for K = 2
    good = (whole, 0, 1)
    return {
        "whole": journal(good, good, good),
        "torn_last": journal(good, good, (torn, 0, 1)),
        "torn_middle_known_durable": journal(good, (torn, 0, 1), good),
        "torn_middle_in_flight": journal(good, (torn, 1, 1), (whole, 1, 1)),
        "missing_far_below": journal(good, (missing, 0, 1), *[(whole, 9, 1)] * 8),
        "changed_header": journal(good, (changed, 0, 1), good, byte=48),
        "stale_tail": journal(good, (whole, 0, 2), (whole, 0, 1)),
        "unchained": journal(good, (unchained, 0, 1), good),
        "misplaced": journal(good, (misplaced, 0, 1), good),
        "recycled": journal(good, (other_epoch, 0, 1), (other_epoch, 0, 1)),
        "other_directory": journal(good, (other_directory, 0, 1), good),
        "not_anchored": journal((128 + 32, 0, 1), (128 + 8, 0, 1), anchored=0),
        "empty": b"\1",
    }


def trailer(items: int, runs: int, states: int, *, kind: int = 1, size: int = 64 * PAGE, end: int = 8 * PAGE) -> bytes:
    """The 100 bytes of a trailer that are used."""
    numbers = struct.pack("<QQQQQQ", 5, size, 3, 10, 19, end)
    return (
        struct.pack("<IIII", 0, 0, 1, kind) + DIRECTORY_ID + numbers + struct.pack("<IIIII", 1, 2, items, runs, states)
    )


def fuzz_footer() -> dict[str, bytes]:
    """100 bytes of trailer, then three times a size and so many bytes of members."""

    def footer(head: bytes, *pages: bytes) -> bytes:
        return head + b"".join(struct.pack("<H", len(page)) + page for page in pages)

    items = struct.pack("<IIIIII", 84, 100, 200, 50, 300, 7)
    runs = struct.pack("<qqQII", 4, 0, 150, 2, 0) + struct.pack("<qqQII", 9, 5, 7, 1, 2)
    states = struct.pack("<qII", 4, 2, 3) + b"abc".ljust(48, b"\0")
    whole = trailer(3, 2, 1)
    return {
        "journal": footer(whole, items, runs, states),
        "entry_log": footer(trailer(3, 2, 0, kind=2), items, runs),
        "nothing_but_a_trailer": trailer(0, 0, 0),
        "full_pages": footer(trailer(511, 1, 0), items * 170, struct.pack("<qqQII", 4, 0, 150, 511, 0)),
        "two_pages_of_items": footer(trailer(512, 0, 0), items * 170),
        "item_outside": footer(trailer(1, 0, 0), struct.pack("<II", 8 * PAGE, 1)),
        "runs_not_sorted": footer(trailer(3, 2, 0), items, runs[32:] + runs[:32]),
        "run_of_nothing": footer(trailer(3, 1, 0), items, struct.pack("<qqQII", 4, 0, 150, 0, 0)),
        "run_outside": footer(trailer(3, 1, 0), items, struct.pack("<qqQII", 4, 0, 150, 3, 1)),
        "state_too_long": footer(trailer(0, 0, 1), b"", b"", struct.pack("<qII", 4, 2, 49)),
        "state_is_an_entry": footer(trailer(0, 0, 1), b"", b"", struct.pack("<qII", 4, 1, 0)),
        "file_too_small": trailer(3, 2, 1, size=3 * PAGE, end=0),
        "blocks_behind_the_footer": trailer(3, 2, 1, end=63 * PAGE),
        "kind_3": trailer(0, 0, 0, kind=3),
        "zeros": bytes(PAGE),
    }


def fuzz_index_file() -> dict[str, bytes]:
    """68 bytes of header, then three times a size and so many bytes of members: files, ledgers, ranges."""

    def index(
        counts: tuple[int, int, int], *pages: bytes, generation: int = 5, mark: int = 100, unused: int = 0
    ) -> bytes:
        head = struct.pack("<IIII", 0, 0, 1, unused) + DIRECTORY_ID
        numbers = struct.pack("<QQQIII", generation, mark, 4242, *counts)
        return head + numbers + b"".join(struct.pack("<H", len(page)) + page for page in pages)

    def file(file_id: int, kind: int = 1, size: int = 64 * PAGE, first: int = 10) -> bytes:
        return struct.pack("<QQQQQQ", file_id, size, 3, first, 19, 8 * PAGE) + struct.pack(
            "<IIIIII", 1, 2, 3, 2, 1, kind
        )

    def ledger(ledger_id: int, bits: int = 0, key: bytes = b"", lac: bytes = b"", key_size: int | None = None) -> bytes:
        sizes = struct.pack("<IBBH", bits, len(key) if key_size is None else key_size, len(lac), 0)
        return struct.pack("<qqqq", ledger_id, 9, 2, 5000) + sizes + key.ljust(48, b"\0") + lac.ljust(48, b"\0")

    def entries(
        ledger_id: int, first: int, file: int = 0, count: int = 5, dead: int = 0, last: int | None = None, runs: int = 1
    ) -> bytes:
        last = first + count - 1 if last is None else last
        return struct.pack("<qqqQIIIIII", ledger_id, first, last, 300, file, count, dead, runs, 0, 0)

    files, ledgers = file(7) + file(8, kind=2), ledger(0) + ledger(4, 7, b"k" * 20, b"l" * 36)
    ranges = entries(0, 0) + entries(0, 5, file=1, dead=5) + entries(4, 2, last=100, runs=3)
    return {
        "whole": index((2, 2, 3), files, ledgers, ranges),
        "nothing_but_a_header": index((0, 0, 0)),
        "only_states": index((0, 1, 0), b"", ledger(4, 1)),
        "full_pages": index(
            (56, 30, 73),
            b"".join(file(1 + i) for i in range(56)),
            b"".join(ledger(i, 2, b"k" * (i + 1)) for i in range(30)),
            b"".join(entries(i, 0, file=i % 56) for i in range(73)),
        ),
        "two_pages_of_ranges": index((1, 0, 74), file(7), b"", b"".join(entries(i, 0) for i in range(73))),
        "generation_0": index((0, 0, 0), generation=0),
        "mark_0": index((0, 0, 0), mark=0),
        "unused_is_used": index((0, 0, 0), unused=1),
        "file_above_the_mark": index((1, 0, 0), file(100)),
        "files_not_sorted": index((2, 0, 0), file(8) + file(7)),
        "file_of_kind_3": index((1, 0, 0), file(7, kind=3)),
        "file_too_small": index((1, 0, 0), file(7, size=8 * PAGE)),
        "journal_without_a_first_block": index((1, 0, 0), file(7, first=0)),
        "key_without_its_bit": index((0, 1, 0), b"", ledger(4, 1, b"k")),
        "key_too_long": index((0, 1, 0), b"", ledger(4, 2, b"k" * 48, key_size=49)),
        "bytes_behind_the_key": index((0, 1, 0), b"", ledger(4, 2, b"k" * 20, key_size=19)),
        "unknown_bit": index((0, 1, 0), b"", ledger(4, 8)),
        "ledger_twice": index((0, 2, 0), b"", ledger(4) + ledger(4)),
        "range_in_no_file": index((1, 0, 1), file(7), b"", entries(4, 0, file=1)),
        "range_of_nothing": index((1, 0, 1), file(7), b"", entries(4, 0, count=0)),
        "more_dead_than_there_are": index((1, 0, 1), file(7), b"", entries(4, 0, dead=6)),
        "one_run_with_holes": index((1, 0, 1), file(7), b"", entries(4, 0, last=10)),
        "ranges_overlap": index((2, 0, 2), file(7) + file(8), b"", entries(4, 0) + entries(4, 4, file=1)),
        "one_range_twice": index((1, 0, 2), file(7), b"", entries(4, 0) + entries(4, 0)),
        "zeros": bytes(PAGE),
    }


def fuzz_owner() -> dict[str, bytes]:
    """Two slots, half of the input each; behind each half come zeros."""

    def slot(incarnation: int, *, version: int = 1, identity: bytes = DIRECTORY_ID) -> bytes:
        padded = (struct.pack("<4sIII", b"WKJO", 0, version, 0) + identity + struct.pack("<Q", incarnation)).ljust(
            PAGE, b"\0"
        )
        return padded[:4] + struct.pack("<I", crc32c(padded[:4] + padded[8:])) + padded[8:]

    return {
        "two_whole": slot(4) + slot(3),
        "one_whole": slot(4) + bytes(PAGE),
        "two_directories": slot(4) + slot(3, identity=bytes(16)),
        "newer_version": slot(4, version=2) + slot(3),
        "version_0": slot(4, version=0) + slot(3),
        "behind_the_end": slot(4)[:40] + b"1" + slot(3)[:41],
        "zeros": b"",
    }


def fuzz_superblock() -> dict[str, bytes]:
    """Two slots, half of the input each; behind each half come zeros."""

    def slot(
        generation: int, *, version: int = 1, flags: int = 0, first: int = 10, last: int = 19, method: int = 1
    ) -> bytes:
        head = struct.pack("<4sIII", b"WKSB", 0, version, flags) + DIRECTORY_ID
        numbers = struct.pack("<QQQQQQ", generation, 3, 100, 7, 4242, 5)
        places = struct.pack("<qqqq", first, last, -1, -1)
        return head + numbers + places + struct.pack("<IIQQQ", method, 0, 0xFD01, 90000, 85000)

    def whole(slot: bytes) -> bytes:
        padded = slot.ljust(PAGE, b"\0")
        return padded[:4] + struct.pack("<I", crc32c(padded[:4] + padded[8:])) + padded[8:]

    return {
        "two_whole": whole(slot(9)) + whole(slot(10, flags=1)),
        "one_whole": whole(slot(9)) + bytes(PAGE),
        "first_is_newer": slot(10) + slot(9),
        "same_generation": slot(9) + slot(9),
        "clean": slot(9, flags=1) + slot(8),
        "newer_version": slot(9, version=2) + slot(8),
        "version_0": slot(9, version=0) + slot(8),
        "unknown_flag": slot(9, flags=4) + slot(8),
        "apart": whole(slot(9, flags=2).ljust(224, b"\0") + b"/fast/journal"),
        "apart_without_a_path": whole(slot(9, flags=2)) + whole(slot(8)),
        "a_path_and_not_apart": whole(slot(9).ljust(224, b"\0") + b"/fast/journal"),
        "a_path_without_end": whole(slot(9, flags=2).ljust(224, b"\0") + b"/" * 1024),
        "snapshot_ends_before_it_starts": slot(9, last=9) + slot(8),
        "no_snapshot_spelt_wrong": slot(9, first=-1, last=0) + slot(8),
        "sync_method_3": slot(9, method=3) + slot(8),
        "zeros": b"",
    }


def fuzz_catalogue_record() -> dict[str, bytes]:
    """Records back to back."""

    def record(kind: int, *fields: int, name: bytes = b"") -> bytes:
        body = struct.pack(f"<{len(fields)}q", *fields) + name
        return struct.pack("<IB3x", len(body), kind) + body

    create = record(1, 1, 2**30, 3600, 0, 2, 1, 0, 1, name=b"flights")
    every_kind = [
        record(11, 2, 5),
        create,
        record(2, 1, 1, 3, 0, -1, 1_790_000_000_000),
        record(3, 1, 1, 100, 9, 0, 1_790_000_000_000, 12345),
        record(4, 1, 1, 4, 0, 40, 7),
        record(5, 1, 1, 4, 0, -1, -1, name=b"cursor"),
        record(6, 1, name=b"cursor"),
        record(8, 1, name=b"renamed"),
        record(9, 1, 2, 1),
        record(10, 1, 41, 3, 1, 5),
        record(7, 1),
    ]
    return {
        "every_kind": b"".join(every_kind),
        **{f"type_{kind[4]}": kind for kind in every_kind},
        "longest_name": record(8, 1, name=b"n" * 255),
        "name_too_long": record(8, 1, name=b"n" * 256),
        "no_name": record(8, 1),
        "negative_ledger": record(2, 1, 1, -1, 0, 0, 0),
        "unknown_codec": record(1, 1, 2, 3, 4, 3, 1, 0, 1, name=b"flights"),
        "unknown_flag": record(9, 1, 1, 2),
        "type_0": record(0, 1),
        "newer_type": create + record(12, 1),
        "not_zero": record(7, 1)[:5] + b"\1" + record(7, 1)[6:],
        "body_too_long": record(7, 1, 2),
        "cut": create[:-1],
        "nothing": b"",
    }


def fuzz_lock_text() -> dict[str, bytes]:
    """What the file `lock` says, and what it may say of a process of another version, or by another hand."""
    boot = DIRECTORY_ID.hex().encode()
    line = b"%b %08x\n" % (boot, crc32c(boot))
    return {
        "pid_and_boot": b"4711\n" + line,
        "in_a_page": (b"4711\n" + line).ljust(PAGE, b"\0"),
        "pid": b"4711\n",
        "largest_pid": b"%d\n" % (2**63 - 1) + line,
        "pid_too_large": b"%d\n" % 2**63 + line,
        "pid_0": b"0\n" + line,
        "leading_zero": b"04711\n" + line,
        "no_newline": b"4711",
        "upper_case": b"4711\n" + line.upper(),
        "sum_differs": b"4711\n" + boot + b" 00000000\n",
        "cut": b"4711\n" + line[:-1],
        "not_zero": b"4711\n" + line + b"\0x",
        "nothing": b"",
    }


def fuzz_sqlite_record() -> dict[str, bytes]:
    """A byte of flags (1: `before` is put right, 2: snapshots), then records, each behind its size."""

    def records(flags: int, *parts: bytes) -> bytes:
        return bytes([flags]) + b"".join(struct.pack("<H", len(part)) + part for part in parts)

    one, two = Image(1, [(0, b"a" * 512)]), Image(2, [(10, b"b"), (2, b"c")], delta=True)
    first, crc = record_bytes([one], transaction=1, pages=1)
    part, part_crc = record_bytes([two], transaction=2, pages=0, before=crc, last=False)
    end, _ = record_bytes([], transaction=2, pages=2, before=part_crc, part=1)
    snapshot, _ = record_bytes([one, Image(2, [])], kind=SNAPSHOT, transaction=9, pages=2)
    return {
        "two_transactions": records(0, first, part, end),
        "put_right": records(1, first, part, end),
        "unfinished": records(1, first, part, part),
        "snapshot": records(2, first, snapshot),
        "large_pages": records(
            0, record_bytes([Image(3, [(65535, b"x")])], transaction=1, pages=3, page_size=65536)[0]
        ),
        "range_behind_the_page": records(0, record_bytes([Image(1, [(510, b"abc")])], transaction=1, pages=1)[0]),
        "image_cut": records(0, first[:60]),
        "header_cut": records(0, first[:39]),
        "nothing": b"",
    }


def fuzz_sqlite_gateway() -> dict[str, bytes]:
    """A byte that says what it is, then the head of an answer (0), or its body: of a hello (1), an info (2), an
    append (3), a read (4), a refusal (5), the refusal of a hello (6)."""

    def position(sequence_id: int) -> bytes:
        return struct.pack(">5q", 1, 3, 0, sequence_id, 1_700_000_000_000)

    def batch(offsets: list[int], payloads: bytes) -> bytes:
        count = len(offsets) - 1
        head = b"\4\0" + struct.pack(">IBq3q", count, 2, 9, 1, 3, 2) + b"\0\0"
        columns = [1] * count + [3] * count + [*range(count)] + [*range(7, 7 + count)] + [1_700_000_000_000] * count
        return head + struct.pack(f"<{len(columns) + len(offsets)}q", *columns, *offsets) + payloads

    def refusal(error: int, outcome: int, more: bytes = b"") -> bytes:
        return b"\5" + struct.pack(">I4sBB3q", 4, b"full", error, outcome, 7, -1, 0) + more

    info = b"\2" + struct.pack(">QBBB5Q", 77, 2, 0, 0, 1 << 27, 0, 0, 1, 9) + position(0) + position(8) + position(9)
    return {
        "head": b"\0" + struct.pack(">IIB", 5 + 171, 3, 0),
        "head_of_a_long_frame": b"\0" + struct.pack(">IIB", 4 * 1024 * 1024 + 1, 3, 0),
        "head_of_a_short_frame": b"\0" + struct.pack(">IIB", 4, 3, 0),
        "hello": b"\1" + struct.pack(">II", 1, 3) + b"/wk",
        "info": info,
        "info_cut": info[:-1],
        "appended": b"\3" + position(7) + position(8) + struct.pack(">I", 2),
        "batch": batch([0, 4, 4, 8], b"paidsent"),
        "batch_of_none": batch([0], b"")[:41],
        "batch_of_falling_offsets": batch([0, 8, 4, 8], b"paidsent"),
        "batch_behind_its_end": batch([0, 4, 9], b"paidsent"),
        "batch_of_too_many": batch([0, 8], b"paidsent")[:2] + b"\xff\xff\xff\xff" + batch([0, 8], b"paidsent")[6:],
        "no_space": refusal(21, 1),
        "unknown_outcome": refusal(11, 2),
        "unknown_error": refusal(200, 3),
        "gap": refusal(25, 0, bytes(72)),
        "gap_cut": refusal(25, 0, bytes(71)),
        "wrong_token": b"\6" + struct.pack(">I", 5) + b"token",
        "text_cut": b"\6" + struct.pack(">I", 6) + b"token",
        "nothing": b"",
    }


CORPORA: list[Callable[[], dict[str, bytes]]] = [
    fuzz_journal_block,
    fuzz_journal_scan,
    fuzz_footer,
    fuzz_index_file,
    fuzz_superblock,
    fuzz_owner,
    fuzz_catalogue_record,
    fuzz_lock_text,
    fuzz_sqlite_record,
    fuzz_sqlite_gateway,
]


def main() -> None:
    """Write all corpora."""
    for corpus in CORPORA:
        folder = HERE / "corpus" / corpus.__name__
        folder.mkdir(parents=True, exist_ok=True)
        inputs = corpus()
        for file_name, data in inputs.items():
            (folder / file_name).write_bytes(data)
        print(f"{corpus.__name__}: {len(inputs)} files")


if __name__ == "__main__":
    main()
