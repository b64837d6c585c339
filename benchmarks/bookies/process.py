"""What the kernel tells of a server's process: CPU, memory, what it wrote; and when it has come to rest."""

from __future__ import annotations

import time
from pathlib import Path

QUIET_SHARE = 0.03
"""Of a core: a server that takes less has nothing left to do."""
QUIET_BYTES = 128 * 1024
"""In the time that is looked at: what a sign of life in the metadata writes is less."""


def cpu_seconds(pid: int) -> float:
    """User and system time of all its threads, those that ended included."""
    return time.clock_gettime(~pid << 3 | 2)


def resident_bytes(pid: int) -> int:
    return status_bytes(Path(f"/proc/{pid}/status").read_text(), "VmRSS")


def written_bytes(pid: int) -> int:
    """What it caused to be written to disks, direct writes included; what it truncated before that is not taken off."""
    return counter(Path(f"/proc/{pid}/io").read_text(), "write_bytes")


def status_bytes(text: str, name: str) -> int:
    """A size of /proc/PID/status. Raises KeyError where there is none of this name."""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise KeyError(name)


def counter(text: str, name: str) -> int:
    """A number of /proc/PID/io. Raises KeyError where there is none of this name."""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value)
    raise KeyError(name)


def disk_bytes(directory: Path) -> int:
    """What the files below take of the disk: blocks, not lengths."""
    return sum(path.lstat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())


def rest(*pids: int, at_most: float = 10.0, for_seconds: float = 0.5) -> bool:
    """
    Waits until these take next to no CPU and write nothing for a while. False where they did not come to rest in time:
    then what is measured next has company.
    """
    deadline = time.monotonic() + at_most
    while time.monotonic() < deadline:
        before = [(cpu_seconds(pid), written_bytes(pid)) for pid in pids]
        time.sleep(for_seconds)
        after = [(cpu_seconds(pid), written_bytes(pid)) for pid in pids]
        if all(
            now[0] - then[0] <= QUIET_SHARE * for_seconds and now[1] - then[1] <= QUIET_BYTES
            for then, now in zip(before, after, strict=True)
        ):
            return True
    return False
