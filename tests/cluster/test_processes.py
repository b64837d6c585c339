"""Processes that fork, or end without closing; records that are accepted in part; ledgers that somebody deleted."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

import walkeeper
from walkeeper_bookie.cluster import LocalCluster


def payloads(log: walkeeper.Log) -> list[bytes]:
    return [bytes(record.payload) for record in log.reader()]


def test_a_forked_child_is_refused_and_disturbs_nobody(ns: walkeeper.Namespace) -> None:
    log = ns.log("orders")
    writer = log.writer()
    future = writer.submit(b"x")
    reader, cursor = log.reader(), log.cursor("billing")
    pid = os.fork()
    if pid == 0:
        wrong = 0
        calls: Any = (
            lambda: writer.append(b"y"),
            lambda: writer.append_many([b"y"]),
            lambda: writer.submit(b"y"),
            writer.flush,
            writer.mark_end_of_stream,
            reader.read,
            log.info,
            log.writer,
            ns.logs,
            lambda: cursor.position,
            lambda: log.cursor("mail"),
        )
        for call in calls:
            with contextlib.suppress(walkeeper.ForkedError):
                call()
                wrong += 1
        for close in (writer.close, reader.close, ns.close):
            close()
        del writer, reader
        os._exit(wrong)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert future.result(timeout=10).sequence_id == 0
    assert writer.append(b"z").sequence_id == 1
    writer.close()
    assert payloads(log) == [b"x", b"z"]


def test_a_process_that_ends_without_closing_keeps_what_was_accepted(shared_bookies: LocalCluster, name: str) -> None:
    script = (
        "import sys, walkeeper\n"
        "ns = walkeeper.open(sys.argv[1], namespace=sys.argv[2])\n"
        "writer = ns.log('orders', retention_seconds=60).writer(durability='deferred')\n"
        "reader = ns.log('orders').reader(follow=True)\n"
        "for number in range(100): writer.append(b'%d' % number)\n"
        "print(len(reader.read()) > 0, writer.submit(b'last') is not None)\n"
    )
    command = [sys.executable, "-c", script, shared_bookies.metadata, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("True True\n", "")
    with walkeeper.open(shared_bookies.metadata, namespace=name, create=False) as ns:
        log = ns.log("orders")
        assert len(payloads(log)) == 101
        assert all(segment.completed for segment in log.segments())


def test_a_batch_of_which_a_part_was_accepted_is_not_said_to_be_unwritten(
    ns: walkeeper.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segment is full in the middle of the batch, and no other can be had."""
    log = ns.log("orders", segment_bytes=3 * 2**20)
    writer: Any = log.writer()
    writer.append(b"first")

    def refused() -> int:
        raise walkeeper.UnavailableError("the metadata store does not answer", outcome="not_written")

    monkeypatch.setattr(writer._calls._namespace._ledgers, "next_id", refused)
    with pytest.raises(walkeeper.UnavailableError) as caught:
        writer.append_many([b"x" * 2**19] * 20)
    assert (caught.value.outcome, caught.value.sequence_id) == ("unknown", 1)
    with pytest.raises(walkeeper.UnavailableError) as alone:
        writer.append(b"late")
    assert alone.value.outcome == "not_written"
    monkeypatch.undo()
    accepted = writer.next_sequence_id - 1
    assert 0 < accepted < 20
    writer.append(b"last")
    writer.close()
    assert payloads(log) == [b"first"] + [b"x" * 2**19] * accepted + [b"last"]


def test_a_takeover_does_not_pass_over_records_whose_ledger_somebody_deleted(
    shared_bookies: LocalCluster, ns: walkeeper.Namespace, name: str
) -> None:
    log = ns.log("orders")
    with walkeeper.open(shared_bookies.metadata, namespace=name) as other:
        writer = other.log("orders").writer()
        writer.append(b"acknowledged")
        with walkeeper.LedgerClient(shared_bookies.metadata) as client:
            client.delete(other.log("orders").segments()[0].ledger_id)
        with pytest.raises(walkeeper.DamagedError, match="was deleted by somebody") as caught:
            log.writer()
        assert caught.value.sequence_id == 0
        ns.delete_log("orders")
    with ns.log("orders").writer() as anew:
        assert anew.append(b"anew").sequence_id == 0


def test_another_password_neither_reads_nor_takes_over(
    shared_bookies: LocalCluster, ns: walkeeper.Namespace, name: str
) -> None:
    with walkeeper.open(shared_bookies.metadata, namespace=name, password=b"secret") as owner:
        writer = owner.log("orders").writer()
        writer.append(b"x")
        with pytest.raises(walkeeper.UnauthorizedError):
            ns.log("orders").reader().read()
        with pytest.raises(walkeeper.UnauthorizedError):
            ns.log("orders").writer()
        with owner.log("orders").writer() as newer:
            assert newer.append(b"y").sequence_id == 1
        assert payloads(owner.log("orders")) == [b"x", b"y"]


def test_a_future_of_a_fenced_writer_knows_that_its_record_is_not_written(
    shared_bookies: LocalCluster, ns: walkeeper.Namespace, name: str
) -> None:
    with walkeeper.open(shared_bookies.metadata, namespace=name) as other:
        old = other.log("orders").writer()
        old.append(b"old")
        with ns.log("orders").writer() as newer:
            future = old.submit(b"late")
            error = future.exception(timeout=30)
            assert isinstance(error, walkeeper.FencedError)
            assert (error.outcome, error.sequence_id) == ("not_written", 1)
            assert newer.append(b"new").sequence_id == 1


def test_clients_that_fence_one_another_lose_no_acknowledged_record(
    shared_bookies: LocalCluster, ns: walkeeper.Namespace, name: str
) -> None:
    """Each has connections, and a view of the log, of its own, as processes have."""
    acknowledged: dict[int, bytes] = {}
    wrong: list[object] = []

    def fight(client: int) -> None:
        with walkeeper.open(shared_bookies.metadata, namespace=name) as own:
            log = own.log("orders", segment_bytes=200)
            for turn in range(8):
                writer = log.writer()
                with contextlib.suppress(walkeeper.FencedError):
                    for number in range(10):
                        payload = b"%d %d %d %s" % (client, turn, number, b"." * 40)
                        at = writer.append(payload)
                        if acknowledged.setdefault(at.sequence_id, payload) is not payload:
                            wrong.append(at)
                with contextlib.suppress(walkeeper.FencedError):
                    writer.close()

    threads = [threading.Thread(target=fight, args=[client]) for client in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log: Any = ns.log("orders")
    log.writer().close()
    found = payloads(log)
    assert not wrong
    assert len(set(found)) == len(found)
    assert {number: found[number] for number in acknowledged} == acknowledged
    document = ns._store.read(log._log_id)[0]  # type: ignore[attr-defined]
    with walkeeper.LedgerClient(shared_bookies.metadata) as client:
        made = {
            ledger_id
            for ledger_id in client.list()
            if client.metadata(ledger_id).custom_metadata.get("walkeeper.log") == log._log_id.encode()
        }
    assert made == {segment.ledger_id for segment in document.segments}


def test_another_namespace_of_the_process_reads_a_record_as_soon_as_it_is_acknowledged(
    shared_bookies: LocalCluster, ns: walkeeper.Namespace, name: str
) -> None:
    with ns.log("orders").writer() as writer, walkeeper.open(shared_bookies.metadata, namespace=name) as other:
        log = other.log("orders")
        for number in range(20):
            writer.append(b"%d" % number)
            assert log.count() == number + 1


def test_a_child_reads_what_the_parent_wrote_since_the_fork(
    shared_bookies: LocalCluster, ns: walkeeper.Namespace, name: str
) -> None:
    """The child has a copy of the parent's writer, which learns of nothing any more."""
    with ns.log("orders").writer() as writer:
        writer.append(b"before")
        written, told = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.read(written, 1)
            with walkeeper.open(shared_bookies.metadata, namespace=name) as own:
                found = payloads(own.log("orders"))
            os._exit(0 if found[:2] == [b"before", b"since"] else 1)
        writer.append(b"since")
        writer.append(b"last")  # tells the bookies that the one before is confirmed
        os.write(told, b"x")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
