"""Logs: those of a namespace, as the sessions of a gateway use them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from walkeeper.errors import Error, GapError, LogDeletedError
from walkeeper.gateway._log_fields import Place, Way
from walkeeper.gateway._log_readers import LogReaders
from walkeeper.gateway._log_writers import LogWriters
from walkeeper.gateway._protocol import Refused, Status
from walkeeper.gateway._read_columns import fetched_columns

if TYPE_CHECKING:
    from walkeeper import Position
    from walkeeper.aio import Log, Namespace, Reader

__all__ = ["Found", "Logs"]

log = logging.getLogger("walkeeper.gateway")

SWEEP_SECONDS = 5.0
SLICE_SECONDS = 0.25
"""Where a wait for records holds a thread, others that wait get it after this."""
WAITING_MAX = 32
"""So many threads are held."""
_OF_THE_GATEWAY = ("files/", "files-data/", "transactions/")


class Found:
    """What a read found."""

    __slots__ = ("columns", "count", "ended", "next")

    def __init__(self, count: int, next: Place, columns: bytes, ended: bool) -> None:
        self.count = count
        self.next = next
        """Where to read on."""
        self.columns = columns
        self.ended = ended
        """Nothing is there, and nothing will ever be."""


class Logs:
    """One writer of each log that is appended to, and readers that stand where somebody reads on."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.writers = LogWriters(namespace)
        self._readers = LogReaders()
        self._waiting = asyncio.Semaphore(WAITING_MAX)
        self._sweeping = asyncio.ensure_future(self._sweep())

    async def close(self) -> None:
        """What was accepted is durable, or its outcome is unknown."""
        self._sweeping.cancel()
        await asyncio.wait([self._sweeping])
        await self.writers.close()
        await self._readers.close()

    async def open(self, name: str) -> Log:
        return await self.namespace.log(name, create=False)

    @staticmethod
    def check_changeable(name: str) -> None:
        """Refused: it is a log that the gateway itself keeps something in."""
        for prefix in _OF_THE_GATEWAY:
            if name.startswith(prefix):
                raise Refused(Status.INVALID, f"log {name!r} is not a client's to change: {prefix} is of the gateway")

    async def read(self, name: str, place: Place, records_max: int, bytes_max: int, wait: float) -> Found:
        """From `place` on: at least one record, where there is any or one comes within `wait` seconds.

        Raises what Log.reader and Reader.read raise. A task that waits in here may be cancelled.
        """
        kept = self._readers.take(name, place)
        if kept is not None:
            try:
                return await self._read(name, place, kept, records_max, bytes_max, wait)
            except LogDeletedError:
                pass  # a log may have been made anew under the name
        opened, place = await self._reader(name, place)
        return await self._read(name, place, opened, records_max, bytes_max, wait)

    async def _reader(self, name: str, place: Place) -> tuple[Reader[Any], Place]:
        """One at that place; and the place, by its DLSN where it was the end."""
        own = await self.open(name)
        if place.way == Way.END:
            place = Place.at((await own.info()).next)
        if place.way == Way.START:
            return own.reader(follow=True), place
        if place.way == Way.DLSN:
            return own.reader(place.dlsn, follow=True), place
        return own.reader(**place.arguments(), follow=True), place

    async def _read(
        self, name: str, place: Place, reader: Reader[Any], records_max: int, bytes_max: int, wait: float
    ) -> Found:
        try:
            found = await self._arrived(reader, records_max, bytes_max, wait)
        except GapError as error:
            await self._readers.keep(name, Place.at(error.gap.next), reader)
            raise
        except BaseException:
            await reader.close()
            raise
        if found is None:
            ended = reader.ended
            await self._readers.keep(name, place, reader)
            return Found(0, place, b"", ended)
        count, behind, columns = found
        await self._readers.keep(name, Place.at(behind), reader)
        return Found(count, Place.at(behind), columns, False)

    async def _arrived(
        self, reader: Reader[Any], records_max: int, bytes_max: int, wait: float
    ) -> tuple[int, Position, bytes] | None:
        found = await fetched_columns(reader, records_max, bytes_max, 0.0)
        if found is not None or not wait or reader.ended:
            return found
        if self.namespace._has_eventfd:
            return await fetched_columns(reader, records_max, bytes_max, wait)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait
        while found is None and not reader.ended and (left := deadline - loop.time()) > 0:
            async with self._waiting:
                found = await fetched_columns(reader, records_max, bytes_max, min(left, SLICE_SECONDS))
        return found

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                await self.writers.close_idle()
                await self._readers.close_idle()
            except Error as error:
                log.warning("closing what is idle: %s", error)
