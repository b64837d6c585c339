"""A bookie whose journal has a directory of its own: how it starts, what it refuses, what its commands make of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie_runs import OK, READ_ONLY, Bookies, Client, Running, bookies_in, free_port, until
from click.testing import CliRunner, Result
from small_file_system import mounted

from walkeeper.metadata import Cookie
from walkeeper_bookie._exit_status import ExitStatus
from walkeeper_bookie.commands import bookie as commands


@pytest.fixture
def bookies(tmp_path: Path) -> Iterator[Bookies]:
    with bookies_in(tmp_path) as found:
        yield found


class Place:
    """One bookie's directories, and its port."""

    def __init__(self, bookies: Bookies) -> None:
        self.bookies, self.port = bookies, free_port()
        self.data, self.journal = bookies.place / "data", bookies.place / "journal"

    def start(self, *options: str, journal: Path | None = None) -> Running:
        where = str(journal or self.journal)
        return self.bookies.start("--journal", where, *options, port=self.port, data=self.data)

    def must_start(self, *options: str) -> Running:
        bookie = self.start(*options)
        bookie.ready()
        return bookie

    def refused(self, *options: str, journal: Path | None = None) -> tuple[int, str]:
        bookie = self.start(*options, journal=journal)
        return bookie.ended(), bookie.said()


@pytest.fixture
def place(bookies: Bookies) -> Place:
    """Of a bookie that was made, had an entry, and was stopped."""
    made = Place(bookies)
    bookie = made.must_start("--init")
    with Client(bookie.port) as client:
        assert client.add(7, 0) == OK
    assert bookie.stop() == 0
    return made


def run(*arguments: object, typed: str = "") -> Result:
    return CliRunner().invoke(commands, [str(argument) for argument in arguments], input=typed)


def test_it_serves_what_it_had_after_a_kill_and_its_cookie_names_both(place: Place) -> None:
    bookie = place.start()
    line = bookie.ready()
    assert f", data {place.data}, journal {place.journal}, metadata " in line
    with Client(bookie.port) as client:
        for entry in range(1, 50):
            assert client.add(7, entry, bytes(3000)) == OK
    bookie.kill()
    bookie = place.must_start()
    with Client(bookie.port) as client:
        assert all(client.read(7, entry)[0] == OK for entry in range(50))
    assert bookie.stop() == 0
    assert list((place.journal / "journal").glob("*.wkj"))
    assert not (place.data / "ledgers" / "journal").exists()
    cookie = Cookie.parse((place.data / "VERSION").read_bytes(), "VERSION")
    assert (cookie.journal_dirs, cookie.ledger_dirs) == ((str(place.journal),), (str(place.data),))


def test_one_without_the_other_does_not_start(place: Place, tmp_path: Path) -> None:
    bookie = place.bookies.start(port=place.port, data=place.data)
    assert bookie.ended() == ExitStatus.WRONG_USE
    assert f"made with a journal directory, which was {place.journal}" in bookie.said()
    plain = place.bookies.start("--init", data=tmp_path / "plain")
    plain.ready()
    assert plain.stop() == 0
    bookie = place.bookies.start("--journal", str(tmp_path / "j2"), port=plain.port, data=tmp_path / "plain")
    assert bookie.ended() == ExitStatus.WRONG_USE
    assert "was made without a journal directory" in bookie.said()
    assert not (tmp_path / "j2").exists()


def test_a_disk_that_is_not_mounted_is_no_new_journal(place: Place) -> None:
    hidden = place.journal.rename(place.journal.with_name("hidden"))
    for option in ((), ("--init",)):
        status, said = place.refused(*option)
        assert status == ExitStatus.WRONG_USE
        assert "is its device mounted?" in said
        assert not place.journal.exists()
    place.journal.mkdir(mode=0o700)
    for option in ((), ("--init",)):
        status, said = place.refused(*option)
        assert status == ExitStatus.DISK_FAILED
        assert "Is its device mounted there?" in said
        assert os.listdir(place.journal) == []
    place.journal.rmdir()
    hidden.rename(place.journal)
    assert place.must_start().stop() == 0


def test_a_moved_journal_is_another_by_its_cookie(place: Place) -> None:
    moved = place.journal.rename(place.journal.with_name("moved"))
    status, said = place.refused(journal=moved)
    assert status == ExitStatus.OTHER_IDENTITY
    assert "journal_dirs" in said
    assert "cookie delete" in said
    metadata = ("--metadata", place.bookies.metadata)
    bookie_id = f"127.0.0.1:{place.port}"
    assert run("cookie", "delete", *metadata, bookie_id, "--yes").exit_code == 0
    (place.data / "VERSION").unlink()
    result = run("cookie", "create", place.data, "--journal", moved, *metadata, "--bookie-id", bookie_id)
    assert result.exit_code == 0, result.output
    place.journal = moved
    assert place.must_start().stop() == 0


def test_each_of_the_two_lies_outside_of_the_other(bookies: Bookies) -> None:
    place = Place(bookies)
    for wrong in (place.data, place.data / "journal", place.data.parent):
        status, said = place.refused("--init", journal=wrong)
        assert status == ExitStatus.WRONG_USE
        assert "are one, or one lies in the other" in said
        assert not place.data.exists()


def test_a_journal_directory_that_others_may_write_is_refused(place: Place) -> None:
    place.journal.chmod(0o777)
    status, said = place.refused()
    assert status == ExitStatus.WRONG_USE
    assert "the journal directory" in said
    assert "can be written by its group or by others" in said


def test_what_is_above_the_journal_directory_is_not_made(bookies: Bookies) -> None:
    place = Place(bookies)
    status, said = place.refused("--init", journal=bookies.place / "no" / "journal")
    assert status == ExitStatus.WRONG_USE
    assert "is the disk mounted?" in said
    assert not (bookies.place / "no").exists()
    assert place.must_start("--init").stop() == 0


def test_two_bookies_do_not_share_one(place: Place, tmp_path: Path) -> None:
    bookie = place.must_start()
    other = place.bookies.start("--journal", str(place.journal), "--init", data=tmp_path / "other")
    assert other.ended() == ExitStatus.DISK_FAILED
    assert "Name the two directories that belong together" in other.said()
    assert bookie.stop() == 0


def test_a_full_journal_disk_makes_it_read_only_and_it_is_told_of(bookies: Bookies) -> None:
    with mounted(bookies.place, 64 << 20) as disk:
        place = Place(bookies)
        place.journal = disk.path / "journal"
        bookie = place.must_start(
            "--init",
            "--disk-read-only-free=8MiB",
            "--disk-read-only-percent=1",
            "--disk-writable-free=16MiB",
            "--disk-writable-percent=2",
            "--disk-check-interval=50ms",
        )
        with Client(bookie.port) as client:
            assert client.add(7, 0) == OK
            disk.fill(leave=4 << 20)
            until(lambda: client.add(7, 1) == READ_ONLY, "read-only")
            disk.make_room()
            until(lambda: client.add(7, 2) == OK, "writable again")
        assert bookie.stop() == 0


# ---- commands ----


def test_inspect_finds_the_journal_or_is_told(place: Place) -> None:
    assert " 7 " in run("inspect", place.data).output
    moved = place.journal.rename(place.journal.with_name("moved"))
    assert run("inspect", place.data).exit_code != 0
    assert " 7 " in run("inspect", place.data, "--journal", moved).output


def test_format_makes_both_and_empties_both(place: Place, tmp_path: Path) -> None:
    metadata = ("--metadata", place.bookies.metadata)
    made = tmp_path / "made"
    result = run("format", made, "--journal", tmp_path / "madej", *metadata, "--bookie-id", "b2:3181")
    assert result.exit_code == 0, result.output
    assert sorted(os.listdir(tmp_path / "madej")) == ["journal", "owner"]
    again = ("format", place.data, "--journal", place.journal, *metadata, "--bookie-id", f"127.0.0.1:{place.port}")
    assert run(*again).exit_code != 0
    result = run(*again, "--force", typed=f"127.0.0.1:{place.port}\n")
    assert result.exit_code == 0, result.output
    assert " 7 " not in run("inspect", place.data).output
    assert place.must_start().stop() == 0
    shutil.rmtree(made)
    result = run("format", made, "--journal", tmp_path / "madej", *metadata, "--bookie-id", "b3:3181")
    assert result.exit_code != 0  # it is another's still
    assert "Name the two directories that belong together" in str(result.exception) + result.output
