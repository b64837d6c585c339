"""Rewriting: what is still needed of the beginning of a root's log is appended anew, and the beginning is truncated.

So the log stays about twice as large as what it has, and a root is open soon. No snapshot is read or written at once:
files are written anew one by one, between the changes of clients.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import TYPE_CHECKING

from walkeeper.gateway._change import Change, Kind
from walkeeper.gateway._file_tree import Directory, File

if TYPE_CHECKING:
    from walkeeper import DLSN, Position
    from walkeeper.gateway._path import Path
    from walkeeper.gateway._root import Root

__all__ = ["Rewriting"]

log = logging.getLogger("walkeeper.gateway")

LOG_BYTES_MIN = 16 * 1024 * 1024
"""A smaller log is left as it is."""
RECORD_BYTES = 128
"""About what a record has besides the bytes of a file."""
KEPT_SECONDS = 120.0
"""Younger records stay: they say what became of operations that may be asked for again."""
MARK_SECONDS = 5.0


class Rewriting:
    """Knows how large the log is, and when it is worth rewriting."""

    def __init__(self) -> None:
        self._bytes_min, self._kept_seconds = LOG_BYTES_MIN, KEPT_SECONDS
        self._log_bytes = 0
        self._look_at = self._bytes_min
        self._marks: deque[tuple[float, DLSN, int]] = deque()
        """When a record was appended, where it is, and how large the log was before it; one each few seconds."""
        self._runs = False
        self._number = 0

    def replayed(self, size: int) -> None:
        self._log_bytes += size

    def appended(self, size: int, position: Position) -> bool:
        """Whether run() is due."""
        now = time.monotonic()
        if not self._marks or now >= self._marks[-1][0] + min(MARK_SECONDS, self._kept_seconds):
            self._marks.append((now, position.dlsn, self._log_bytes))
        self._log_bytes += size
        return not self._runs and self._log_bytes >= self._look_at and now >= self._marks[0][0] + self._kept_seconds

    async def run(self, root: Root) -> None:
        """Where more than half of the log is dead, up to a record that is old enough."""
        live = sum(RECORD_BYTES + (0 if file.log else file.size) for _, file in root.tree.files())
        self._look_at = 2 * live + self._bytes_min
        if self._runs or self._log_bytes < self._look_at:
            return
        self._runs = True
        try:
            _, end, bytes_before = self._old_mark()
            self._number += 1
            while left := self._left(root, end):
                for path, found in left:
                    await self._write(root, path, found)
            await root.truncate(end)
            self._log_bytes -= bytes_before
            self._marks = deque((when, place, size - bytes_before) for when, place, size in self._marks)
            log.info("/%s: %d bytes of its log were let go of", root.name, bytes_before)
        finally:
            self._runs = False

    def _old_mark(self) -> tuple[float, DLSN, int]:
        """The youngest that is old enough; those before it are dropped."""
        latest = time.monotonic() - self._kept_seconds
        while len(self._marks) > 1 and self._marks[1][0] <= latest:
            self._marks.popleft()
        return self._marks[0]

    def _left(self, root: Root, end: DLSN) -> list[tuple[Path, Directory | File]]:
        """What would be lost with the log before `end`. Again and again: a rename moves what is not written yet."""
        directories = [found for found in root.tree.directories() if found[1].rewritten != self._number]
        files = [found for found in root.tree.files() if found[1].place is not None and found[1].place < end]
        return [*directories, *files]

    async def _write(self, root: Root, path: Path, found: Directory | File) -> None:
        content = await root.content(found) if isinstance(found, File) and not found.log else b""
        if root.tree.at(path) is not found:
            return
        if isinstance(found, File):
            kind = Kind.PUT_DATA if found.log else Kind.PUT
            written = Change(
                kind,
                path,
                epoch=found.epoch,
                modified_ms=found.modified_ms,
                version=found.version,
                content=content,
                size=found.size,
                log=found.log,
            )
            found.place = (await root.append(written)).dlsn
            return
        found.rewritten = self._number
        owner = found.owner
        if owner is None:
            await root.append(Change(Kind.MKDIR, path, modified_ms=found.modified_ms))
        else:
            await root.append(
                Change(Kind.ACQUIRE, path, epoch=owner.epoch, modified_ms=owner.since_ms, owner=owner.text)
            )
