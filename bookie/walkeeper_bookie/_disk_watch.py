"""Disk watch: how full the disk is, and whether the bookie is therefore read-only. Decisions; `look` asks the disk."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["DiskState", "DiskWatch", "FreeSpaceNews", "Space", "Thresholds", "look"]

NEWS_S = 60.0
"""A bookie publishes its free space at most so often: whoever watches registrations is woken each time."""
NEWS_PART = 0.1
"""And only where it changed by more than this part of what was published last. Placement needs no better figure."""


@dataclass(frozen=True)
class Space:
    """A file system: its size, and what this process may still use of it."""

    total: int
    free: int

    @property
    def free_part(self) -> float:
        """0 to 1."""
        return self.free / self.total if self.total > 0 else 0.0


@dataclass(frozen=True)
class DiskState:
    """What the bookie does now."""

    read_only: bool
    high_priority: bool
    """Whether adds of recovery are taken all the same."""
    reason: str
    """Why it is read-only, for people; empty where it is not."""


def look(path: Path) -> Space:
    """The file system of a directory, now. Raises OSError."""
    found = os.statvfs(path)
    return Space(total=found.f_frsize * found.f_blocks, free=found.f_frsize * found.f_bavail)


@dataclass(frozen=True)
class Thresholds:
    """Bytes and parts (0 to 1) of the disk that must be free. Between the two pairs nothing changes."""

    read_only_free: int
    read_only_part: float
    writable_free: int
    writable_part: float
    recovery_free: int
    """As long as so much is free, a read-only bookie takes the adds of recovery."""


@dataclass(frozen=True)
class FreeSpaceNews:
    """What was published of the free space, and when, by a clock that only rises."""

    published: int
    at: float

    def due(self, free: int, now: float) -> bool:
        """Whether this is to be published instead."""
        return now - self.at >= NEWS_S and abs(free - self.published) > NEWS_PART * self.published


class DiskWatch:
    """Read-only below the first pair of thresholds, writable again above the second.

    Between them it stays what it was: a bookie at the limit does not change its registration with each file.
    """

    def __init__(self, thresholds: Thresholds) -> None:
        self.thresholds = thresholds
        self._full = False

    def judge(self, *disks: Space | None, engine_full: bool, operator: bool) -> DiskState:
        """What to do, by the disk, or by each of them where the journal has its own. None: it does not answer.
        `engine_full`: the engine was refused space. `operator`: somebody wants it read-only."""
        spaces = [disk for disk in disks if disk is not None]
        if len(spaces) < len(disks):
            self._full = True
            return DiskState(read_only=True, high_priority=False, reason="the disk does not answer")
        limits = self.thresholds
        low = [s for s in spaces if s.free < limits.read_only_free or s.free_part < limits.read_only_part]
        high = [s for s in spaces if s.free > limits.writable_free and s.free_part > limits.writable_part]
        if engine_full or low:
            self._full = True
        elif len(high) == len(spaces):
            self._full = False
        space = min(low or [s for s in spaces if s not in high] or spaces, key=lambda s: s.free_part)
        reason = ""
        if operator:
            reason = "an operator wants it so"
        elif engine_full:
            reason = "the disk has no room for the journal"
        elif self._full:
            reason = f"{space.free} bytes are free on the disk, {space.free_part:.1%}"
        high_priority = not reason or min(s.free for s in spaces) > limits.recovery_free
        return DiskState(read_only=bool(reason), high_priority=high_priority, reason=reason)
