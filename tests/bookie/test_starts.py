"""Rule 2, an older directory: a copy that was put back answers for nothing that it lacks; a restart makes none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bookie_runs import FENCE, FENCED, IO_ERROR, NO_ENTRY, NO_LEDGER, OK, Bookies, Client, Running, bookies_in
from click.testing import CliRunner

from walkeeper.metadata import FaultyStore, MemoryStore, UnavailableError, open_store
from walkeeper_bookie import commands
from walkeeper_bookie._identity import IdentityError
from walkeeper_bookie._metadata import BookieMetadata
from walkeeper_bookie._starts import adopt, count_start
from walkeeper_bookie._state_files import StartsFile
from walkeeper_bookie.commands._client import V3, Connection

ID = "127.0.0.1:3181"
UNKNOWN_STATE = 507


class KilledError(BaseException):
    """The process ends here."""


class World:
    """A bookie's numbers, in its directory and in the metadata, and whether every ledger is in limbo."""

    def __init__(self, place: Path) -> None:
        self.store = MemoryStore()
        self.metadata = BookieMetadata(self.store, "/ledgers")
        self.instance_id = self.metadata.initialize()
        self.file = StartsFile(place / "starts")
        self.reasons: list[str] = []

    def start(self, metadata: BookieMetadata | None = None) -> bool:
        """Whether it was told that the directory is an older copy."""
        before = len(self.reasons)
        count_start(metadata or self.metadata, self.file, ID, self.instance_id, self.reasons.append)
        return len(self.reasons) > before

    @property
    def there(self) -> int | None:
        found = self.metadata.starts(ID, self.instance_id)
        return None if found is None else found.value


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_each_start_is_counted_in_both_places(world: World) -> None:
    assert world.there is None
    for number in (1, 2, 3):
        assert not world.start()
        assert world.file.load() == world.there == number


def test_a_directory_that_counts_less_is_an_older_copy_and_catches_up(world: World) -> None:
    for _ in range(3):
        world.start()
    world.file.save(2)
    assert world.start()
    assert "counts 2 starts of this bookie, and the cluster 3" in world.reasons[0]
    assert "limbo clear" in world.reasons[0]
    assert world.file.load() == world.there == 4
    assert not world.start()
    world.file.save(4)  # and the one that it took the place of is an older one now
    assert world.start()


def test_a_directory_that_lost_its_number_is_an_older_copy(world: World) -> None:
    world.start()
    world.file.path.unlink()
    assert world.start()


def test_where_the_metadata_have_no_number_yet_or_an_older_one_nothing_is_wrong(world: World) -> None:
    world.file.save(7)
    assert not world.start()
    assert world.there == 8
    world.metadata.put_starts(ID, world.instance_id, 3, world.metadata.starts(ID, world.instance_id).version)  # type: ignore[union-attr]
    assert not world.start()
    assert world.there == 9


def test_what_was_counted_in_another_cluster_says_nothing(world: World) -> None:
    world.metadata.put_starts(ID, "another-cluster", 7, None)
    assert not world.start()
    assert world.file.load() == world.there == 1


def test_a_new_directory_of_the_bookie_is_no_older_copy(world: World) -> None:
    for _ in range(3):
        world.start()
    world.file.path.unlink()
    adopt(world.file, world.metadata.starts(ID, world.instance_id))
    assert world.file.load() == 3
    assert not world.start()


@pytest.mark.parametrize("step", ["save", "put_starts"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("older", [False, True], ids=["newest", "older"])
def test_a_kill_at_any_step_makes_no_older_copy_and_hides_none(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str, when: str, older: bool
) -> None:
    for _ in range(3):
        world.start()
    if older:
        world.file.save(2)

    def killed(call: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object) -> object:
            if when == "after":
                call(*arguments)
            assert bool(world.reasons) is older  # limbo is durable before anything else is
            raise KilledError

        return run

    broken = world.file if step == "save" else world.metadata
    monkeypatch.setattr(broken, step, killed(getattr(broken, step)))
    with pytest.raises(KilledError):
        world.start()
    monkeypatch.undo()
    world.start()
    assert bool(world.reasons) is older
    assert not world.start()


@pytest.mark.parametrize("fault", ["before", "after", "never"])
@pytest.mark.parametrize("calls", range(4))
def test_with_a_store_that_fails_it_is_counted_or_can_be_counted_again(world: World, fault: str, calls: int) -> None:
    world.start()
    faulty = FaultyStore(world.store)
    faulty.script([*["none"] * calls, fault])  # type: ignore[list-item]
    try:
        assert not world.start(BookieMetadata(faulty, "/ledgers"))
    except UnavailableError:
        assert not world.start()
    assert world.file.load() == world.there
    assert not world.start()


def test_two_that_start_at_once_are_not_both_the_bookie(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.start()
    put = world.metadata.put_starts

    def overtaken(bookie_id: str, instance_id: str, number: int, version: int | None) -> None:
        put(bookie_id, instance_id, number + 5, version)
        put(bookie_id, instance_id, number, version)

    monkeypatch.setattr(world.metadata, "put_starts", overtaken)
    with pytest.raises(IdentityError, match="was started just now"):
        world.start()


# ---- as a process ----


@pytest.fixture
def bookies(tmp_path: Path) -> Iterator[Bookies]:
    with bookies_in(tmp_path) as found:
        yield found


def v3_read(port: int, ledger_id: int, entry_id: int) -> int:
    with Connection("127.0.0.1", port, V3, 60) as connection:
        return connection.read(ledger_id, entry_id).code


def test_cluster_rule_2_an_older_copy_of_the_directory_answers_for_nothing_that_it_lacks(bookies: Bookies) -> None:
    first = bookies.start("--init")
    first.ready()
    assert first.stop() == 0
    copy = bookies.place / "copy"
    shutil.copytree(first.data, copy)
    second = bookies.start(port=first.port)
    second.ready()
    with Client(second.port) as client:
        assert client.add(7, 0) == OK
        assert client.read(7, 0, flags=FENCE)[0] == OK
        assert client.add(7, 1) == FENCED
    assert second.stop() == 0
    shutil.rmtree(first.data)
    os.rename(copy, first.data)
    store = open_store(bookies.metadata).store
    damaged = "/ledgers/00/0000/L0007"
    store.create(damaged, b"nobody can read this", parents=True)  # it is taken for one that limbo concerns
    store.close()
    for _ in range(2):
        again = bookies.start(port=first.port)
        again.ready()
        assert v3_read(again.port, 7, 0) == UNKNOWN_STATE
        with Client(again.port) as client:
            assert client.read(7, 0)[0] == IO_ERROR
            assert client.add(7, 0) != OK
        again.kill()
    assert "an older copy" not in again.said()  # it was one at the start before, and caught up


def test_neither_a_stop_nor_a_kill_makes_a_directory_older(bookies: Bookies) -> None:
    bookie = bookies.start("--init")
    bookie.ready()
    with Client(bookie.port) as client:
        assert client.add(7, 0) == OK
    for end in (Running.stop, Running.kill, Running.kill):
        end(bookie)
        bookie = bookies.start(port=bookie.port)
        bookie.ready()
        assert "limbo" not in bookie.said()
        with Client(bookie.port) as client:
            assert client.read(7, 0)[0] == OK
            assert client.read(7, 1)[0] == NO_ENTRY
            assert client.read(8, 0)[0] == NO_LEDGER
    assert StartsFile(bookie.data / "starts").load() == 4


def test_nor_does_a_kill_between_the_two_numbers(bookies: Bookies) -> None:
    bookie = bookies.start("--init")
    bookie.ready()
    bookie.kill()
    killed = bookies.start(
        port=bookie.port,
        before="import os\nfrom walkeeper_bookie._metadata import BookieMetadata\n"
        "BookieMetadata.put_starts = lambda *_: os._exit(77)",
    )
    assert killed.ended() == 77
    assert StartsFile(bookie.data / "starts").load() == 2
    again = bookies.start(port=bookie.port)
    again.ready()
    assert "limbo" not in again.said()
    assert v3_read(again.port, 7, 0) != UNKNOWN_STATE


def test_nor_does_a_cookie_that_is_given_anew(bookies: Bookies) -> None:
    """What a new directory may lack is known otherwise."""
    bookie = bookies.start("--init")
    bookie.ready()
    bookie.kill()

    def run(*words: object) -> None:
        result = CliRunner().invoke(commands.bookie, [str(word) for word in words])
        assert result.exit_code == 0, result.output

    at = ("--metadata", bookies.metadata)
    for make in (("format", bookie.data), ("cookie", "create", bookie.data), None):
        run("cookie", "delete", *at, bookie.bookie_id, "--yes")
        if make is None or make[0] == "format":
            shutil.rmtree(bookie.data)
        else:
            (bookie.data / "VERSION").unlink()
            (bookie.data / "starts").unlink()
        if make is not None:
            run(*make, *at, "--bookie-id", bookie.bookie_id)
        again = bookies.start(*(() if make else ("--init",)), port=bookie.port)
        again.ready()
        assert "an older copy" not in again.said()
        assert again.stop() == 0
