"""What the disk itself takes: a bare 4 KiB pwritev2(RWF_DSYNC), the least that any durable append can cost here."""

from __future__ import annotations

import contextlib
import mmap
import os
import statistics
import tempfile
import time
from pathlib import Path

BLOCK_SIZE = 4096


def durable_write_us(directory: Path, writes_count: int = 500) -> float:
    """The median in microseconds, over blocks that are already written once; direct where the file system can."""
    with tempfile.NamedTemporaryFile(dir=directory) as file, mmap.mmap(-1, BLOCK_SIZE) as block:
        os.pwrite(file.fileno(), bytes(64 * BLOCK_SIZE), 0)
        os.fsync(file.fileno())
        descriptor = os.dup(file.fileno())
        with contextlib.suppress(OSError):
            direct = os.open(file.name, os.O_WRONLY | os.O_DIRECT)
            os.close(descriptor)
            descriptor = direct
        try:
            elapsed = []
            for i in range(writes_count):
                began = time.perf_counter_ns()
                os.pwritev(descriptor, [block], i % 64 * BLOCK_SIZE, os.RWF_DSYNC)
                elapsed.append(time.perf_counter_ns() - began)
        finally:
            os.close(descriptor)
    return statistics.median(elapsed) / 1e3
