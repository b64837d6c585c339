"""The sink of format("walkeeper"), asked as Spark asks it. No JVM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

import walkeeper
from pyspark_walkeeper import _changes, _namespaces
from pyspark_walkeeper._changes import ClusterChanges
from pyspark_walkeeper._gateway_changes import GatewayChanges
from pyspark_walkeeper._options import Place, write_options
from pyspark_walkeeper._sink import StreamWriter, Written
from walkeeper.gateway import Gateway
from walkeeper.idempotent import _writer as idempotent_writer
from walkeeper_bookie.cluster import LocalCluster

SCHEMA = StructType([StructField("value", BinaryType())])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), 3) as made:
        made.start()
        yield made


@pytest.fixture
def place(cluster: LocalCluster, tmp_path: Path) -> Iterator[Place]:
    yield Place(cluster.metadata, str(tmp_path), ())
    _changes._writers.clear()
    _namespaces._close_all()


def batch(payloads: list[bytes]) -> pyarrow.RecordBatch:
    return pyarrow.RecordBatch.from_pydict({"value": pyarrow.array(payloads, pyarrow.binary())})


def contents(place: Place, log: str = "t") -> list[bytes]:
    with _namespaces.to_read(place).log(log, create=False).reader() as reader:
        return [bytes(record.payload) for record in reader]


def large(letter: bytes) -> list[bytes]:
    return [letter * 50_000] * 3


def writer_of(place: Place) -> StreamWriter:
    options = {"path": "t", "walkeeper.root": place.root or "", "walkeeper.namespace": place.namespace or ""}
    return StreamWriter(write_options(options, streaming=True), SCHEMA)


def test_parts_are_appended_in_the_order_of_their_partitions(place: Place) -> None:
    """Few rows travel with the message, many are staged; few between many are staged by the driver."""
    writer = writer_of(place)
    rows = [[b"0"], large(b"1"), [], [b"3", b"33"], [b"4"], large(b"5"), [b"6"]]
    written = [writer.write_as("query q", 0, part, iter([batch(payloads)])) for part, payloads in enumerate(rows)]
    assert [part.staged is not None for part in written] == [False, True, False, False, False, True, False]
    writer_of(place).commit([*reversed(written)], 0)
    writer_of(place).commit([*written], 0)
    assert contents(place) == [payload for payloads in rows for payload in payloads]
    assert _namespaces.to_read(place).logs("staging/") == []


def test_an_append_that_was_tried_may_be_finished_behind_an_abort(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark calls abort() behind a commit() that raised; what it staged is needed by whoever appends next."""
    writer = writer_of(place)
    written = [writer.write_as("query q", 0, part, iter([batch(large(b"%d" % part))])) for part in range(2)]
    sound = idempotent_writer._Opened._copy

    def fail_at_the_second(self: object, part: object, skipped: int, expected: int) -> int:
        if expected:
            raise walkeeper.NoSpaceError("full", outcome="not_written")
        return sound(self, part, skipped, expected)  # type: ignore[arg-type]

    monkeypatch.setattr(idempotent_writer._Opened, "_copy", fail_at_the_second)
    with pytest.raises(walkeeper.NoSpaceError) as caught:
        writer.commit([*written], 0)
    assert caught.value.outcome == "unknown"
    writer.abort([*written], 0)
    monkeypatch.undo()
    writer.commit([writer.write_as("query q", 1, 0, iter([batch([b"next"])]))], 1)
    assert contents(place) == [*large(b"0"), *large(b"1"), b"next"]


def test_what_a_failed_batch_staged_goes(place: Place) -> None:
    writer = writer_of(place)
    written = writer.write_as("query q", 0, 0, iter([batch(large(b"x"))]))
    other = writer.write_as("query q", 0, 1, iter([batch(large(b"y"))]))
    assert written.staged is not None
    writer.abort([None, written], 0)
    writer.abort([None, written], 0)
    assert other.staged is not None
    assert _namespaces.to_read(place).logs("staging/") == [other.staged.log]


def test_a_log_that_was_made_again_or_renamed_has_another_writer(place: Place) -> None:
    changes = ClusterChanges(place)
    assert changes.append_once("t", "app", 0, [b"first"], [])
    namespace = _namespaces.opened(place, read_only=False)
    namespace.rename_log("t", "old")
    assert changes.append_once("t", "app", 0, [b"second"], [])
    namespace.delete_log("t")
    assert changes.append_once("t", "app", 0, [b"third"], [])
    assert (contents(place, "old"), contents(place)) == ([b"first"], [b"third"])


def test_two_gateways_and_a_program_of_its_own_take_turns(cluster: LocalCluster, place: Place) -> None:
    assert place.namespace is not None
    with (
        Gateway(cluster.metadata, namespace=place.namespace) as one,
        Gateway(cluster.metadata, namespace=place.namespace) as other,
    ):
        by = [GatewayChanges(Place(None, None, tuple(made.addresses), made.token)) for made in (one, other)]
        for version in range(3):
            for name, changes in zip("ab", by, strict=True):
                assert changes.append_once("t", name, version, [b"%s%d" % (name.encode(), version)], [])
        namespace = _namespaces.opened(place, read_only=False)
        with namespace.log("t").writer() as writer:
            writer.append(b"by hand")
        assert by[0].append_once("t", "a", 3, [b"a3"], [])
        by[1].append("t", pyarrow.array([b"plain"]))
    assert contents(place) == [b"a0", b"b0", b"a1", b"b1", b"a2", b"b2", b"by hand", b"a3", b"plain"]


def test_messages_of_two_batches_are_refused(place: Place) -> None:
    with pytest.raises(walkeeper.InvalidError, match="different batches"):
        writer_of(place).commit([Written(0, "query q", 0), Written(1, "query q", 1)], 1)


def test_tasks_without_a_gateway_append_exactly_once_alone(place: Place) -> None:
    options = {"path": "t", "walkeeper.root": place.root or "", "delivery": "at-least-once"}
    with pytest.raises(walkeeper.UnsupportedError, match=r"walkeeper\.gateways"):
        StreamWriter(write_options(options, streaming=True), SCHEMA)
