"""A replicated log on Java's bookies, and on mixed ones: appended, rolled, followed, truncated, taken over."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from java_bookies.clusters import Named, Shape
from java_bookies.jvm import sums
from metadata.stores import until

import walkeeper

SEGMENT_BYTES = 4000


def record(number: int) -> bytes:
    return b"order %d" % number * (1 + number % 7)


def open_on(shape: Shape, name: str, *, spares: bool = False) -> walkeeper.Namespace:
    policy = Named(shape.bookies, shape.spares if spares else ())
    return walkeeper.open(shape.cluster.metadata, namespace=name, placement=policy)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Of a namespace of the test's own."""
    return str(request.node.name)


@pytest.fixture
def ns(shape: Shape, name: str) -> Iterator[walkeeper.Namespace]:
    with open_on(shape, name) as made:
        yield made


def payloads(log: walkeeper.Log) -> list[bytes]:
    with log.reader() as reader:
        found = [(record.sequence_id, bytes(record.payload)) for record in reader]
    assert [sequence_id for sequence_id, _ in found] == list(range(len(found)))
    return [payload for _, payload in found]


def test_records_come_back_from_many_segments(ns: walkeeper.Namespace, shape: Shape, name: str) -> None:
    log = ns.log("orders", segment_bytes=SEGMENT_BYTES)
    with log.writer() as writer:
        for number in range(500):
            assert writer.append(record(number)).sequence_id == number
        futures = [writer.submit(record(number)) for number in range(500, 1000)]
        assert [future.result(60).sequence_id for future in futures] == list(range(500, 1000))
    assert len(log.segments()) > 3
    assert payloads(log) == [record(number) for number in range(1000)]
    with open_on(shape, name) as other:
        assert payloads(other.log("orders", create=False)) == [record(number) for number in range(1000)]


def test_a_follower_sees_each_record_once_it_is_confirmed(ns: walkeeper.Namespace, shape: Shape, name: str) -> None:
    log = ns.log("orders", segment_bytes=SEGMENT_BYTES)
    found: list[bytes] = []

    def follow() -> None:
        with open_on(shape, name) as other, other.log("orders").reader(follow=True, timeout=60) as reader:
            for each in reader:
                found.append(bytes(each.payload))
                if len(found) == 300:
                    return

    follower = threading.Thread(target=follow)
    follower.start()
    with log.writer() as writer:
        for number in range(300):
            writer.append(record(number))
            if number % 100 == 99:  # nothing comes behind it that would carry the LAC
                until(lambda number=number: len(found) > number)  # type: ignore[misc]
    follower.join(60)
    assert found == [record(number) for number in range(300)]


def test_a_takeover_fences_the_writer_before(ns: walkeeper.Namespace, shape: Shape, name: str) -> None:
    log = ns.log("orders", segment_bytes=SEGMENT_BYTES)
    first = log.writer()
    futures = [first.submit(record(number)) for number in range(300)]
    futures[100].result(60)
    with open_on(shape, name) as other, other.log("orders").writer() as second:
        there = second.next_sequence_id
        acknowledged = sum(future.exception(60) is None for future in futures)
        assert 100 < acknowledged <= there
        with pytest.raises(walkeeper.FencedError):
            first.append(b"late")
        assert second.append(record(there)).sequence_id == there
        assert payloads(log) == [record(number) for number in range(there + 1)]


def test_what_is_truncated_goes_with_its_ledgers(ns: walkeeper.Namespace) -> None:
    log = ns.log("orders", segment_bytes=SEGMENT_BYTES)
    with log.writer() as writer:
        positions = [writer.append(record(number)) for number in range(500)]
        before = len(log.segments())
        log.truncate(positions[400])
        until(lambda: len(log.segments()) < before)
    with log.reader() as reader:
        assert [bytes(each.payload) for each in reader] == [record(number) for number in range(400, 500)]


def test_a_java_bookie_that_is_killed_fails_no_append(shape: Shape, name: str) -> None:
    cluster = shape.cluster
    with open_on(shape, name, spares=True) as ns:
        log = ns.log("orders", segment_bytes=100_000)
        with log.writer() as writer:
            for number in range(200):
                writer.append(record(number))
            with cluster.killed(cluster.java[0]):
                futures = [writer.submit(record(number)) for number in range(200, 2000)]
                assert [future.result(60).sequence_id for future in futures] == list(range(200, 2000))
                assert payloads(log) == [record(number) for number in range(2000)]
        assert payloads(log) == [record(number) for number in range(2000)]


def test_javas_client_reads_the_ledgers_of_a_log(ns: walkeeper.Namespace, shape: Shape) -> None:
    """Entry by entry, as our client does; what is in an entry is ours."""
    with ns.log("orders").writer() as writer:
        for number in range(100):
            writer.append(record(number))
    java = shape.cluster.client
    with shape.client() as client:
        ours = [each for each in client.list() if client.metadata(each).custom_metadata.get("walkeeper.log")]
        with client.open(ours[-1]) as reader:
            entries = [entry.payload for entry in reader.read()]
        handle, lac, length = java.open(ours[-1])
        assert (lac, length) == (len(entries) - 1, sum(map(len, entries)))
        assert java.read(handle, 0, lac) == sums(entries)
