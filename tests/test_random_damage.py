"""
Accepted loss, at random: logs with many segments, truncations and codecs; then files are removed, cut short, zeroed or
have bits turned, with and without the index. Whatever is lost, an open that accepts it ends; no reader is led past a
lost record without a gap; and what was accepted once is settled: the next open asks for nothing, and shows the same.

`python tests/test_random_damage.py DAMAGES SEED` for more of it (`make damage`).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

import walkeeper

DAMAGES_A_DIRECTORY = 4


class Seen(NamedTuple):
    first: int
    next: int
    records: int
    lost: int


def make(place: Path, chance: Random) -> None:
    names = ["a", "b", "c"][: chance.randrange(1, 4)]
    segment_bytes = chance.choice([1 << 15, 1 << 17, 1 << 19, 1 << 26])
    with walkeeper.open(place, file_size_min=1 << 19, file_size_max=1 << 20) as namespace:
        logs = [
            namespace.log(name, segment_bytes=segment_bytes, codec=chance.choice(["none", "lz4"])) for name in names
        ]
        writers = {log: log.writer() for log in logs}
        for number in range(chance.randrange(20, 80)):
            log = chance.choice(logs)
            writers[log].append_many([b"%d" % number * 100] * chance.randrange(1, 300))
            if chance.random() < 0.02:
                log.truncate(writers[log].append(b"the first from here on"))
            if chance.random() < 0.03:
                writers[log].close()
                writers[log] = log.writer()


def damage(place: Path, chance: Random) -> str:
    """One of the ways in which disks and people lose data. Returns which."""
    files = sorted((place / "journal").glob("*.wkj"))
    way = chance.choice(["removed", "two removed", "removed with the index", "zeros", "bits", "cut short"])
    file = chance.choice(files)
    size = file.stat().st_size
    if way == "cut short":
        os.truncate(file, chance.randrange(size))
    elif way == "zeros":
        with file.open("r+b") as bytes_of:
            bytes_of.seek(chance.randrange(size))
            bytes_of.write(bytes(chance.choice([4096, 65536])))
    elif way == "bits":
        content = bytearray(file.read_bytes())
        for _ in range(chance.randrange(1, 4)):
            content[chance.randrange(size)] ^= 1 << chance.randrange(8)
        file.write_bytes(content)
    else:
        file.unlink()
        if way == "two removed" and len(files) > 1:
            chance.choice([other for other in files if other != file]).unlink()
        if way == "removed with the index":
            shutil.rmtree(place / "index")
    return way


def look(namespace: walkeeper.Namespace, counts: bool) -> dict[str, Seen]:
    """Every log from its first record on: sequence ids follow each other, records and gaps."""
    seen = {}
    for name in namespace.logs():
        log = namespace.log(name)
        first = log.first()
        start = following = first.sequence_id if first is not None else 0
        records = lost = 0
        for record in log.reader():
            assert record.sequence_id == following or first is None, (name, following, record)
            missing = record.count if isinstance(record, walkeeper.Gap) else 0
            following = record.sequence_id + (missing or 1)
            records += missing == 0
            lost += missing
        if counts:
            assert log.count() == records, name
        seen[name] = Seen(start, following, records, lost)
    return seen


def accept(place: Path, chance: Random) -> bool:
    """False: nothing at all can be opened any more, which is said."""
    policy = chance.choice(["skip", "point_in_time"])
    check_all = chance.random() < 0.5
    later = "skip" if policy == "skip" and not check_all else "stop"  # what only reads meet, no open records
    reads = check_all or policy == "skip"
    try:
        namespace = walkeeper.open(place, on_damage=policy, check_all=check_all)
    except walkeeper.DamagedError as error:
        if "the journal has no block" not in str(error):
            raise
        return False
    with namespace:
        accepted = look(namespace, check_all) if reads else None
    with walkeeper.open(place, on_damage=later) as namespace:
        again = look(namespace, check_all) if reads else None
    assert accepted == again
    return True


def damage_often(place: Path, damages: int, seed: int) -> dict[str, int]:
    """How often each way of damage was accepted."""
    ways: dict[str, int] = {}
    chance = Random(seed)
    whole, broken = place / "whole", place / "broken"
    for number in range(damages):
        if number % DAMAGES_A_DIRECTORY == 0:
            shutil.rmtree(whole, ignore_errors=True)
            make(whole, chance)
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(whole, broken)
        way = damage(broken, chance)
        if accept(broken, chance):
            ways[way] = ways.get(way, 0) + 1
    return ways


@pytest.mark.parametrize("seed", [2, 11, time.time_ns()])
def test_whatever_is_lost_is_accepted_once_and_told_by_gaps(tmp_path: Path, seed: int) -> None:
    assert sum(damage_often(tmp_path, 40, seed).values()) > 20


if __name__ == "__main__":
    damages = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    first_seed = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns()
    print(f"seed {first_seed}")
    with tempfile.TemporaryDirectory() as scratch:
        print(damage_often(Path(scratch), damages, first_seed))
