"""A small file system on a loop device: what a full disk is, really. It takes root, and a kernel that mounts.

Where it cannot be had a test is skipped; in CI (`CI=true`) that is an error.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

__all__ = ["SmallFileSystem", "mounted"]

FIFREEZE, FITHAW = 0xC0045877, 0xC0045878
"""Requests of ioctl, in linux/fs.h."""


class SmallFileSystem:
    """A mounted one, and the ballast that fills it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self, leave: int = 0) -> None:
        """Nothing but `leave` bytes is free."""
        with contextlib.suppress(OSError), self._ballast.open("ab") as file:
            while (free := self.free() - leave) > 0:
                file.write(bytes(min(max(free, 4096), 1 << 20)))
                file.flush()
                os.fsync(file.fileno())

    def make_room(self) -> None:
        self._ballast.unlink()

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """Whoever writes waits until the end, in the kernel, however he writes; also one that is killed meanwhile."""
        point = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(point, FIFREEZE, 0)
            try:
                yield
            finally:
                fcntl.ioctl(point, FITHAW, 0)
        finally:
            os.close(point)

    def free(self) -> int:
        found = os.statvfs(self.path)
        return found.f_frsize * found.f_bavail


def _cannot(why: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


@contextlib.contextmanager
def mounted(place: Path, size: int) -> Iterator[SmallFileSystem]:
    """One of so many bytes."""
    image, point = place / "file-system", place / "mounted"
    mkfs = shutil.which("mkfs.ext4") or shutil.which("mkfs.ext4", path="/usr/sbin:/sbin")
    if os.geteuid() != 0 or mkfs is None:
        _cannot("a small file system needs root and mkfs.ext4")
    image.touch()
    os.truncate(image, size)
    point.mkdir()
    subprocess.run([mkfs, "-q", "-m", "0", str(image)], check=True)
    done = subprocess.run(["mount", "-o", "loop", str(image), str(point)], capture_output=True, text=True)
    if done.returncode != 0:
        _cannot(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        yield SmallFileSystem(point)
    finally:
        subprocess.run(["umount", "-l", str(point)], check=True)
