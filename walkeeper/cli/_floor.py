"""What the disk itself takes for a durable write: the floor that is printed beside our numbers."""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from pathlib import Path

BLOCK_SIZE = 4096
BLOCKS_COUNT = 256
WARM_UP = 16


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
