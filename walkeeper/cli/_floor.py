"""What the disk itself takes for a durable write, and to be read: the floors that are printed beside our numbers."""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

BLOCK_SIZE = 4096
BLOCKS_COUNT = 256
WARM_UP = 16
READ_SIZE = 1 << 20
"""What the engine reads at a time where no writer is at work."""


def durable_writes(directory: Path, seconds: float, block_size: int = BLOCK_SIZE) -> list[int]:
    """Nanoseconds of each of some bare pwritev2(RWF_DSYNC), one at a time, over blocks that were written before.

    Direct, where the file system can; the temporary file in `directory` is removed. Raises OSError.
    """
    descriptor, name = tempfile.mkstemp(prefix="walkeeper-floor-", dir=directory)
    block = mmap.mmap(-1, block_size)
    try:
        os.pwrite(descriptor, bytes(block_size * BLOCKS_COUNT), 0)
        os.fsync(descriptor)
        try:
            direct = os.open(name, os.O_WRONLY | os.O_DIRECT)
        except OSError:
            pass
        else:
            os.close(descriptor)
            descriptor = direct
        elapsed: list[int] = []
        until = time.monotonic() + seconds
        while time.monotonic() < until or len(elapsed) <= WARM_UP:
            began = time.perf_counter_ns()
            os.pwritev(descriptor, [block], len(elapsed) % BLOCKS_COUNT * block_size, os.RWF_DSYNC)
            elapsed.append(time.perf_counter_ns() - began)
    finally:
        os.close(descriptor)
        os.unlink(name)
        block.close()
    return elapsed[WARM_UP:]


@dataclass(frozen=True)
class Reads:
    """Bare reads: nanoseconds of each, their bytes in all, and whether all of them went past the page cache."""

    elapsed: list[int]
    read_bytes: int
    direct: bool


def sequential_reads(files: Iterable[Path], bytes_max: int, read_size: int = READ_SIZE) -> Reads:
    """Reads the files one after another, each from its start, one bare preadv at a time, until there are bytes_max.

    Direct, where the file system can, as the engine reads: what is in the page cache is read from the disk all the
    same. Raises OSError.
    """
    elapsed: list[int] = []
    done, direct = 0, True
    with mmap.mmap(-1, read_size) as block:
        for file in files:
            descriptor, is_direct = open_direct(file)
            direct = direct and is_direct
            try:
                at = 0
                while done < bytes_max:
                    size = min(read_size, -(-(bytes_max - done) // BLOCK_SIZE) * BLOCK_SIZE)  # a direct one is aligned
                    with memoryview(block)[:size] as part:
                        began = time.perf_counter_ns()
                        count = os.preadv(descriptor, [part], at)
                        took = time.perf_counter_ns() - began
                    if not count:
                        break
                    elapsed.append(took)
                    at += count
                    done += count
            finally:
                os.close(descriptor)
    return Reads(elapsed, done, direct)


def open_direct(file: Path) -> tuple[int, bool]:
    """A descriptor to read from, and whether it is direct: not where the file system refuses that. Raises OSError."""
    try:
        return os.open(file, os.O_RDONLY | os.O_DIRECT), True
    except OSError:
        return os.open(file, os.O_RDONLY), False


def bytes_read() -> int | None:
    """What this process has made the disk read since it began; None where the kernel does not count that."""
    try:
        lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("read_bytes:")), None)
