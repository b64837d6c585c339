"""A ledger whose writer is gone, or is taken for gone: its end is found, and nothing that was promised is missing."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace

import pytest
from ledger_runs import contents, payload, writer_process

import walkeeper
from walkeeper.metadata import LedgerState
from walkeeper_bookie.cluster import LocalCluster


@pytest.mark.parametrize("count", [0, 1, 100])
def test_what_a_killed_writer_was_told_is_there(
    client: walkeeper.LedgerClient, shared_cluster: LocalCluster, count: int
) -> None:
    with writer_process(shared_cluster.metadata) as writer:
        writer.wait(count)
        writer.kill()
        found = contents(client, writer.ledger_id)
    assert len(found) >= writer.acknowledged >= count
    assert found == [payload(number) for number in range(len(found))]
    assert client.metadata(writer.ledger_id).last_entry_id == len(found) - 1
    assert contents(client, writer.ledger_id) == found  # it is closed now


def test_a_writer_that_was_only_paused_is_fenced(client: walkeeper.LedgerClient, shared_cluster: LocalCluster) -> None:
    with writer_process(shared_cluster.metadata) as writer:
        writer.wait(20)
        os.kill(writer.process.pid, signal.SIGSTOP)
        found = contents(client, writer.ledger_id)
        before = client.metadata(writer.ledger_id)
        os.kill(writer.process.pid, signal.SIGCONT)
        said = writer.rest()
    assert said[0] == "FencedError unknown"
    assert said[1] in ("closed", "FencedError")  # as its entry in flight was kept or not
    assert client.metadata(writer.ledger_id) == before
    assert 20 <= writer.acknowledged <= len(found)


def test_the_first_writer_in_the_same_process_is_fenced(
    client: walkeeper.LedgerClient, other: walkeeper.LedgerClient
) -> None:
    writer = client.create()
    writer.add(b"paid 42")
    with other.open(writer.ledger_id) as reader:
        assert [entry.payload for entry in reader.read()] == [b"paid 42"]
        with pytest.raises(walkeeper.FencedError) as caught:
            writer.add(b"paid 43")
        assert (caught.value.outcome, caught.value.entry_id) == ("unknown", 1)
        assert (caught.value.ledger_id, "create another" in str(caught.value.hint)) == (writer.ledger_id, True)
        for call in (lambda: writer.add(b"x"), lambda: writer.submit(b"x"), lambda: writer.add_many([b"x"])):
            with pytest.raises(walkeeper.FencedError) as again:
                call()
            assert (again.value.outcome, again.value.entry_id) == ("not_written", None)
        writer.close()  # the recovery ended where this writer's last confirmed entry is
        assert writer.metadata == other.metadata(writer.ledger_id)
        assert [entry.payload for entry in reader.read()] == [b"paid 42"]


def test_a_submitted_entry_of_a_fenced_writer_is_of_unknown_outcome(
    client: walkeeper.LedgerClient, other: walkeeper.LedgerClient
) -> None:
    writer = client.create()
    other.open(writer.ledger_id).close()
    error = writer.submit(b"x").exception(60)
    assert isinstance(error, walkeeper.FencedError)
    assert (error.outcome, error.entry_id) == ("unknown", 0)
    writer.close()


@pytest.mark.parametrize("time", range(10))
def test_two_who_recover_at_once_agree(
    client: walkeeper.LedgerClient, other: walkeeper.LedgerClient, time: int
) -> None:
    writer = client.create()
    writer.add_many([b"entry %d" % number for number in range(30)])
    for number in range(30, 30 + 5 * time):
        writer.submit(b"entry %d" % number)
    ends: list[tuple[int, int | None]] = []
    barrier = threading.Barrier(2)

    def recover(by: walkeeper.LedgerClient) -> None:
        barrier.wait()
        with by.open(writer.ledger_id) as reader:
            ends.append((reader.lac, reader.length))

    threads = [threading.Thread(target=recover, args=(by,)) for by in (client, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = client.metadata(writer.ledger_id)
    assert ends == [(found.last_entry_id, found.length)] * 2
    assert found.last_entry_id >= 29


def test_a_recovery_that_was_given_up_is_done_by_the_next(client: walkeeper.LedgerClient) -> None:
    """Of the first one its mark in the metadata is left, and perhaps fences."""
    writer = client.create()
    writer.add(b"paid 42")
    ledgers = client._cluster.ledgers
    found = ledgers.read(writer.ledger_id)
    assert found is not None
    ledgers.write(writer.ledger_id, replace(found.value, state=LedgerState.IN_RECOVERY), found.version)
    assert contents(client, writer.ledger_id) == [b"paid 42"]


def test_a_ledger_that_is_opened_twice_is_the_same(
    client: walkeeper.LedgerClient, other: walkeeper.LedgerClient
) -> None:
    with client.create() as writer:
        writer.add_many([b"0", b"1"])
    with client.open(writer.ledger_id) as first, other.open(writer.ledger_id) as second:
        assert list(first.read()) == list(second.read())


def test_what_was_only_on_its_way_may_be_kept_and_is_then_kept_for_ever(
    client: walkeeper.LedgerClient, other: walkeeper.LedgerClient
) -> None:
    writer = client.create()
    futures = [writer.submit(b"entry %d" % number) for number in range(500)]
    found = contents(other, writer.ledger_id)
    told = sum(future.exception(60) is None for future in futures)
    assert told <= len(found)
    assert contents(other, writer.ledger_id) == found == [b"entry %d" % number for number in range(len(found))]
