"""A ledger is created, added to, closed and read back, in all shapes that three bookies allow."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from ledger_runs import contents
from metadata.stores import until

import walkeeper
from walkeeper.metadata import LedgerState
from walkeeper_bookie.cluster import LocalCluster

PAYLOADS = [b"paid 42", b"", bytes(range(256)) * 40, b"sent 7"]
SHAPES = [(1, 1, 1), (2, 2, 2), (3, 1, 1), (3, 2, 1), (3, 2, 2), (3, 3, 1), (3, 3, 2), (3, 3, 3)]


@pytest.mark.parametrize("digest", ["crc32c", "crc32", "hmac", "none"])
def test_what_is_added_is_read_back(client: walkeeper.LedgerClient, digest: Any) -> None:
    with client.create(digest=digest, password=b"secret") as writer:
        assert [writer.add(payload) for payload in PAYLOADS] == [0, 1, 2, 3]
        assert (writer.lac, writer.length, writer.last_add_pushed) == (3, sum(map(len, PAYLOADS)), 3)
        assert [entry.payload for entry in writer.read()] == PAYLOADS
    assert writer.closed
    assert contents(client, writer.ledger_id, password=b"secret") == PAYLOADS


@pytest.mark.parametrize(("ensemble", "write", "ack"), SHAPES)
def test_every_shape_holds_what_was_added(client: walkeeper.LedgerClient, ensemble: int, write: int, ack: int) -> None:
    many = [b"entry %d" % number for number in range(50)]
    with client.create(ensemble_size=ensemble, write_quorum=write, ack_quorum=ack) as writer:
        for payload in many:
            writer.add(payload)
    found = client.metadata(writer.ledger_id)
    assert (found.ensemble_size, found.write_quorum, found.ack_quorum) == (ensemble, write, ack)
    assert len(set(found.segments[0])) == ensemble
    assert contents(client, writer.ledger_id) == many


def test_the_metadata_say_what_became_of_the_ledger(client: walkeeper.LedgerClient) -> None:
    writer = client.create(password=b"secret", custom_metadata={"owner": b"tests"}, digest="crc32")
    before = client.metadata(writer.ledger_id)
    assert (before.state, before.last_entry_id, before.length) == (LedgerState.OPEN, -1, 0)
    assert (before.password, dict(before.custom_metadata)) == (b"secret", {"owner": b"tests"})
    writer.add(b"paid 42")
    writer.close()
    after = client.metadata(writer.ledger_id)
    assert (after.state, after.last_entry_id, after.length) == (LedgerState.CLOSED, 0, 7)
    assert after == writer.metadata


def test_an_empty_ledger_has_no_entry(client: walkeeper.LedgerClient) -> None:
    with client.create() as writer:
        assert (writer.lac, writer.length, writer.last_add_pushed, writer.flush()) == (-1, 0, -1, -1)
        assert list(writer.read()) == []
    with client.open(writer.ledger_id) as reader:
        assert (reader.lac, reader.length, list(reader.read()), reader.read_last_confirmed()) == (-1, 0, [], -1)


def test_any_buffer_is_a_payload(client: walkeeper.LedgerClient) -> None:
    buffers = [bytearray(b"paid 42"), memoryview(b"paid 42")[1:3], memoryview(bytearray(8)).cast("I")]
    with client.create() as writer:
        for buffer in buffers:
            writer.add(buffer)
        writer.add_many(buffers)
        writer.submit(buffers[0]).result()
    once = [bytes(buffer) for buffer in buffers]
    assert contents(client, writer.ledger_id) == [*once, *once, once[0]]


def test_what_is_no_buffer_is_refused(client: walkeeper.LedgerClient) -> None:
    with client.create() as writer:
        for call in (writer.add, writer.submit, lambda text: writer.add_many([text])):
            with pytest.raises(TypeError, match="bytes-like"):
                call("text")  # type: ignore[arg-type]
        assert writer.last_add_pushed == -1


def test_an_entry_may_be_as_large_as_a_frame_and_no_larger(client: walkeeper.LedgerClient) -> None:
    largest = bytes(5 * 1024 * 1024 - 512)
    with client.create() as writer:
        writer.add(largest)
        for call in (writer.add, writer.submit, lambda data: writer.add_many([data])):
            with pytest.raises(walkeeper.TooLargeError) as caught:
                call(largest + b"x")
            assert caught.value.outcome == "not_written"
        assert writer.add(b"paid 42") == 1  # it is as good as before
    assert contents(client, writer.ledger_id) == [largest, b"paid 42"]


def test_add_many_gives_consecutive_ids(client: walkeeper.LedgerClient) -> None:
    with client.create() as writer:
        writer.add(b"first")
        assert writer.add_many(b"entry %d" % number for number in range(1000)) == range(1, 1001)
        assert writer.add_many([]) == range(0)
        assert (writer.lac, writer.add(b"last")) == (1000, 1001)
    assert len(contents(client, writer.ledger_id)) == 1002


def test_threads_get_ids_of_their_own(client: walkeeper.LedgerClient) -> None:
    with client.create() as writer:
        found: list[tuple[int, bytes]] = []

        def add(name: int) -> None:
            for number in range(50):
                payload = b"%d of thread %d" % (number, name)
                found.append((writer.add(payload), payload))

        threads = [threading.Thread(target=add, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [payload for _, payload in sorted(found)] == contents(client, writer.ledger_id)


# ---- reading ----


def test_a_part_is_read_and_the_lac_is_the_limit(client: walkeeper.LedgerClient) -> None:
    with client.create() as writer:
        writer.add_many([b"0", b"1", b"2"])
    with client.open(writer.ledger_id) as reader:
        assert [entry.entry_id for entry in reader.read(1)] == [1, 2]
        assert [entry.entry_id for entry in reader.read(1, 1)] == [1]
        assert list(reader.read(3)) == []
        for first, last in ((0, 3), (4, None), (3, 3)):
            with pytest.raises(walkeeper.InvalidError, match="last confirmed entry is 2"):
                reader.read(first, last)
        for first, last in ((-1, None), (0, -1), (True, None)):
            with pytest.raises(walkeeper.InvalidError):
                reader.read(first, last)


@pytest.mark.parametrize("max_bytes", [0, 1, 100, 1 << 20])
def test_steps_of_any_size_bring_the_same(client: walkeeper.LedgerClient, max_bytes: int) -> None:
    many = [bytes(number % 97) for number in range(300)]
    with client.create() as writer:
        writer.add_many(many)
    with client.open(writer.ledger_id) as reader:
        assert [entry.payload for entry in reader.read(max_bytes=max_bytes)] == many


def test_an_entry_says_where_it_stands(client: walkeeper.LedgerClient) -> None:
    with client.create() as writer:
        writer.add(b"one")
        writer.add(b"two")
        first, second = writer.read()
    assert (first.ledger_id, first.entry_id, first.lac, first.length) == (writer.ledger_id, 0, -1, 3)
    assert (second.entry_id, second.lac, second.length) == (1, 0, 6)
    with pytest.raises(AttributeError):
        first.payload = b"x"  # type: ignore[misc]


def test_a_reader_beside_the_writer_sees_what_is_confirmed(
    client: walkeeper.LedgerClient, other: walkeeper.LedgerClient
) -> None:
    with client.create() as writer, other.open_no_recovery(writer.ledger_id) as reader:
        assert (reader.lac, reader.length, list(reader.read())) == (-1, None, [])
        for number in range(10):
            writer.add(b"entry %d" % number)
        assert reader.read_last_confirmed() >= 8  # entry 9 said that 8 was confirmed
        assert [entry.entry_id for entry in reader.read_unconfirmed(8, 9)] == [8, 9]
        until(lambda: reader.read_last_confirmed() == 9, "the writer, idle, does not tell its LAC")
        assert [entry.entry_id for entry in reader.read()] == list(range(10))
        assert [entry.entry_id for entry in reader.read_unconfirmed(9)] == [9]
        with pytest.raises(walkeeper.NotFoundError) as caught:
            list(reader.read_unconfirmed(9, 10))
        assert caught.value.entry_id == 10
        writer.add(b"entry 10")  # it was not fenced
        writer.close()
        assert (reader.read_last_confirmed(), reader.lac, reader.length) == (10, 10, 78)
        assert reader.metadata.is_closed
        assert len(list(reader.read())) == 11


def test_who_opens_without_recovery_begins_at_the_lac(
    client: walkeeper.LedgerClient, other: walkeeper.LedgerClient
) -> None:
    with client.create() as writer:
        writer.add_many([b"0", b"1", b"2"])
        writer.add(b"3")
        with other.open_no_recovery(writer.ledger_id) as reader:
            assert reader.lac in (2, 3)  # by the entry 3, or by the writer, which was idle for a moment


def test_a_closed_handle_says_so(client: walkeeper.LedgerClient) -> None:
    writer = client.create()
    writer.add(b"paid 42")
    writer.close()
    writer.close()
    reader = client.open(writer.ledger_id)
    reader.close()
    reader.close()
    for call in (
        lambda: writer.add(b"x"),
        lambda: writer.submit(b"x"),
        lambda: writer.add_many([b"x"]),
        writer.flush,
        lambda: list(writer.read()),
        lambda: list(reader.read()),
        lambda: list(reader.read_unconfirmed(0)),
        reader.read_last_confirmed,
    ):
        with pytest.raises(walkeeper.ClosedError) as caught:
            call()
        assert caught.value.ledger_id == writer.ledger_id
    assert (writer.lac, writer.length, writer.last_add_pushed, reader.lac, reader.length) == (0, 7, 0, 0, 7)
    with pytest.raises(walkeeper.ClosedError) as caught:
        writer.add(b"x")
    assert caught.value.outcome == "not_written"


def test_many_ledgers_are_written_at_once(client: walkeeper.LedgerClient) -> None:
    writers = [client.create(ensemble_size=2, write_quorum=2) for _ in range(20)]
    futures = [[writer.submit(b"%d %d" % (at, number)) for number in range(20)] for at, writer in enumerate(writers)]
    for each in futures:
        assert [future.result() for future in each] == list(range(20))
    for at, writer in enumerate(writers):
        writer.close()
        assert contents(client, writer.ledger_id) == [b"%d %d" % (at, number) for number in range(20)]


def test_bookies_are_chosen_among_all(client: walkeeper.LedgerClient, shared_cluster: LocalCluster) -> None:
    """With one of three a bookie is left out of 40 by a chance of one in ten million."""
    chosen = {client.create(ensemble_size=1, write_quorum=1, ack_quorum=1).metadata.segments[0][0] for _ in range(40)}
    assert chosen == {bookie.bookie_id for bookie in shared_cluster.bookies}


def test_a_reader_waits_for_what_comes(client: walkeeper.LedgerClient, other: walkeeper.LedgerClient) -> None:
    with client.create() as writer, other.open_no_recovery(writer.ledger_id) as reader:
        with pytest.raises(walkeeper.TimeoutError, match="no entry behind -1 of ledger"):
            reader.wait_last_confirmed(-1, timeout=0.05)
        for number in range(20):
            told = threading.Timer(0.01, writer.add, (b"entry %d" % number,))
            told.start()
            assert reader.wait_last_confirmed(number - 1, timeout=30) == number
            told.join()
            assert [entry.entry_id for entry in reader.read(number)] == [number]
        assert reader.wait_last_confirmed(3) == 19
        closed = threading.Timer(0.1, writer.close)
        closed.start()
        assert reader.wait_last_confirmed(19) == 19  # nothing comes any more
        closed.join()
        assert reader.metadata.is_closed
        assert reader.wait_last_confirmed(100) == 19


@pytest.mark.parametrize(
    ("wrong", "said"), [(-2, "beyond=-2"), ("3", "beyond='3'"), (2**63, "beyond="), (2**63 - 1, "no entry behind 9223")]
)
def test_there_is_no_entry_to_wait_for(client: walkeeper.LedgerClient, wrong: Any, said: str) -> None:
    with client.create() as writer:
        reader = client.open_no_recovery(writer.ledger_id)
        with pytest.raises(walkeeper.InvalidError, match=said):
            reader.wait_last_confirmed(wrong)
