"""A metadata store that fails in the middle of a segment's beginning or end: the writer goes on, or says that it does
not, and no segment and no ledger is left behind."""

from __future__ import annotations

from typing import Any

import pytest
from cluster.test_kills import RECORD, SEGMENT_BYTES, check

import walkeeper
from walkeeper.metadata import FaultyStore
from walkeeper.metadata._faults import Fault
from walkeeper_bookie.cluster import LocalCluster


def tried(writer: walkeeper.Writer) -> list[int]:
    """The sequence id of a record that was appended, or nothing where it definitely was not."""
    try:
        return [writer.append(RECORD).sequence_id]
    except walkeeper.UnavailableError as error:
        if error.outcome != "not_written":
            raise
        return []


@pytest.mark.parametrize(
    "faults",
    [("before",), ("after", "before"), ("never", "before"), ("before", "before", "before")],
    ids=" ".join,
)
def test_a_writer_goes_on_where_the_store_failed_at_any_call(
    shared_bookies: LocalCluster, ns: walkeeper.Namespace, name: str, faults: tuple[Fault, ...]
) -> None:
    """An unknown outcome with a read behind it that fails: the writer does not know whether it began a segment."""
    uri = shared_bookies.metadata
    with walkeeper.open(uri, namespace=name) as other:
        inner: Any = other
        store = inner._store._store
        for calls in range(60):
            log = ns.log(f"log-{calls}", segment_bytes=SEGMENT_BYTES)
            writer = other.log(f"log-{calls}").writer()
            acknowledged = [writer.append(RECORD).sequence_id, writer.append(RECORD).sequence_id]
            faulty = inner._store._store = FaultyStore(store)
            faulty.script(["none"] * calls + list(faults))
            while len(acknowledged) < 6:
                acknowledged += tried(writer)
            injected = bool(set(faults) & set(faulty.seen))
            inner._store._store = store
            writer.close()
            segments = log.segments()
            assert all(segment.completed for segment in segments)
            assert sum(segment.records_count for segment in segments) == 6
            check(uri, ns, log, acknowledged)
            if not injected:
                break
        assert calls > 8


def test_a_stream_that_ended_where_the_store_failed_has_ended(
    ns: walkeeper.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is in the ledger, and no reader would pass it: no record may follow."""
    log: Any = ns.log("orders")
    writer = log.writer()
    writer.append(b"last")

    def fails(*arguments: object) -> None:
        raise walkeeper.UnavailableError("the metadata store does not answer")

    monkeypatch.setattr(log._namespace._store, "change", fails)
    with pytest.raises(walkeeper.UnavailableError):
        writer.mark_end_of_stream()
    monkeypatch.undo()
    writer.close()
    assert log.info().end_of_stream
    with pytest.raises(walkeeper.EndOfStreamError), log.writer() as newer:
        newer.append(b"more")
    assert [bytes(record.payload) for record in log.reader()] == [b"last"]
