"""Rule 2: limbo where acknowledged data may be missing, and only there; kept before anything is served."""

from __future__ import annotations

import io
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from bookie_runs import FENCED, IO_ERROR, NO_ENTRY, NO_LEDGER, OK, READ_ONLY, Client

from walkeeper.errors import JournalFailedError
from walkeeper.metadata import ZOOKEEPER_KEYS, FaultyStore, LedgerManager, LedgerMetadata, MemoryStore, UnavailableError
from walkeeper_bookie._addresses import reserved
from walkeeper_bookie._collector import Acknowledgement, Collector
from walkeeper_bookie._directory import Directory, Recovery
from walkeeper_bookie._gc_state_file import GcStateFile
from walkeeper_bookie._kinds import Address
from walkeeper_bookie._limbo import Limbo, reason_for_limbo
from walkeeper_bookie._log import Log
from walkeeper_bookie._metadata import BookieMetadata
from walkeeper_bookie._server import Server
from walkeeper_bookie._state_files import LimboFile, LimboState, NotInLimboError, TombstoneFile

ME, OTHER, CLUSTER = "127.0.0.1:1", "127.0.0.1:2", "a-cluster"
CLEAN = Recovery(cut_bytes=0, damaged_blocks=0, unknown_blocks=0, lost_entries=0, lost_files=0, elapsed_ns=5)


class Told:
    """Stands for the server: what it was told last."""

    def __init__(self) -> None:
        self.everything, self.ids = False, [0]

    def __call__(self, everything: bool, ledger_ids: Iterable[int]) -> None:
        self.everything, self.ids = everything, list(ledger_ids)


@pytest.fixture
def store() -> MemoryStore:
    """A cluster whose ledger n has this bookie in its first ensemble (1, 2), a later one (3), or in none (4, 5)."""
    store = MemoryStore()
    BookieMetadata(store, "/ledgers").initialize()
    store.put("/ledgers/INSTANCEID", CLUSTER.encode())
    for ledger_id, segments in {
        1: {0: (ME,)},
        2: {0: (ME,), 5: (OTHER,)},
        3: {0: (OTHER,), 5: (ME,)},
        4: {0: (OTHER,)},
        5: {0: ("127.0.0.1:11",)},
    }.items():
        key = f"/ledgers/00/0000/L{ledger_id:04d}"
        store.create(key, LedgerMetadata(1, 1, 1, segments).serialise(), parents=True)
    return store


class Fences:
    """Stands for the ledger store: what was fenced, in order; and the file then."""

    def __init__(self, file: Path) -> None:
        self.file, self.ids = file, array("q")
        self.states: list[LimboState] = []
        self.refuses = False

    def fence(self, ledger_ids: Iterable[int]) -> None:
        found = list(ledger_ids)
        if found and self.refuses:
            raise JournalFailedError("the journal failed")
        self.ids.extend(found)
        if found:
            self.states.append(LimboFile(self.file).load())


def limbo_of(
    store: MemoryStore | FaultyStore, place: Path, fences: Fences | None = None, deleted: Iterable[int] = ()
) -> Limbo:
    file, log, metadata = place / "limbo", Log(io.StringIO()), BookieMetadata(store, "/ledgers")
    fences, deleted = fences or Fences(file), set(deleted)
    return Limbo(LimboFile(file), metadata, fences, ME, CLUSTER, log, deleted=deleted.intersection)


def test_a_clean_start_and_a_torn_tail_are_no_reason() -> None:
    torn = Recovery(cut_bytes=4096, damaged_blocks=0, unknown_blocks=0, lost_entries=0, lost_files=0, elapsed_ns=5)
    assert reason_for_limbo(CLEAN) == reason_for_limbo(torn) == ""


@pytest.mark.parametrize("field", ["damaged_blocks", "unknown_blocks", "lost_entries", "lost_files"])
def test_damage_is_a_reason(field: str) -> None:
    found = Recovery(**{**vars(CLEAN), field: 1})
    assert reason_for_limbo(found)


def test_a_new_directory_is_a_reason() -> None:
    assert reason_for_limbo(CLEAN, new=True)


def test_every_ledger_first_then_those_that_have_this_bookie(store: MemoryStore, tmp_path: Path) -> None:
    limbo, told = limbo_of(store, tmp_path), Told()
    limbo.begin("test")
    limbo.attach(told)
    assert told.everything
    assert limbo.note()
    assert (told.everything, told.ids) == (False, [1, 2, 3])


@pytest.mark.parametrize("manager", ZOOKEEPER_KEYS.managers)
def test_a_ledger_under_a_key_of_another_layout_is_noted(
    store: MemoryStore, tmp_path: Path, manager: LedgerManager
) -> None:
    """Pulsar's client goes by no LAYOUT; what the bookie lost of such a ledger it must not say to be absent."""
    store.create(f"/ledgers/{manager.path(77)}", LedgerMetadata(1, 1, 1, {0: (ME,)}).serialise(), parents=True)
    limbo, told = limbo_of(store, tmp_path), Told()
    limbo.begin("test")
    limbo.attach(told)
    assert limbo.note()
    assert told.ids == [1, 2, 3, 77]


def test_it_is_kept_before_anybody_is_told(store: MemoryStore, tmp_path: Path) -> None:
    limbo = limbo_of(store, tmp_path)
    kept: list[LimboState] = []

    def tell(everything: bool, ledger_ids: Iterable[int]) -> None:
        kept.append(LimboFile(tmp_path / "limbo").load())
        assert (everything, list(ledger_ids)) == (kept[-1].everything, list(kept[-1].listed))

    limbo.begin("test")
    limbo.attach(tell)
    limbo.note()
    limbo.clear([2])
    assert [list(state.ledger_ids) for state in kept] == [[], [1, 2, 3], [1, 3]]


def test_a_killed_bookie_is_where_it_was(store: MemoryStore, tmp_path: Path) -> None:
    first = limbo_of(store, tmp_path)
    first.begin("test")
    second = limbo_of(store, tmp_path)
    second.load()
    assert second.state.everything
    second.note()
    third, told = limbo_of(store, tmp_path), Told()
    third.load()
    third.attach(told)
    assert (told.everything, told.ids) == (False, [1, 2, 3])


def test_damage_again_puts_every_ledger_back(store: MemoryStore, tmp_path: Path) -> None:
    limbo = limbo_of(store, tmp_path)
    limbo.begin("test")
    limbo.note()
    limbo.begin("again")
    assert LimboFile(tmp_path / "limbo").load().everything


@pytest.mark.parametrize("at", range(4))
def test_a_listing_that_breaks_off_leaves_every_ledger_in_limbo(store: MemoryStore, tmp_path: Path, at: int) -> None:
    class Breaking(FaultyStore):
        def scan(self, key: str, *, page: int = 1000) -> Iterator[str]:
            for number, name in enumerate(self.store.scan(key, page=page)):
                if number == at and name.startswith("L"):
                    raise UnavailableError("injected")
                yield name

    limbo, told = limbo_of(Breaking(store), tmp_path), Told()
    limbo.begin("test")
    limbo.attach(told)
    assert not limbo.note()
    assert told.everything
    assert LimboFile(tmp_path / "limbo").load().everything


@pytest.mark.parametrize("data", [b"nonsense", b"BookieMetadataFormatVersion\t9\nx"])
def test_a_ledger_whose_metadata_nobody_can_read_is_in_limbo_and_the_others_get_out(
    store: MemoryStore, tmp_path: Path, data: bytes
) -> None:
    store.put("/ledgers/00/0000/L0004", data)
    limbo, told = limbo_of(store, tmp_path), Told()
    limbo.begin("test")
    limbo.attach(told)
    assert limbo.note()
    assert (told.everything, told.ids) == (False, [1, 2, 3, 4])


def test_a_store_that_does_not_answer_is_asked_less_and_less(store: MemoryStore, tmp_path: Path) -> None:
    faulty = FaultyStore(store)
    limbo = limbo_of(faulty, tmp_path)
    limbo.begin("test")
    waits = []
    for _ in range(8):
        faulty.script(["before"])
        assert not limbo.note()
        waits.append(limbo.retry_s)
    assert (waits[0], waits[-1]) == (20, 600)
    assert limbo.note()


# ---- fences ----


def test_who_leaves_limbo_was_fenced_before(store: MemoryStore, tmp_path: Path) -> None:
    fences = Fences(tmp_path / "limbo")
    limbo = limbo_of(store, tmp_path, fences)
    limbo.begin("test")
    assert list(fences.ids) == []
    limbo.note()
    assert list(fences.ids) == [1, 2, 3]
    assert fences.states[-1].everything, "they were not out yet"
    limbo.add([9])
    assert list(fences.ids) == [1, 2, 3, 9]
    assert 9 in fences.states[-1].ledger_ids
    limbo.clear([2])
    assert list(fences.ids) == [1, 2, 3, 9, 2]
    assert 2 in fences.states[-1].ledger_ids
    limbo.clear(None)
    assert list(fences.ids) == [1, 2, 3, 9, 2, 1, 3, 9]


def test_who_is_cleared_before_it_is_noted_is_fenced(store: MemoryStore, tmp_path: Path) -> None:
    fences = Fences(tmp_path / "limbo")
    limbo = limbo_of(store, tmp_path, fences)
    limbo.begin("test")
    limbo.clear([8])
    assert list(fences.ids) == [8]


def test_what_an_operator_did_while_it_was_stopped_is_fenced_at_the_start(store: MemoryStore, tmp_path: Path) -> None:
    LimboFile(tmp_path / "limbo").save(LimboState(True, array("q", [5]), array("q", [6])))
    fences = Fences(tmp_path / "limbo")
    limbo_of(store, tmp_path, fences).load()
    assert list(fences.ids) == [5, 6]


@pytest.mark.parametrize("change", ["note", "clear", "load"])
def test_who_cannot_be_fenced_stays_in_limbo(store: MemoryStore, tmp_path: Path, change: str) -> None:
    fences, told = Fences(tmp_path / "limbo"), Told()
    limbo = limbo_of(store, tmp_path, fences)
    limbo.begin("test")
    limbo.attach(told)
    fences.refuses = True
    if change == "note":
        assert not limbo.note()
        assert told.everything
        return
    fences.refuses = False
    limbo.note()
    fences.refuses = True
    with pytest.raises(JournalFailedError):
        limbo.clear([1]) if change == "clear" else limbo.load()
    assert told.ids == [1, 2, 3]
    assert list(LimboFile(tmp_path / "limbo").load().ledger_ids) == [1, 2, 3]


def test_a_ledger_is_fenced_whoever_has_its_key(tmp_path: Path) -> None:
    """The store itself: known with a key, known without, unknown, and deleted meanwhile."""
    directory = Directory.open(tmp_path / "ledgers")
    server = Server.start(directory)
    server.listen(reserved("listen", Address("127.0.0.1", 0)))
    server.set_limbo(False)
    server.set_read_only(False, False)
    try:
        with Client(server.port) as client:
            assert client.add(5, 0) == OK
            directory.fence([5, 7, 5])
            directory.fence([])
            assert client.add(5, 1) == FENCED
            assert client.add(7, 0) == FENCED
            assert client.add(6, 0) == OK
            assert client.read(5, 0)[0] == OK
    finally:
        server.stop(5)
        directory.close()


def test_a_disk_that_refuses_keeps_it_as_it_is(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: LimboFile, state: LimboState) -> None:
        raise OSError(28, "no space")

    limbo, told = limbo_of(store, tmp_path), Told()
    limbo.begin("test")
    limbo.attach(told)
    monkeypatch.setattr(LimboFile, "save", refuse)
    assert not limbo.note()
    assert told.everything


def test_cleared_one_by_one(store: MemoryStore, tmp_path: Path) -> None:
    limbo, told = limbo_of(store, tmp_path), Told()
    limbo.begin("test")
    limbo.attach(told)
    limbo.note()
    with pytest.raises(NotInLimboError, match=r"not in limbo: 4, 5\. Nothing was changed"):
        limbo.clear([5, 1, 4])
    assert told.ids == [1, 2, 3]
    limbo.clear([1])
    limbo.clear([3])
    assert told.ids == [2]
    limbo.clear([2])
    assert not limbo.state
    assert not (tmp_path / "limbo").exists()


def test_single_ledgers_are_cleared_where_every_one_is_in_limbo(store: MemoryStore, tmp_path: Path) -> None:
    limbo, told = limbo_of(store, tmp_path), Told()
    limbo.begin("test")
    limbo.attach(told)
    limbo.clear([1, 8])
    assert (told.everything, told.ids) == (True, [1, 8])  # every ledger but these
    with pytest.raises(NotInLimboError):
        limbo.clear([8])
    limbo.add([8, 9])
    assert (told.everything, told.ids) == (True, [1])
    again = limbo_of(store, tmp_path)
    again.load()
    again.attach(told)
    assert (told.everything, told.ids) == (True, [1])
    assert again.note()
    assert (told.everything, told.ids) == (False, [2, 3, 8, 9])  # what an operator said outlives the listing


@pytest.mark.parametrize(("cleared", "left"), [([2], [1, 3]), (None, [])])
def test_an_operator_who_speaks_during_the_listing_is_heard(
    store: MemoryStore, tmp_path: Path, cleared: list[int] | None, left: list[int]
) -> None:
    said: list[str] = []

    class Slow(FaultyStore):
        def scan(self, key: str, *, page: int = 1000) -> Iterator[str]:
            if not said:
                said.append(key)
                limbo.clear(cleared)
            yield from self.store.scan(key, page=page)

    limbo, told = limbo_of(Slow(store), tmp_path), Told()
    limbo.begin("test")
    limbo.attach(told)
    assert limbo.note()
    assert said
    assert (told.everything, told.ids) == (False, left)


def test_a_session_that_is_lost_while_ledgers_are_listed_leaves_every_ledger_in_limbo(
    store: MemoryStore, tmp_path: Path
) -> None:
    """Another server goes on with the listing, which is behind, and has not heard of the ledger."""

    class Losing(FaultyStore):
        lost, sound = 0, False

        def scan(self, key: str, *, page: int = 1000) -> Iterator[str]:
            for name in self.store.scan(key, page=page):
                if name == "L0002" and not self.sound:
                    self.lost += 1
                else:
                    yield name

        def session(self) -> int:
            return self.lost

    losing, told = Losing(store), Told()
    fences = Fences(tmp_path / "limbo")
    limbo = limbo_of(losing, tmp_path, fences)
    limbo.begin("test")
    limbo.attach(told)
    assert not limbo.note()
    assert told.everything
    assert list(fences.ids) == []
    assert LimboFile(tmp_path / "limbo").load().everything
    assert limbo.retry_s == 20
    losing.sound = True
    assert limbo.note()
    assert (told.everything, told.ids) == (False, [1, 2, 3])


@pytest.mark.parametrize("found", ["another", None])
def test_another_clusters_listing_leaves_every_ledger_in_limbo(
    store: MemoryStore, tmp_path: Path, found: str | None
) -> None:
    limbo, told = limbo_of(store, tmp_path), Told()
    limbo.begin("test")
    limbo.attach(told)
    store.delete("/ledgers/INSTANCEID")
    if found is not None:
        store.create("/ledgers/INSTANCEID", found.encode())
    assert not limbo.note()
    assert told.everything


@pytest.mark.parametrize("when", ["listing", "fencing"])
@pytest.mark.parametrize("cleared", [True, False])
def test_a_listing_of_before_says_nothing_of_ledgers_that_were_put_into_limbo_since(
    store: MemoryStore, tmp_path: Path, when: str, cleared: bool
) -> None:
    """Meanwhile all are cleared, a ledger is made and gets its adds, and all are put into limbo again."""
    said: list[str] = []

    def speak() -> None:
        if not said:
            said.append("clear")
            if cleared:
                limbo.clear(None)
            store.create("/ledgers/00/0000/L0009", LedgerMetadata(1, 1, 1, {0: (ME,)}).serialise())
            limbo.add(None)

    class Slow(FaultyStore):
        def scan(self, key: str, *, page: int = 1000) -> Iterator[str]:
            yield from list(self.store.scan(key, page=page))
            if when == "listing" and key.endswith("/00/0000"):
                speak()

    class Fencing(Fences):
        def fence(self, ledger_ids: Iterable[int]) -> None:
            super().fence(ledger_ids)
            if when == "fencing" and self.ids:
                speak()

    fences, told = Fencing(tmp_path / "limbo"), Told()
    limbo = limbo_of(Slow(store), tmp_path, fences)
    limbo.begin("test")
    limbo.attach(told)
    assert not limbo.note()
    assert said
    assert told.everything
    assert (list(fences.ids) == []) == (when == "listing"), "writers of before go on"
    assert limbo.note()
    assert (told.everything, told.ids) == (False, [1, 2, 3, 9])


def test_new_damage_forgets_what_was_cleared(store: MemoryStore, tmp_path: Path) -> None:
    limbo, told = limbo_of(store, tmp_path), Told()
    limbo.begin("test")
    limbo.clear([1])
    limbo.begin("again")
    limbo.attach(told)
    assert (told.everything, told.ids) == (True, [])


def test_every_ledger_is_put_into_limbo_and_taken_out(store: MemoryStore, tmp_path: Path) -> None:
    limbo, told = limbo_of(store, tmp_path), Told()
    limbo.attach(told)
    limbo.add([4])
    limbo.add(None)
    assert (told.everything, told.ids) == (True, [])
    limbo.clear(None)
    assert (told.everything, told.ids) == (False, [])
    assert not (tmp_path / "limbo").exists()


# ---- deleted ledgers ----


class Life:
    """A bookie's process, as far as ledgers come and go: its store, its limbo and its collector."""

    def __init__(self, place: Path, store: MemoryStore) -> None:
        metadata, log = BookieMetadata(store, "/ledgers"), Log(io.StringIO())
        self.directory = Directory.open(place / "ledgers")
        instance_id = metadata.initialize()
        tombs = TombstoneFile(place / "tombstones", keep=7 * 86400.0)
        file = LimboFile(place / "limbo")
        self.limbo = Limbo(file, metadata, self.directory, ME, instance_id, log, deleted=tombs.among)
        self.limbo.load()
        self.collector = Collector(
            self.directory,
            metadata,
            tombs,
            lambda ledger_ids: None,
            Acknowledgement(place / "gc-acknowledged"),
            GcStateFile(place / "gc-state"),
            instance_id,
            log,
            hold_time=86400.0,
            forget=self.limbo.forget,
        )

    def end(self) -> None:
        assert self.directory.close() is None


def test_deleted_ledgers_leave_limbo_and_no_start_brings_them_back(tmp_path: Path) -> None:
    store = MemoryStore()
    BookieMetadata(store, "/ledgers").initialize()
    keys = [f"/ledgers/00/0000/L{ledger_id:04d}" for ledger_id in range(400)]
    for key in keys:
        store.create(key, LedgerMetadata(1, 1, 1, {0: (ME,)}).serialise(), parents=True)
    first = Life(tmp_path, store)
    first.limbo.begin("test")
    assert first.limbo.note()
    assert len(first.directory.ledgers()) == 400
    for at in range(0, 280, 70):
        for key in keys[at : at + 70]:
            store.delete(key)
        first.collector.run()
        first.collector.run()
    assert list(first.directory.ledgers()) == list(first.limbo.state.ledger_ids) == list(range(280, 400))
    assert list(LimboFile(tmp_path / "limbo").load().ledger_ids) == list(range(280, 400))
    first.end()
    second = Life(tmp_path, store)
    assert list(second.directory.ledgers()) == list(range(280, 400))
    done = second.collector.run()
    assert done is not None
    assert (done.local, done.absent, done.held) == (120, 0, 0)
    second.end()


def test_a_kill_before_a_deleted_ledger_was_forgotten_is_made_good(store: MemoryStore, tmp_path: Path) -> None:
    file, fences = LimboFile(tmp_path / "limbo"), Fences(tmp_path / "limbo")
    file.save(LimboState(ledger_ids=array("q", [1, 2, 3])))
    limbo = limbo_of(store, tmp_path, fences, deleted={2})
    limbo.load()
    assert list(fences.ids) == [1, 3]
    assert list(limbo.state.ledger_ids) == list(file.load().ledger_ids) == [1, 3]


def test_a_deleted_ledger_that_was_cleared_is_neither_fenced_nor_put_back(store: MemoryStore, tmp_path: Path) -> None:
    file, fences, told = LimboFile(tmp_path / "limbo"), Fences(tmp_path / "limbo"), Told()
    file.save(LimboState(True, array("q", [4, 5]), array("q", [6, 7])))
    limbo = limbo_of(store, tmp_path, fences, deleted={5, 7})
    limbo.load()
    limbo.attach(told)
    assert list(fences.ids) == [4, 6]
    assert (told.everything, told.ids) == (True, [6, 7])  # every ledger but these
    limbo.forget([6])
    assert file.load() == LimboState(True, array("q", [4]), array("q", [6, 7]))


def test_a_deleted_ledger_that_a_listing_still_has_is_not_noted(store: MemoryStore, tmp_path: Path) -> None:
    fences = Fences(tmp_path / "limbo")
    limbo = limbo_of(store, tmp_path, fences, deleted={2})
    limbo.begin("test")
    assert limbo.note()
    assert list(fences.ids) == list(limbo.state.ledger_ids) == [1, 3]


def test_a_disk_that_refuses_to_forget_holds_no_delete_up(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: LimboFile, state: LimboState) -> None:
        raise OSError(28, "no space")

    limbo, told = limbo_of(store, tmp_path), Told()
    limbo.begin("test")
    limbo.note()
    limbo.attach(told)
    monkeypatch.setattr(LimboFile, "save", refuse)
    limbo.forget([2])
    assert told.ids == [1, 3]


def test_the_server_serves_nothing_before_it_is_told(tmp_path: Path) -> None:
    directory = Directory.open(tmp_path / "ledgers")
    server = Server.start(directory)
    server.listen(reserved("listen", Address("127.0.0.1", 0)))
    try:
        with Client(server.port) as client:
            assert client.read(7, 0)[0] == IO_ERROR
            assert client.add(7, 0) == READ_ONLY
            server.set_read_only(False, True)
            assert client.add(7, 0) == READ_ONLY  # the fence may be what was lost
            server.set_limbo(True, [7])
            assert client.add(7, 0) == OK
            server.set_limbo(False, [7])
            assert client.add(7, 1) == READ_ONLY
            assert client.read(7, 0)[0] == OK
            assert client.read(7, 1)[0] == IO_ERROR
            assert client.read(8, 0)[0] == NO_LEDGER
            server.set_limbo(True, [7])
            assert client.read(7, 1)[0] == NO_ENTRY
            assert client.read(8, 0)[0] == IO_ERROR
            server.set_limbo(False)
            assert client.read(7, 1)[0] == NO_ENTRY
    finally:
        server.stop(10)
        directory.close()
