"""A bookie whose journal is damaged: it does not start, or goes on behind what is lost and calls nothing absent."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie_runs import Bookies, Running, bookies_in, until
from click.testing import CliRunner
from wire_client import (
    FENCE,
    FENCED,
    HIGH_PRIORITY,
    NO_ENTRY,
    NO_LEDGER,
    OK,
    READ_ONLY,
    RECOVERY,
    UNKNOWN_STATE,
    WireClient,
)

from walkeeper.errors import DamagedError
from walkeeper.metadata import LedgerMetadata, open_store
from walkeeper_bookie import commands
from walkeeper_bookie._damage import open_behind_damage
from walkeeper_bookie._directory import Directory
from walkeeper_bookie._log import Log
from walkeeper_bookie._state_files import LimboFile, LimboState

ENTRIES, LEDGER, OTHER = 100, 5, 6


@pytest.fixture
def bookies(tmp_path: Path) -> Iterator[Bookies]:
    with bookies_in(tmp_path) as found:
        yield found


def payload(entry_id: int) -> bytes:
    return b"a precious entry %d" % entry_id


def places_of_entries(data: Path) -> list[tuple[Path, int]]:
    """Where, in which file, the bytes of each entry stand."""
    found = []
    for path in sorted((data / "ledgers").rglob("*")):
        if path.is_file():
            text, at = path.read_bytes(), -1
            while (at := text.find(b"a precious entry", at + 1)) >= 0:
                found.append((path, at))
    return found


def make_metadata(bookies: Bookies, bookie: Running) -> None:
    """Both ledgers are on this bookie alone."""
    store = open_store(bookies.metadata).store
    for ledger_id in (LEDGER, OTHER):
        members = LedgerMetadata(1, 1, 1, {0: (bookie.bookie_id,)})
        store.create(f"/ledgers/00/0000/L{ledger_id:04d}", members.serialise(), parents=True)
    store.close()


def killed_and_damaged(bookies: Bookies, *which: int) -> Running:
    """A bookie with two ledgers, of one of which entries were spoilt when it had been killed."""
    bookie = bookies.start("--init", "--memtable", "1MiB")
    bookie.ready()
    make_metadata(bookies, bookie)
    with WireClient(bookie.port) as client:
        for entry_id in range(ENTRIES):
            assert client.add(LEDGER, entry_id, payload(entry_id)) == OK
        assert client.add(OTHER, 0, b"of another ledger") == OK
    bookie.kill()
    places = places_of_entries(bookie.data)
    for entry_id in which:
        path, at = places[entry_id]
        with path.open("r+b") as file:
            file.seek(at)
            file.write(b"A")
    return bookie


@pytest.mark.parametrize("which", [0, 50, 98])
def test_damage_before_the_confirmed_end_is_not_passed_over(bookies: Bookies, which: int) -> None:
    first = killed_and_damaged(bookies, which)
    for _ in range(2):
        second = bookies.start(port=first.port)
        assert second.process.stdout is not None
        assert second.process.stdout.readline() == ""  # it is never ready
        assert second.ended() == 5
        assert "limbo" not in second.said()
        assert "--on-damage skip" in second.said()


def check_what_is_left(port: int, *lost: int) -> None:
    with WireClient(port) as client:
        for entry_id in range(ENTRIES):
            reply = client.read(LEDGER, entry_id)
            if entry_id in lost:
                assert reply.code == UNKNOWN_STATE
            else:
                assert (reply.code, reply.payload) == (OK, payload(entry_id))
        assert client.read(LEDGER, 5000).code == UNKNOWN_STATE
        assert client.read(77, 0).code in (UNKNOWN_STATE, NO_LEDGER)
        assert client.read(OTHER, 0).payload == b"of another ledger"
        for ledger_id in (LEDGER, OTHER):
            assert client.add(ledger_id, ENTRIES, b"by a writer") == READ_ONLY  # its fence may be what was lost


@pytest.mark.parametrize("which", [(0,), (50, 51), (20, 60, 98)])
def test_cluster_rule_2_a_bookie_that_goes_on_behind_damage_says_of_nothing_that_it_is_absent(
    bookies: Bookies, which: tuple[int, ...]
) -> None:
    first = killed_and_damaged(bookies, *which)
    second = bookies.start("--on-damage", "skip", port=first.port)
    second.ready()
    assert "the directory is damaged" in second.said()
    assert "every ledger is in limbo" in second.said()
    check_what_is_left(first.port, *which)
    second.kill()
    third = bookies.start(port=first.port)  # its journal is whole now; what it lost it does not forget
    third.ready()
    check_what_is_left(first.port, *which)
    with WireClient(first.port) as client:  # as auto-recovery repairs it, from the other bookies
        for entry_id in which:
            assert client.add(LEDGER, entry_id, payload(entry_id), RECOVERY | HIGH_PRIORITY) == OK
    assert third.stop() == 0
    cleared = CliRunner().invoke(commands.bookie, ["limbo", "clear", str(third.data), str(LEDGER)])
    assert cleared.exit_code == 0, cleared.output
    fourth = bookies.start(port=first.port)
    fourth.ready()
    with WireClient(first.port) as client:
        for entry_id in range(ENTRIES):
            assert client.read(LEDGER, entry_id).payload == payload(entry_id)
        assert client.read(LEDGER, 5000).code == NO_ENTRY
        assert client.add(LEDGER, ENTRIES, b"by a writer") == FENCED
        assert client.read(OTHER, 5000).code == UNKNOWN_STATE
        assert client.read(OTHER, 0, FENCE).payload == b"of another ledger"
    assert fourth.stop() == 0


def test_a_journal_file_that_is_gone_is_damage(bookies: Bookies) -> None:
    small = ("--file-size-min", "64KiB", "--file-size-max", "64KiB", "--memtable", "1MiB")
    first = bookies.start("--init", *small)
    first.ready()
    make_metadata(bookies, first)
    with WireClient(first.port) as client:
        for entry_id in range(100):
            assert client.add(LEDGER, entry_id, bytes(5000)) == OK
    first.kill()
    oldest = min((first.data / "ledgers" / "journal").glob("*.wkj"))
    oldest.unlink()
    second = bookies.start(*small, port=first.port)
    assert second.ended() == 5
    assert "missing" in second.said()
    third = bookies.start("--on-damage", "skip", *small, port=first.port)
    third.ready()
    assert "every ledger is in limbo" in third.said()
    with WireClient(first.port) as client:
        codes = [client.read(LEDGER, entry_id).code for entry_id in range(100)]
        assert client.add(LEDGER, 100, b"by a writer") == READ_ONLY
    assert set(codes) == {OK, UNKNOWN_STATE}
    assert third.stop() == 0
    fourth = bookies.start(*small, port=first.port)
    fourth.ready()
    with WireClient(first.port) as client:
        assert [client.read(LEDGER, entry_id).code for entry_id in range(100)] == codes
    assert fourth.stop() == 0


KILLED_BEFORE_ANYTHING_WENT_ON = """
import os
from walkeeper_bookie._directory import Directory
opened = Directory.open
def die_in_between(*words, skip_damage=False, **more):
    if skip_damage:
        os._exit(99)
    return opened(*words, skip_damage=skip_damage, **more)
Directory.open = die_in_between
"""

KILLED_WHEN_IT_HAD_GONE_ON = """
import os
from walkeeper_bookie._directory import Directory
opened = Directory.open
def die_behind(*words, skip_damage=False, **more):
    found = opened(*words, skip_damage=skip_damage, **more)
    if skip_damage:
        os._exit(99)
    return found
Directory.open = die_behind
"""


@pytest.mark.parametrize("before", [KILLED_BEFORE_ANYTHING_WENT_ON, KILLED_WHEN_IT_HAD_GONE_ON])
def test_a_kill_while_it_goes_on_makes_nothing_absent(bookies: Bookies, before: str) -> None:
    first = killed_and_damaged(bookies, 50)
    killed = bookies.start("--on-damage", "skip", port=first.port, before=before)
    assert killed.ended() == 99
    second = bookies.start("--on-damage", "skip", port=first.port)
    second.ready()
    check_what_is_left(first.port, 50)
    assert second.stop() == 0


def test_a_whole_journal_is_no_matter_of_policy(bookies: Bookies) -> None:
    first = killed_and_damaged(bookies)
    second = bookies.start("--on-damage", "skip", port=first.port)
    second.ready()
    assert "limbo" not in second.said()
    with WireClient(first.port) as client:
        assert client.read(LEDGER, 5000).code == NO_ENTRY
        assert client.add(LEDGER, ENTRIES, b"by a writer") == OK
    assert second.stop() == 0


def test_damage_of_what_nobody_else_knows_is_not_skipped(bookies: Bookies) -> None:
    first = bookies.start("--init", "--file-size-min", "64KiB", "--file-size-max", "64KiB", "--memtable", "1MiB")
    first.ready()
    with WireClient(first.port) as client:
        for entry_id in range(40):
            assert client.add(LEDGER, entry_id, bytes(5000)) == OK
    assert first.stop() == 0
    (index,) = (first.data / "ledgers" / "index").iterdir()
    index.unlink()
    second = bookies.start("--on-damage", "skip", port=first.port)
    assert second.ended() == 5


def test_another_bookies_directory_is_left_as_it_is(bookies: Bookies) -> None:
    first = killed_and_damaged(bookies, 50)
    other = bookies.start("--on-damage", "skip")  # a mistaken --data: its id is another one
    assert other.ended() in (4, 5)
    assert not (first.data / "limbo").exists()
    second = bookies.start(port=first.port)
    assert second.ended() == 5  # its operator was not asked


def test_cluster_rule_2_a_fence_that_was_lost_of_a_ledger_that_moved_on_is_made_again(bookies: Bookies) -> None:
    first = bookies.start("--init", "--memtable", "1MiB")
    first.ready()
    store = open_store(bookies.metadata).store
    elsewhere = LedgerMetadata(1, 1, 1, {0: ("127.0.0.1:1",)})  # others have it by now
    store.create(f"/ledgers/00/0000/L{LEDGER:04d}", elsewhere.serialise(), parents=True)
    store.close()
    with WireClient(first.port) as client:
        for entry_id in range(10):
            assert client.add(LEDGER, entry_id, payload(entry_id)) == OK
        assert client.read(LEDGER, 9, FENCE).code == OK
        assert client.add(OTHER, 0, payload(1)) == OK
    first.kill()
    (journal, last), (_, behind) = places_of_entries(first.data)[9:11]
    with journal.open("r+b") as file:  # the fence's block lies between those of these two
        file.seek((last // 4096 + 1) * 4096 + 90)
        assert (last // 4096 + 1) * 4096 < behind // 4096 * 4096
        file.write(b"damage")
    second = bookies.start("--on-damage", "skip", port=first.port)
    second.ready()
    until(lambda: "ledgers noted for limbo" in second.said(), "it knows which ledgers it concerns")
    with WireClient(first.port) as client:
        assert client.add(LEDGER, 10, b"by the writer that was fenced") == FENCED
    assert second.stop() == 0


# ---- in one process ----


class Refusal(Exception):
    pass


def test_every_ledger_is_in_limbo_before_the_store_goes_on(tmp_path: Path) -> None:
    file = LimboFile(tmp_path / "limbo")
    file.save(LimboState().with_added([7]))
    seen = []

    def open_store(skip_damage: bool) -> Directory:
        seen.append((skip_damage, file.load().everything))
        raise Refusal if skip_damage else DamagedError("block 5 is not whole")

    with pytest.raises(Refusal):
        open_behind_damage(open_store, file, Log(io.StringIO()))
    assert seen == [(False, False), (True, True)]
    assert list(file.load().ledger_ids) == [7]


def test_where_skipping_does_not_help_nothing_is_in_limbo(tmp_path: Path) -> None:
    file = LimboFile(tmp_path / "limbo")
    file.save(LimboState().with_added([7]))

    def open_store(skip_damage: bool) -> Directory:
        raise DamagedError("the journal's device is not mounted")

    with pytest.raises(DamagedError):
        open_behind_damage(open_store, file, Log(io.StringIO()))
    assert not file.load().everything
    assert list(file.load().ledger_ids) == [7]


def test_what_is_no_damage_puts_nothing_into_limbo(tmp_path: Path) -> None:
    def open_store(skip_damage: bool) -> Directory:
        raise Refusal

    file = LimboFile(tmp_path / "limbo")
    with pytest.raises(Refusal):
        open_behind_damage(open_store, file, Log(io.StringIO()))
    assert not file.load()
