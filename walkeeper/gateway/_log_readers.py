"""LogReaders: readers that stand where clients of a gateway read on, so that each read opens none."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from walkeeper.aio import Reader
    from walkeeper.gateway._log_fields import Place

__all__ = ["LogReaders"]

READERS_MAX = 64
IDLE_SECONDS = 30.0


class LogReaders:
    """Idle readers, by log and place. One that is taken is its taker's alone."""

    def __init__(self) -> None:
        self._idle: OrderedDict[tuple[str, Place], tuple[Reader[Any], float]] = OrderedDict()

    def take(self, name: str, place: Place) -> Reader[Any] | None:
        """One that yields what a reader opened there would yield; None: there is none."""
        found = self._idle.pop((name, place), None)
        return None if found is None else found[0]

    async def keep(self, name: str, place: Place, reader: Reader[Any]) -> None:
        """For the next who reads from there."""
        if (name, place) in self._idle:
            await reader.close()
            return
        self._idle[name, place] = reader, time.monotonic()
        while len(self._idle) > READERS_MAX:
            await self._idle.popitem(last=False)[1][0].close()

    async def close_idle(self) -> None:
        """Those that nobody took for a while."""
        latest = time.monotonic() - IDLE_SECONDS
        for key, (reader, kept) in list(self._idle.items()):
            if kept <= latest and self._idle.pop(key, None) is not None:
                await reader.close()

    async def close(self) -> None:
        while self._idle:
            await self._idle.popitem()[1][0].close()
