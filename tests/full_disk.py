"""A full disk, as a bookie's own files see it; small_file_system.py is a real one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

__all__ = ["FullDisk"]


class FullDisk:
    """Writes of new files find no space; what has its bytes already takes others."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
        self.full = True
        sound_open, sound_allocate = os.open, os.posix_fallocate

        def opened(path: Path, flags: int, *mode: int, **given: int) -> int:
            if self.full and flags & os.O_TRUNC:
                raise OSError(number, "no space")
            return sound_open(path, flags, *mode, **given)

        def allocated(descriptor: int, offset: int, size: int) -> None:
            if self.full:
                raise OSError(number, "no space")
            sound_allocate(descriptor, offset, size)

        monkeypatch.setattr(os, "open", opened)
        monkeypatch.setattr(os, "posix_fallocate", allocated)
