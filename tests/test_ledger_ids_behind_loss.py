"""Behind accepted loss entries are left of a segment whose record is lost. They do not become another segment's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import walkeeper


@pytest.mark.parametrize("policy", ["skip", "point_in_time"])
def test_what_is_left_of_a_lost_segment_stays_away(directory: Path, policy: walkeeper.OnDamage) -> None:
    sizes = {"file_size_min": 1 << 16, "file_size_max": 1 << 16}
    child = os.fork()
    if child == 0:  # it is killed, so that no index says what stood where
        try:
            namespace = walkeeper.open(directory, **sizes)  # type: ignore[arg-type]
            log = namespace.log("log", segment_bytes=60000)
            writer, other = log.writer(), namespace.log("other").writer()
            other.append(b"x")
            for _ in range(4):
                writer.append(b"a" * 15000)
            for number in range(6):  # the first of them begins a segment
                writer.append(b"%d " % number * 4500)
                other.append(b"x" * 15000)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    files = sorted((directory / "journal").glob("*.wkj"))
    next(file for file in files if b"0 0 0 0 0 0 " in file.read_bytes()).unlink()
    with walkeeper.open(directory, on_damage=policy, check_all=True) as namespace:
        held = {name: namespace.log(name).count() for name in namespace.logs()}
    with walkeeper.open(directory) as namespace:
        for name in [*held, "new", "another"]:
            with namespace.log(name).writer() as writer:
                writer.append(b"new")
    shutil.rmtree(directory / "index")  # every footer is read again
    with walkeeper.open(directory) as namespace:
        for name in [*held, "new", "another"]:
            log = namespace.log(name)
            records = [record for record in log.reader(gaps="yield") if isinstance(record, walkeeper.Record)]
            assert len(records) == log.count() == held.get(name, 0) + 1
            assert records[-1].payload == b"new"
