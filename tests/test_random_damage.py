"""
Accepted loss, at random: logs with many segments, truncations, deletions, renames and codecs, closed or killed; then
files are removed, cut short, zeroed or have bits turned, with and without the index. Whatever is lost, an open that
accepts it ends; no reader is led past a lost record without a gap, or given a record that is not the log's; what was
accepted once is settled: the next open asks for nothing, and shows the same; and what is appended then is there.

`python tests/test_random_damage.py DAMAGES SEED` for more of it (`make damage`).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

import walkeeper

DAMAGES_A_DIRECTORY = 4
NAMES = ["a", "b", "c", "d", "e"]


class Seen(NamedTuple):
    first: int
    next: int
    records: int
    lost: int
    ids: frozenset[int]
    """Which logs the records were appended to: one, whatever it is called now."""


def stamped(log_id: int, number: int, size: int) -> bytes:
    """A payload that says where it belongs."""
    return b"%d:%d:" % (log_id, number) + b"x" * size


# ---- a directory ----------------------------------------------------------------------------------------------------


class Maker:
    """Appends, truncates, deletes and renames, by chance."""

    def __init__(self, namespace: walkeeper.Namespace, chance: Random) -> None:
        self.namespace, self.chance = namespace, chance
        self.segment_bytes = chance.choice([1 << 15, 1 << 17, 1 << 19, 1 << 26])
        self.logs: dict[str, tuple[walkeeper.Log, walkeeper.Writer, int]] = {}
        self.made = 0

    def log_named(self, name: str) -> tuple[walkeeper.Log, walkeeper.Writer, int]:
        if name not in self.logs:
            codec = self.chance.choice(["none", "lz4"])
            log = self.namespace.log(name, segment_bytes=self.segment_bytes, codec=codec)
            self.made += 1
            self.logs[name] = log, log.writer(), self.made
        return self.logs[name]

    def step(self) -> None:
        name = self.chance.choice(NAMES)
        log, writer, log_id = self.log_named(name)
        first, size = writer.next_sequence_id, self.chance.choice([10, 100, 300])
        count = self.chance.randrange(1, 300)
        last = writer.append_many([stamped(log_id, first + number, size) for number in range(count)])
        what = self.chance.random()
        if what < 0.05:
            log.truncate(self.chance.choice([last.first, last.last, log.info().next]), force=True)
        elif what < 0.08:
            writer.close()
            del self.logs[name]
            self.namespace.delete_log(name)
        elif what < 0.12:
            self.rename(name, self.chance.choice([*NAMES, "f", "g"]))
        elif what < 0.15:
            log.cursor("somebody").advance(last.last)
        elif what < 0.18:
            time.sleep(0.15)  # files get their footers, and the index is written

    def rename(self, old: str, new: str) -> None:
        if new in self.logs:
            return
        _, writer, log_id = self.logs.pop(old)
        writer.close()
        self.namespace.rename_log(old, new)
        log = self.namespace.log(new)
        self.logs[new] = log, log.writer(), log_id


def make(place: Path, chance: Random) -> None:
    """In a process of its own, which ends with a close, or as if it were killed."""
    child = os.fork()
    if child > 0:
        assert os.waitpid(child, 0)[1] == 0
        return
    try:
        namespace = walkeeper.open(place, file_size_min=1 << 18, file_size_max=1 << 20)
        maker = Maker(namespace, chance)
        for _ in range(chance.randrange(20, 70)):
            maker.step()
        if chance.random() < 0.5:
            namespace.close()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


# ---- what becomes of it ---------------------------------------------------------------------------------------------


def damage_a_file(place: Path, chance: Random) -> str:
    files = sorted((place / "journal").glob("*.wkj"))
    way = chance.choice(["removed", "several removed", "removed with the index", "zeros", "bits", "cut short"])
    file = chance.choice(files)
    size = file.stat().st_size
    if way == "cut short":
        os.truncate(file, chance.randrange(size))
    elif way == "zeros":
        with file.open("r+b") as bytes_of:
            bytes_of.seek(chance.randrange(size))
            bytes_of.write(bytes(chance.choice([4096, 65536])))
    elif way == "bits":
        turn_bits(file, chance)
    else:
        file.unlink()
        if way == "several removed":
            for other in chance.sample(files, min(chance.randrange(1, 4), len(files))):
                other.unlink(missing_ok=True)
        if way == "removed with the index":
            shutil.rmtree(place / "index")
    return way


def turn_bits(file: Path, chance: Random) -> None:
    content = bytearray(file.read_bytes())
    for _ in range(chance.randrange(1, 4)):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    file.write_bytes(content)


def damage(place: Path, chance: Random) -> str:
    """One of the ways in which disks and people lose data. Returns which."""
    others = chance.random()
    for file in sorted((place / "index").glob("*")) if others < 0.15 else []:
        turn_bits(file, chance)
    for file in sorted((place / "entries").glob("*")) if others > 0.9 else []:
        file.unlink()
    return damage_a_file(place, chance)


# ---- what is seen of it ---------------------------------------------------------------------------------------------


def look_at(log: walkeeper.Log, counts: bool) -> Seen:
    """From its first record on: sequence ids follow each other, records and gaps."""
    first = log.first()
    start = following = first.sequence_id if first is not None else 0
    records = lost = 0
    ids: set[int] = set()
    for record in log.reader(gaps="yield"):
        assert record.sequence_id == following or first is None, (log.name, following, record)
        missing = record.count if isinstance(record, walkeeper.Gap) else 0
        following = record.sequence_id + (missing or 1)
        lost += missing
        if isinstance(record, walkeeper.Record):
            log_id, number = map(int, bytes(record.payload).split(b":")[:2])
            ids.add(log_id)
            assert number == record.sequence_id or log.name.startswith("recovered-ledger"), (log.name, record)
            records += 1
    assert len(ids) <= 1, (log.name, ids)
    if counts:
        assert log.count() == records, log.name
    return Seen(start, following, records, lost, frozenset(ids))


def look(namespace: walkeeper.Namespace, counts: bool) -> dict[str, Seen]:
    return {name: look_at(namespace.log(name), counts) for name in namespace.logs()}


def go_on(namespace: walkeeper.Namespace, seen: dict[str, Seen]) -> None:
    """A record more in each log."""
    for name, before in seen.items():
        with namespace.log(name).writer() as writer:
            number = writer.next_sequence_id
            assert number >= before.next, name
            writer.append(stamped(min(before.ids, default=0), number, 10))


def accept(place: Path, chance: Random) -> bool:
    """False: nothing at all can be opened any more, which is said."""
    policy = chance.choice(["skip", "point_in_time"])
    check_all = chance.random() < 0.6
    later = "skip" if policy == "skip" and not check_all else "stop"  # what only reads meet, no open records
    reads = check_all or policy == "skip"
    try:
        namespace = walkeeper.open(place, on_damage=policy, check_all=check_all)
    except walkeeper.DamagedError as error:
        if "the journal has no block" not in str(error):
            raise
        return False
    with namespace:
        accepted = look(namespace, check_all) if reads else {}
    with walkeeper.open(place, on_damage=later) as namespace:
        if not reads:
            return True
        again = look(namespace, check_all)
        assert accepted == again
        go_on(namespace, again)
    with walkeeper.open(place, on_damage=later) as namespace:
        for name, seen in look(namespace, check_all).items():
            assert seen.records == again[name].records + 1, (name, again[name], seen)
    return True


def damage_often(place: Path, damages: int, seed: int) -> dict[str, int]:
    """How often each way of damage was accepted."""
    ways: dict[str, int] = {}
    chance = Random(seed)
    whole, broken = place / "whole", place / "broken"
    for number in range(damages):
        if number % DAMAGES_A_DIRECTORY == 0:
            shutil.rmtree(whole, ignore_errors=True)
            make(whole, Random(chance.random()))
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(whole, broken)
        way = damage(broken, chance)
        if accept(broken, chance):
            ways[way] = ways.get(way, 0) + 1
    return ways


@pytest.mark.parametrize("seed", [2, 11, pytest.param(time.time_ns(), id="of_the_clock")])
def test_whatever_is_lost_is_accepted_once_and_told_by_gaps(tmp_path: Path, seed: int) -> None:
    assert sum(damage_often(tmp_path, 40, seed).values()) > 20


if __name__ == "__main__":
    damages = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    first_seed = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns()
    print(f"seed {first_seed}")
    with tempfile.TemporaryDirectory() as scratch:
        print(damage_often(Path(scratch), damages, first_seed))
