"""Calling the command line, and damaging what it reads: for its tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

import walkeeper
from walkeeper.cli import commands

COMMAND = [sys.executable, "-m", "walkeeper"]


def run(*arguments: object, given: bytes = b"") -> Result:
    return CliRunner().invoke(commands, [str(argument) for argument in arguments], input=given)


def run_process(*arguments: object, given: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, input=given, capture_output=True, timeout=60, env={**os.environ, **environment})


def json_lines(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def payloads(directory: Path, log: str) -> list[bytes]:
    with walkeeper.open(directory, create=False) as namespace:
        items = namespace.log(log, create=False).reader(gaps="yield")
        return [bytes(item.payload) for item in items if isinstance(item, walkeeper.Record)]


def journal_with(directory: Path, needle: bytes) -> tuple[Path, int]:
    """The file that holds these bytes, and where."""
    for file in sorted(directory.rglob("*")):
        if file.is_file() and (at := file.read_bytes().find(needle)) >= 0:
            return file, at
    raise AssertionError(f"no file holds {needle!r}")


def flip(file: Path, at: int) -> None:
    """Turns one bit of the byte at this offset."""
    with file.open("r+b") as opened:
        opened.seek(at)
        byte = opened.read(1)
        opened.seek(at)
        opened.write(bytes([byte[0] ^ 1]))


def damage(directory: Path, needle: bytes) -> Path:
    """Turns one bit of a record on the disk."""
    file, at = journal_with(directory, needle)
    flip(file, at)
    return file


def small_files(directory: Path, records: int = 60, size: int = 0) -> Path:
    """A directory with sealed files and an index. (Files of small records are thin: in time they are packed.)"""
    small = {"file_size_min": 65536, "file_size_max": 65536}
    with walkeeper.open(directory, **small) as namespace, namespace.log("orders").writer() as writer:
        for number in range(records):
            writer.append((b"order number %02d" % number).ljust(size, b"."))
    return directory


ORDERS = [b"paid 41", b"paid 42", b"\x00\xff", b"sent 7"]


def four_orders(directory: Path) -> Path:
    """A sound directory with the log "orders" of ORDERS, closed."""
    with walkeeper.open(directory) as namespace, namespace.log("orders").writer() as writer:
        writer.append_many(ORDERS)
    return directory


def twenty_orders(directory: Path) -> Path:
    """A directory with twenty durable records, each in a block of its own, and a bit turned in the tenth; the file."""
    with walkeeper.open(directory) as namespace, namespace.log("orders").writer() as writer:
        for number in range(20):
            writer.append(b"order number %d" % number)
    return damage(directory, b"order number 9")
