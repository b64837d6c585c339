"""Appending: what a position says, what is refused, and that nothing refused leaves a trace."""

from __future__ import annotations

import array
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import walkeeper

Contents = Callable[..., list[bytes]]
Open = Callable[..., walkeeper.Namespace]

RECORD_MAX = 1024 * 1024 - 8 * 1024 - 20  # a record with its head of 20 bytes


def test_a_record_can_be_read_when_append_returns(
    log: walkeeper.Log, writer: walkeeper.Writer, contents: Contents
) -> None:
    writer.append(b"paid 42")
    assert contents(log) == [b"paid 42"]


def test_sequence_ids_are_dense_from_0(writer: walkeeper.Writer) -> None:
    assert [writer.append(b"x").sequence_id for _ in range(5)] == [0, 1, 2, 3, 4]
    assert writer.next_sequence_id == 5


def test_positions_rise(writer: walkeeper.Writer) -> None:
    positions = [writer.append(b"x") for _ in range(5)]
    assert positions == sorted(positions)
    assert len({position.dlsn for position in positions}) == 5


def test_the_first_record_is_in_segment_1_entry_0_slot_0(writer: walkeeper.Writer) -> None:
    assert writer.append(b"x").dlsn == walkeeper.DLSN(1, 0, 0)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\0",
        bytearray(b"mutable"),
        memoryview(b"view")[1:],
        array.array("q", [1, -1]),
        memoryview(b"abcdef").cast("H"),
    ],
    ids=["empty", "NUL", "bytearray", "memoryview", "array", "words"],
)
def test_any_buffer_is_a_payload(
    log: walkeeper.Log, writer: walkeeper.Writer, contents: Contents, payload: bytes
) -> None:
    writer.append(payload)
    assert contents(log) == [bytes(payload)]


@pytest.mark.parametrize("payload", ["text", 42, None, [b"x"]], ids=repr)
def test_what_is_no_buffer_is_a_type_error(log: walkeeper.Log, writer: walkeeper.Writer, payload: object) -> None:
    with pytest.raises(TypeError):
        writer.append(payload)  # type: ignore[arg-type]
    assert log.count() == 0


def test_the_largest_record_is_taken_and_one_byte_more_refused(
    log: walkeeper.Log, writer: walkeeper.Writer, contents: Contents
) -> None:
    """Storage rule 2: what is too large is refused before anything is written."""
    largest = bytes(range(256)) * (RECORD_MAX // 256) + b"." * (RECORD_MAX % 256)
    writer.append(largest)
    with pytest.raises(walkeeper.TooLargeError) as caught:
        writer.append(largest + b"!")
    assert caught.value.outcome == "not_written"
    assert contents(log) == [largest]


def test_a_payload_may_change_after_append(log: walkeeper.Log, writer: walkeeper.Writer, contents: Contents) -> None:
    payload = bytearray(b"before")
    writer.append(payload)
    payload[:] = b"after."
    assert contents(log) == [b"before"]


# Txids


def test_the_application_numbers_its_records(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    assert [writer.append(b"x", txid=txid).txid for txid in (0, 7, 7, 100)] == [0, 7, 7, 100]
    assert log.info().txid_source == "application"


def test_a_txid_does_not_go_back(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    writer.append(b"x", txid=7)
    with pytest.raises(walkeeper.TxidError) as caught:
        writer.append(b"y", txid=6)
    assert caught.value.outcome == "not_written"
    assert writer.append(b"z", txid=7).sequence_id == 1


def test_the_clock_numbers_in_milliseconds_and_never_falls(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    before = time.time_ns() // 1_000_000
    txids = [writer.append(b"x").txid for _ in range(20)]
    after = time.time_ns() // 1_000_000
    assert txids == sorted(txids)
    assert before <= txids[0] <= txids[-1] <= after
    assert log.info().txid_source == "clock"


def test_the_sources_of_txids_do_not_mix(ns: walkeeper.Namespace) -> None:
    with ns.log("clock").writer() as writer:
        writer.append(b"x")
        with pytest.raises(walkeeper.TxidError):
            writer.append(b"y", txid=2**50)
    with ns.log("application").writer() as writer:
        writer.append(b"x", txid=1)
        with pytest.raises(walkeeper.TxidError):
            writer.append(b"y")


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout": -1},
        {"timeout": "5"},
        {"timeout": float("nan")},
        {"timeout": True},
        {"durability": "async"},
        {"expected": -1},
        {"expected": True},
        {"expected": False},
    ],
    ids=str,
)
def test_an_argument_that_cannot_be_is_refused_before_anything_is_written(
    log: walkeeper.Log, writer: walkeeper.Writer, wrong: dict[str, Any]
) -> None:
    for call in (writer.append, writer.submit, lambda payload, **options: writer.append_many([payload], **options)):
        with pytest.raises(walkeeper.InvalidError, match=f"{next(iter(wrong))}=") as caught:
            call(b"x", **wrong)
        assert caught.value.outcome == "not_written"
    assert log.count() == 0


@pytest.mark.parametrize("txid", [-1, True, "7"], ids=str)
def test_a_txid_that_is_no_whole_number_from_0_is_refused(writer: walkeeper.Writer, txid: Any) -> None:
    with pytest.raises(walkeeper.InvalidError, match="txid=") as caught:
        writer.append(b"x", txid=txid)
    assert caught.value.outcome == "not_written"


# expected=


def test_expected_is_the_id_it_gets(writer: walkeeper.Writer) -> None:
    assert writer.append(b"x", expected=0).sequence_id == 0
    assert writer.append(b"y", expected=1).sequence_id == 1


def test_a_retry_is_told_of_the_record_that_sits_there(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    writer.append(b"x", txid=5, expected=0)
    with pytest.raises(walkeeper.SequenceMismatchError) as caught:
        writer.append(b"x", txid=5, expected=0)
    error = caught.value
    assert (error.sequence_id, error.txid, error.outcome) == (0, 5, "not_written")
    assert log.count() == 1


def test_an_id_beyond_the_end_is_told_the_next_one(writer: walkeeper.Writer) -> None:
    writer.append(b"x")
    with pytest.raises(walkeeper.SequenceMismatchError) as caught:
        writer.append(b"y", expected=9)
    assert caught.value.sequence_id == 1
    assert writer.append(b"y", expected=1).sequence_id == 1


# Durability, the end, closing


def test_a_deferred_record_is_durable_after_flush(
    log: walkeeper.Log, writer: walkeeper.Writer, contents: Contents
) -> None:
    writer.append(b"later", durability="deferred")
    behind = writer.flush()
    assert behind.sequence_id == 1
    assert contents(log) == [b"later"]


def test_a_sync_append_makes_the_deferred_ones_before_it_durable(
    log: walkeeper.Log, writer: walkeeper.Writer, contents: Contents
) -> None:
    writer.append(b"a", durability="deferred")
    writer.append(b"b", durability="sync")
    assert contents(log) == [b"a", b"b"]


def test_a_deferred_record_is_durable_by_itself(log: walkeeper.Log) -> None:
    with log.writer(durability="deferred") as writer, log.reader(follow=True, timeout=10) as reader:
        writer.append(b"later")
        assert bytes(next(reader).payload) == b"later"  # type: ignore[union-attr]


@pytest.mark.directory
def test_deferred_records_that_fill_the_window_make_room_by_themselves(open: Open, contents: Contents) -> None:
    log = open(in_flight_bytes=256 * 1024).log("orders")
    with log.writer(durability="deferred") as writer:
        for _ in range(20):
            writer.append(b"x" * 50_000, timeout=5)
    assert len(contents(log)) == 20


def test_closing_makes_deferred_records_durable(log: walkeeper.Log, contents: Contents) -> None:
    with log.writer(durability="deferred") as writer:
        for number in range(10):
            writer.append(b"%d" % number)
    assert len(contents(log)) == 10


def test_nothing_follows_the_end_of_the_stream(
    log: walkeeper.Log, writer: walkeeper.Writer, contents: Contents
) -> None:
    writer.append(b"last")
    writer.mark_end_of_stream()
    with pytest.raises(walkeeper.EndOfStreamError) as caught:
        writer.append(b"more")
    assert caught.value.outcome == "not_written"
    assert contents(log) == [b"last"]
    assert log.info().end_of_stream


def test_a_closed_writer_refuses(log: walkeeper.Log) -> None:
    writer = log.writer()
    writer.close()
    writer.close()
    assert writer.closed
    for call in (
        lambda: writer.append(b"x"),
        lambda: writer.append_many([b"x"]),
        lambda: writer.submit(b"x"),
        writer.flush,
    ):
        with pytest.raises(walkeeper.ClosedError):
            call()
    assert log.count() == 0


def test_a_writer_that_wrote_nothing_leaves_no_trace(log: walkeeper.Log) -> None:
    with log.writer():
        pass
    assert log.segments() == []
    assert log.last() is None


def test_threads_share_a_writer(log: walkeeper.Log, writer: walkeeper.Writer, contents: Contents) -> None:
    def append(name: int) -> list[int]:
        return [writer.append(b"%d:%d" % (name, number)).sequence_id for number in range(50)]

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(append, range(8)))
    assert sorted(number for one in ids for number in one) == list(range(400))
    assert all(one == sorted(one) for one in ids)
    payloads = contents(log)
    for name, one in enumerate(ids):
        assert [payloads[number] for number in one] == [b"%d:%d" % (name, number) for number in range(50)]


@pytest.mark.parametrize("numbers", [{"txid": 2**63}, {"expected": 2**63}, {"txid": 1.5}, {"expected": "1"}], ids=str)
def test_a_number_that_no_record_can_have_is_refused(writer: walkeeper.Writer, numbers: dict[str, Any]) -> None:
    with pytest.raises(walkeeper.InvalidError) as caught:
        writer.append(b"x", **numbers)
    assert caught.value.outcome == "not_written"
    assert writer.append(b"x").sequence_id == 0


def test_a_str_is_no_payload(writer: walkeeper.Writer) -> None:
    for append in (writer.append, writer.submit):
        with pytest.raises(TypeError, match="bytes-like object, not str"):
            append("paid 42")  # type: ignore[arg-type]
    assert writer.append(b"x").sequence_id == 0


@pytest.mark.parametrize("way", ["append", "submit", "append_many"])
def test_a_view_with_holes_is_refused_with_what_to_do(writer: walkeeper.Writer, way: str) -> None:
    holes, released = memoryview(b"0123456789")[::2], memoryview(b"x")
    released.release()
    for payload in (holes, released):
        with pytest.raises(walkeeper.InvalidError, match=r"append bytes\(view\)$") as caught:
            getattr(writer, way)([b"x", payload] if way == "append_many" else payload)
        assert caught.value.outcome == "not_written"
    assert writer.append(bytes(holes)).sequence_id == 0
