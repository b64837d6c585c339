"""What the kernel tells of a bookie's process: its memory, its descriptors."""

from __future__ import annotations

import os
from pathlib import Path

from bookie_runs import Running

__all__ = ["descriptors", "resident_bytes", "resident_bytes_peak"]


def resident_bytes(bookie: Running) -> int:
    """Its memory, now."""
    return _status(bookie, "VmRSS")


def resident_bytes_peak(bookie: Running) -> int:
    """The most that it had."""
    return _status(bookie, "VmHWM")


def descriptors(bookie: Running) -> int:
    """How many it has open."""
    return len(os.listdir(f"/proc/{bookie.process.pid}/fd"))


def _status(bookie: Running, name: str) -> int:
    for line in Path(f"/proc/{bookie.process.pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(f"process {bookie.process.pid} has no {name}")
