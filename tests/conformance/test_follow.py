"""Following: a reader waits for what is not there yet, as long as it was told."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import walkeeper


def test_a_follower_gets_what_comes_later(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    reader = log.reader(follow=True, timeout=30)
    threading.Timer(0.1, writer.append, [b"late"]).start()
    assert next(reader).sequence_id == 0


def test_a_follower_from_the_end_passes_over_what_is_there(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    writer.append(b"old")
    reader = log.reader("end", follow=True, timeout=30)
    writer.append(b"new")
    assert next(reader).sequence_id == 1


def test_a_timeout_ends_the_iteration_and_not_the_reader(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    reader = log.reader(follow=True, timeout=0.1)
    started = time.monotonic()
    assert list(reader) == []
    assert 0.09 <= time.monotonic() - started < 5
    assert not reader.ended
    writer.append(b"x")
    assert [record.sequence_id for record in reader] == [0]


@pytest.mark.alone
def test_a_timeout_of_0_does_not_wait(log: walkeeper.Log) -> None:
    started = time.monotonic()
    assert log.reader(follow=True, timeout=0).read() == []
    assert time.monotonic() - started < 1


def test_read_has_a_timeout_of_its_own(log: walkeeper.Log) -> None:
    reader = log.reader(follow=True)
    assert reader.read(timeout=0.05) == []
    assert not reader.ended


def test_the_end_of_the_stream_ends_a_follower(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    reader = log.reader(follow=True, timeout=30)
    writer.append(b"last")
    threading.Timer(0.1, writer.mark_end_of_stream).start()
    assert [record.sequence_id for record in reader] == [0]
    assert reader.ended


def test_a_follower_stops_at_its_end(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    positions = [writer.append(b"x") for _ in range(5)]
    reader = log.reader(follow=True, end=positions[3], timeout=30)
    assert [record.sequence_id for record in reader] == [0, 1, 2]
    assert reader.ended


@pytest.mark.parametrize("way", ["sequence_id", "txid"])
def test_a_follower_that_starts_beyond_the_end_yields_nothing_below_its_start(
    log: walkeeper.Log, writer: walkeeper.Writer, way: str
) -> None:
    """Log.reader: from the first record with at least this sequence id or txid on. One by a DLSN does so."""
    writer.append(b"before", txid=0)
    start: dict[str, int] = {way: 3}
    reader = log.reader(follow=True, timeout=0.3, **start)
    for number in range(1, 5):
        writer.append(b"%d" % number, txid=number)
    assert [record.sequence_id for record in reader] == [3, 4]


def test_a_start_beyond_the_end_is_found_within_a_batch_and_behind_it(
    log: walkeeper.Log, writer: walkeeper.Writer
) -> None:
    readers = [log.reader(follow=True, timeout=0.1, sequence_id=start) for start in (2, 5, 7, 8)]
    for _ in range(2):
        assert [[record.sequence_id for record in reader] for reader in readers] == [[], [], [], []]
    writer.append_many([b"%d" % number for number in range(5)])
    writer.append_many([b"%d" % number for number in range(5, 8)])
    assert [[record.sequence_id for record in reader] for reader in readers] == [[2, 3, 4, 5, 6, 7], [5, 6, 7], [7], []]
    writer.append(b"8")
    assert [[record.sequence_id for record in reader] for reader in readers] == [[8], [8], [8], [8]]


def test_a_start_beyond_the_end_is_not_reached_by_later_times(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    start = time.time() + 2
    reader = log.reader(follow=True, timeout=0.5, time=start)
    early = writer.append(b"early")
    time.sleep(start + 0.1 - time.time())
    assert writer.append(b"late") > early
    assert [record.payload for record in reader] == [b"late"]


def test_what_is_truncated_below_the_start_is_not_missed(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    readers = [log.reader(follow=True, timeout=0.1, sequence_id=3), log.reader(follow=True, timeout=0.1, txid=3)]
    missed = log.reader(follow=True, timeout=0.1, sequence_id=1)
    places = [writer.append(b"%d" % number, txid=number) for number in range(5)]
    log.truncate(places[2])
    for reader in readers:
        assert [record.sequence_id for record in reader] == [3, 4]
    with pytest.raises(walkeeper.TruncatedError):
        next(missed)


SIX_RECORDS = 1024
"""A segment of so many bytes is full behind the sixth record of 200."""


@pytest.mark.parametrize("way", ["position", "end", "sequence_id", "txid", "time"])
def test_who_waits_at_the_end_of_a_segment_misses_nothing_where_the_next_one_is_truncated_up_to(
    ns: walkeeper.Namespace, way: str
) -> None:
    """Nothing was let go but what stood before the reader, whichever way it came there."""
    log = ns.log("rolls", segment_bytes=SIX_RECORDS)
    numbers = way == "txid"
    writer = log.writer()
    for number in range(6):
        writer.append(b"z" * 200, txid=number if numbers else None)
    done = log.reader()
    assert len(list(done)) == 6
    soon = time.time() + 0.05
    start: dict[str, Any] = {
        "position": {"start": done.position},
        "end": {"start": "end"},
        "sequence_id": {"sequence_id": 6},
        "txid": {"txid": 6},
        "time": {"time": soon},
    }[way]
    waiting, late, never = (log.reader(follow=True, timeout=0.1, **start) for _ in range(3))
    assert waiting.read() == []
    time.sleep(max(0.0, soon - time.time()) + 0.05)
    for number in range(6, 9):
        writer.append(b"z" * 200, txid=number if numbers else None)
    assert [segment.first_sequence_id for segment in log.segments()] == [0, 6]
    log.truncate(log.find(sequence_id=6))
    for reader in (waiting, late):
        assert [record.sequence_id for record in reader.read(2)] == [6, 7]
    log.truncate(log.find(sequence_id=7))
    with pytest.raises(walkeeper.TruncatedError):
        never.read()


def test_what_was_passed_over_on_the_way_to_a_start_is_not_missed(ns: walkeeper.Namespace) -> None:
    log = ns.log("rolls", segment_bytes=SIX_RECORDS)
    writer = log.writer()
    waiting, untold = (log.reader(follow=True, timeout=0.1, txid=106) for _ in range(2))
    for number in range(6):
        writer.append(b"z" * 200, txid=100 + number)
    assert waiting.read() == []
    for number in range(6, 9):
        writer.append(b"z" * 200, txid=100 + number)
    assert [segment.first_sequence_id for segment in log.segments()] == [0, 6]
    log.truncate(log.find(sequence_id=6))
    assert [record.sequence_id for record in waiting.read()] == [6, 7, 8]
    with pytest.raises(walkeeper.TruncatedError):  # nobody knows by now what txids the first six had
        untold.read()


def test_the_place_behind_a_record_holds_where_the_log_is_truncated_up_to_the_next(ns: walkeeper.Namespace) -> None:
    """Record.next knows the sequence id. A DLSN alone, as Reader.position is, does not tell that nothing is missed."""
    log = ns.log("rolls", segment_bytes=SIX_RECORDS)
    writer = log.writer()
    for _ in range(6):
        writer.append(b"z" * 200)
    reader = log.reader()
    last = list(reader)[-1]
    for _ in range(6, 9):
        writer.append(b"z" * 200)
    log.truncate(log.find(sequence_id=6))
    assert [record.sequence_id for record in log.reader(last.next)] == [6, 7, 8]
    with pytest.raises(walkeeper.TruncatedError):
        log.reader(reader.position)
    log.truncate(log.find(sequence_id=7))
    with pytest.raises(walkeeper.TruncatedError):
        log.reader(last.next)


def test_a_follower_sees_every_record_of_a_busy_writer(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    seen: list[int] = []

    def follow() -> None:
        for record in log.reader(follow=True, timeout=30):
            seen.append(record.sequence_id)
            if len(seen) == 3000:
                return

    follower = threading.Thread(target=follow)
    follower.start()
    for _ in range(300):
        writer.append_many([b"x"] * 9)
        writer.append(b"y")
    follower.join(30)
    assert seen == list(range(3000))


def test_another_thread_may_close_a_follower(log: walkeeper.Log) -> None:
    reader = log.reader(follow=True)
    raised: list[BaseException] = []

    def follow() -> None:
        try:
            next(reader)
        except walkeeper.ClosedError as error:
            raised.append(error)

    follower = threading.Thread(target=follow)
    follower.start()
    time.sleep(0.1)
    reader.close()
    follower.join(10)
    assert len(raised) == 1
