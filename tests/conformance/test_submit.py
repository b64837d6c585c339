"""submit and flush: records in flight, futures, room."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import walkeeper

Contents = Callable[..., list[bytes]]
Open = Callable[..., walkeeper.Namespace]


def test_a_future_is_done_when_its_record_is_durable(
    log: walkeeper.Log, writer: walkeeper.Writer, contents: Contents
) -> None:
    position = writer.submit(b"x").result(timeout=10)
    assert position.sequence_id == 0
    assert contents(log) == [b"x"]


def test_futures_complete_in_order(log: walkeeper.Log, writer: walkeeper.Writer, contents: Contents) -> None:
    futures = [writer.submit(b"%d" % number) for number in range(500)]
    futures[-1].result(timeout=10)
    assert all(future.done() for future in futures)
    assert [future.result().sequence_id for future in futures] == list(range(500))
    assert contents(log) == [b"%d" % number for number in range(500)]


def test_positions_of_futures_are_where_the_records_are(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    positions = [future.result(timeout=10) for future in [writer.submit(b"x") for _ in range(50)]]
    found = [record.position for record in log.reader()]
    assert positions == found
    assert [position.txid for position in positions] == [position.txid for position in found]


def test_a_deferred_submit_completes_too(writer: walkeeper.Writer) -> None:
    assert writer.submit(b"x", durability="deferred").result(timeout=10).sequence_id == 0


def test_flush_waits_for_what_was_submitted(log: walkeeper.Log, writer: walkeeper.Writer, contents: Contents) -> None:
    for number in range(200):
        writer.submit(b"%d" % number)
    assert writer.flush().sequence_id == 200
    assert len(contents(log)) == 200


def test_flush_of_nothing_returns_where_the_log_ends(writer: walkeeper.Writer) -> None:
    assert writer.flush().sequence_id == 0


def test_a_future_cannot_be_cancelled(writer: walkeeper.Writer) -> None:
    future = writer.submit(b"x")
    assert not future.cancel()
    assert future.result(timeout=10).sequence_id == 0


def test_a_thread_that_ends_after_submit_cancels_nothing(
    log: walkeeper.Log, writer: walkeeper.Writer, contents: Contents
) -> None:
    """Storage rule 29."""
    futures: list[object] = []
    thread = threading.Thread(target=lambda: futures.extend(writer.submit(b"%d" % number) for number in range(100)))
    thread.start()
    thread.join()
    writer.flush()
    assert len(contents(log)) == 100


def test_a_refused_record_is_refused_at_once(log: walkeeper.Log, writer: walkeeper.Writer) -> None:
    writer.submit(b"x", txid=5)
    with pytest.raises(walkeeper.TxidError):
        writer.submit(b"y", txid=4)
    writer.flush()
    assert log.count() == 1


def fill(writer: walkeeper.Writer) -> None:
    """Submits more than a disk takes at once, without waiting for room."""
    for _ in range(1000):
        writer.submit(b"x" * 50_000, timeout=0)


@pytest.mark.directory
def test_without_room_it_waits_and_with_timeout_0_it_says_so(open: Open) -> None:
    ns = open(in_flight_bytes=256 * 1024)
    with ns.log("orders").writer() as writer:
        with pytest.raises(walkeeper.WouldBlockError) as caught:
            fill(writer)
        assert caught.value.outcome == "not_written"
        accepted = writer.next_sequence_id
        assert writer.submit(b"y" * 50_000).result(timeout=10).sequence_id == accepted


def test_closing_the_namespace_completes_the_futures(open: Open) -> None:
    ns = open()
    writer = ns.log("orders").writer()
    futures = [writer.submit(b"x") for _ in range(100)]
    ns.close()
    assert [future.result(timeout=0).sequence_id for future in futures] == list(range(100))
