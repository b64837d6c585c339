"""Upload: a large file on its way, into a log of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from walkeeper.gateway._protocol import Refused, Status

if TYPE_CHECKING:
    import walkeeper
    from walkeeper.aio import Writer
    from walkeeper.gateway._path import Path

__all__ = ["CHUNK", "Upload"]

CHUNK = 512 * 1024
"""Bytes of a record, but the last."""


class Upload:
    """Bytes that follow each other. Used by one task at a time."""

    def __init__(self, path: Path, log: str, writer: Writer) -> None:
        self.path = path
        self.log = log
        self.size = 0
        self._writer = writer
        self._left = bytearray()
        self._records: list[asyncio.Future[walkeeper.Position]] = []

    async def add(self, offset: int, content: bytes) -> None:
        """It is accepted; not durable."""
        if offset != self.size:
            raise Refused(Status.INVALID, f"byte {self.size} comes next in this upload, not {offset}")
        self.size += len(content)
        self._left += content
        while len(self._left) >= CHUNK:
            await self._submit(bytes(self._left[:CHUNK]))
            del self._left[:CHUNK]

    async def finish(self) -> None:
        """All of it is durable."""
        if self._left:
            await self._submit(bytes(self._left))
            self._left.clear()
        await asyncio.gather(*self._records)
        await self._writer.close()

    async def discard(self) -> None:
        await asyncio.gather(*self._records, return_exceptions=True)
        await self._writer.close()

    async def _submit(self, record: bytes) -> None:
        self._records.append(await self._writer.submit(record))
