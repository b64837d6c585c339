"""What was acknowledged is there after a restart; a namespace that is closed refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import walkeeper

Contents = Callable[..., list[bytes]]
Open = Callable[..., walkeeper.Namespace]


def test_records_survive(open: Open, contents: Contents) -> None:
    with open() as ns, ns.log("orders").writer() as writer:
        positions = [writer.append(b"%d" % number, txid=number) for number in range(20)]
    log = open().log("orders")
    assert contents(log) == [b"%d" % number for number in range(20)]
    assert [record.position for record in log.reader()] == positions
    assert log.count() == 20


def test_numbers_go_on(open: Open) -> None:
    for number in range(5):
        with open() as ns, ns.log("orders").writer() as writer:
            assert writer.append(b"x", txid=100 + number).sequence_id == number


def test_txids_do_not_fall_after_a_restart(open: Open) -> None:
    with open() as ns, ns.log("orders").writer() as writer:
        writer.append(b"x", txid=100)
    with open().log("orders").writer() as writer:
        with pytest.raises(walkeeper.TxidError):
            writer.append(b"y", txid=99)
        assert writer.append(b"y", txid=100).sequence_id == 1


def test_the_end_of_the_stream_survives(open: Open) -> None:
    with open() as ns, ns.log("orders").writer() as writer:
        writer.append(b"last")
        writer.mark_end_of_stream()
    log = open().log("orders")
    assert log.info().end_of_stream
    with pytest.raises(walkeeper.EndOfStreamError), log.writer() as writer:
        writer.append(b"more")


def test_much_survives(open: Open, contents: Contents) -> None:
    payloads = [bytes([number % 251]) * (number % 5000) for number in range(4000)]  # 10 MB: several files
    with open() as ns, ns.log("orders").writer() as writer:
        for start in range(0, 4000, 500):
            writer.append_many(payloads[start : start + 500])
    assert contents(open().log("orders")) == payloads


def test_segments_roll_by_size(open: Open, contents: Contents) -> None:
    with open() as ns:
        log = ns.log("orders", segment_bytes=100_000)
        with log.writer() as writer:
            for _ in range(50):
                writer.append(b"x" * 10_000)
    log = open().log("orders")
    segments = log.segments()
    assert 4 <= len(segments) <= 7
    assert [segment.segment for segment in segments] == list(range(1, len(segments) + 1))
    assert sum(segment.records_count for segment in segments) == 50
    assert sum(segment.payload_bytes for segment in segments) >= 500_000
    assert all(segment.completed for segment in segments[:-1])
    assert len(contents(log)) == 50


def test_without_create_a_namespace_must_be_there(open: Open) -> None:
    with pytest.raises(walkeeper.NotFoundError):
        open(create=False)
    open().close()
    open(create=False)


def test_a_closed_namespace_refuses(open: Open) -> None:
    ns = open()
    log = ns.log("orders")
    writer = log.writer()
    ns.close()
    ns.close()
    assert ns.closed
    for call in (
        ns.logs,
        ns.stats,
        lambda: ns.log("x"),
        log.count,
        log.writer,
        log.reader,
        lambda: writer.append(b"x"),
    ):
        with pytest.raises(walkeeper.ClosedError):
            call()
    writer.close()


def test_opened_twice_it_is_one_namespace(open: Open, contents: Contents) -> None:
    one, two = open(), open()
    with one.log("orders").writer() as writer:
        writer.append(b"x")
        assert contents(two.log("orders")) == [b"x"]
        one.close()
    with two.log("orders").writer() as writer:
        assert writer.append(b"y").sequence_id == 1


def test_read_only_reads_and_does_not_write(open: Open, contents: Contents) -> None:
    with open() as ns, ns.log("orders").writer() as writer:
        writer.append(b"x")
    ns = open(read_only=True)
    assert ns.read_only
    log = ns.log("orders", create=False)
    assert contents(log) == [b"x"]
    for call in (
        log.writer,
        lambda: log.truncate(log.info().next),
        lambda: ns.delete_log("orders"),
    ):
        with pytest.raises(walkeeper.ReadOnlyError):
            call()
    with pytest.raises(walkeeper.LogNotFoundError):
        ns.log("new")
    assert ns.logs() == ["orders"]


@pytest.mark.directory
def test_stats_count(ns: walkeeper.Namespace) -> None:
    with ns.log("orders").writer() as writer:
        writer.append_many([b"x" * 100] * 10)
    stats = ns.stats()
    assert (stats.logs_count, stats.appended_records, stats.appended_bytes) == (1, 10, 1000)
    assert stats.written_bytes >= 1000
    assert stats.disk_bytes > 0
    assert not stats.failed
    assert not stats.disk_full
