"""Records as their page describes them, given to the C: what it makes of them, and which it refuses."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlite_records import SNAPSHOT, Image, joint_bytes, name_bytes, record_bytes

import walkeeper
import walkeeper_sqlite
from walkeeper.errors import CorruptError, NotFoundError, UnsupportedError

ONE, TWO = Image(1, [(0, b"a" * 512)]), Image(2, [(10, b"b"), (2, b"c")])


@pytest.fixture
def log(tmp_path: Path) -> Iterator[walkeeper.Log]:
    with walkeeper.open(tmp_path / "wal") as ns:
        yield ns.log("app")


def restored(log: walkeeper.Log, path: Path, *records: bytes) -> bytes:
    with log.writer() as writer:
        for record in records:
            writer.append(record)
    walkeeper_sqlite.restore(log, path)
    return path.read_bytes()


def test_a_record_written_from_its_page_is_read(log: walkeeper.Log, tmp_path: Path) -> None:
    base, crc = record_bytes([ONE, TWO], kind=SNAPSHOT, transaction=0, pages=2)
    assert crc > 0
    first, crc = record_bytes([Image(2, [(11, b"d")], delta=True)], transaction=1, pages=2)
    second, _ = record_bytes([Image(2, [(511, b"e")]), Image(3, [(0, b"f")])], transaction=2, pages=3, before=crc)
    page = bytearray(512)
    page[511:] = b"e"
    assert restored(log, tmp_path / "x", base, first, second) == b"a" * 512 + page + b"f" + bytes(511)
    page = bytearray(512)
    page[10:14] = b"bd\0c"
    walkeeper_sqlite.restore(log, tmp_path / "y", to=1)
    assert (tmp_path / "y").read_bytes() == b"a" * 512 + page


def test_parts_count_with_their_last_one(log: walkeeper.Log, tmp_path: Path) -> None:
    base, _ = record_bytes([ONE], kind=SNAPSHOT, transaction=0, pages=1)
    lost, crc = record_bytes([TWO], transaction=1, pages=0, last=False)
    lost_too, _ = record_bytes([TWO], transaction=1, pages=0, last=False, part=1, before=crc)
    third = Image(3, [(0, b"three")])
    first, crc = record_bytes([third], transaction=1, pages=0, last=False)
    last, _ = record_bytes([], transaction=1, pages=3, part=1, before=crc)
    unfinished, _ = record_bytes([ONE], kind=SNAPSHOT, transaction=1, pages=0, last=False)
    data = restored(log, tmp_path / "x", base, lost, lost_too, first, unfinished, last)
    assert data == b"a" * 512 + bytes(512) + b"three" + bytes(507)


def test_the_newest_whole_snapshot_is_begun_with(log: walkeeper.Log, tmp_path: Path) -> None:
    base, _ = record_bytes([ONE], kind=SNAPSHOT, transaction=0, pages=1)
    first, crc = record_bytes([TWO], transaction=1, pages=2)
    snapshot, part = record_bytes([ONE], kind=SNAPSHOT, transaction=1, pages=0, last=False, before=crc)
    end, _ = record_bytes([TWO], kind=SNAPSHOT, transaction=1, pages=2, part=1, before=part)
    second, _ = record_bytes([Image(1, [(0, b"z" * 512)])], transaction=2, pages=2, before=crc)
    assert restored(log, tmp_path / "x", base, first, snapshot, second, end)[:513] == b"z" * 512 + b"\0"
    log.truncate(log.find(sequence_id=2))
    walkeeper_sqlite.restore(log, tmp_path / "y")
    assert (tmp_path / "y").read_bytes() == (tmp_path / "x").read_bytes()
    log.truncate(log.find(sequence_id=3))
    with pytest.raises(NotFoundError):
        walkeeper_sqlite.restore(log, tmp_path / "z")


BASE, _ = record_bytes([ONE], kind=SNAPSHOT, transaction=0, pages=1)
FIRST, _ = record_bytes([TWO], transaction=1, pages=2)
BESIDE, _ = record_bytes([TWO], kind=SNAPSHOT, transaction=0, pages=2, database=5, named=True)
BESIDE_COMMIT, _ = record_bytes([Image(1, [(0, b"g")])], transaction=1, pages=2, database=5, named=True)
BROKEN = {
    "another transaction": record_bytes([TWO], transaction=2, pages=2)[0],
    "another chain": record_bytes([TWO], transaction=1, pages=2, before=7)[0],
    "another database": record_bytes([TWO], transaction=1, pages=2, database=5)[0],
    "a part without a first one": record_bytes([TWO], transaction=1, pages=2, part=1)[0],
    "a last part without pages": record_bytes([TWO], transaction=1, pages=0)[0],
    "another kind": record_bytes([TWO], kind=5, transaction=1, pages=2)[0],
    "another page size": record_bytes([TWO], transaction=1, pages=2, page_size=256)[0],
    "bytes behind the images": record_bytes([TWO], transaction=1, pages=2)[0] + b"x",
    "a range behind the page": record_bytes([Image(2, [(510, b"abc")])], transaction=1, pages=2)[0],
    "a gap behind the page": record_bytes([Image(2, [(513, b"a")])], transaction=1, pages=2)[0],
    "page 0": record_bytes([Image(0, [(0, b"a")])], transaction=1, pages=2)[0],
    "too short": BASE[:39],
    "one commit together": joint_bytes(FIRST),
    "a database twice together": joint_bytes(FIRST, FIRST),
    "a part that is not the last together": joint_bytes(
        FIRST, record_bytes([TWO], transaction=1, pages=0, last=False, database=5, named=True)[0]
    ),
    "a snapshot together": joint_bytes(FIRST, BESIDE),
    "bytes behind those together": joint_bytes(FIRST, BESIDE_COMMIT, behind=b"x"),
    "no name": name_bytes("", 5),
    "a name that is too long": name_bytes("x" * 256, 5),
}


def test_two_databases_and_a_transaction_over_them(log: walkeeper.Log, tmp_path: Path) -> None:
    records = [BASE, name_bytes("other", 5), BESIDE, joint_bytes(FIRST, BESIDE_COMMIT)]
    page = bytearray(512)
    page[10:14] = b"b\0\0c"
    assert restored(log, tmp_path / "x", *records) == b"a" * 512 + page
    walkeeper_sqlite.restore(log, tmp_path / "y", name="other")
    assert (tmp_path / "y").read_bytes() == b"g" + bytes(511) + page


@pytest.mark.parametrize("name", BROKEN)
def test_a_record_that_breaks_the_rule_is_refused(log: walkeeper.Log, tmp_path: Path, name: str) -> None:
    with pytest.raises(CorruptError):
        restored(log, tmp_path / "x", BASE, BROKEN[name])
    assert [path.name for path in tmp_path.iterdir()] == ["wal"]


def test_every_turned_bit_is_found(log: walkeeper.Log, tmp_path: Path) -> None:
    record, _ = record_bytes([TWO], transaction=1, pages=2)
    bit = random.randrange(len(record) * 8)
    for place in {bit, 0, 9, 40, 80, 8 * len(record) - 1}:
        turned = bytearray(record)
        turned[place // 8] ^= 1 << place % 8
        broken = log.namespace.log(f"turned-{place}")
        with pytest.raises((CorruptError, UnsupportedError)):
            restored(broken, tmp_path / "x", BASE, bytes(turned))
