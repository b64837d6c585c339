"""append_many: one call, one wait; with atomic, one entry."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow
import pytest

import walkeeper

Contents = Callable[..., list[bytes]]
Open = Callable[..., walkeeper.Namespace]


def test_many_records_have_consecutive_ids(log: walkeeper.Log, writer: walkeeper.Writer, contents: Contents) -> None:
    writer.append(b"one")
    batch = writer.append_many([b"two", b"three", b"four"])
    assert (batch.first.sequence_id, batch.last.sequence_id, batch.count) == (1, 3, 3)
    assert contents(log) == [b"one", b"two", b"three", b"four"]
    assert log.find(sequence_id=1) == batch.first
    assert log.find(sequence_id=3) == batch.last


def test_one_is_many_enough(writer: walkeeper.Writer) -> None:
    batch = writer.append_many([b"x"])
    assert batch.first == batch.last


def test_nothing_is_too_few(writer: walkeeper.Writer) -> None:
    with pytest.raises(walkeeper.InvalidError):
        writer.append_many([])


def test_payloads_may_be_of_all_kinds_and_sizes(
    log: walkeeper.Log, writer: walkeeper.Writer, contents: Contents
) -> None:
    words = memoryview(b"12345678").cast("I")
    payloads: list[Any] = [b"", bytearray(b"a"), memoryview(b"bcd")[1:], words, b"x" * 100_000, b""]
    writer.append_many(payloads)
    assert contents(log) == [bytes(payload) for payload in payloads]


def test_a_buffer_of_many_items_without_bytes_takes_none_of_the_next(
    log: walkeeper.Log, writer: walkeeper.Writer, contents: Contents
) -> None:
    """len() of a buffer counts its items: five of no bytes and one of six are six, as many as there are bytes."""
    nothing, six = ((ctypes.c_char * 0) * 5)(), ((ctypes.c_char * 6) * 1)()
    ctypes.memmove(six, b"123456", 6)
    writer.append_many([nothing, six])
    assert contents(log) == [b"", b"123456"]


def test_payloads_may_come_from_a_generator(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    writer.append_many(b"%d" % number for number in range(100))
    assert log.count() == 100


def test_more_than_an_entry_and_more_than_the_window_fit(
    log: walkeeper.Log, writer: walkeeper.Writer, contents: Contents
) -> None:
    payloads = [bytes([number % 256]) * 100_000 for number in range(150)]  # 15 MB: above in_flight_bytes
    batch = writer.append_many(payloads)
    assert batch.count == 150
    assert contents(log) == payloads


def test_a_payload_that_is_no_buffer_stops_all(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    with pytest.raises(TypeError):
        writer.append_many([b"x", "text"])  # type: ignore[list-item]
    assert log.count() == 0


def test_each_has_its_txid(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    batch = writer.append_many([b"a", b"b", b"c"], txids=[3, 3, 9])
    assert (batch.first.txid, batch.last.txid) == (3, 9)
    assert [record.txid for record in log.reader()] == [3, 3, 9]


def test_txids_do_not_fall_within_a_batch(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    with pytest.raises(walkeeper.TxidError) as caught:
        writer.append_many([b"a", b"b"], txids=[3, 2])
    assert caught.value.outcome == "not_written"
    assert log.count() == 0


def test_txids_are_as_many_as_payloads(writer: walkeeper.Writer) -> None:
    with pytest.raises(walkeeper.InvalidError):
        writer.append_many([b"a", b"b"], txids=[1])


def test_expected_is_that_of_the_first(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    writer.append_many([b"a", b"b"], expected=0)
    with pytest.raises(walkeeper.SequenceMismatchError) as caught:
        writer.append_many([b"a", b"b"], expected=0)
    assert caught.value.sequence_id == 0
    assert log.count() == 2


def test_an_atomic_batch_is_one_entry(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    writer.append(b"before")
    batch = writer.append_many([b"a", b"b", b"c"], atomic=True)
    writer.append(b"after")
    records = list(log.reader(start=batch.first, end=batch.last))
    assert len({record.dlsn.entry_id for record in records}) == 1
    assert batch.first.dlsn.entry_id == batch.last.dlsn.entry_id


def test_an_atomic_batch_too_large_for_one_entry_is_refused_whole(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    with pytest.raises(walkeeper.TooLargeError) as caught:
        writer.append_many([b"x" * 300_000] * 4, atomic=True)
    assert caught.value.outcome == "not_written"
    assert log.count() == 0


def test_a_record_too_large_among_many_stops_all(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    with pytest.raises(walkeeper.TooLargeError) as caught:
        writer.append_many([b"x", b"y" * 2**20, b"z"])
    assert caught.value.outcome == "not_written"
    assert log.count() == 0


@pytest.mark.directory
def test_a_batch_stays_together_where_two_threads_wait_for_room(open: Open, contents: Contents) -> None:
    log = open(in_flight_bytes=256 * 1024).log("orders")
    with log.writer() as writer, ThreadPoolExecutor(2) as pool:
        batches = {name: pool.submit(writer.append_many, [name * 10_000] * 100, timeout=20) for name in (b"a", b"b")}
    payloads = contents(log)
    for name, future in batches.items():
        batch = future.result()
        assert batch.last.sequence_id - batch.first.sequence_id + 1 == batch.count
        assert payloads[batch.first.sequence_id : batch.last.sequence_id + 1] == [name * 10_000] * 100


@pytest.mark.parametrize("txids", [[1, 2**63], [1, 2.5], [-5, 1], [True, 2]], ids=str)
def test_txids_that_no_record_can_have_are_refused(writer: walkeeper.Writer, txids: list[Any]) -> None:
    with pytest.raises(walkeeper.InvalidError, match="txids=") as caught:
        writer.append_many([b"x", b"y"], txids=txids)
    assert caught.value.outcome == "not_written"
    assert writer.append(b"x").sequence_id == 0


def test_atomic_is_yes_or_no(writer: walkeeper.Writer) -> None:
    with pytest.raises(walkeeper.InvalidError, match=r"^atomic='no': True or False") as caught:
        writer.append_many([b"x", b"y"], atomic="no")  # type: ignore[arg-type]
    assert caught.value.outcome == "not_written"
    assert writer.append_many([b"x", b"y"], atomic=1).count == 2


ARROW_TYPES = [pyarrow.binary(), pyarrow.large_binary(), pyarrow.string(), pyarrow.large_string()]


@pytest.mark.parametrize("kind", ARROW_TYPES, ids=str)
def test_payloads_may_be_an_arrow_array(
    kind: pyarrow.DataType, log: walkeeper.Log, writer: walkeeper.Writer, contents: Contents
) -> None:
    words = ["zero", "", "two", "three " * 1000, ""]
    appended = writer.append_many(pyarrow.array(words, kind), expected=0)
    assert (appended.first.sequence_id, appended.last.sequence_id, appended.count) == (0, 4, 5)
    assert contents(log) == [word.encode() for word in words]


def test_a_slice_of_an_arrow_array_is_its_values_alone(
    log: walkeeper.Log, writer: walkeeper.Writer, contents: Contents
) -> None:
    whole = pyarrow.array([b"%d" % number for number in range(10)])
    writer.append_many(whole[3:6])
    writer.append_many(whole[:1])
    writer.append_many(pyarrow.array([b"", b""]))
    assert contents(log) == [b"3", b"4", b"5", b"0", b"", b""]


def test_what_was_read_as_arrow_is_appended_as_it_is(
    log: walkeeper.Log, writer: walkeeper.Writer, contents: Contents
) -> None:
    writer.append_many([b"%d" % number * 100 for number in range(1000)])
    with log.reader() as reader:
        batch = reader.read_arrow(max_records=1000)
    assert batch is not None
    writer.append_many(batch["payload"][500:])
    assert contents(log)[1000:] == [b"%d" % number * 100 for number in range(500, 1000)]


def test_an_arrow_array_that_is_no_payloads_is_refused(
    log: walkeeper.Log, writer: walkeeper.Writer, contents: Contents
) -> None:
    with pytest.raises(walkeeper.InvalidError, match="1 of the payloads are null") as caught:
        writer.append_many(pyarrow.array([b"x", None]))
    assert caught.value.outcome == "not_written"
    with pytest.raises(TypeError, match="int64"):
        writer.append_many(pyarrow.array([1]))
    with pytest.raises(TypeError, match="struct"):
        writer.append_many(pyarrow.RecordBatch.from_pydict({"payload": [b"x"]}))
    with pytest.raises(walkeeper.InvalidError, match="nothing"):
        writer.append_many(pyarrow.array([], pyarrow.binary()))
    with pytest.raises(walkeeper.TooLargeError):
        writer.append_many(pyarrow.array([b"x", b"y" * 2_000_000]), atomic=True)
    assert contents(log) == []
