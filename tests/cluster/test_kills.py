"""A process that ends at any step of what it writes to the metadata store leaves a log that goes on, and no ledger that
nobody knows of."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from cluster.kills import Killed, each_step, ledgers_of, victim

import walkeeper
from walkeeper_bookie.cluster import LocalCluster

RECORD = b"x" * 60
SEGMENT_BYTES = 100
"""Two records."""


def check(uri: str, ns: Any, log: Any, acknowledged: list[int]) -> None:
    """Another writer goes on, every acknowledged record is there, and no ledger is forgotten."""
    with log.writer() as writer:
        following = writer.next_sequence_id
        assert writer.append(b"mine").sequence_id == following
    assert acknowledged == list(range(len(acknowledged)))
    assert following >= len(acknowledged)
    assert [bytes(record.payload) for record in log.reader()] == [RECORD] * following + [b"mine"]
    document = ns._store.read(log._log_id)[0]
    assert (document.intent, document.deleting, document.open_segment) == (None, (), None)
    assert ledgers_of(uri, log._log_id) == {segment.ledger_id for segment in document.segments}


def test_a_writer_that_is_killed_at_any_step(shared_bookies: LocalCluster, ns: walkeeper.Namespace, name: str) -> None:
    uri = shared_bookies.metadata

    def act(kill_at: int) -> bool:
        log = ns.log(f"log-{kill_at}", segment_bytes=SEGMENT_BYTES)
        with log.writer() as first:
            acknowledged = [first.append(RECORD).sequence_id]
        with victim(uri, name, kill_at) as other:
            try:
                with other.log(f"log-{kill_at}").writer() as writer:
                    acknowledged.extend(writer.append(RECORD).sequence_id for _ in range(5))
            except Killed:
                pass
            killed: bool = other.steps.dead
        check(uri, ns, log, acknowledged)
        return killed

    assert each_step(act) > 30


def test_a_writer_whose_next_segment_is_killed_beside_one_that_takes_over(
    shared_bookies: LocalCluster, ns: walkeeper.Namespace, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer writer deletes the intent before the older one has made the ledger, which it then deletes itself."""
    uri = shared_bookies.metadata
    log: Any = ns.log("orders", segment_bytes=SEGMENT_BYTES)
    with walkeeper.open(uri, namespace=name) as other:
        old: Any = other.log("orders").writer()
        for _ in range(2):
            old.append(RECORD)
        create = old._calls._namespace._ledgers.create

        def slow(*arguments: Any) -> Any:
            log.writer().close()
            return create(*arguments)

        monkeypatch.setattr(old._calls._namespace._ledgers, "create", slow)
        with pytest.raises(walkeeper.FencedError) as caught:
            old.append(RECORD)
        assert caught.value.outcome == "not_written"
        monkeypatch.undo()
        old.close()
    document = ns._store.read(log._log_id)[0]  # type: ignore[attr-defined]
    assert ledgers_of(uri, log._log_id) == {segment.ledger_id for segment in document.segments}


def test_a_truncation_that_is_killed_at_any_step(
    shared_bookies: LocalCluster, ns: walkeeper.Namespace, name: str
) -> None:
    uri = shared_bookies.metadata

    def act(kill_at: int) -> bool:
        log: Any = ns.log(f"log-{kill_at}", segment_bytes=SEGMENT_BYTES)
        with log.writer() as writer:
            for _ in range(6):
                writer.append(RECORD)
        with victim(uri, name, kill_at) as other:
            with suppress(Killed):
                victims = other.log(f"log-{kill_at}")
                victims.truncate(victims.find(sequence_id=5))
            killed: bool = other.steps.dead
        with log.writer() as writer:
            assert writer.append(b"mine").sequence_id == 6
        assert log.first().sequence_id in (0, 5)
        document = ns._store.read(log._log_id)[0]  # type: ignore[attr-defined]
        assert document.deleting == ()
        assert ledgers_of(uri, log._log_id) == {segment.ledger_id for segment in document.segments}
        return killed

    assert each_step(act) > 4


def test_a_deletion_that_is_killed_at_any_step(
    shared_bookies: LocalCluster, ns: walkeeper.Namespace, name: str
) -> None:
    uri = shared_bookies.metadata

    def act(kill_at: int) -> bool:
        log: Any = ns.log(f"log-{kill_at}", segment_bytes=SEGMENT_BYTES)
        writer = log.writer()
        for _ in range(3):
            writer.append(RECORD)
        log.cursor("billing")
        with victim(uri, name, kill_at) as other:
            with suppress(Killed):
                other.delete_log(f"log-{kill_at}")
            killed: bool = other.steps.dead
        with suppress(walkeeper.LogDeletedError, walkeeper.FencedError):
            writer.close()
        again: Any = ns.log(f"log-{kill_at}")
        if again._log_id == log._log_id:  # nothing of it was written
            assert log.count() == 3
            ns.delete_log(f"log-{kill_at}")
        with pytest.raises(walkeeper.LogDeletedError):
            log.count()
        assert ledgers_of(uri, log._log_id) == set()
        return killed

    assert each_step(act) > 4
