"""
The command line on directories with something broken in them: each kind of file, each way to break it, each command.

Nothing may end in a traceback or a crash, a refusal says why, and no command that says that all is well may leave out a
record.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import walkeeper
from walkeeper.cli import commands

RECORDS = {"orders": 180, "audit": 60}


def payload(log: str, number: int, whose: bytes = b"ours") -> bytes:
    return b"%s %s %04d" % (whose, log.encode(), number) + b"x" * (900 if log == "orders" else 0)


def make(place: Path, whose: bytes) -> Path:
    """Two logs over a dozen journal files of 64 KiB, closed in order."""
    with (
        walkeeper.open(place, file_size_min=65536, file_size_max=65536) as namespace,
        namespace.log("orders").writer() as orders,
        namespace.log("audit").writer() as audit,
    ):
        for number in range(60):
            orders.append_many([payload("orders", 3 * number + turn, whose) for turn in range(3)])
            audit.append(payload("audit", number, whose))
    return place


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("sound") / "wal", b"ours")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another directory, of the same shape: its ledgers have the same ids."""
    return make(tmp_path_factory.mktemp("stranger") / "wal", b"else")


def journal_files(place: Path) -> list[Path]:
    return sorted((place / "journal").glob("*.wkj"))


def blocks_in(file: Path) -> int:
    return sum(file.read_bytes()[at : at + 4] != bytes(4) for at in range(0, file.stat().st_size, 4096))


def with_blocks(place: Path) -> list[Path]:
    return [file for file in journal_files(place) if blocks_in(file) > 0]


TARGETS: dict[str, Callable[[Path], Path]] = {
    "superblock": lambda place: place / "superblock",
    "shared page": lambda place: place / "shared",
    "lock": lambda place: place / "lock",
    "first journal file": lambda place: with_blocks(place)[0],
    "journal file between": lambda place: with_blocks(place)[4],
    "last journal file": lambda place: with_blocks(place)[-1],
    "index": lambda place: next((place / "index").iterdir()),
    "journal folder": lambda place: place / "journal",
    "index folder": lambda place: place / "index",
}


def removed(file: Path) -> None:
    shutil.rmtree(file) if file.is_dir() else file.unlink()


def emptied(file: Path) -> None:
    os.truncate(file, 0)


def halved(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2 // 4096 * 4096)


def a_byte_short(file: Path) -> None:
    os.truncate(file, max(0, file.stat().st_size - 1))


def longer(file: Path) -> None:
    with file.open("ab") as opened:
        opened.write(b"\xa5" * 4096)


def zeroed(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def noise(file: Path) -> None:
    file.write_bytes(os.urandom(file.stat().st_size))


def made_a_folder(file: Path) -> None:
    removed(file)
    file.mkdir()


def made_a_dangling_link(file: Path) -> None:
    removed(file)
    file.symlink_to("nowhere")


def made_a_loop_of_links(file: Path) -> None:
    removed(file)
    file.symlink_to(file.name)


def made_a_pipe(file: Path) -> None:
    """Opening one waits for its other end, unless it is asked not to."""
    removed(file)
    os.mkfifo(file)


FOLDER_WAYS = (removed, made_a_folder, made_a_dangling_link, made_a_loop_of_links, made_a_pipe)
WAYS = (*FOLDER_WAYS, emptied, halved, a_byte_short, longer, zeroed, noise)
CASES = [(target, way) for target in TARGETS for way in (WAYS if "folder" not in target else FOLDER_WAYS)]


def run(*arguments: object, given: bytes = b"") -> Result:
    """The exit status is one of those that `walkeeper --help` lists, and a refusal says why."""
    result = CliRunner().invoke(commands, [str(argument) for argument in arguments], input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), (arguments, result.exception)
    assert result.exit_code in (0, 1, 2), (arguments, result.output)
    assert result.exit_code != 2 or "walkeeper: " in result.stderr, (arguments, result.output)
    return result


def shown(result: Result) -> list[int]:
    """Sequence ids that `cat --json` shows as records."""
    rows = [row for row in map(json.loads, result.stdout.splitlines()) if "payload" in row]
    assert all(row["payload"].startswith("ours ") for row in rows), "nothing is invented"
    return [row["sequence_id"] for row in rows]


def check_every_command(place: Path, tmp_path: Path) -> None:
    well = True
    for log, count in RECORDS.items():
        result = run("cat", place, log, "--json")
        ids = shown(result)
        assert ids == sorted(set(ids)), "each once, in order"
        whole = ids == list(range(count))
        assert whole or result.exit_code != 0, "what is left passes for all there was"
        well &= whole and result.exit_code == 0
    for command in ("ls", "stat"):
        well &= run(command, place).exit_code == 0
    run("tail", place, "orders")
    run("doctor", place)
    assert run("verify", place).exit_code != 0 or well, "what verify finds well can be read"
    recovered = run("recover", place, tmp_path / "salvaged", "--on-damage", "skip")
    assert recovered.exit_code != 0 or well, "records are missing in the copy, and nothing was said"
    for log in RECORDS if (tmp_path / "salvaged").exists() else ():
        shown(run("cat", tmp_path / "salvaged", log, "--json"))
    run("backup", place, tmp_path / "copy")
    appended = run("append", place, "orders", given=b"more\n")
    if appended.exit_code == 0:
        next_id = int(appended.stdout.split("the last is ")[1].split()[0])
        assert next_id >= RECORDS["orders"], "the id of an acknowledged record was given again"


@pytest.mark.parametrize(("target", "way"), CASES, ids=[f"{target}-{way.__name__}" for target, way in CASES])
def test_no_command_says_that_all_is_well_where_records_are_missing(
    sound: Path, tmp_path: Path, target: str, way: Callable[[Path], None]
) -> None:
    place = tmp_path / "wal"
    shutil.copytree(sound, place)
    way(TARGETS[target](place))
    check_every_command(place, tmp_path)


@pytest.mark.parametrize("target", TARGETS)
def test_what_belongs_to_another_directory_is_not_taken_for_ours(
    sound: Path, stranger: Path, tmp_path: Path, target: str
) -> None:
    place = tmp_path / "wal"
    shutil.copytree(sound, place)
    file, other = TARGETS[target](place), TARGETS[target](stranger)
    removed(file)
    shutil.copytree(other, file) if other.is_dir() else shutil.copyfile(other, file)
    check_every_command(place, tmp_path)


def test_files_of_a_directory_are_not_overwritten_under_the_superblock_of_another(sound: Path, tmp_path: Path) -> None:
    """Not closed in order, such a superblock does not even miss a block."""
    place, other = tmp_path / "wal", tmp_path / "other"
    shutil.copytree(sound, place)
    namespace = walkeeper.open(other)
    shutil.copyfile(other / "superblock", place / "superblock")
    namespace.close()
    for on_damage in ("stop", "point_in_time", "skip"):
        with pytest.raises(walkeeper.DamagedError, match="another directory's than the superblock"):
            walkeeper.open(place, on_damage=on_damage)  # type: ignore[arg-type]
    shutil.copyfile(sound / "superblock", place / "superblock")
    with walkeeper.open(place) as mended:
        assert mended.log("orders").info().count == RECORDS["orders"]


def test_where_the_superblock_is_lost_recover_makes_a_new_one(sound: Path, tmp_path: Path) -> None:
    place = tmp_path / "wal"
    shutil.copytree(sound, place)
    (place / "superblock").write_bytes(b"?" * 8192)
    listed = run("ls", place)
    assert listed.exit_code == 1
    assert "restore the file `superblock` from a backup" in listed.stderr
    assert f"`walkeeper recover {place} DESTINATION`" in listed.stderr
    assert run("recover", place, tmp_path / "saved").exit_code == 1  # not all is known
    assert run("ls", tmp_path / "saved").stdout == run("ls", sound).stdout


def test_a_copy_that_shares_its_files_is_not_written(sound: Path, tmp_path: Path) -> None:
    """`cp -al`: journal files are written in place, the original's too."""
    place, copy, own = tmp_path / "wal", tmp_path / "copy", tmp_path / "own"
    shutil.copytree(sound, place)
    shutil.copytree(place, copy, copy_function=os.link)
    before = {path: path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}
    for shared in (copy, place):
        with pytest.raises(walkeeper.UnsupportedError, match="cp -al"):
            walkeeper.open(shared)
        for how in ({}, {"on_damage": "skip", "check_all": True}, {"on_damage": "point_in_time", "check_all": True}):
            with walkeeper.open(shared, read_only=True, **how) as reading:  # type: ignore[arg-type]
                assert reading.log("orders").info().count == RECORDS["orders"]
    assert {path: path.read_bytes() for path in before if path.name != "lock"} == {
        path: content for path, content in before.items() if path.name != "lock"
    }
    shutil.copytree(copy, own)
    with walkeeper.open(own) as opened:
        assert opened.log("orders").info().count == RECORDS["orders"]
    shutil.rmtree(copy)
    with walkeeper.open(place) as opened:
        assert opened.log("orders").info().count == RECORDS["orders"]


def test_files_whose_names_were_swapped_are_damage(sound: Path, tmp_path: Path) -> None:
    place = tmp_path / "wal"
    shutil.copytree(sound, place)
    files = with_blocks(place)
    files[3].rename(place / "aside")
    files[5].rename(files[3])
    (place / "aside").rename(files[5])
    check_every_command(place, tmp_path)


def test_a_copy_is_not_made_inside_the_original(sound: Path) -> None:
    assert run("recover", sound, sound / "journal" / "copy").exit_code == 2
    assert not (sound / "journal" / "copy").exists()


@pytest.mark.parametrize("others", [{"lock": b"4711\n"}, {"lock": b"4711\n", "data.db": b"data"}, {"data.db": b"data"}])
@pytest.mark.parametrize("create", [True, False])
def test_a_directory_of_another_program_is_left_as_it_is(
    tmp_path: Path, others: dict[str, bytes], create: bool
) -> None:
    for name, content in others.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises((walkeeper.InvalidError, walkeeper.NotFoundError)):
        walkeeper.open(tmp_path, create=create)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == others


def test_a_journal_without_its_superblock_is_damage_and_no_place_for_a_new_directory(
    sound: Path, tmp_path: Path
) -> None:
    place = tmp_path / "wal"
    shutil.copytree(sound, place)
    (place / "superblock").unlink()
    for options in ({}, {"create": False}, {"read_only": True}, {"on_damage": "skip"}):
        with pytest.raises(walkeeper.DamagedError, match="its file `superblock` is missing"):
            walkeeper.open(place, **options)  # type: ignore[arg-type]
    assert not (place / "superblock").exists()
    result = CliRunner().invoke(commands, ["verify", str(place)])
    assert result.exit_code == 1
    assert "superblock: it is missing" in result.output


@pytest.mark.parametrize("command", ["ls", "stat", "verify"])
def test_a_folder_of_journal_files_that_is_gone_is_damage(sound: Path, tmp_path: Path, command: str) -> None:
    place = tmp_path / "wal"
    shutil.copytree(sound, place)
    shutil.rmtree(place / "journal")
    result = CliRunner().invoke(commands, [command, str(place)])
    assert result.exit_code == 1
    with pytest.raises(walkeeper.DamagedError, match="its folder `journal` is missing"):
        walkeeper.open(place)
