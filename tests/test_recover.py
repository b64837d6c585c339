"""`walkeeper recover`: what it saves, what it refuses, and what it leaves behind."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from command_line import ORDERS, damage, four_orders, payloads, run, small_files, twenty_orders

import walkeeper
from walkeeper.cli._copy import copy_file


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return four_orders(tmp_path / "wal")


@pytest.fixture
def damaged(tmp_path: Path) -> tuple[Path, Path]:
    """A directory with a bit turned in the tenth of twenty records; the file."""
    return tmp_path / "wal", twenty_orders(tmp_path / "wal")


def test_recover_saves_what_came_before_the_damage_and_leaves_the_original(
    damaged: tuple[Path, Path], tmp_path: Path
) -> None:
    directory, file = damaged
    before = file.read_bytes()
    result = run("recover", directory, tmp_path / "saved", "--on-damage", "point-in-time")
    assert result.exit_code == 1, result.output
    assert "Acknowledged records are lost" in result.stdout
    assert file.read_bytes() == before
    assert payloads(tmp_path / "saved", "orders") == [b"order number %d" % number for number in range(9)]
    assert run("append", tmp_path / "saved", "orders", given=b"and on\n").exit_code == 0
    assert payloads(tmp_path / "saved", "orders")[-1] == b"and on"


def test_recover_may_leave_gaps_and_keep_what_came_after_the_damage(damaged: tuple[Path, Path], tmp_path: Path) -> None:
    directory, _ = damaged
    result = run("recover", directory, tmp_path / "saved", "--on-damage", "skip", "--json")
    assert result.exit_code == 1, result.output
    report = json.loads(result.stdout)
    (log,) = report["logs"]
    assert (log["records"], log["lost"], log["unreadable"][0]["from"], log["unreadable"][0]["before"]) == (19, 1, 9, 10)
    assert report["recovery"]["damaged_blocks"] == 1
    assert payloads(tmp_path / "saved", "orders") == [
        b"order number %d" % number for number in range(20) if number != 9
    ]


def test_recover_counts_what_is_lost_in_a_sealed_file_and_what_can_be_read_behind_it(tmp_path: Path) -> None:
    small = {"file_size_min": 65536, "file_size_max": 65536}
    with walkeeper.open(tmp_path / "wal", **small) as namespace, namespace.log("orders").writer() as writer:
        for number in range(60):
            writer.append(b"order number %02d" % number)
    damage(tmp_path / "wal", b"order number 03")
    result = run("recover", tmp_path / "wal", tmp_path / "saved", "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    (log,) = report["logs"]
    assert (log["records"], log["lost"]) == (3, 57)
    assert [(hole["from"], hole["before"]) for hole in log["unreadable"]] == [(3, 60)]
    saved = tmp_path / "saved"
    assert payloads(saved, "orders") == [b"order number %02d" % number for number in range(3)]  # and no surprise


def test_recover_of_a_damaged_catalogue_says_what_cannot_be_known(tmp_path: Path) -> None:
    directory = small_files(tmp_path / "wal")
    damage(directory, b"orders")
    result = run("recover", directory, tmp_path / "saved")
    assert result.exit_code == 1
    said = " ".join(result.stdout.split())
    assert "1 entry of the catalogue cannot be read" in said
    assert "Acknowledged records are lost" not in said
    with walkeeper.open(tmp_path / "saved") as namespace:
        (name,) = namespace.logs()
        assert name.startswith("recovered-")
    assert payloads(tmp_path / "saved", name) == [b"order number %02d" % number for number in range(60)]


def test_recover_that_cannot_open_the_copy_says_what_is_damaged_and_leaves_no_copy(
    damaged: tuple[Path, Path], tmp_path: Path
) -> None:
    directory, file = damaged
    before = file.read_bytes()
    result = run("recover", directory, tmp_path / "saved", "--on-damage", "stop")
    assert result.exit_code == 1
    assert "Traceback" not in result.stderr
    assert str(directory) in result.stderr
    assert "saved" not in result.stderr  # the copy, which is gone
    assert file.read_bytes() == before
    assert not (tmp_path / "saved").exists()


def test_recover_of_a_sound_directory_loses_nothing(directory: Path, tmp_path: Path) -> None:
    result = run("recover", directory, tmp_path / "saved")
    assert result.exit_code == 0
    assert "Nothing that was acknowledged is lost" in result.stdout
    assert payloads(tmp_path / "saved", "orders") == ORDERS


def test_recover_does_not_overwrite(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    assert run("recover", directory, tmp_path / "saved").exit_code == 2
    assert list((tmp_path / "saved").iterdir()) == []


def test_recover_stops_at_damage_in_a_sealed_file_too(tmp_path: Path) -> None:
    directory = small_files(tmp_path / "wal")
    damage(directory, b"order number 03")
    result = run("recover", directory, tmp_path / "saved", "--on-damage", "stop")
    assert result.exit_code == 1
    assert str(directory) in result.stderr
    assert "saved" not in result.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["wal"]


@pytest.mark.parametrize(
    "stop", [KeyboardInterrupt(), OSError(28, "No space left on device"), RuntimeError()], ids=repr
)
def test_recover_that_is_cut_short_leaves_nothing_and_may_be_tried_again(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: BaseException
) -> None:
    def cut_short(*_: object) -> None:
        raise stop

    with monkeypatch.context() as patched:
        patched.setattr("walkeeper.cli._salvage.salvaged", cut_short)
        assert run("recover", directory, tmp_path / "saved").exit_code != 0
    assert [file.name for file in tmp_path.iterdir()] == ["wal"]
    assert run("recover", directory, tmp_path / "saved").exit_code == 0


def test_recover_tells_of_the_source_and_not_of_a_copy_that_is_gone(directory: Path, tmp_path: Path) -> None:
    for file in (directory / "journal").glob("*.wkj"):
        file.write_bytes(b"")
    (directory / "superblock").write_bytes(b"x" * 8192)
    result = run("recover", directory, tmp_path / "saved")
    assert result.exit_code != 0
    assert str(directory) in result.stderr
    assert "saved" not in result.stderr


def test_recover_of_read_only_files_makes_a_copy_that_can_be_written(directory: Path, tmp_path: Path) -> None:
    for file in directory.rglob("*.wkj"):
        file.chmod(0o444)
    assert run("recover", directory, tmp_path / "saved").exit_code == 0
    assert all(file.stat().st_mode & 0o200 for file in (tmp_path / "saved").rglob("*"))


@pytest.fixture
def bad_sector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In tmp_path/wal, a journal file whose 4 KiB with the tenth of twenty records the disk cannot read."""
    with walkeeper.open(tmp_path / "wal") as namespace, namespace.log("orders").writer() as writer:
        for number in range(20):
            writer.append(b"order number %d" % number)
    (file,) = (file for file in (tmp_path / "wal" / "journal").glob("*.wkj") if b"order number 9" in file.read_bytes())
    begin = file.read_bytes().index(b"order number 9") // 4096 * 4096
    inode, pread = file.stat().st_ino, os.pread

    def failing(descriptor: int, size: int, offset: int) -> bytes:
        if os.fstat(descriptor).st_ino == inode and offset < begin + 4096 and offset + size > begin:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", failing)
    return file


def test_recover_goes_on_behind_a_sector_that_cannot_be_read(bad_sector: Path, tmp_path: Path) -> None:
    result = run("recover", tmp_path / "wal", tmp_path / "saved", "--on-damage", "skip")
    assert result.exit_code == 1, result.output
    assert f"4.0 KiB of {bad_sector} cannot be read" in result.stdout
    left = payloads(tmp_path / "saved", "orders")
    assert left == [b"order number %d" % number for number in range(20) if number != 9]
    told = json.loads(run("recover", tmp_path / "wal", tmp_path / "again", "--on-damage", "skip", "--json").stdout)
    assert told["unreadable"] == {f"journal/{bad_sector.name}": 4096}


def test_recover_that_stops_at_damage_stops_at_a_sector_that_cannot_be_read(bad_sector: Path, tmp_path: Path) -> None:
    result = run("recover", tmp_path / "wal", tmp_path / "saved", "--on-damage", "stop")
    assert result.exit_code == 2
    assert f"copying {bad_sector}: Input/output error" in result.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["wal"]


def test_a_copy_keeps_holes_and_times(tmp_path: Path) -> None:
    source = tmp_path / "sparse"
    with source.open("wb") as file:
        file.write(b"begin")
        file.seek(1 << 24)
        file.write(b"middle")
        file.truncate(1 << 26)
    os.utime(source, (1000, 2000))
    assert copy_file(source, tmp_path / "copy") == 1 << 26
    copied = (tmp_path / "copy").stat()
    assert (tmp_path / "copy").read_bytes() == source.read_bytes()
    assert copied.st_blocks == source.stat().st_blocks
    assert copied.st_mtime == 2000


def test_recover_says_how_much_of_what_it_let_go_is_intact(damaged: tuple[Path, Path], tmp_path: Path) -> None:
    directory, _ = damaged
    result = run("recover", directory, tmp_path / "saved")
    assert "Of the 11 records let go, 10 can be read: --on-damage skip keeps them." in result.stdout
    assert "1 damaged block of the journal" in result.stdout
    assert json.loads(run("recover", directory, tmp_path / "again", "--json").stdout)["intact"] == 10
    assert sorted(file.name for file in tmp_path.iterdir()) == ["again", "saved", "wal"]


def test_recover_and_backup_refuse_a_destination_inside(directory: Path) -> None:
    for command in ("recover", "backup"):
        result = run(command, directory, directory / "copy")
        assert result.exit_code == 2
        assert "is inside" in result.stderr
        assert not (directory / "copy").exists()
