"""What fio gets when it reads the very files that a bookie reads from, once, in order, past the page cache."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def data_files(directory: Path, least: int) -> list[Path]:
    """The files of entries below, oldest first: those that take at least so many bytes."""
    found = [path for path in directory.rglob("*") if path.is_file() and path.stat().st_size >= least]
    return sorted(found, key=lambda path: path.name)


def read_once(files: Sequence[Path], block_size: int, bytes_wanted: int, depth: int) -> dict[str, Any]:
    """Reads the first `bytes_wanted` of them with blocks of `block_size`, `depth` under way: `bytes_rate`."""
    total, seconds, left = 0, 0.0, bytes_wanted
    for path in files:
        size = min(path.stat().st_size, left) // block_size * block_size
        if size == 0:
            continue
        job = _job(path, block_size, size, depth)
        total += job["io_bytes"]
        seconds += job["runtime"] / 1e3 if job["runtime"] else job["io_bytes"] / job["bw_bytes"]
        left -= size
    if total == 0:
        raise RuntimeError("there was nothing to read")
    return {"bytes_rate": total / seconds, "bytes": total, "seconds": seconds}


def _job(path: Path, block_size: int, size: int, depth: int) -> dict[str, Any]:
    command = [
        "fio",
        "--name=read",
        f"--filename={path}",
        f"--size={size}",
        "--rw=read",
        f"--bs={block_size}",
        "--direct=1",
        "--ioengine=io_uring",
        f"--iodepth={depth}",
        "--output-format=json",
    ]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    job: dict[str, Any] = json.loads(found.stdout)["jobs"][0]["read"]
    return job
