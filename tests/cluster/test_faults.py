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
                try:
                    acknowledged.append(writer.append(RECORD).sequence_id)
                except walkeeper.UnavailableError as error:
                    assert error.outcome == "not_written"  # noqa: PT017
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
