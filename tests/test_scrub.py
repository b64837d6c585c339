"""The background scrub: it reads sealed files again, slowly, and counts what is damaged."""

from __future__ import annotations

import os
import time
from pathlib import Path

import walkeeper

PATIENCE = 20.0


def directory_with_sealed_files(path: Path) -> None:
    with walkeeper.open(path, file_size_min=65536, file_size_max=65536) as ns, ns.log("scrubbed").writer() as writer:
        for number in range(200):
            writer.append(b"%04d" % number * 400)


def damage_one_payload(path: Path) -> None:
    """Changes a byte in the middle of record 3, in the oldest journal file."""
    file = min((path / "journal").glob("*.wkj"))
    content = file.read_bytes()
    at = content.index(b"0003" * 400) + 800
    with file.open("r+b") as out:
        out.seek(at)
        out.write(bytes([content[at] ^ 1]))
        out.flush()
        os.fsync(out.fileno())


def scrub_until(ns: walkeeper.Namespace, scrubbed: int, damaged: int) -> walkeeper.Stats:
    until = time.monotonic() + PATIENCE
    while True:
        stats = ns.stats()
        if (stats.scrubbed_bytes >= scrubbed and stats.scrub_damaged >= damaged) or time.monotonic() > until:
            return stats
        time.sleep(0.02)


def test_a_healthy_directory_is_read_and_found_well(tmp_path: Path) -> None:
    directory_with_sealed_files(tmp_path / "wal")
    with walkeeper.open(tmp_path / "wal", scrub_rate=100_000_000) as ns:
        stats = scrub_until(ns, 200_000, 0)
        assert stats.scrubbed_bytes >= 200_000
        assert stats.scrub_damaged == 0


def test_damage_is_counted(tmp_path: Path) -> None:
    directory_with_sealed_files(tmp_path / "wal")
    damage_one_payload(tmp_path / "wal")
    with walkeeper.open(tmp_path / "wal", scrub_rate=100_000_000) as ns:
        assert scrub_until(ns, 0, 1).scrub_damaged >= 1
        assert not ns.stats().failed


def test_it_is_off_unless_asked_for(tmp_path: Path) -> None:
    directory_with_sealed_files(tmp_path / "wal")
    with walkeeper.open(tmp_path / "wal") as ns:
        time.sleep(0.3)
        assert ns.stats().scrubbed_bytes == 0
