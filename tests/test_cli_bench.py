"""bench: its floors, and what is compared with them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest
from command_line import json_lines, run, small_files

from walkeeper.cli._bench import filled
from walkeeper.cli._floor import READ_SIZE, sequential_reads


def test_bench_prints_the_floor_first_and_cleans_up(tmp_path: Path) -> None:
    rows = json_lines(run("bench", tmp_path, "--seconds", "0.05", "--json"))
    assert "bare pwritev2" in str(rows[0]["what"])
    assert len(rows) == 5
    assert all(isinstance(row["p50_ns"], int) and row["p50_ns"] > 0 for row in rows)
    assert list(tmp_path.iterdir()) == []


def test_bench_reads_as_many_bytes_without_the_log_as_with_it(tmp_path: Path) -> None:
    rows = json_lines(run("bench", tmp_path, "--seconds", "0.2", "--size", 5000, "--json"))
    lone, many, bare, read = (cast("dict[str, Any]", row) for row in rows[1:])
    assert bare["what"].startswith("bare preadv(")
    assert read["what"] == "read, from the start"
    assert abs(bare["disk_bytes"] - read["disk_bytes"]) < 65536  # the process may have read something else, too
    assert bare["calls"] >= bare["disk_bytes"] / READ_SIZE
    records = lone["calls"] + 64 * many["calls"]
    assert bare["disk_bytes"] > records * 5000  # headers and padding, too
    # The same bytes: the ratio is that of the times, and none of it was in memory.
    seconds = records / read["records_per_second"]
    assert read["times_floor"] == pytest.approx(seconds * bare["bytes_per_second"] / bare["disk_bytes"], rel=0.01)
    assert (rows[0]["times_floor"], bare["times_floor"]) == (1.0, 1.0)
    shown = run("bench", tmp_path, "--seconds", "0.05").stdout.splitlines()
    assert [line.split()[0] for line in shown[-2:]] == ["bare", "read,"]
    assert " 1.00 " in shown[-2]


def test_what_is_filled_of_a_file_ends_with_its_last_block(tmp_path: Path) -> None:
    directory = small_files(tmp_path / "wal")
    files = sorted((directory / "journal").glob("*.wkj"))
    sizes = [filled(file) for file in files]
    ends = [file.read_bytes().rstrip(b"\0") for file in files]
    assert sizes[0] == 65536
    assert all(size % 4096 == 0 and size - 4096 < len(end) <= size for size, end in zip(sizes, ends, strict=True))


def test_bare_reads_are_direct_and_of_the_size_that_the_engine_reads(tmp_path: Path) -> None:
    files = [tmp_path / name for name in "abc"]
    for file in files:
        file.write_bytes(b"x" * (READ_SIZE + 8192))
    found = sequential_reads(files, 2 * READ_SIZE + 10_000)
    assert found.read_bytes == 2 * READ_SIZE + 12288
    assert len(found.elapsed) == 4
    assert sequential_reads(files, 2**40).read_bytes == 3 * (READ_SIZE + 8192)
    flags: list[int] = []
    monkey = os.open

    def spy(path: Any, how: int, *more: Any, **options: Any) -> int:
        flags.append(how)
        return monkey(path, how, *more, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", spy)
        sequential_reads(files[:1], 1)
    assert flags[0] & os.O_DIRECT
