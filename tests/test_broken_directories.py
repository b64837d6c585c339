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


def payload(log: str, number: int) -> bytes:
    return b"%s %04d" % (log.encode(), number) + b"x" * (900 if log == "orders" else 0)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two logs over a dozen journal files of 64 KiB, closed in order."""
    place = tmp_path_factory.mktemp("sound") / "wal"
    with (
        walkeeper.open(place, file_size_min=65536, file_size_max=65536) as namespace,
        namespace.log("orders").writer() as orders,
        namespace.log("audit").writer() as audit,
    ):
        for number in range(60):
            orders.append_many([payload("orders", 3 * number + turn) for turn in range(3)])
            audit.append(payload("audit", number))
    return place


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


WAYS = (removed, emptied, halved, a_byte_short, longer, zeroed, noise, made_a_folder, made_a_dangling_link)
CASES = [
    (target, way)
    for target in TARGETS
    for way in (WAYS if "folder" not in target else (removed, made_a_folder, made_a_dangling_link))
]


def run(*arguments: object, given: bytes = b"") -> Result:
    """The exit status is one of those that `walkeeper --help` lists, and a refusal says why."""
    result = CliRunner().invoke(commands, [str(argument) for argument in arguments], input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), (arguments, result.exception)
    assert result.exit_code in (0, 1, 2), (arguments, result.output)
    assert result.exit_code != 2 or "walkeeper: " in result.stderr, (arguments, result.output)
    return result


def shown(result: Result) -> list[int]:
    """Sequence ids that `cat --json` shows as records."""
    return [row["sequence_id"] for row in map(json.loads, result.stdout.splitlines()) if "payload" in row]


@pytest.mark.parametrize(("target", "way"), CASES, ids=[f"{target}-{way.__name__}" for target, way in CASES])
def test_no_command_says_that_all_is_well_where_records_are_missing(
    sound: Path, tmp_path: Path, target: str, way: Callable[[Path], None]
) -> None:
    place = tmp_path / "wal"
    shutil.copytree(sound, place)
    way(TARGETS[target](place))
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
    run("backup", place, tmp_path / "copy")
    appended = run("append", place, "orders", given=b"more\n")
    if appended.exit_code == 0:
        next_id = int(appended.stdout.split("the last is ")[1].split()[0])
        assert next_id >= RECORDS["orders"], "the id of an acknowledged record was given again"
