"""Reading: from where, to where, in what pieces, and for how long what was read stays valid."""

from __future__ import annotations

import gc
import itertools
import pickle
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import walkeeper

Contents = Callable[..., list[bytes]]
Open = Callable[..., walkeeper.Namespace]

TEN = [b"%d" % number for number in range(10)]


@pytest.fixture
def ten(log: walkeeper.Log) -> list[walkeeper.Position]:
    """The positions of ten records, with txids 0, 10, 20, ... 90, in several entries."""
    with log.writer() as writer:
        return [writer.append(payload, txid=10 * number) for number, payload in enumerate(TEN)]


def test_an_empty_log_yields_nothing(log: walkeeper.Log, contents: Contents) -> None:
    assert contents(log) == []
    assert contents(log, start="end") == []


def test_a_record_says_where_it_is(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    for record, position, payload in zip(log.reader(), ten, TEN, strict=True):
        assert record.position == position
        assert (record.dlsn, record.sequence_id, record.txid) == (position.dlsn, position.sequence_id, position.txid)
        assert record.payload == payload


def test_next_is_just_behind_a_record(log: walkeeper.Log, ten: list[walkeeper.Position], contents: Contents) -> None:
    for number, record in enumerate(log.reader()):
        assert ten[number] < record.next
        assert record.next.sequence_id == number + 1
        assert contents(log, start=record.next) == TEN[number + 1 :]


# From where


def test_start_is_inclusive(log: walkeeper.Log, ten: list[walkeeper.Position], contents: Contents) -> None:
    for number, position in enumerate(ten):
        assert contents(log, start=position) == TEN[number:]
        assert contents(log, start=position.dlsn) == TEN[number:]
        assert contents(log, sequence_id=number) == TEN[number:]
        assert contents(log, txid=10 * number) == TEN[number:]


def test_between_two_txids_the_later_record_is_first(
    log: walkeeper.Log, ten: list[walkeeper.Position], contents: Contents
) -> None:
    assert contents(log, txid=41) == TEN[5:]


def test_beyond_the_end_there_is_nothing(log: walkeeper.Log, ten: list[walkeeper.Position], contents: Contents) -> None:
    assert contents(log, sequence_id=10) == contents(log, txid=91) == contents(log, start="end") == []


def test_a_position_survives_as_bytes(log: walkeeper.Log, ten: list[walkeeper.Position], contents: Contents) -> None:
    again = walkeeper.Position.from_bytes(ten[4].to_bytes())
    assert (again, again.sequence_id, again.txid) == (ten[4], 4, 40)
    assert contents(log, start=again) == TEN[4:]
    assert contents(log, start=walkeeper.DLSN.from_bytes(ten[4].dlsn.to_bytes())) == TEN[4:]


def test_times_find_records_that_the_clock_numbers(log: walkeeper.Log, contents: Contents) -> None:
    with log.writer() as writer:
        writer.append(b"early")
        time.sleep(0.02)
        between = datetime.now(timezone.utc)
        time.sleep(0.02)
        writer.append(b"late")
    assert contents(log, time=between) == [b"late"]
    assert contents(log, time=between.timestamp()) == [b"late"]
    assert contents(log, time=between - timedelta(hours=1)) == [b"early", b"late"]
    assert contents(log, time=between + timedelta(hours=1)) == []


def test_a_time_has_a_zone_and_is_not_before_1970(log: walkeeper.Log) -> None:
    with pytest.raises(walkeeper.InvalidError, match="zone"):
        log.reader(time=datetime(2024, 1, 1))
    for past in (-5, datetime(1969, 12, 31, tzinfo=timezone.utc)):
        with pytest.raises(walkeeper.InvalidError, match="before 1970") as caught:
            log.find(time=past)
        assert f"time={past!r}" in str(caught.value)


def test_a_time_means_nothing_where_the_application_numbers(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    with pytest.raises(walkeeper.InvalidError):
        log.find(time=time.time())


def test_a_reader_starts_in_one_way(log: walkeeper.Log) -> None:
    with pytest.raises(walkeeper.InvalidError):
        log.reader(sequence_id=1, txid=1)
    with pytest.raises(walkeeper.InvalidError):
        log.reader("end", txid=1)
    with pytest.raises(walkeeper.InvalidError):
        log.reader("middle")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        log.reader(7)  # type: ignore[arg-type]


# To where


def test_end_is_exclusive(log: walkeeper.Log, ten: list[walkeeper.Position], contents: Contents) -> None:
    assert contents(log, start=ten[2], end=ten[5]) == TEN[2:5]
    assert contents(log, start=ten[2], end=ten[2]) == []


def test_a_reader_at_its_end_has_ended(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    reader = log.reader(end=ten[3])
    assert not reader.ended
    assert len(list(reader)) == 3
    assert reader.ended


def test_a_reader_that_ended_goes_on_when_there_is_more(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    reader = log.reader()
    assert list(reader) == []
    writer.append(b"x")
    assert [record.sequence_id for record in reader] == [0]
    assert list(reader) == []


def test_iterating_and_reading_may_be_mixed(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    """The records are fetched in batches of a few. What next() fetched and left, the iterator yields."""
    writer.append_many([b"x" * 300_000] * 40)
    for order in ("iri", "iir", "iiir", "iiiir"):
        reader = log.reader()
        ways = {"i": iter(reader), "r": reader}
        assert [next(ways[way]).sequence_id for way in (order * 40)[:40]] == list(range(40))


# In pieces


def test_read_takes_at_most_max_records(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    reader = log.reader()
    sizes = [len(records) for records in iter(lambda: reader.read(max_records=4), [])]
    assert sum(sizes) == 10
    assert max(sizes) <= 4


def test_read_takes_about_max_bytes(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    writer.append_many([b"x" * 1000] * 100)
    reader = log.reader()
    pieces = list(iter(lambda: reader.read(max_bytes=10_000), []))
    assert sum(map(len, pieces)) == 100
    assert max(map(len, pieces)) <= 11


def test_a_record_larger_than_max_bytes_comes_alone(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    writer.append_many([b"x" * 5000, b"y" * 5000])
    reader = log.reader()
    assert [len(record) for record in iter(lambda: reader.read(max_bytes=10), [])] == [1, 1]


def test_limits_are_at_least_1(log: walkeeper.Log) -> None:
    with pytest.raises(walkeeper.InvalidError):
        log.reader().read(max_records=0)
    with pytest.raises(walkeeper.InvalidError):
        log.reader().read(max_bytes=-1)
    with pytest.raises(walkeeper.InvalidError, match="max_records=True"):
        log.reader().read(max_records=True)


@pytest.mark.parametrize("follow", ["x", "False", None, 2, b""], ids=repr)
def test_follow_is_yes_or_no(log: walkeeper.Log, follow: Any) -> None:
    with pytest.raises(walkeeper.InvalidError, match=f"^follow={follow!r}: True or False is wanted$"):
        log.reader(follow=follow)


@pytest.mark.parametrize("way", ["sequence_id", "txid", "time"])
def test_a_place_is_no_yes_or_no(log: walkeeper.Log, ten: list[walkeeper.Position], way: str) -> None:
    for call in (log.reader, log.find):
        with pytest.raises(walkeeper.InvalidError, match=f"{way}=True"):
            call(**{way: True})
    with pytest.raises(walkeeper.InvalidError, match="True in a position"):
        log.reader(walkeeper.DLSN(True, 0, 0))


def test_leaving_a_loop_loses_nothing(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    reader = log.reader()
    for record in reader:
        if record.sequence_id == 2:
            break
    assert next(reader).sequence_id == 3
    assert reader.position == ten[4].dlsn
    assert [record.sequence_id for record in reader.read(max_records=2)] == [4, 5]
    assert [record.sequence_id for record in reader] == [6, 7, 8, 9]


def test_position_is_where_another_reader_would_go_on(
    log: walkeeper.Log, ten: list[walkeeper.Position], contents: Contents
) -> None:
    reader = log.reader()
    for number in range(10):
        assert contents(log, start=reader.position) == TEN[number:]
        next(reader)
    assert contents(log, start=reader.position) == []


def test_readers_do_not_disturb_one_another(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    pairs = itertools.zip_longest(log.reader(), log.reader())
    assert all(a.sequence_id == b.sequence_id for a, b in pairs)


def test_a_million_bytes_in_small_records_come_back_in_order(
    log: walkeeper.Log, writer: walkeeper.Writer, contents: Contents
) -> None:
    payloads = [b"%d" % number * (number % 7) for number in range(50_000)]
    for start in range(0, len(payloads), 10_000):
        writer.append_many(payloads[start : start + 10_000])
    assert contents(log) == payloads
    assert [record.sequence_id for record in log.reader()] == list(range(50_000))


# For how long


def test_a_payload_outlives_reader_and_namespace(open: Open) -> None:
    ns = open()
    log = ns.log("orders")
    with log.writer() as writer:
        writer.append_many([b"%06d" % number * 100 for number in range(3000)])
    with log.reader() as reader:
        payloads = [record.payload for record in reader]
    ns.close()
    del reader, log, ns, writer
    gc.collect()
    assert [bytes(payload) for payload in payloads] == [b"%06d" % number * 100 for number in range(3000)]


def test_one_payload_keeps_its_bytes_when_all_else_is_gone(open: Open) -> None:
    ns = open()
    with ns.log("orders").writer() as writer:
        writer.append_many([b"first", b"second", b"third"])
    kept = next(ns.log("orders").reader(sequence_id=1)).payload
    ns.close()
    gc.collect()
    assert kept == b"second"


def test_a_payload_cannot_be_written_to(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    record = next(log.reader())
    with pytest.raises(TypeError):
        record.payload[0] = 1


def test_records_go_through_pickle(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    record = next(log.reader(sequence_id=3))
    again = pickle.loads(pickle.dumps(record))
    assert (again.position, again.next, bytes(again.payload)) == (record.position, record.next, b"3")


def test_a_closed_reader_refuses(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    reader = log.reader()
    next(reader)
    reader.close()
    reader.close()
    for call in (reader.read, lambda: next(reader), lambda: list(reader), lambda: reader.position):
        with pytest.raises(walkeeper.ClosedError):
            call()


# As Arrow


def test_arrow_holds_what_records_hold(log: walkeeper.Log, ten: list[walkeeper.Position]) -> None:
    pytest.importorskip("pyarrow", reason="the extra walkeeper[arrow] is not installed")
    reader = log.reader()
    batches = list(iter(reader.read_arrow, None))
    assert sum(batch.num_rows for batch in batches) == 10
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [tuple(row.values()) for row in rows] == [
        (*position.dlsn, position.sequence_id, position.txid, payload)
        for position, payload in zip(ten, TEN, strict=True)
    ]
    assert batches[0].schema.names == ["segment", "entry_id", "slot", "sequence_id", "txid", "payload"]
    assert reader.ended


def test_arrow_outlives_the_namespace(open: Open) -> None:
    pytest.importorskip("pyarrow", reason="the extra walkeeper[arrow] is not installed")
    ns = open()
    with ns.log("orders").writer() as writer:
        writer.append_many([b"x" * 1000] * 100)
    batch = ns.log("orders").reader().read_arrow()
    ns.close()
    gc.collect()
    assert batch is not None
    assert batch.column("payload").to_pylist() == [b"x" * 1000] * batch.num_rows


def test_arrow_does_not_pass_over_records_that_iteration_fetched(
    log: walkeeper.Log, ten: list[walkeeper.Position]
) -> None:
    pytest.importorskip("pyarrow", reason="the extra walkeeper[arrow] is not installed")
    reader = log.reader()
    next(reader)
    with pytest.raises(walkeeper.InvalidError, match=r"read\(\)"):
        reader.read_arrow()
