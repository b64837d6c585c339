"""Rule 1: garbage collection deletes what was deleted and nothing else, whatever the metadata store does."""

from __future__ import annotations

import io
import os
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from walkeeper.metadata import (
    Fault,
    FaultyStore,
    Layout,
    LedgerManager,
    LedgerMetadata,
    MemoryStore,
    MemoryTree,
    MetadataError,
    MetadataStore,
    UnavailableError,
)
from walkeeper_bookie import _collector
from walkeeper_bookie._collector import Acknowledgement, Collector
from walkeeper_bookie._log import Log
from walkeeper_bookie._metadata import BookieMetadata
from walkeeper_bookie._state_files import TombstoneFile

SEED = int(os.environ.get("WALKEEPER_TEST_SEED", time.time_ns() % 10**9))
ROOT = "/ledgers"


class Disk:
    """A directory's ledgers; what is done to it is noted in `events`."""

    def __init__(self, events: list[str], ledger_ids: Iterable[int]) -> None:
        self.events, self.ids = events, set(ledger_ids)
        self.when_listed: Callable[[], None] = lambda: None

    def ledgers(self) -> array[int]:
        self.events.append("local")
        self.when_listed()
        return array("q", sorted(self.ids))

    def delete(self, ledger_ids: Iterable[int]) -> int:
        found = self.ids & set(ledger_ids)
        self.events.append(f"delete {sorted(ledger_ids)}")
        self.ids -= found
        return len(found)


class World:
    """A cluster in memory, a bookie's ledgers, and the collector between them."""

    def __init__(self, place: Path, ledger_ids: Sequence[int]) -> None:
        self.events: list[str] = []
        self.tree = MemoryTree()
        self.store = MemoryStore(self.tree)
        self.metadata = BookieMetadata(self.store, ROOT)
        self.instance_id = self.metadata.initialize()
        self.disk = Disk(self.events, ledger_ids)
        for ledger_id in ledger_ids:
            self.create(ledger_id)
        self.tombs = TombstoneFile(place / "tombstones", keep=7 * 86400.0)
        self.acknowledgement = Acknowledgement(place / "gc-acknowledged")
        self.refused: list[int] = []
        self.lines = io.StringIO()
        self.collector = self.new_collector(self.metadata)

    def new_collector(self, metadata: BookieMetadata) -> Collector:
        return Collector(
            self.disk,
            metadata,
            self.tombs,
            self.refuse,
            self.acknowledgement,
            self.instance_id,
            Log(self.lines),
            forget=lambda ledger_ids: self.events.append(f"forget {list(ledger_ids)}"),
        )

    def refuse(self, ledger_ids: Sequence[int]) -> None:
        self.refused = list(ledger_ids)
        self.events.append(f"refuse {self.refused}")

    def key(self, ledger_id: int) -> str:
        digits = f"{ledger_id:010d}"
        return f"{ROOT}/{digits[:2]}/{digits[2:6]}/L{digits[6:]}"

    def create(self, ledger_id: int) -> None:
        self.store.create(self.key(ledger_id), LedgerMetadata(1, 1, 1, {0: ("a:1",)}).serialise(), parents=True)

    def delete(self, *ledger_ids: int) -> None:
        for ledger_id in ledger_ids:
            self.store.delete(self.key(ledger_id))

    def through(self, store: MetadataStore) -> Collector:
        """The collector, with another store between it and the cluster."""
        self.collector = self.new_collector(BookieMetadata(store, ROOT))
        return self.collector


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, range(20))


def test_a_deleted_ledger_goes_in_the_second_pass(world: World) -> None:
    world.delete(3, 4)
    first = world.collector.run()
    assert first is not None
    assert (first.absent, first.deleted) == (2, 0)
    assert world.disk.ids == set(range(20))
    second = world.collector.run()
    assert second is not None
    assert second.deleted == 2
    assert world.disk.ids == set(range(20)) - {3, 4}


def test_the_two_passes_are_about_the_same_ledger(world: World) -> None:
    world.delete(3)
    world.collector.run()
    world.delete(4)
    world.collector.run()
    assert world.disk.ids == set(range(20)) - {3}


def test_a_new_process_begins_to_count_anew(world: World) -> None:
    world.delete(3)
    world.collector.run()
    world.through(world.store).run()
    assert 3 in world.disk.ids


def test_the_local_ledgers_are_taken_before_the_listing(world: World) -> None:
    """A client makes a ledger while it is listed, where the listing has passed already, and adds to it."""

    class Listing(FaultyStore):
        def scan(self, key: str, *, page: int = 1000) -> Iterator[str]:
            names = list(self.store.scan(key, page=page))
            number = 100 + len(world.disk.ids)
            if key.endswith("/00/0000"):
                world.create(number)
                world.disk.ids.add(number)
            yield from names

    collector = world.through(Listing(world.store))
    for _ in range(4):
        done = collector.run()
        assert done is not None
        assert (done.absent, done.deleted) == (0, 0)


def test_a_listing_with_a_hole_is_not_believed(world: World) -> None:
    """The ledger is there, and the listing does not have it, twice: a direct read says so."""

    class Holes(FaultyStore):
        def scan(self, key: str, *, page: int = 1000) -> Iterator[str]:
            return (name for name in self.store.scan(key, page=page) if name != "L0007")

    collector = world.through(Holes(world.store))
    for _ in range(3):
        done = collector.run()
        assert done is not None
        assert (done.absent, done.deleted) == (1, 0)
    assert 7 in world.disk.ids


def test_the_direct_read_is_linearizable(world: World) -> None:
    """A server that is behind does not have the ledger yet; only who asks it to catch up is told."""

    class Behind(FaultyStore):
        def scan(self, key: str, *, page: int = 1000) -> Iterator[str]:
            return (name for name in self.store.scan(key, page=page) if name != "L0007")

        def get(self, key: str, *, linearizable: bool = False) -> object:  # type: ignore[override]
            if key.endswith("L0007") and not linearizable:
                return None
            return self.store.get(key, linearizable=linearizable)

    collector = world.through(Behind(world.store))
    for _ in range(3):
        collector.run()
    assert 7 in world.disk.ids


@pytest.mark.parametrize("at", range(8))
def test_a_listing_that_fails_or_breaks_off_deletes_nothing(world: World, at: int) -> None:
    world.delete(3)
    world.collector.run()
    faulty = FaultyStore(world.store)

    class Breaking(FaultyStore):
        def scan(self, key: str, *, page: int = 1000) -> Iterator[str]:
            for number, name in enumerate(self.store.scan(key, page=page)):
                if number == at:
                    raise UnavailableError("injected")
                yield name
            raise UnavailableError("injected: at the end")

    collector = world.new_collector(BookieMetadata(Breaking(faulty), ROOT))
    collector._absent = frozenset(range(20))  # whatever was absent before
    assert collector.run() is None
    assert collector.failures == 1
    assert world.disk.ids == set(range(20))


def test_a_session_that_is_lost_while_ledgers_are_listed_deletes_nothing(world: World) -> None:
    world.delete(3)

    class Losing(FaultyStore):
        lost = 0

        def scan(self, key: str, *, page: int = 1000) -> Iterator[str]:
            yield from self.store.scan(key, page=page)
            Losing.lost += 1

        def session(self) -> int:
            return Losing.lost

    collector = world.through(Losing(world.store))
    for _ in range(3):
        assert collector.run() is None
    assert 3 in world.disk.ids


def test_another_cluster_deletes_nothing(world: World) -> None:
    """The same URI leads to another cluster, or to one that was formatted: nothing of ours is there."""
    world.delete(3)
    world.collector.run()
    world.store.put(f"{ROOT}/INSTANCEID", b"another")
    assert world.collector.run() is None
    assert world.collector.alarm
    assert world.disk.ids == set(range(20))
    assert "not the bookie's cluster" in world.lines.getvalue()


def test_a_new_session_sees_the_instance_id_before_anything_is_deleted(world: World) -> None:
    """The session is lost after the listing; what answers then is another cluster, without our ledgers."""
    world.delete(3)
    world.collector.run()
    other = MemoryStore(MemoryTree())
    BookieMetadata(other, ROOT).initialize()

    class Switching(FaultyStore):
        switched = False

        def get(self, key: str, *, linearizable: bool = False) -> object:  # type: ignore[override]
            if key.endswith("L0003"):
                Switching.switched = True
            return (other if Switching.switched else self.store).get(key, linearizable=linearizable)

        def session(self) -> int:
            return 2 if Switching.switched else 1

    collector = world.new_collector(BookieMetadata(Switching(world.store), ROOT))
    collector._absent = frozenset({3})
    assert collector.run() is None
    assert world.disk.ids == set(range(20))


def test_many_that_vanish_at_once_wait_for_an_operator(tmp_path: Path) -> None:
    world = World(tmp_path, range(1000))
    world.delete(*range(101))
    for _ in range(3):
        done = world.collector.run()
        assert done is not None
        assert done.alarm
    assert len(world.disk.ids) == 1000
    assert world.collector.alarm
    assert "gc-acknowledged" in world.lines.getvalue()
    assert "vanished=101" in world.lines.getvalue()

    world.acknowledgement.path.write_text("100\n")  # too few
    done = world.collector.run()
    assert done is not None
    assert done.alarm
    world.acknowledgement.path.write_text("101\n")
    done = world.collector.run()
    assert done is not None
    assert (done.alarm, done.deleted) == (False, 101)
    assert not world.acknowledgement.path.exists()  # for once
    assert not world.collector.alarm


def test_what_is_held_back_does_not_pass_in_small_steps(tmp_path: Path) -> None:
    world = World(tmp_path, range(1000))
    for first in range(0, 300, 60):
        world.delete(*range(first, first + 60))
        world.collector.run()
        if first == 0:
            world.through(world.store)  # none was let go of in a first pass
            world.collector.run()
    assert world.collector.alarm
    assert len(world.disk.ids) >= 1000 - 120


def test_up_to_a_tenth_goes_without_a_question(tmp_path: Path) -> None:
    world = World(tmp_path, range(2000))
    world.delete(*range(200))
    for _ in range(2):
        done = world.collector.run()
        assert done is not None
        assert not done.alarm
    assert len(world.disk.ids) == 1800


@pytest.mark.parametrize("left", [0, 1])
def test_a_few_ledgers_may_go_at_once_and_more_if_one_is_left(tmp_path: Path, left: int) -> None:
    world = World(tmp_path, range(100 if left else 10))
    world.delete(*range(left, len(world.disk.ids)))
    world.collector.run()
    world.collector.run()
    assert world.disk.ids == set(range(left))


def test_all_that_vanish_at_once_wait_for_an_operator(tmp_path: Path) -> None:
    """An emptied tree, of a bookie with few ledgers."""
    world = World(tmp_path, range(11))
    world.delete(*range(11))
    for _ in range(3):
        done = world.collector.run()
        assert done is not None
        assert done.alarm
    assert len(world.disk.ids) == 11
    world.acknowledgement.path.write_text("11\n")
    world.collector.run()
    assert world.disk.ids == set()


@pytest.mark.parametrize("word", ["", "yes", "-5", "1e9", "\N{ARABIC-INDIC DIGIT THREE}", "0x10", "5" * 31])
def test_no_other_word_acknowledges_anything(tmp_path: Path, word: str) -> None:
    acknowledgement = Acknowledgement(tmp_path / "word")
    acknowledgement.path.write_text(word)
    assert acknowledgement.count() == (int(word) if set(word) == {"5"} else 0)


def test_the_tombstone_is_durable_and_the_id_refused_before_the_ledger_goes(world: World) -> None:
    world.delete(3)
    world.collector.run()
    found: list[list[int]] = []
    delete = world.disk.delete

    def look(ledger_ids: Iterable[int]) -> int:
        found.append(TombstoneFile(world.tombs.path, keep=1).ids())
        assert world.refused == [3]
        return delete(ledger_ids)

    world.disk.delete = look  # type: ignore[method-assign]
    world.collector.run()
    assert found == [[3]]


def test_who_keeps_ids_is_told_once_the_ledger_is_gone(world: World) -> None:
    world.delete(3, 4)
    world.collector.run()
    world.collector.run()
    assert world.events[-3:] == ["refuse [3, 4]", "delete [3, 4]", "forget [3, 4]"]


def test_the_tombstones_of_a_pass_are_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, range(2600))
    world.delete(*range(2500))
    world.acknowledgement.path.write_text("2500\n")
    world.collector.run()
    written: list[int] = []
    add = world.tombs.add
    monkeypatch.setattr(world.tombs, "add", lambda ids: (written.append(len(ids)), add(ids)))
    world.collector.run()
    assert world.disk.ids == set(range(2500, 2600))
    assert written == [2500]
    assert len(world.tombs) == world.collector.deleted == 2500


def test_what_was_asked_for_some_seconds_is_let_go_of(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_collector, "ASKING_S", 0.0)
    world.delete(3, 4)
    world.collector.run()
    world.collector.run()
    assert [event for event in world.events if event.startswith("delete")] == ["delete [3]", "delete [4]"]


def test_without_a_tombstone_nothing_is_deleted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(ledger_ids: Iterable[int]) -> None:
        raise OSError(28, "no space")

    world.delete(3)
    world.collector.run()
    monkeypatch.setattr(world.tombs, "add", refuse)
    assert world.collector.run() is None
    assert 3 in world.disk.ids
    monkeypatch.undo()
    world.collector.run()
    assert 3 not in world.disk.ids


def test_a_kill_between_tombstone_and_delete_is_made_good(world: World) -> None:
    world.delete(3)
    world.tombs.add([3])
    again = world.through(world.store)
    again.start()
    assert world.refused == [3]
    again.run()
    again.run()
    assert 3 not in world.disk.ids


def test_tombstones_end_after_their_time(tmp_path: Path) -> None:
    world = World(tmp_path, range(5))
    now = [1000.0]
    world.tombs = TombstoneFile(tmp_path / "stones", keep=7 * 86400.0, clock=lambda: now[0])
    world.through(world.store)
    world.delete(3)
    world.collector.run()
    world.collector.run()
    assert world.refused == [3]
    now[0] += 7 * 86400.0 - 1
    world.collector.run()
    assert world.refused == [3]
    now[0] += 2
    world.collector.run()
    assert world.refused == []


def test_whatever_fails_no_ledger_that_exists_is_deleted_and_the_others_go_at_last(tmp_path: Path) -> None:
    print(f"WALKEEPER_TEST_SEED={SEED}")
    world = World(tmp_path, range(60))
    rates: dict[Fault, float] = {"before": 0.1, "lost": 0.05}
    sessions = [0]

    def lose() -> None:
        sessions[0] += 1

    class Faulty(FaultyStore):
        def session(self) -> int:
            return sessions[0]

    store = Faulty(world.store, SEED, rates, lose_session=lose)
    collector = world.through(store)
    deleted = set(range(0, 60, 7))
    world.delete(*deleted)
    passes = 0
    while world.disk.ids & deleted:
        collector.run()
        assert world.disk.ids >= set(range(60)) - deleted
        passes += 1
        assert passes < 2000
    while not (store.seen["before"] and store.seen["lost"]):  # what was not injected proves nothing
        collector.run()
    assert world.disk.ids == set(range(60)) - deleted


def test_an_unknown_layout_deletes_nothing(world: World) -> None:
    world.store.put(f"{ROOT}/LAYOUT", b"2\norg.example.Other:1")
    assert world.through(world.store).run() is None
    with pytest.raises(MetadataError):
        list(BookieMetadata(world.store, ROOT).ledger_ids())


NO_KEY = 2**31 - 1
"""The first id for which LegacyHierarchical has none."""


def legacy(world: World) -> None:
    """The cluster has that layout, and the store a ledger which it cannot name."""
    world.store.put(f"{ROOT}/LAYOUT", Layout.of(LedgerManager.LEGACY_HIERARCHICAL).serialise())
    world.disk.ids.add(NO_KEY)
    world.through(world.store)


def test_a_ledger_for_which_the_layout_has_no_key_goes_with_the_others(world: World) -> None:
    legacy(world)
    world.delete(3)
    world.collector.run()
    done = world.collector.run()
    assert done is not None
    assert done.deleted == 2
    assert world.disk.ids == set(range(20)) - {3}


def test_but_not_where_the_layout_is_another_one_since(world: World) -> None:
    legacy(world)
    world.collector.run()
    world.store.put(f"{ROOT}/LAYOUT", Layout.of(LedgerManager.HIERARCHICAL).serialise())
    assert world.collector.run() is None
    assert NO_KEY in world.disk.ids
