"""A bookie that failed is replaced while the ledger is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ledger_runs import contents, hanging, kill, payload
from metadata.stores import until

import walkeeper
from walkeeper.ledgers import _ensemble_change
from walkeeper.ledgers._ensemble_change import _with_segment
from walkeeper.metadata import Fault, FaultyStore, LedgerMetadata, LedgerState, OpenedStore, open_store
from walkeeper_bookie.cluster import BookieProcess, LocalCluster


@pytest.fixture
def five(tmp_path: Path, _bookies_are_found: None) -> Iterator[LocalCluster]:
    """Five bookies of the test's own."""
    with LocalCluster(tmp_path / "cluster", 5) as made:
        made.start()
        yield made


def ensemble(writer: walkeeper.LedgerWriter) -> list[str]:
    """The bookies of the last segment."""
    return list(list(writer.metadata.segments.values())[-1])


def processes(cluster: LocalCluster, bookie_ids: list[str]) -> list[BookieProcess]:
    by_id = {bookie.bookie_id: bookie for bookie in cluster.bookies}
    return [by_id[bookie_id] for bookie_id in bookie_ids]


def changed(writer: walkeeper.LedgerWriter, segments: int) -> None:
    until(lambda: len(writer.metadata.segments) == segments, "the bookie that failed is not replaced")


def test_each_bookie_that_is_killed_is_replaced(five: LocalCluster) -> None:
    """All three of the first ensemble, one after another: what was confirmed before is on the others as well."""
    with walkeeper.LedgerClient(five.metadata) as client:
        with client.create() as writer:
            first = ensemble(writer)
            for round, victim in enumerate(processes(five, first[:2])):
                for number in range(100):
                    writer.add(payload(round * 100 + number))
                kill(victim)
                while len(writer.metadata.segments) < round + 2:
                    writer.add(b"meanwhile")
            assert not set(first[:2]) & set(ensemble(writer))
            assert writer.metadata == client.metadata(writer.ledger_id)
        found = contents(client, writer.ledger_id)
        assert [item for item in found if item != b"meanwhile"] == [payload(number) for number in range(200)]
        # Each segment begins behind what the one before has confirmed: the last bookies alone know the end.
        assert client.metadata(writer.ledger_id).last_entry_id == len(found) - 1


def test_two_bookies_of_three_at_once_delay_adds_and_fail_none(five: LocalCluster) -> None:
    with walkeeper.LedgerClient(five.metadata) as client, client.create() as writer:
        writer.add(payload(0))
        for victim in processes(five, ensemble(writer)[:2]):
            kill(victim)
        futures = [writer.submit(payload(number)) for number in range(1, 100)]
        assert [future.result(60) for future in futures] == list(range(1, 100))
        writer.close()
        assert contents(client, writer.ledger_id) == [payload(number) for number in range(100)]


def test_a_bookie_that_hangs_is_replaced(five: LocalCluster) -> None:
    with walkeeper.LedgerClient(five.metadata, add_timeout=0.2) as client, client.create() as writer:
        writer.add(payload(0))
        with hanging(processes(five, ensemble(writer)[:1])[0]):
            writer.add(payload(1))
            changed(writer, 2)
            writer.add(payload(2))
        # It goes on now, and acknowledges what it was sent: that counts for nothing.
        writer.add(payload(3))
        writer.close()
        assert contents(client, writer.ledger_id) == [payload(number) for number in range(4)]


def test_an_ensemble_without_an_entry_is_replaced_in_place(five: LocalCluster) -> None:
    with walkeeper.LedgerClient(five.metadata) as client, client.create() as writer:
        victim = ensemble(writer)[0]
        kill(processes(five, [victim])[0])
        writer.add(payload(0))
        until(lambda: victim not in ensemble(writer) or len(writer.metadata.segments) > 1)
        segments = client.metadata(writer.ledger_id).segments
        assert list(segments) in ([0], [0, 1])  # the add may have been confirmed by the two others before


def test_a_spare_that_comes_back_takes_the_place(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three bookies, one killed: the writer goes on with two. Then the bookie is started again."""
    monkeypatch.setattr(_ensemble_change, "RETRY_SECONDS", 0.05)
    with (
        walkeeper.LedgerClient(cluster.metadata) as client,
        client.create(ensemble_size=2, write_quorum=2, ack_quorum=1) as writer,
    ):
        down = next(bookie for bookie in cluster.bookies if bookie.bookie_id not in ensemble(writer))
        kill(down)
        until(lambda: down.bookie_id not in [b.bookie_id for b in client.bookies() if b.state == "writable"])
        kill(processes(cluster, ensemble(writer)[:1])[0])
        writer.add(payload(0))
        assert len(writer.metadata.segments) == 1
        cluster.launch_one(down)
        changed(writer, 2)
        assert down.bookie_id in ensemble(writer)
        writer.add(payload(1))
        writer.close()
        assert contents(client, writer.ledger_id) == [payload(0), payload(1)]


def test_a_writer_whose_ledger_is_recovered_changes_nothing(five: LocalCluster) -> None:
    with walkeeper.LedgerClient(five.metadata) as client, walkeeper.LedgerClient(five.metadata) as other:
        writer = client.create()
        writer.add(payload(0))
        found = other.open(writer.ledger_id)
        kill(processes(five, ensemble(writer)[:1])[0])
        with pytest.raises((walkeeper.FencedError, walkeeper.UnavailableError)):
            writer.add(b"late")
        assert client.metadata(writer.ledger_id) == found.metadata
        assert contents(client, writer.ledger_id) == [payload(0)]


class OnePut(FaultyStore):
    """The next put has this fault; the other calls have none."""

    fault: Fault = "none"

    def put(self, key: str, data: bytes, version: int | None = None) -> int:
        fault, self.fault = self.fault, "none"
        self.script([fault])
        return super().put(key, data, version)


@pytest.mark.parametrize("fault", ["after", "never", "before"])
def test_the_write_of_a_change_that_fails_is_settled(
    five: LocalCluster, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked for in the metadata, or written again; no add fails."""
    monkeypatch.setattr(_ensemble_change, "RETRY_SECONDS", 0.05)
    opened = open_store(five.metadata)
    store = OnePut(opened.store)
    with walkeeper.LedgerClient(OpenedStore(store, opened.root, opened.layout)) as client:
        writer = client.create()
        writer.add(payload(0))
        store.fault = fault
        kill(processes(five, ensemble(writer)[:1])[0])
        writer.add(payload(1))
        changed(writer, 2)
        assert store.seen[fault] == 1
        writer.close()
        assert contents(client, writer.ledger_id) == [payload(0), payload(1)]


def metadata(**changes: object) -> LedgerMetadata:
    return LedgerMetadata(3, 3, 2, **{"segments": {0: ("a:1", "b:1", "c:1")}, **changes})  # type: ignore[arg-type]


def test_the_decision() -> None:
    old, new = ("a:1", "b:1", "c:1"), ("d:1", "b:1", "c:1")
    decide = _with_segment(7, old, 5, new)
    after = decide(metadata())
    assert after is not None
    assert dict(after.segments) == {0: old, 5: new}
    assert decide(after) is None  # it was written, and nobody knew
    replaced = _with_segment(7, old, 0, new)(metadata())
    assert replaced is not None
    assert dict(replaced.segments) == {0: new}
    for other in (
        metadata(state=LedgerState.IN_RECOVERY),
        metadata(state=LedgerState.CLOSED, last_entry_id=3, length=9),
        metadata(segments={0: old, 6: new}),
        metadata(segments={0: new}),
    ):
        with pytest.raises(walkeeper.FencedError):
            decide(other)
