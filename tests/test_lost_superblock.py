"""A superblock that is lost: no open passes it over, and `walkeeper recover` makes a new one in a copy."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from command_line import run
from test_random_damage import Seen, look, make

import walkeeper
from walkeeper.errors import DamagedError

SIZES = {"file_size_min": 1 << 16, "file_size_max": 1 << 16}

Loss = Callable[[Path], None]


def zeroed(file: Path) -> None:
    file.write_bytes(bytes(8192))


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def truncated_to_a_slot(file: Path) -> None:
    os.truncate(file, 4096)


def with_bits_turned(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[50] ^= 1
    content[4096 + 50] ^= 1
    file.write_bytes(content)


def of_another_directory(file: Path) -> None:
    other = file.parent.parent / "another"
    walkeeper.open(other).close()
    shutil.copy(other / "superblock", file)


LOSSES = [zeroed, emptied, truncated_to_a_slot, with_bits_turned, Path.unlink, of_another_directory]


def contents(directory: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in directory.rglob("*") if file.is_file() and file.name != "lock"}


def read(directory: Path, name: str = "log", **options: object) -> list[bytes]:
    with walkeeper.open(directory, create=False, **options) as namespace:  # type: ignore[arg-type]
        items = list(namespace.log(name, create=False).reader())
        assert all(isinstance(item, walkeeper.Record) for item in items)
        return [bytes(item.payload) for item in items if isinstance(item, walkeeper.Record)]


def recovered(directory: Path, *more: object) -> dict[str, object]:
    """The report of `walkeeper recover` into the copy beside it, which leaves the directory as it is."""
    before = contents(directory)
    result = run("recover", directory, directory.parent / "copy", "--json", *more)
    assert result.exit_code == 1, result.output  # not all is known
    assert contents(directory) == before
    told: dict[str, object] = json.loads(result.stdout)
    return told


def fill(directory: Path, *, closes: bool) -> list[bytes]:
    """A log with truncated records, one that was deleted, one that was renamed: closed, or killed. What is left."""
    child = os.fork()
    if child == 0:
        try:
            namespace = walkeeper.open(directory, **SIZES)  # type: ignore[arg-type]
            with namespace.log("log").writer() as writer, namespace.log("gone").writer() as other:
                for number in range(100):
                    at = writer.append(b"%08d" % number + b"." * 2000)
                    other.append(b"deleted" * 100)
                    if number == 29:
                        cut = at
                    if number % 20 == 0:
                        time.sleep(0.02)
            namespace.log("log").truncate(cut)
            namespace.delete_log("gone")
            with namespace.log("old").writer() as writer:
                writer.append(b"renamed")
            namespace.rename_log("old", "new")
            if closes:
                namespace.close()
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    return [b"%08d" % number + b"." * 2000 for number in range(29, 100)]


def superblock_of(directory: Path) -> dict[str, Any]:
    lines = map(json.loads, run("inspect", directory / "superblock", "--json").stdout.splitlines())
    return max((line for line in lines if "incarnation" in line), key=lambda line: line["generation"])


@pytest.mark.parametrize("loss", LOSSES)
def test_no_open_passes_it_over_and_each_names_the_remedy(directory: Path, loss: Loss) -> None:
    fill(directory, closes=False)
    loss(directory / "superblock")
    before = contents(directory)
    for options in ({}, {"read_only": True}, {"on_damage": "skip"}, {"create": True}):
        with pytest.raises(DamagedError, match=f"`walkeeper recover {directory} DEST"):
            walkeeper.open(directory, **{"create": False, **options})
    assert contents(directory) == before
    assert run("verify", directory).exit_code == 1


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_recover_makes_a_new_one_in_a_copy(directory: Path, loss: Loss, closes: bool) -> None:
    expected = fill(directory, closes=closes)
    loss(directory / "superblock")
    told = recovered(directory)
    assert told["rebuilt"]["kind"] == 0  # type: ignore[index]
    assert told["recovery"]["catalogue_lost"] == 0  # type: ignore[index]
    copy = directory.parent / "copy"
    assert read(copy) == expected
    assert read(copy, "new") == [b"renamed"]
    assert run("verify", copy).exit_code == 0
    with walkeeper.open(copy) as namespace, namespace.log("log").writer() as writer:
        assert sorted(namespace.logs()) == ["log", "new"]
        assert writer.append(b"goes on").sequence_id == 100
    assert read(copy) == [*expected, b"goes on"]
    assert run("verify", copy).exit_code == 0


def test_it_says_what_is_not_known(directory: Path) -> None:
    fill(directory, closes=True)
    zeroed(directory / "superblock")
    result = run("recover", directory, directory.parent / "copy")
    assert "The superblock is lost. A new one was made from the files" in result.output
    assert "the loss of the last journal file may go unnoticed" in result.output
    assert "not all can be told" in result.output
    assert run("recover", directory, directory.parent / "other", "--on-damage", "stop").exit_code == 1
    assert not (directory.parent / "other").exists()


def test_incarnations_and_file_ids_go_on(directory: Path) -> None:
    fill(directory, closes=True)
    for _ in range(5):
        with walkeeper.open(directory) as namespace, namespace.log("log").writer() as writer:
            writer.append(b"one of an open")
    ids = {file.stem for file in (directory / "journal").glob("*.wkj")}
    incarnation = superblock_of(directory)["incarnation"]
    zeroed(directory / "superblock")
    assert recovered(directory)["rebuilt"]["incarnation"] == incarnation  # type: ignore[index]
    copy = directory.parent / "copy"
    with walkeeper.open(copy) as namespace, namespace.log("log").writer() as writer:
        for _ in range(100):
            writer.append(b"." * 60000)
    new = {file.stem for file in (copy / "journal").glob("*.wkj")} - ids
    assert new
    assert min(new) > max(ids)


def test_file_ids_are_above_all_that_may_have_been_used(directory: Path) -> None:
    fill(directory, closes=False)
    zeroed(directory / "superblock")
    highest = max(int(file.stem, 16) for file in (directory / "journal").glob("*.wkj"))
    recovered(directory)
    assert superblock_of(directory.parent / "copy")["file_id_ceiling"] > highest + 1024


def test_a_damaged_block_is_damage_all_the_same(directory: Path) -> None:
    fill(directory, closes=True)
    file = next(file for file in (directory / "journal").glob("*.wkj") if b"00000050" in file.read_bytes())
    content = bytearray(file.read_bytes())
    content[content.find(b"00000050")] ^= 1
    file.write_bytes(content)
    zeroed(directory / "superblock")
    logs = recovered(directory, "--on-damage", "skip")["logs"]
    assert next(log for log in logs if log["log"] == "log")["lost"] == 1  # type: ignore[attr-defined,index]


def test_one_with_a_journal_directory(tmp_path: Path) -> None:
    data, journal = tmp_path / "data", tmp_path / "journal"
    with walkeeper.open(data, journal=journal, **SIZES) as namespace, namespace.log("log").writer() as writer:  # type: ignore[arg-type]
        for number in range(50):
            writer.append(b"%d" % number + b"." * 3000)
    expected = read(data, journal=journal)
    for name in ("superblock", "owner"):
        (data / name if name == "superblock" else journal / name).unlink()
        copies = [tmp_path / f"{name}-{place}" for place in ("data", "journal")]
        result = run("recover", data, copies[0], "--journal", journal, "--journal-to", copies[1])
        assert result.exit_code == 1, result.output
        assert "The superblock is lost" in result.output
        assert read(copies[0], journal=copies[1]) == expected
        assert run("verify", copies[0]).exit_code == 0
    without = run("recover", data, tmp_path / "none")
    assert without.exit_code == 1
    assert "where its journal has a directory of its own, name that" in without.output


def has_snapshots_alone(directory: Path) -> bool:
    """Two snapshots of the catalogue, and not the file with its first entry."""
    first_file = directory / "journal" / f"{1:016x}.wkj"
    return superblock_of(directory)["snapshots"][1]["first_entry"] > 0 and not first_file.exists()


def test_snapshots_of_the_catalogue_are_found(directory: Path) -> None:
    """What the catalogue said before them stood in files that were recycled."""
    with walkeeper.open(directory, **SIZES) as namespace, namespace.log("log").writer() as writer:  # type: ignore[arg-type]
        until = time.monotonic() + 60
        while not has_snapshots_alone(directory):
            assert time.monotonic() < until
            last = [writer.append(b"." * 20000) for _ in range(10)][-1]
            namespace.log("log").truncate(last)
    zeroed(directory / "superblock")
    told = recovered(directory)
    assert told["recovery"]["catalogue_lost"] == 0  # type: ignore[index]
    assert told["recovery"]["adopted_ledgers"] == 0  # type: ignore[index]
    assert read(directory.parent / "copy") == [b"." * 20000]
    assert run("verify", directory.parent / "copy").exit_code == 0


def test_of_nothing_nothing_is_made(directory: Path) -> None:
    walkeeper.open(directory).close()
    zeroed(directory / "superblock")
    for file in (directory / "journal").iterdir():
        file.unlink()
    result = run("recover", directory, directory.parent / "copy")
    assert result.exit_code == 1
    assert "there is nothing to rebuild it from" in result.output
    assert not (directory.parent / "copy").exists()


def seen_in(directory: Path) -> dict[str, Seen]:
    with walkeeper.open(directory, create=False) as namespace:
        return look(namespace, counts=False)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_was_done_before_the_copy_shows_the_same(directory: Path, seed: int) -> None:
    """Segments, codecs, truncations, deletions, renames, cursors: recycled, moved and sealed files."""
    make(directory, Random(seed))
    whole = directory.parent / "whole"
    shutil.copytree(directory, whole)
    expected = seen_in(whole)
    Random(seed).choice(LOSSES)(directory / "superblock")
    told = recovered(directory)
    assert told["recovery"]["catalogue_lost"] == 0  # type: ignore[index]
    assert seen_in(directory.parent / "copy") == expected
    assert run("verify", directory.parent / "copy").exit_code == 0
