"""The last file of the journal is shorter than it was prepared, empty or missing after SIGKILL: that is damage."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import run

import walkeeper
from walkeeper.errors import DamagedError

SIZES = {"file_size_min": 1 << 16, "file_size_max": 1 << 16}
RECORDS = 200

Damage = Callable[[Path], None]


def truncated_to_a_third(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 3)


def truncated_to_a_block(file: Path) -> None:
    os.truncate(file, 4096)


def emptied(file: Path) -> None:
    os.truncate(file, 0)


def zeroed(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def append_and_die(directory: Path, sizes: dict[str, int], records: int, size: int) -> None:
    """A process that appends, each record by itself, and is killed."""
    child = os.fork()
    if child == 0:
        try:
            with walkeeper.open(directory, **sizes).log("log").writer() as writer:  # type: ignore[arg-type]
                for number in range(records):
                    writer.append(b"%08d" % number + b"." * size)
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])


def last_file(directory: Path) -> Path:
    """The journal file that has the last record."""
    files = [file for file in (directory / "journal").glob("*.wkj") if b"%08d" % (RECORDS - 1) in file.read_bytes()]
    assert len(files) == 1
    return files[0]


def count(directory: Path, **options: object) -> int:
    with walkeeper.open(directory, create=False, **options) as namespace:  # type: ignore[arg-type]
        return sum(isinstance(item, walkeeper.Record) for item in namespace.log("log", create=False).reader())


def contents(directory: Path) -> dict[str, bytes]:
    """Of all files but the lock, which names who came last."""
    return {file.name: file.read_bytes() for file in directory.rglob("*") if file.is_file() and file.name != "lock"}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("killed") / "wal"
    append_and_die(made, SIZES, RECORDS, 1000)
    return made


@pytest.fixture
def copied(killed: Path, directory: Path) -> Path:
    shutil.copytree(killed, directory)
    return directory


DAMAGES = [truncated_to_a_third, truncated_to_a_block, emptied, zeroed, Path.unlink]


def test_without_damage_all_records_are_there(copied: Path) -> None:
    assert count(copied, read_only=True) == RECORDS
    assert count(copied) == RECORDS


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_open_says_so_and_changes_nothing(copied: Path, damage: Damage) -> None:
    damage(last_file(copied))
    before = contents(copied)
    for read_only in (True, False, True):
        with pytest.raises(DamagedError, match=r"cut off|missing"):
            walkeeper.open(copied, create=False, read_only=read_only)
    assert contents(copied) == before


@pytest.mark.parametrize("damage", DAMAGES)
def test_verify_says_so(copied: Path, damage: Damage) -> None:
    assert run("verify", copied).exit_code == 0
    damage(last_file(copied))
    assert run("verify", copied).exit_code == 1


@pytest.mark.parametrize("policy", ["skip", "point_in_time"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_by_a_policy_the_rest_is_there_and_the_loss_is_told_once(
    copied: Path, damage: Damage, policy: walkeeper.OnDamage
) -> None:
    damage(last_file(copied))
    with walkeeper.open(copied, create=False, on_damage=policy) as namespace:
        assert namespace.recovery().unknown_blocks > 0
        log = namespace.log("log")
        kept = [item for item in log.reader() if isinstance(item, walkeeper.Record)]
        assert 0 < len(kept) < RECORDS
        assert [int(bytes(record.payload)[:8]) for record in kept] == list(range(len(kept)))
    before = len(kept)
    for _ in range(2):
        with walkeeper.open(copied, create=False) as namespace, namespace.log("log").writer() as writer:
            writer.append(b"new")
    assert count(copied) == before + 2
    assert run("verify", copied).exit_code == 0


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_process_that_dies_behind_an_accepted_loss_leaves_a_directory_that_opens(
    copied: Path, damage: Damage
) -> None:
    damage(last_file(copied))
    child = os.fork()
    if child == 0:
        try:
            walkeeper.open(copied, create=False, on_damage="skip")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert 0 < count(copied) < RECORDS


@pytest.mark.parametrize("damage", DAMAGES)
def test_recover_makes_a_copy_of_what_is_left(copied: Path, damage: Damage, tmp_path: Path) -> None:
    damage(last_file(copied))
    assert run("recover", copied, tmp_path / "copy").exit_code == 1
    assert 0 < count(tmp_path / "copy") < RECORDS
    assert run("recover", copied, tmp_path / "other", "--on-damage", "stop").exit_code == 1
    assert not (tmp_path / "other").exists()


def without_page(directory: Path) -> None:
    """As a power cut may leave it: the file `shared` is empty."""
    (directory / "shared").write_bytes(b"")


@pytest.mark.parametrize("damage", [truncated_to_a_third, truncated_to_a_block])
def test_its_length_alone_tells(copied: Path, damage: Damage) -> None:
    without_page(copied)
    file = last_file(copied)
    damage(file)
    with pytest.raises(DamagedError, match=f"{file.name} is shorter than it was"):
        walkeeper.open(copied, create=False)
    assert run("verify", copied).exit_code == 1


def test_a_sealed_file_shows_that_there_was_one_behind_it(copied: Path) -> None:
    without_page(copied)
    files = sorted((copied / "journal").glob("*.wkj"))
    last = files.index(last_file(copied))
    for file in files[last:]:
        file.unlink()
    with pytest.raises(DamagedError, match=f"behind {'journal/' + files[last - 1].name}, which is full, is missing"):
        walkeeper.open(copied, create=False)
    assert run("verify", copied).exit_code == 1


def test_a_large_block_that_ends_behind_the_end_of_the_file_shows_that_it_was_cut(directory: Path) -> None:
    append_and_die(directory, {"file_size_min": 1 << 20, "file_size_max": 1 << 20}, 3, 200_000)
    without_page(directory)
    file = next((directory / "journal").glob("*.wkj"))
    os.truncate(file, file.read_bytes().find(b"00000002") + 100_000)
    with pytest.raises(DamagedError, match=f"{file.name} is shorter than it was"):
        walkeeper.open(directory, create=False)


def test_a_file_that_is_cut_where_nothing_was_written_lost_nothing(directory: Path) -> None:
    append_and_die(directory, {"file_size_min": 1 << 20, "file_size_max": 1 << 20}, 3, 200_000)
    file = next((directory / "journal").glob("*.wkj"))
    os.truncate(file, 900_000)
    assert count(directory) == 3
