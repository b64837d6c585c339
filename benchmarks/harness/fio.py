"""The floor: what fio gets from this disk with the same blocks. Zero-filled file, O_DIRECT, dsync, one process."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
from pathlib import Path
from typing import Any

FILE_BYTES = 256 << 20
ALLOCATED_BYTES = 2 << 30


class Absent(Exception):
    """Something a question needs is not here; the table says what."""


class Floor:
    """
    Runs fio over one file that is really written beforehand: unwritten extents would make the floor too easy to
    reach.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / "floor"
        _write_zeros(self._path, FILE_BYTES)
        self._written = directory / "floor-beside-reader"
        _write_zeros(self._written, FILE_BYTES // 4)

    def latency(self, seconds: float) -> dict[str, float]:
        """4 KiB durable overwrites, one after another (psync, dsync): `p50_ns`, `p99_ns`, `rate` a second."""
        return self._write(seconds, block_size=4096, depth=1, engine="psync")

    def latency_beside_reader(self, seconds: float, block_size: int, bytes_rate: float) -> dict[str, float]:
        """As `latency`, while a second job reads `block_size` at a time, `bytes_rate` bytes a second."""
        reader = [
            "--name=reader", f"--filename={self._path}", f"--size={FILE_BYTES // block_size * block_size}", "--rw=read",
            f"--bs={block_size}", "--direct=1", "--sync=none", "--ioengine=psync", f"--rate={max(1, int(bytes_rate))}",
        ]  # fmt: skip
        job = self._run(
            seconds, "write", 4096, 1, "psync", self._written, "--sync=dsync", "--overwrite=1", "--time_based", *reader
        )
        return _figures(job["write"])

    def bandwidth(self, seconds: float, block_size: int, depth: int) -> dict[str, float]:
        """Durable sequential overwrites of `block_size` bytes with `depth` in flight: `bytes_rate`."""
        return self._write(seconds, block_size, depth, "io_uring" if depth > 1 else "psync")

    def into_allocated(self, seconds: float, block_size: int) -> dict[str, float]:
        """As `bandwidth` at depth 1, into space that was allocated and never written: what a growing file can have."""
        path = self._path.with_name("floor-allocated")
        path.unlink(missing_ok=True)
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, ALLOCATED_BYTES)
        found = _figures(
            self._run(seconds, "write", block_size, 1, "psync", path, "--sync=dsync", "--fallocate=none")["write"]
        )
        path.unlink()
        if found["count"] * block_size > ALLOCATED_BYTES:
            raise RuntimeError("fio came to the end of the file, and overwrote it")
        return found

    def read(self, seconds: float, block_size: int, depth: int = 1, path: Path | None = None) -> dict[str, float]:
        """
        Sequential reads of `block_size` with `depth` in flight: `bytes_rate`. Of the floor's own file unless `path`
        names another.
        """
        job = self._run(seconds, "read", block_size, depth, "io_uring" if depth > 1 else "psync", path or self._path)
        return _figures(job["read"])

    def _write(self, seconds: float, block_size: int, depth: int, engine: str) -> dict[str, float]:
        return _figures(
            self._run(seconds, "write", block_size, depth, engine, self._path, "--sync=dsync", "--overwrite=1")["write"]
        )

    def _run(
        self, seconds: float, kind: str, block_size: int, depth: int, engine: str, path: Path, *more: str
    ) -> dict[str, Any]:
        size = path.stat().st_size // block_size * block_size
        command = [
            "fio",
            "--name=floor",
            f"--filename={path}",
            f"--size={size}",
            f"--rw={kind}",
            f"--bs={block_size}",
            "--direct=1",
            f"--ioengine={engine}",
            f"--iodepth={depth}",
            "--time_based",
            f"--runtime={max(1, round(seconds * 1000))}ms",
            "--percentile_list=50:90:99:99.9",
            "--output-format=json",
            *more,
        ]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        answer: dict[str, Any] = json.loads(found.stdout)["jobs"][0]
        if answer["error"]:
            raise RuntimeError(f"fio failed with error {answer['error']}: {found.stderr}")
        return answer


def _figures(part: dict[str, Any]) -> dict[str, float]:
    percentiles = part["clat_ns"]["percentile"]
    return {
        "p50_ns": percentiles["50.000000"],
        "p99_ns": percentiles["99.000000"],
        "rate": part["iops"],
        "bytes_rate": part["bw_bytes"],
        "count": part["total_ios"],
    }


def _write_zeros(path: Path, size: int) -> None:
    chunk = mmap.mmap(-1, 1 << 20)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_DIRECT, 0o600)
    try:
        for _ in range(size // len(chunk)):
            os.write(file, chunk)
        os.fsync(file)
    finally:
        os.close(file)


def read_size_of(cell: dict[str, Any]) -> int:
    """The mean size of the reads that the block device saw during a cell, on the grid of direct I/O."""
    if not cell.get("disk_reads"):
        raise Absent("the block device saw no reads: the read size cannot be observed here")
    mean = cell["disk_read_bytes"] / cell["disk_reads"]
    return int(max(4096, round(mean / 4096) * 4096))
