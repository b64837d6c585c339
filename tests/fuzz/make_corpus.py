"""Write the saved corpora: python tests/fuzz/make_corpus.py [NAME ...]

Each function below returns the inputs of one fuzzer by file name, built with the models in tests/models; CORPORA lists
them. The inputs are a first step into each branch of a decoder: whole, smallest, largest worth keeping, and one broken
in each way. Files already in a corpus under other names (saved findings) are left alone. The output never changes from
run to run.
"""

import argparse
import pathlib
import struct
import sys
from collections.abc import Callable

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.models import crc32c, entry, record  # noqa: E402  (the path to them is set just above)

NONE, LZ4, ZSTD = 0, 1, 2


def changed(data: bytes, at: int, value: int) -> bytes:
    """`data` with one byte set to `value`."""
    return data[:at] + bytes([value]) + data[at + 1 :]


def fuzz_entry() -> dict[str, bytes]:
    """Entries as they are on disk."""
    hello = entry.encode(entry.Entry(1, 0, -1, 5, b"hello"))
    return {
        "hello": hello,
        "empty_payload": entry.encode(entry.Entry(7, 3, 2, 100, b"")),
        "late_in_a_ledger": entry.encode(entry.Entry(2**62, 2**40, 2**40 - 9, 2**50, bytes(range(200)))),
        "lac_of_itself": entry.encode(entry.Entry(1, 5, 5, 5, b"hello")),
        "lac_below_none": entry.encode(entry.Entry(1, 5, -2, 5, b"hello")),
        "negative_ledger": entry.encode(entry.Entry(-1, 5, 4, 5, b"hello")),
        "negative_length": entry.encode(entry.Entry(1, 5, 4, -5, b"hello")),
        "digest_differs": changed(hello, 33, 0),
        "header_cut": hello[:35],
        "payload_cut": hello[:-1],
        "nothing": b"",
    }


def fuzz_summed_entry() -> dict[str, bytes]:
    """Entries of a ledger store: a checksum, then the entry, of which only ledger and entry id are ours to read."""

    def summed(data: bytes) -> bytes:
        return struct.pack("<I", crc32c.crc32c(data)) + data

    ids = struct.pack(">qq", 7, 3)
    return {
        "hello": summed(entry.encode(entry.Entry(1, 0, -1, 5, b"hello"))),
        "only_ids": summed(ids),
        "largest_ids": summed(struct.pack(">qq", 2**63 - 1, 2**63 - 1) + b"x"),
        "negative_ledger": summed(struct.pack(">qq", -1, 3)),
        "negative_entry": summed(struct.pack(">qq", 7, -1)),
        "sum_differs": changed(summed(ids), 1, 0),
        "ids_cut": summed(ids[:-1]),
        "nothing": b"",
    }


def fuzz_lost_entry() -> dict[str, bytes]:
    """What is left of an entry of a log: a header that nobody looks at, then an envelope, whole or not."""
    head = bytes(36)
    user = record.encode_record(record.Record(0, 1, 42, b"payload"))

    def envelope(codec: int, original: int, stored: bytes) -> bytes:
        return head + record.encode_envelope(record.Envelope(codec, original, stored))

    three = user * 3
    return {
        "three_records": envelope(NONE, len(three), three),
        "last_one_cut": envelope(NONE, len(three) - 1, three[:-1]),
        "size_beyond_the_end": envelope(NONE, len(user), user[:16] + b"\xff\xff\xff\xff" + user[20:]),
        "no_record": envelope(NONE, 0, b""),
        "compressed": envelope(LZ4, 5000, b"packed"),
        "no_envelope": head + b"?" * 70,
        "header_only": head,
        "original_size_too_large": head + b"\1" + b"\0\0\0\1" + b"\xff\xff\xff\xff" + bytes(40),
        "nothing": b"",
    }


def fuzz_record() -> dict[str, bytes]:
    """The first byte names the decoder: 0 records, 1 envelope, 2 record set, 3 DLSN."""
    user = record.encode_record(record.Record(0, 1, 42, b"payload"))
    control = record.encode_record(record.Record(1, 0, 42, b"control"))
    end = record.encode_record(record.Record(2, 2, 2**63 - 1, b"endOfStream"))
    members = record.encode_members([b"a", b"", b"bc"])
    packed = record.encode_record_set(record.RecordSet(NONE, 3, len(members), members))
    whole = record.encode_envelope(record.Envelope(NONE, len(user + end), user + end))
    return {
        "records_user_control_end": b"\0" + user + control + end,
        "records_set": b"\0" + record.encode_record(record.Record(4, 9, 1, packed)),
        "records_second_cut": b"\0" + user + control[:-1],
        "records_negative_size": b"\0" + user[:16] + struct.pack(">i", -1) + user[20:],
        "records_unknown_flag": b"\0" + changed(user, 7, 8),
        "records_unused_bit": b"\0" + changed(user, 0, 1),
        "envelope_plain": b"\1" + whole,
        "envelope_zstd": b"\1" + record.encode_envelope(record.Envelope(ZSTD, 1000, b"whatever it stores")),
        "envelope_version_2": b"\1" + changed(whole, 0, 2),
        "envelope_cut": b"\1" + whole[:-1],
        "envelope_codec_3": b"\1" + changed(whole, 4, 3),
        "set_plain": b"\2" + packed,
        "set_lz4": b"\2" + record.encode_record_set(record.RecordSet(LZ4, 3, 500, b"whatever it stores")),
        "set_member_too_long": b"\2" + changed(packed, 19, 200),
        "set_too_many_members": b"\2" + changed(packed, 7, 200),
        "dlsn_first": b"\3" + record.encode_dlsn(record.Dlsn(1, 0, 0)),
        "dlsn_invalid": b"\3" + record.encode_dlsn(record.Dlsn(0, -1, -1)),
        "dlsn_version_0": b"\3" + bytes(25),
    }


def lz4_literals(data: bytes) -> bytes:
    """The smallest legal lz4 block of up to 14 bytes: one sequence, literals only."""
    return bytes([len(data) << 4]) + data


def zstd_frame(block_type: int, size: int, block: bytes) -> bytes:
    """A zstd frame (RFC 8878) of one last block, raw (0) or one byte repeated (1), of `size` bytes below 256."""
    header = b"\x28\xb5\x2f\xfd" + bytes([0x20, size])  # single segment, one byte of content size
    return header + (size << 3 | block_type << 1 | 1).to_bytes(3, "little") + block


def fuzz_codec() -> dict[str, bytes]:
    """0 codec, 1 exact size (3 bytes, big-endian), 4 the source."""

    def asking(codec: int, exact_size: int, source: bytes) -> bytes:
        return bytes([codec]) + exact_size.to_bytes(3, "big") + source

    # Literals "abc", then 15 + 4 bytes from three bytes back (overlapping), then five last literals.
    matched = bytes([0x3F]) + b"abc" + b"\x03\x00" + b"\x00" + lz4_literals(b"abcab")
    raw, repeated = zstd_frame(0, 11, b"hello hello"), zstd_frame(1, 200, b"x")
    return {
        "none_hello": asking(NONE, 5, b"hello"),
        "none_too_short": asking(NONE, 6, b"hello"),
        "lz4_literals": asking(LZ4, 5, lz4_literals(b"hello")),
        "lz4_match": asking(LZ4, 27, matched),
        "lz4_match_too_long": asking(LZ4, 20, matched),
        "lz4_offset_before_start": asking(LZ4, 27, changed(matched, 4, 9)),
        "lz4_empty": asking(LZ4, 0, b"\0"),
        "zstd_raw": asking(ZSTD, 11, raw),
        "zstd_repeated": asking(ZSTD, 200, repeated),
        "zstd_another_size": asking(ZSTD, 12, raw),
        "zstd_two_frames": asking(ZSTD, 211, raw + repeated),
        "zstd_skippable": asking(ZSTD, 0, b"\x50\x2a\x4d\x18\3\0\0\0abc"),
        "zstd_cut": asking(ZSTD, 11, raw[:-1]),
        "zstd_empty": asking(ZSTD, 0, zstd_frame(0, 0, b"")),
    }


def fuzz_salvage() -> dict[str, bytes]:
    """How it is opened, then damages: file, what is done, place (3 bytes, little-endian), three bytes for it."""
    store, zeros, turn, copy_block, cut, remove, seal_again = range(7)

    def damaged(how: int, *damages: tuple[int, int, int, bytes]) -> bytes:
        units = (bytes([file, what]) + at.to_bytes(3, "little") + more for file, what, at, more in damages)
        return bytes([how]) + b"".join(units)

    skip, check_all, read_only, closed = 1, 2, 4, 8
    block = 4096
    return {
        "nothing": damaged(skip),
        "record_stored_over": damaged(skip, (0, store, 300, b"abc")),
        "zeros_in_the_middle": damaged(0, (0, zeros, 2 * block, b"\x09\0\0")),
        "bit_of_a_header": damaged(skip | check_all, (1, turn, block + 12, b"\3\0\0")),
        "block_of_elsewhere": damaged(skip | closed, (2, copy_block, 3 * block, b"\1\0\0")),
        "first_block_went_astray": damaged(skip, (0, copy_block, 0, b"\1\0\0")),
        "file_cut_short": damaged(check_all, (1, cut, 5 * block, bytes(3))),
        "file_gone": damaged(skip | check_all, (1, remove, 0, bytes(3))),
        "two_files_gone": damaged(read_only | closed, (0, remove, 0, bytes(3)), (2, remove, 0, bytes(3))),
        "rehearsed": damaged(skip | read_only, (0, zeros, block, b"\x03\0\0")),
        "sealed_again": damaged(skip, (0, store, 200, b"\xff\xff\xff"), (0, seal_again, 0, bytes(3))),
        "offset_sealed_again": damaged(skip, (0, store, 41, b"\xff\xff\xff"), (0, seal_again, 0, bytes(3))),
        "framing_sealed_again": damaged(skip, (0, store, 80, b"\xff\xff\0"), (0, seal_again, 0, bytes(3))),
        "durable_sealed_again": damaged(skip, (1, store, 64, b"\0\0\0"), (1, seal_again, 0, bytes(3))),
        "no_reader": damaged(read_only | closed, (46, remove, 0, bytes(3)), (173, store, 0x323500, b"\x03\0\x03")),
    }


CORPORA: dict[str, Callable[[], dict[str, bytes]]] = {
    "fuzz_entry": fuzz_entry,
    "fuzz_summed_entry": fuzz_summed_entry,
    "fuzz_lost_entry": fuzz_lost_entry,
    "fuzz_record": fuzz_record,
    "fuzz_codec": fuzz_codec,
    "fuzz_salvage": fuzz_salvage,
}


def main() -> None:
    """Write the corpora named on the command line, or all."""
    parser = argparse.ArgumentParser(description="write the saved corpora")
    parser.add_argument("names", nargs="*", choices=[[], *CORPORA], help="fuzzers; all when none is named")
    for name in parser.parse_args().names or CORPORA:
        folder = HERE / "corpus" / name
        folder.mkdir(parents=True, exist_ok=True)
        inputs = CORPORA[name]()
        for file_name, data in inputs.items():
            (folder / file_name).write_bytes(data)
        print(f"{name}: {len(inputs)} files")


if __name__ == "__main__":
    main()
