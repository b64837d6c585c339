"""Rule 8, the cookies: a bookie starts on its own directory only; a kill at any step of its first start is repaired."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from walkeeper.metadata import (
    Cluster,
    Cookie,
    FaultyStore,
    LedgerManager,
    MemoryStore,
    UnavailableError,
    UnknownOutcomeError,
)
from walkeeper_bookie import _identity
from walkeeper_bookie._data_directory import DataDirectory
from walkeeper_bookie._exit_status import ExitStatus
from walkeeper_bookie._failures import status_of
from walkeeper_bookie._identity import IdentityError, establish, expected_cookie, refuse_lost_store
from walkeeper_bookie._metadata import BookieMetadata, LayoutError

ID = "127.0.0.1:3181"


class KilledError(BaseException):
    """The process ends here."""


class World:
    """A cluster, and a data directory whose store is empty, or not."""

    def __init__(self, place: Path) -> None:
        self.tree = MemoryStore()
        self.metadata = BookieMetadata(self.tree, "/ledgers")
        self.instance_id = self.metadata.initialize()
        self.data = DataDirectory(place)
        self.empty = True
        self.counted = 0

    @property
    def expected(self) -> Cookie:
        return expected_cookie(ID, self.data.path, self.instance_id)

    def establish(self, **changes: Callable[[], None]) -> bool:
        def count() -> None:
            self.counted += 1

        return establish(
            self.metadata, self.data, self.expected, lambda: self.empty, changes.get("before_it_counts", count)
        )

    def refusal(self) -> IdentityError:
        before = {path: path.read_bytes() for path in self.data.path.iterdir()}
        there = self.tree.get(f"/ledgers/cookies/{ID}")
        with pytest.raises(IdentityError) as caught:
            self.establish()
        assert {path: path.read_bytes() for path in self.data.path.iterdir()} == before
        assert self.tree.get(f"/ledgers/cookies/{ID}") == there
        return caught.value


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_new_bookie_has_the_same_bytes_in_both_places(world: World) -> None:
    assert world.establish()
    there = world.tree.get(f"/ledgers/cookies/{ID}")
    assert there is not None
    assert there.data == world.data.cookie.read_bytes()
    assert (
        there.data
        == (
            f'5\nbookieHost: "{ID}"\njournalDir: "{world.data.path}"\nledgerDirs: "1\\t{world.data.path}"\n'
            f'instanceId: "{world.instance_id}"\n'
        ).encode()
    )
    assert sorted(os.listdir(world.data.path)) == ["VERSION"]
    assert world.data.cookie.stat().st_mode & 0o777 == 0o600


def test_without_init_there_is_no_new_bookie_but_one_that_was_begun_is_finished(world: World) -> None:
    def begin(init: bool) -> bool:
        return establish(world.metadata, world.data, world.expected, lambda: True, init=init)

    with pytest.raises(IdentityError) as caught:
        begin(init=False)
    assert "--init" in caught.value.hint
    assert world.tree.get(f"/ledgers/cookies/{ID}") is None
    (world.data.path / "VERSION.new").write_bytes(world.expected.serialise())
    assert begin(init=False)


def test_the_next_time_it_is_known(world: World) -> None:
    world.establish()
    world.empty = False
    assert not world.establish()
    assert world.counted == 1


STEPS = ("replace_file", "create_cookie", "before_it_counts", "rename", "sync_directory")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_step_is_repaired_by_the_next_start(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str, when: str
) -> None:
    def killed(call: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object, **named: object) -> object:
            if when == "after":
                call(*arguments, **named)
            raise KilledError

        return run

    counted: list[str] = []
    changes: dict[str, Callable[[], None]] = {"before_it_counts": lambda: counted.append("counted")}
    if step == "before_it_counts":
        changes[step] = killed(changes[step])  # type: ignore[assignment]
    elif step == "create_cookie":
        monkeypatch.setattr(world.metadata, step, killed(world.metadata.create_cookie))
    elif step == "rename":
        monkeypatch.setattr(_identity.os, step, killed(os.rename))
    else:
        monkeypatch.setattr(_identity, step, killed(getattr(_identity, step)))
    with pytest.raises(KilledError):
        world.establish(**changes)
    monkeypatch.undo()
    finished = world.data.cookie.exists()
    assert world.establish() is not finished
    assert counted or world.counted  # and it never counts before what must come first has come
    assert not world.establish()
    assert sorted(os.listdir(world.data.path)) == ["VERSION"]


def test_it_does_not_count_before_the_limbo_is_kept(world: World) -> None:
    def look() -> None:
        assert not world.data.cookie.exists()

    world.establish(before_it_counts=look)


def test_a_lost_disk_is_refused(world: World) -> None:
    world.establish()
    world.data.cookie.unlink()
    wrong = world.refusal()
    assert "not mounted" in str(wrong)
    assert "cookie delete" in wrong.hint


def test_a_directory_whose_cookie_the_cluster_does_not_have_is_refused(world: World) -> None:
    world.establish()
    world.tree.delete(f"/ledgers/cookies/{ID}")
    wrong = world.refusal()
    assert "cookie create" in wrong.hint


def test_ledgers_without_a_cookie_are_refused(world: World) -> None:
    world.empty = False
    assert "has ledgers, but no cookie" in str(world.refusal())


def test_ledgers_without_a_cookie_are_refused_also_where_the_cluster_has_one(world: World) -> None:
    world.establish()
    world.data.cookie.unlink()
    world.empty = False
    world.refusal()


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("bookie_id", "127.0.0.1:3182", "--bookie-id"),
        ("journal_dirs", ("/elsewhere",), "old path"),
        ("ledger_dirs", ("/elsewhere",), "old path"),
        ("index_dirs", ("/elsewhere",), "old path"),
        ("instance_id", "another", "another cluster"),
    ],
)
@pytest.mark.parametrize("place", ["directory", "cluster"])
def test_a_cookie_that_differs_is_refused(world: World, field: str, value: object, says: str, place: str) -> None:
    world.establish()
    changed = Cookie(**{**vars(world.expected), field: value}).serialise()  # type: ignore[arg-type]
    if place == "directory":
        world.data.cookie.write_bytes(changed)
    else:
        world.tree.put(f"/ledgers/cookies/{ID}", changed)
    wrong = world.refusal()
    assert says in wrong.hint
    assert place in str(wrong)


@pytest.mark.parametrize("content", [b"", b"5\n", b"9\n", b"\0" * 100, b"5\nbookieHost: 7\n"])
def test_a_file_that_is_no_cookie_is_refused(world: World, content: bytes) -> None:
    world.establish()
    world.data.cookie.write_bytes(content)
    refusal = world.refusal()
    assert "is no cookie" in str(refusal)
    assert f"remove {world.data.cookie}, then walkeeper bookie cookie create" in refusal.hint


def test_an_unfinished_start_of_another_bookie_is_not_finished(world: World) -> None:
    """VERSION.new came with a copied directory; the cluster has this bookie's cookie from another disk."""
    world.establish()
    other = Cookie("127.0.0.1:9", ("/x",), ("/x",), instance_id=world.instance_id)
    world.data.cookie.unlink()
    (world.data.path / "VERSION.new").write_bytes(other.serialise())
    assert "not mounted" in str(world.refusal())


def test_two_new_bookies_with_one_id_do_not_both_start(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one, with the same settings on another machine, came between the look and the write."""
    create = world.metadata.create_cookie

    def late(cookie: Cookie) -> None:
        create(cookie)
        create(cookie)

    monkeypatch.setattr(world.metadata, "create_cookie", late)
    with pytest.raises(IdentityError, match="another bookie with the id"):
        world.establish()
    monkeypatch.undo()
    with pytest.raises(IdentityError, match="has been in this cluster before"):
        world.establish()  # the cookie there is the other one's, also at the next start


@pytest.mark.parametrize("faults", [["after"], ["never"], ["never", "after"], ["before"]])
def test_an_unknown_outcome_of_the_write_is_settled(world: World, faults: list[str]) -> None:
    faulty = FaultyStore(world.tree)
    world.metadata = BookieMetadata(faulty, "/ledgers")
    establish_ = world.metadata.create_cookie

    def create(cookie: Cookie) -> None:
        if faults:
            faulty.script([faults.pop(0)])  # type: ignore[list-item]
        establish_(cookie)

    world.metadata.create_cookie = create  # type: ignore[method-assign]
    if faults == ["before"]:
        with pytest.raises(UnavailableError):
            world.establish()
    assert world.establish()
    assert not world.establish()


def test_a_write_that_stays_unknown_is_left_to_the_next_try(world: World) -> None:
    """Who waits for the store can give up meanwhile; a write that comes late is still this bookie's own."""
    create = world.metadata.create_cookie
    tries = []

    def unknown(cookie: Cookie) -> None:
        tries.append(cookie)
        assert len(tries) < 100, "it is never given up"
        raise UnknownOutcomeError("nobody knows")

    world.metadata.create_cookie = unknown  # type: ignore[method-assign]
    with pytest.raises(UnknownOutcomeError):
        world.establish()

    def late(cookie: Cookie) -> None:
        create(cookie)
        create(cookie)

    world.metadata.create_cookie = late  # type: ignore[method-assign]
    assert world.establish()
    assert not world.establish()


def test_unknown_outcomes_are_what_was_injected() -> None:
    faulty = FaultyStore(MemoryStore())
    faulty.script(["after"])
    with pytest.raises(UnknownOutcomeError):
        faulty.create("/x")


def test_what_is_another_programs_becomes_no_bookie(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    refuse_lost_store(data, init=True)
    for name in ("lost+found", "VERSION.new", "VERSION.tmp", "limbo"):
        (tmp_path / name).touch()
    refuse_lost_store(data, init=True)
    (tmp_path / "mail").touch()
    with pytest.raises(IdentityError, match="'mail'"):
        refuse_lost_store(data, init=True)


def test_a_store_that_is_gone_is_not_made_anew(world: World) -> None:
    refuse_lost_store(world.data, init=True)  # a new directory
    with pytest.raises(IdentityError, match="no bookie's directory yet"):
        refuse_lost_store(world.data, init=False)
    world.data.store.mkdir()
    world.establish()
    refuse_lost_store(world.data, init=False)
    world.data.store.rmdir()
    with pytest.raises(IdentityError, match="gone"):
        refuse_lost_store(world.data, init=True)


# ---- the layout that the metadata URI names ----

FACTORY = "org.apache.bookkeeper.meta.{}LedgerManagerFactory"


@pytest.mark.parametrize(
    ("manager", "name"),
    [(None, "Hierarchical"), (LedgerManager.HIERARCHICAL, "Hierarchical"),
     (LedgerManager.LONG_HIERARCHICAL, "LongHierarchical")],
)  # fmt: skip
def test_a_new_cluster_gets_the_layout_that_was_asked_for(manager: LedgerManager | None, name: str) -> None:
    store = MemoryStore()
    metadata = BookieMetadata(store, "/ledgers", manager)
    metadata.check_layout()  # there is none yet
    instance_id = metadata.initialize()
    assert Cluster(store).layout().factory == FACTORY.format(name)
    assert metadata.initialize() == instance_id
    assert BookieMetadata(store, "/ledgers").initialize() == instance_id  # who asks for none takes what is there


@pytest.mark.parametrize("there", [LedgerManager.HIERARCHICAL, LedgerManager.LEGACY_HIERARCHICAL])
def test_another_layout_than_was_asked_for_is_refused_and_stays(there: LedgerManager) -> None:
    store = MemoryStore()
    Cluster(store).init(there)
    metadata = BookieMetadata(store, "/ledgers", LedgerManager.LONG_HIERARCHICAL)
    for call in (metadata.check_layout, metadata.initialize):
        with pytest.raises(LayoutError, match=r"LongHierarchical.* and the cluster has .*" + there.value) as caught:
            call()
        assert "zk://" in caught.value.hint
        assert status_of(caught.value) == ExitStatus.WRONG_USE
    assert Cluster(store).layout().manager is there
