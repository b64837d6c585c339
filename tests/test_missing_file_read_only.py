"""A file is gone that held the end of a completed segment. Who only reads is told, and finds what stands behind it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import walkeeper
from walkeeper.errors import DamagedError

SIZES = {"file_size_min": 1 << 16, "file_size_max": 1 << 16}
LOST = 3


def append_three_segments(directory: Path) -> None:
    namespace = walkeeper.open(directory, **SIZES)  # type: ignore[arg-type]
    writer = namespace.log("log", segment_bytes=200_000).writer()
    for number in range(12):  # a segment has four of them, a file has one
        writer.append(b"%02d." % number * 19_000)
    if directory.name == "closed":
        namespace.close()


@pytest.fixture(params=["closed", "killed"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Without the file that holds record 3, the last one of its segment."""
    made = tmp_path / request.param
    child = os.fork()
    if child == 0:
        try:
            append_three_segments(made)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    next(file for file in (made / "journal").glob("*.wkj") if b"03." * 100 in file.read_bytes()).unlink()
    return made


def content(reader: walkeeper.Reader[walkeeper.Record | walkeeper.Gap]) -> list[int | tuple[int, int]]:
    return [(item.sequence_id, item.count) if isinstance(item, walkeeper.Gap) else item.sequence_id for item in reader]


def test_it_does_not_pass_for_the_end_of_the_log(directory: Path) -> None:
    with walkeeper.open(directory, read_only=True) as namespace:
        log = namespace.log("log")
        reader = log.reader()
        assert [next(reader).sequence_id for _ in range(LOST)] == [0, 1, 2]
        with pytest.raises(DamagedError, match="a file is missing"):
            next(reader)
        with pytest.raises(DamagedError, match="a file is missing"):
            log.reader(sequence_id=LOST).read()
        assert content(log.reader(sequence_id=LOST + 1)) == list(range(LOST + 1, 12))
        assert log.info().next.sequence_id == 12


@pytest.mark.parametrize("check_all", [False, True])
def test_under_skip_it_is_a_gap(directory: Path, check_all: bool) -> None:
    with walkeeper.open(directory, read_only=True, on_damage="skip", check_all=check_all) as namespace:
        log = namespace.log("log")
        assert content(log.reader(gaps="yield")) == [0, 1, 2, (LOST, 1), *range(LOST + 1, 12)]
        assert content(log.reader(sequence_id=LOST, gaps="yield")) == [(LOST, 1), *range(LOST + 1, 12)]


def test_commands_show_the_rest_and_say_so(directory: Path) -> None:
    command = [sys.executable, "-m", "walkeeper", "cat", str(directory), "log"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert len([line for line in done.stdout.splitlines() if line.strip()]) == 12
    assert "1 record is lost here" in done.stdout or "a file is missing" in done.stderr
