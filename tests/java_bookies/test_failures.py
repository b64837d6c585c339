"""Java's bookies that are killed, that hang and that are busy, under our client: no acknowledged entry is lost."""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager

import pytest
from java_bookies.clusters import Cluster, Shape
from java_bookies.jvm import JavaBookie, payload, sums
from ledger_runs import contents

import walkeeper
from tests.core_lib import lib
from tests.wire_client import IO_ERROR, KEY, OK, WireClient, request

SIZE = 200


def ensembles(writer: walkeeper.LedgerWriter) -> list[tuple[str, ...]]:
    return list(writer.metadata.segments.values())


def submit_until(writer: walkeeper.LedgerWriter, holds: Callable[[], bool], most: int = 200_000) -> list[Future[int]]:
    """Load until then, with as much under way as the writer has room for."""
    futures: list[Future[int]] = []
    while not holds():
        futures.extend(writer.submit(payload(number, SIZE)) for number in range(len(futures), len(futures) + 100))
        assert len(futures) < most
    return futures


def both_read(cluster: Cluster, client: walkeeper.LedgerClient, ledger_id: int, count: int) -> None:
    """So many entries, by our client and by Java's."""
    assert contents(client, ledger_id) == [payload(number, SIZE) for number in range(count)]
    handle, lac, length = cluster.client.open(ledger_id)
    assert (lac, length) == (count - 1, count * SIZE)
    for first in range(0, count, 5000):
        last = min(first + 5000, count) - 1
        expected = sums([payload(number, SIZE) for number in range(first, last + 1)])
        assert cluster.client.read(handle, first, last) == expected


@contextmanager
def hanging(*bookies: JavaBookie) -> Iterator[None]:
    """For so long these take what comes and answer nothing."""
    for bookie in bookies:
        os.kill(bookie.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for bookie in bookies:
            os.kill(bookie.pid, signal.SIGCONT)


def test_a_java_bookie_that_is_killed_under_load_is_replaced(shape: Shape) -> None:
    """By one of ours, or by one of Java's, as the shape has it. It comes back, and is read like the others."""
    cluster = shape.cluster
    victim = cluster.java[0]
    with shape.client(spares=True) as client:
        with client.create() as writer:
            futures = submit_until(writer, lambda: writer.lac > 500)
            with cluster.killed(victim):
                while len(ensembles(writer)) == 1:
                    futures.append(writer.submit(payload(len(futures), SIZE)))
                futures += [writer.submit(payload(number, SIZE)) for number in range(len(futures), len(futures) + 500)]
                assert [future.result(60) for future in futures] == list(range(len(futures)))
                assert ensembles(writer)[-1] == (shape.spares[0], *shape.bookies[1:])
        both_read(cluster, client, writer.ledger_id, len(futures))


def test_without_a_spare_the_writer_goes_on_with_two(shape: Shape) -> None:
    cluster = shape.cluster
    with shape.client() as client:
        writer = client.create()
        futures = submit_until(writer, lambda: writer.lac > 500)
        with cluster.killed(cluster.java[2]):
            futures += [writer.submit(payload(number, SIZE)) for number in range(len(futures), len(futures) + 2000)]
            assert [future.result(60) for future in futures] == list(range(len(futures)))
            assert ensembles(writer) == [tuple(shape.bookies)]
            with shape.client() as other:  # its end is found without the bookie that is gone
                assert len(contents(other, writer.ledger_id)) == len(futures)
        with pytest.raises(walkeeper.FencedError):
            writer.add(b"late")
        both_read(cluster, client, writer.ledger_id, len(futures))


def test_where_all_java_bookies_are_killed_under_load_nothing_acknowledged_is_lost(shape: Shape) -> None:
    """Adds fail while they are away; what was acknowledged before is on their disks."""
    cluster = shape.cluster
    with shape.client() as client:
        writer = client.create(ack_quorum=3)
        futures = submit_until(writer, lambda: writer.lac > 500)
        with cluster.killed(*cluster.java):
            acknowledged = sum(future.exception(60) is None for future in futures)
            assert acknowledged > 500
        found = contents(client, writer.ledger_id)
        assert acknowledged <= len(found)
        both_read(cluster, client, writer.ledger_id, len(found))


def test_a_java_bookie_that_hangs_is_left_out_and_delays_no_reader_for_long(shape: Shape) -> None:
    cluster = shape.cluster
    with shape.client(add_timeout=0.5, read_timeout=60) as client:
        with client.create() as writer, hanging(cluster.java[0]):
            assert [writer.add(payload(number, SIZE)) for number in range(300)] == list(range(300))
            assert [entry.payload for entry in writer.read()] == [payload(number, SIZE) for number in range(300)]
            writer.close()
        both_read(cluster, client, writer.ledger_id, 300)


def test_a_bookie_that_was_told_the_lac_and_has_no_entry_knows_it(cluster: Cluster) -> None:
    """Such a bookie of Java's answers READ_LAC with the LAC, and EIO. Another one hangs, the third knows nothing."""
    for told in (cluster.java[0], cluster.java[2]):
        silent = cluster.java[1]
        shape = Shape(cluster, [told.bookie_id, silent.bookie_id, cluster.ours[0]], [])
        with shape.client(read_timeout=0.5) as client:
            writer = client.create(digest="none")
            lac = struct.pack(">qq", writer.ledger_id, 7)
            with WireClient(told.port) as wire:
                wire.send(request(3, lib.WK_WIRE_WRITE_LAC, writer.ledger_id, lac=7, key=KEY, body=lac))
                assert wire.receive().code == OK
                wire.send(request(3, lib.WK_WIRE_READ_LAC, writer.ledger_id))
                assert wire.receive().code == IO_ERROR
            with hanging(silent), client.open_no_recovery(writer.ledger_id) as reader:
                assert reader.lac == 7


def test_a_burst_is_no_failure_of_busy_bookies(cluster: Cluster) -> None:
    """A bookie of Java's has room for 10,000 adds, and refuses others. These come all at once, of three clients."""
    each = 9000
    shape = cluster.shape("java")
    with ExitStack() as ends:
        clients = [ends.enter_context(shape.client(add_timeout=60)) for _ in range(3)]
        writers = [client.create(ack_quorum=3) for client in clients]
        with hanging(*cluster.java):
            futures = [writer.submit(payload(number, 10)) for number in range(each) for writer in writers]
        assert all(future.exception(60) is None for future in futures)
        for writer in writers:
            assert writer._native.state().failed_slots == 0
            writer.close()
            assert contents(clients[0], writer.ledger_id) == [payload(number, 10) for number in range(each)]
