"""Rule 1: garbage collection deletes what was deleted and nothing else, whatever the metadata store does."""

from __future__ import annotations

import errno
import io
import os
import random
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from full_disk import FullDisk

from walkeeper.metadata import (
    ZOOKEEPER_KEYS,
    Cluster,
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
from walkeeper_bookie._collector import Acknowledgement, Collector, Pass
from walkeeper_bookie._emergency_space import EmergencySpace
from walkeeper_bookie._gc_hold import GcState
from walkeeper_bookie._gc_state_file import GcStateFile
from walkeeper_bookie._log import Log
from walkeeper_bookie._metadata import BookieMetadata
from walkeeper_bookie._state_files import TombstoneFile

SEED = int(os.environ.get("WALKEEPER_TEST_SEED", time.time_ns() % 10**9))
ROOT = "/ledgers"
DAY = 86400.0
PASSES_A_DAY = 144


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

    def bytes_of(self, ledger_ids: Iterable[int]) -> int:
        return 1000 * len(self.ids & set(ledger_ids))


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
        self.now = [1000.0]
        self.states = GcStateFile(place / "gc-state", clock=lambda: self.now[0])
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
            self.states,
            self.instance_id,
            Log(self.lines, monotonic=lambda: self.now[0]),
            hold_time=DAY,
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

    def store_new(self, *ledger_ids: int) -> None:
        """A client makes ledgers, and adds to them here."""
        for ledger_id in ledger_ids:
            self.create(ledger_id)
        self.disk.ids.update(ledger_ids)

    def passes(self, count: int) -> Pass:
        """So many passes, ten minutes apart; none fails. What the last one did."""
        for _ in range(count):
            done = self.collector.run()
            assert done is not None, self.lines.getvalue()
            self.now[0] += 600
        return done

    def restart(self) -> None:
        """The process is stopped, and another one started on the same directory."""
        self.collector.save()
        self.kill()

    def kill(self) -> None:
        """The same without a word to the first."""
        self.through(self.store).start()

    def said(self) -> str:
        return self.lines.getvalue()

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
    instance_id = world.store.get(f"{ROOT}/INSTANCEID")
    assert instance_id is not None
    world.store.put(f"{ROOT}/INSTANCEID", b"another")
    for _ in range(2 * PASSES_A_DAY):  # no hold ends here: a person must look
        assert world.collector.run() is None
        world.now[0] += 600
    assert world.collector.alarm
    assert world.collector.wrong_cluster
    assert world.disk.ids == set(range(20))
    assert "not the bookie's cluster" in world.said()
    assert "INSTANCEID another" in world.said()
    world.store.put(f"{ROOT}/INSTANCEID", instance_id.data)
    world.passes(2)
    assert world.disk.ids == set(range(20)) - {3}
    assert not world.collector.alarm


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


# what is normal use: no alarm, and the space of every deleted ledger comes back


def assert_all_space_came_back(world: World) -> None:
    assert not world.collector.alarm
    assert world.disk.ids == set(world.metadata.ledger_ids())
    assert "held" not in world.said()


def test_a_broker_restarts(tmp_path: Path) -> None:
    """It deletes the old ledgers of all topics and cursors at once, and makes new ones."""
    world = World(tmp_path, range(400))
    world.passes(1)
    world.store_new(*range(1000, 1150))
    world.delete(*range(150))
    world.passes(2)
    assert_all_space_came_back(world)
    assert world.collector.deleted == 150


@pytest.mark.parametrize("seen_together", [False, True])
def test_a_broker_restarts_that_keeps_no_old_ledger(tmp_path: Path, seen_together: bool) -> None:
    """Each topic has one ledger; for a while there are two."""
    world = World(tmp_path, range(300))
    world.passes(1)
    world.store_new(*range(1000, 1300))
    if seen_together:
        world.passes(1)
    world.delete(*range(300))
    world.passes(2)
    assert_all_space_came_back(world)
    assert world.collector.deleted == 300


@pytest.mark.parametrize(("stored", "left"), [(1000, 1), (49, 0)])
def test_most_ledgers_of_one_bookie_are_deleted(tmp_path: Path, stored: int, left: int) -> None:
    """Other bookies have the others: the listing as a whole stays."""
    world = World(tmp_path, range(stored))
    for ledger_id in range(5000, 5500):
        world.create(ledger_id)
    world.passes(1)
    world.delete(*range(left, stored))
    world.passes(2)
    assert not world.collector.alarm
    assert world.disk.ids == set(range(left))


def test_a_large_topic_is_deleted(tmp_path: Path) -> None:
    world = World(tmp_path, range(700))
    world.passes(1)
    world.delete(*range(500))
    world.passes(2)
    assert_all_space_came_back(world)
    assert world.collector.deleted == 500


def test_short_ledgers_come_and_go(tmp_path: Path) -> None:
    """Most of them live for less than a pass, and no listing ever has them."""
    world = World(tmp_path, range(5))
    following = 1000
    for _ in range(60):
        world.store_new(*range(following, following + 100))
        world.delete(*range(following, following + 98))
        if following > 1000:
            world.delete(following - 1, following - 2)
        following += 100
        world.passes(1)
        assert len(world.disk.ids) <= 5 + 2 * 100
    world.passes(1)
    assert_all_space_came_back(world)


def test_a_bookie_that_was_stopped_by_an_older_version_goes_on(tmp_path: Path) -> None:
    """It has no state of an earlier pass, and most of its ledgers were deleted long ago."""
    world = World(tmp_path, range(5000))
    world.delete(*range(4900))
    world.passes(2)
    assert_all_space_came_back(world)


def test_a_small_cluster_may_lose_all_its_ledgers(tmp_path: Path) -> None:
    world = World(tmp_path, range(10))
    world.passes(1)
    world.delete(*range(10))
    world.passes(2)
    assert_all_space_came_back(world)


# what is not: nothing is deleted


def test_a_small_listing_does_not_collapse(tmp_path: Path) -> None:
    world = World(tmp_path, range(49))
    world.passes(1)
    world.delete(*range(45))
    world.passes(2)
    assert_all_space_came_back(world)


def test_an_emptied_tree_waits_for_a_person(tmp_path: Path) -> None:
    world = World(tmp_path, range(11))
    world.passes(1)
    world.delete(*range(11))
    assert world.passes(PASSES_A_DAY + 5).held == 11
    world.restart()
    assert world.collector.alarm
    assert world.passes(PASSES_A_DAY + 5).held == 11
    assert world.disk.ids == set(range(11))
    held = world.collector.held["emptied"]
    assert (held.ledgers, held.bytes, held.until, held.before) == (11, 11_000, None, 11)
    for fact in ("list no ledgers any more", "held=11", "bytes=11000", "before=11", "gc-acknowledged"):
        assert fact in world.said()

    world.acknowledgement.path.write_text("10\n")  # too few
    assert world.passes(1).held == 11
    assert "names fewer ledgers" in world.said()
    world.acknowledgement.path.write_text("11\n")
    assert world.passes(1).deleted == 11
    assert not world.acknowledgement.path.exists()  # for once
    assert not world.collector.alarm
    assert world.passes(1).held == 0


def test_an_emptied_tree_that_gets_new_ledgers_holds_the_old_ones_for_a_day(tmp_path: Path) -> None:
    world = World(tmp_path, range(20))
    world.passes(1)
    world.delete(*range(20))
    world.passes(PASSES_A_DAY)  # no part of the hold
    world.store_new(1000, 1001)
    world.passes(PASSES_A_DAY)
    assert world.disk.ids == {*range(20), 1000, 1001}
    assert world.collector.held["collapsed"].ledgers == 20
    world.passes(2)
    assert_no_alarm_and_stored(world, {1000, 1001})


def assert_no_alarm_and_stored(world: World, ledger_ids: set[int]) -> None:
    assert not world.collector.alarm
    assert world.disk.ids == ledger_ids


def test_a_tree_that_is_empty_already_at_the_first_pass(tmp_path: Path) -> None:
    """What the cluster had is not known, and no ledger of this bookie was ever listed."""
    world = World(tmp_path, range(11))
    world.delete(*range(11))
    assert world.passes(2 * PASSES_A_DAY).held == 11
    assert world.disk.ids == set(range(11))


@pytest.mark.parametrize("restarted", [False, True])
def test_a_collapsed_listing_holds_for_a_day(tmp_path: Path, restarted: bool) -> None:
    """Whoever made the tree anew kept the INSTANCEID; the ledgers that are listed are others."""
    world = World(tmp_path, range(400))
    world.passes(1)
    world.delete(*range(400))
    world.store_new(*range(1000, 1099))
    world.passes(PASSES_A_DAY // 2)
    assert world.collector.alarm
    held = world.collector.held["collapsed"]
    assert (held.ledgers, held.bytes, held.listed, held.before) == (400, 400_000, 99, 400)
    assert held.until is not None
    assert 0 < held.until - time.time() <= DAY
    for fact in ("far fewer ledgers than before", "held=400", "bytes=400000", "until=2", "listed=99", "before=400"):
        assert fact in world.said()
    if restarted:
        world.restart()
        assert world.collector.held["collapsed"].ledgers == 400
        world.passes(1)
        world.restart()
    world.passes(PASSES_A_DAY // 2 - restarted)
    assert set(range(400)) <= world.disk.ids
    world.passes(2)
    assert_no_alarm_and_stored(world, set(range(1000, 1099)))


@pytest.mark.parametrize("minutes", [1, 4])
def test_a_tree_that_is_lost_step_by_step(tmp_path: Path, minutes: int) -> None:
    """No step is large; within a quarter of an hour most is lost. What vanished two passes before that is gone."""
    world = World(tmp_path, range(400))
    world.passes(1)
    for left in (200, 100, 50, 25, 12, 6, 0):
        world.now[0] += 60 * minutes - 600
        world.delete(*world.metadata.ledger_ids() if not left else list(world.metadata.ledger_ids())[left:])
        world.passes(1)
    assert world.passes(5).held >= 150
    assert "far fewer ledgers than before" in world.said()
    assert "listed=50 before=400" in world.said()


def test_what_was_listed_long_ago_is_no_measure(tmp_path: Path) -> None:
    world = World(tmp_path, range(400))
    world.passes(1)
    for first in range(0, 360, 120):
        world.delete(*range(first, first + 120))
        world.passes(3)
        assert not world.collector.alarm
    assert_no_alarm_and_stored(world, set(range(360, 400)))


def test_in_an_emptied_tree_those_wait_again_whose_hold_is_over(tmp_path: Path) -> None:
    """Every question says "absent" there."""
    world = World(tmp_path, range(400))
    world.passes(1)
    world.delete(*range(350))
    world.passes(PASSES_A_DAY)
    assert len(world.disk.ids) == 400
    world.delete(*range(350, 400))
    assert world.passes(PASSES_A_DAY).held == 400
    assert world.collector.held["emptied"].ledgers == 400


def test_in_a_hold_later_ledgers_go_as_always(tmp_path: Path) -> None:
    world = World(tmp_path, range(400))
    world.passes(1)
    world.delete(*range(350))
    world.passes(3)
    world.store_new(*range(1000, 1050))
    world.delete(399)
    world.delete(*range(1000, 1020))
    world.passes(2)
    assert world.disk.ids == {*range(399), *range(1020, 1050)}
    assert world.collector.held["collapsed"].ledgers == 350


def test_a_restored_tree_ends_the_hold(tmp_path: Path) -> None:
    world = World(tmp_path, range(400))
    world.passes(1)
    world.delete(*range(350))
    world.passes(3)
    assert world.collector.alarm
    for ledger_id in range(1, 350):
        world.create(ledger_id)
    world.passes(1)
    assert world.collector.held["collapsed"].ledgers == 1
    assert world.collector.held["collapsed"].bytes == 1000
    world.create(0)
    world.passes(2 * PASSES_A_DAY)
    assert_no_alarm_and_stored(world, set(range(400)))
    assert "no ledgers are held any more" in world.said()


def test_a_ledger_that_is_not_listed_and_exists_is_not_deleted_when_its_hold_is_over(tmp_path: Path) -> None:
    world = World(tmp_path, range(400))
    world.passes(1)

    class Holes(FaultyStore):
        def scan(self, key: str, *, page: int = 1000) -> Iterator[str]:
            return (name for name in self.store.scan(key, page=page) if name[0] != "L" or name == "L0000")

    world.through(Holes(world.store)).start()
    world.passes(PASSES_A_DAY + 5)
    assert world.disk.ids == set(range(400))


def test_restarts_neither_end_a_hold_early_nor_begin_it_anew(tmp_path: Path) -> None:
    """Each process is killed behind its second pass; the time between two processes does not count."""
    world = World(tmp_path, range(400))
    world.passes(1)
    world.delete(*range(350))
    world.passes(1)
    passes = 1
    while world.collector.held["collapsed"].ledgers:
        world.now[0] = passes * 1e6  # another boot, another clock
        world.kill()
        assert world.collector.alarm
        world.passes(2)
        passes += 2
        assert passes < 4 * PASSES_A_DAY
    assert passes >= PASSES_A_DAY
    world.passes(2)
    assert world.disk.ids == set(range(350, 400))


def test_a_hold_that_cannot_be_saved_deletes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(state: GcState) -> None:
        raise OSError(28, "no space")

    world = World(tmp_path, range(400))
    world.delete(1)
    world.passes(1)
    world.delete(*range(2, 399))
    monkeypatch.setattr(world.states, "save", refuse)
    for _ in range(3):
        assert world.collector.run() is None
    assert world.disk.ids == set(range(400))
    assert not world.collector.alarm
    monkeypatch.undo()
    assert world.passes(1).held == 398


def test_on_a_full_disk_deleted_ledgers_go_and_what_is_held_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The space that is kept for that is there once: tombstones and holds take it, the count of ledgers does not."""
    world = World(tmp_path, range(400))
    world.passes(1)
    spare = EmergencySpace(tmp_path / "spare", world.tombs.path, world.states.path)
    world.states = GcStateFile(world.states.path, spare, clock=lambda: world.now[0])
    world.tombs = TombstoneFile(world.tombs.path, keep=7 * DAY, spare=spare)
    world.kill()
    assert spare.keep()
    disk = FullDisk(monkeypatch, errno.ENOSPC)
    world.delete(*range(150))
    world.passes(2)
    assert world.disk.ids == set(range(150, 400))
    disk.full = False
    assert spare.keep()
    disk.full = True
    world.delete(*range(150, 399))
    assert world.passes(3).held == 249
    world.kill()
    assert world.collector.held["collapsed"].ledgers == 249


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happened_all_space_comes_back_within_two_days_and_no_listed_ledger_goes(
    tmp_path: Path, seed: int
) -> None:
    print(f"WALKEEPER_TEST_SEED={SEED}")
    chance = random.Random(SEED + seed)
    world = World(tmp_path, range(200))
    following = 1000
    for _ in range(60):
        listed = list(world.metadata.ledger_ids())
        world.delete(*chance.sample(listed, chance.choice((0, 0, min(1, len(listed)), len(listed) // 3, len(listed)))))
        made = range(following, following + chance.choice((0, 0, 1, 30, 150)))
        world.store_new(*made)
        following += len(made)
        if chance.random() < 0.2:
            chance.choice((world.restart, world.kill))()
        world.passes(chance.choice((1, 1, 2, 20)))
        assert world.disk.ids >= set(world.metadata.ledger_ids())
    world.store_new(following)
    world.passes(2 * PASSES_A_DAY + 2)
    assert_no_alarm_and_stored(world, set(world.metadata.ledger_ids()))


def test_an_operator_ends_a_hold(tmp_path: Path) -> None:
    world = World(tmp_path, range(400))
    world.passes(1)
    world.delete(*range(350))
    world.passes(2)
    world.acknowledgement.path.write_text("350\n")
    assert world.passes(1).deleted == 350
    assert not world.acknowledgement.path.exists()
    assert_no_alarm_and_stored(world, set(range(350, 400)))


def test_a_word_for_which_nothing_waits_is_removed(world: World) -> None:
    """It would let go of what is held at another time."""
    world.acknowledgement.path.write_text("1000000\n")
    world.passes(1)
    assert not world.acknowledgement.path.exists()
    assert "the acknowledgement was removed" in world.said()
    world.delete(*range(20))
    assert world.passes(3).held == 20


def test_a_bookie_of_which_no_listing_ever_had_a_ledger(tmp_path: Path) -> None:
    """Its clients keep their ledgers in another tree than it lists."""
    world = World(tmp_path, range(20))
    world.delete(*range(20))
    for ledger_id in range(5000, 5300):
        world.create(ledger_id)
    world.passes(PASSES_A_DAY // 2)
    world.disk.ids.update(range(100, 120))
    world.restart()
    assert world.passes(PASSES_A_DAY // 2).held == 40
    assert "the metadata list no ledger of this bookie" in world.said()
    assert world.collector.held["unlisted"].ledgers == 40
    world.passes(3)
    assert world.disk.ids == set(range(100, 120))  # they came half a day later


def test_another_root(tmp_path: Path) -> None:
    """With an INSTANCEID of its own, and with that of the right one, which somebody copied."""
    world = World(tmp_path, range(400))
    world.passes(1)
    root = "/other/ledgers"
    Cluster(world.store, root).init()
    for ledger_id in range(5000, 5300):
        Cluster(world.store, root).ledgers.create(LedgerMetadata(1, 1, 1, {0: ("a:1",)}), ledger_id)
    world.collector = world.new_collector(BookieMetadata(world.store, root))
    world.collector.start()
    for _ in range(PASSES_A_DAY + 5):
        assert world.collector.run() is None
        world.now[0] += 600
    assert world.collector.wrong_cluster
    world.store.put(f"{root}/INSTANCEID", world.instance_id.encode())
    assert world.passes(PASSES_A_DAY - 1).held == 400
    assert world.collector.held["unlisted"].ledgers == 400
    world.restart()  # with the right URI
    world.passes(PASSES_A_DAY)
    assert_no_alarm_and_stored(world, set(range(400)))


@pytest.mark.parametrize("manager", ZOOKEEPER_KEYS.managers)
def test_the_keys_of_another_layout_are_those_of_ledgers(tmp_path: Path, manager: LedgerManager) -> None:
    """Pulsar's client writes the keys of `hierarchical`, whatever LAYOUT says."""
    world = World(tmp_path, ())
    world.store.put(f"{ROOT}/LAYOUT", Layout.of(manager).serialise())
    for ledger_id in range(400):
        path = ZOOKEEPER_KEYS.managers[ledger_id % 4].path(ledger_id)
        world.store.create(f"{ROOT}/{path}", LedgerMetadata(1, 1, 1, {0: ("a:1",)}).serialise(), parents=True)
    world.disk.ids.update(range(400))
    world.through(world.store)
    assert world.passes(3).absent == 0
    assert world.collector.listed == 400
    assert world.collector.other_layout == (200 if manager.path(1).startswith("00/") else 300)
    assert world.said().count("keys of another layout") == 1
    assert f"layout={Layout.of(manager).factory}" in world.said()


@pytest.mark.parametrize("kept", ZOOKEEPER_KEYS.managers)
@pytest.mark.parametrize("manager", ZOOKEEPER_KEYS.managers)
def test_the_direct_question_is_asked_under_the_keys_of_every_layout(
    tmp_path: Path, manager: LedgerManager, kept: LedgerManager
) -> None:
    """The listing lacks the ledger in two passes, as that of a server may that is behind."""
    world = World(tmp_path, ())
    world.store.put(f"{ROOT}/LAYOUT", Layout.of(manager).serialise())
    world.store.create(f"{ROOT}/{kept.path(7)}", LedgerMetadata(1, 1, 1, {0: ("a:1",)}).serialise(), parents=True)

    class Behind(FaultyStore):
        def scan(self, key: str, *, page: int = 1000) -> Iterator[str]:
            return (name for name in self.store.scan(key, page=page) if name not in ("L0007", "L0000000007"))

    world.disk.ids.update((7, 8))
    world.through(Behind(world.store))
    assert world.passes(3).absent == 1
    assert world.disk.ids == {7}


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


@pytest.mark.parametrize("exists", [False, True])
def test_a_ledger_for_which_the_layout_has_no_key_is_asked_for_under_the_others(world: World, exists: bool) -> None:
    world.store.put(f"{ROOT}/LAYOUT", Layout.of(LedgerManager.LEGACY_HIERARCHICAL).serialise())
    world.disk.ids.add(NO_KEY)
    if exists:
        key = f"{ROOT}/{LedgerManager.HIERARCHICAL.path(NO_KEY)}"
        world.store.create(key, LedgerMetadata(1, 1, 1, {0: ("a:1",)}).serialise(), parents=True)
    world.through(world.store)
    world.delete(3)
    assert world.passes(2).deleted == 2 - exists
    assert (NO_KEY in world.disk.ids) == exists
