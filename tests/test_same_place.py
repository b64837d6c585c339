"""Behind a record and before the next one is one place: behind a segment's last record it has several DLSNs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import walkeeper
from walkeeper import Log, Position


@pytest.fixture
def namespace(directory: Path) -> Iterator[walkeeper.Namespace]:
    with walkeeper.open(directory) as opened:
        yield opened


@pytest.fixture(params=[1, 1 << 20], ids=["a segment each", "one segment"])
def log(request: pytest.FixtureRequest, namespace: walkeeper.Namespace) -> Log:
    """Of records 0 to 5."""
    made = namespace.log("orders", segment_bytes=request.param)
    with made.writer() as writer:
        for number in range(6):
            writer.append(b"%d" % number)
    return made


def behind(log: Log, number: int) -> Position:
    """Where somebody stands that was given records up to this one."""
    records = list(log.reader(end=log.find(sequence_id=number + 1)))
    assert records[-1].sequence_id == number
    return records[-1].next


def numbers(records: object) -> list[int]:
    return [record.sequence_id for record in records]  # type: ignore[attr-defined]


def test_a_reader_goes_on_behind_a_truncation_of_what_it_was_given(log: Log) -> None:
    reader = log.reader()
    for _ in range(3):
        reader.read(max_records=1)
    log.truncate(log.find(sequence_id=3))
    assert numbers(reader.read()) == [3, 4, 5]


def test_a_reader_at_the_end_goes_on_behind_a_truncation_up_to_there(log: Log) -> None:
    readers = [log.reader(), log.reader(start="end", follow=True, timeout=0)]
    readers.append(log.reader(sequence_id=6, follow=True, timeout=0))
    assert numbers(readers[0]) == [0, 1, 2, 3, 4, 5]
    with log.writer() as writer:
        log.truncate(writer.append(b"6"))
    assert [numbers(reader.read()) for reader in readers] == [[6], [6], [6]]


def test_a_reader_misses_what_it_was_not_given(log: Log) -> None:
    reader = log.reader()
    for _ in range(3):
        reader.read(max_records=1)
    log.truncate(log.find(sequence_id=4))
    with pytest.raises(walkeeper.TruncatedError):
        reader.read()


def test_a_reader_starts_where_another_ended(log: Log) -> None:
    place = behind(log, 2)
    log.truncate(log.find(sequence_id=3))
    assert numbers(log.reader(start=place)) == [3, 4, 5]
    assert log.find(dlsn=place) == log.find(sequence_id=3)
    log.truncate(log.find(sequence_id=4))
    with pytest.raises(walkeeper.TruncatedError):
        log.reader(start=place)


def test_a_cursor_holds_what_it_needs_and_no_more(log: Log) -> None:
    cursor = log.cursor("billing")
    cursor.advance(behind(log, 2))
    with pytest.raises(walkeeper.CursorHoldsError):
        log.truncate(log.find(sequence_id=4))
    log.truncate(log.find(sequence_id=3))
    assert log.info().count == 3
    with pytest.raises(walkeeper.CursorHoldsError):
        log.truncate(log.find(sequence_id=4))


def test_a_cursor_may_be_put_where_it_stands(log: Log) -> None:
    places = [log.find(sequence_id=3), behind(log, 2)]
    cursor = log.cursor("billing")
    for place in places + places:
        cursor.advance(place)
        assert cursor.position.sequence_id == 3
    with pytest.raises(walkeeper.InvalidError, match="only moves forward"):
        cursor.advance(behind(log, 1))


def test_a_cursor_may_be_put_where_the_log_begins(log: Log) -> None:
    cursor = log.cursor("billing")
    places = [behind(log, number) for number in range(3)]
    log.truncate(log.find(sequence_id=3), force=True)
    with pytest.raises(walkeeper.TruncatedError):
        cursor.advance(places[1])
    cursor.advance(places[2])
    with pytest.raises(walkeeper.CursorHoldsError):
        log.truncate(log.find(sequence_id=4))


def test_the_first_record_behind_a_truncation_of_all_is_told_as_it_is(directory: Path) -> None:
    for _ in range(2):
        with walkeeper.open(directory) as namespace:
            log = namespace.log("orders")
            if log.count() == 0:
                with log.writer() as writer:
                    writer.append_many([b"0", b"1", b"2"], txids=[0, 10, 20])
                    log.truncate(log.info().next)
                    assert log.first() is None
                    appended = writer.append(b"3", txid=30)
            first = log.first()
            assert first is not None
            for found in (first, log.find(txid=0), log.find(sequence_id=3), next(iter(log.reader())).position):
                assert (found, found.sequence_id, found.txid) == (appended, 3, 30)


def test_a_reader_beside_a_writer_looks_before_it_ends(directory: Path) -> None:
    """It had taken all of an entry, and not seen that there was no more in it."""
    with (
        walkeeper.open(directory) as namespace,
        walkeeper.open(directory, read_only=True) as following,
        namespace.log("orders").writer() as writer,
    ):
        writer.append(b"0")
        reader = following.log("orders").reader()
        assert numbers(reader.read(max_records=1)) == [0]
        writer.append_many([b"1", b"2"])
        assert numbers(reader.read()) == [1, 2]
        assert reader.read() == []
