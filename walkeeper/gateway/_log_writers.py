"""LogWriters: the writers of logs that clients of a gateway append to, kept open while they are used."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from walkeeper.errors import (
    ClosedError,
    CursorNotFoundError,
    EndOfStreamError,
    Error,
    FencedError,
    InvalidError,
    LimitError,
    LogDeletedError,
    LogNotFoundError,
    NoSpaceError,
    SequenceMismatchError,
    TooLargeError,
    TruncatedError,
    TxidError,
)
from walkeeper.gateway._protocol import Refused, Status
from walkeeper.idempotent import IdempotentWriter

if TYPE_CHECKING:
    from walkeeper.aio import Namespace, Writer

__all__ = ["LogWriters"]

log = logging.getLogger("walkeeper.gateway")

T = TypeVar("T")

WRITERS_MAX = 256
IDLE_SECONDS = 60.0
CLOSE_SECONDS = 10.0

_OF_ONE_REQUEST = (
    CursorNotFoundError,
    EndOfStreamError,
    InvalidError,
    LimitError,
    LogNotFoundError,
    NoSpaceError,
    SequenceMismatchError,
    TooLargeError,
    TruncatedError,
    TxidError,
)
"""Behind these a writer goes on; behind any other error it is opened anew."""


class _Slot:
    """The writer of one log, where it is open."""

    __slots__ = ("idempotent", "lock", "used", "users", "writer")

    def __init__(self) -> None:
        self.writer: Writer | None = None
        self.idempotent: IdempotentWriter | None = None
        """Appends by that writer."""
        self.lock = asyncio.Lock()
        """Held to open and to close it. It is fair: requests get the writer in the order in which they came."""
        self.users = 0
        self.used = time.monotonic()


class LogWriters:
    """Opens a writer when it is asked for. A log that another writer took is not taken back unless a client says so."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._slots: dict[str, _Slot] = {}
        self._open_count = 0
        self._taken: set[str] = set()
        """Logs that another writer took over."""
        self._closed = False

    @asynccontextmanager
    async def use(self, name: str) -> AsyncIterator[Writer]:
        """The writer of a log. Raises what Log.writer raises, with nothing written; Refused where too many are open."""
        slot = self._slots.setdefault(name, _Slot())
        slot.users += 1
        try:
            async with slot.lock:
                writer = await self._opened(name, slot)
            try:
                yield writer
            except Error as error:
                if not isinstance(error, _OF_ONE_REQUEST):
                    await self._lose(name, slot, writer, error)
                raise
        finally:
            slot.users -= 1
            slot.used = time.monotonic()
            self._forget_if_unused(name, slot)

    async def write(self, name: str, work: Callable[[Writer], Awaitable[T]]) -> T:
        """What the work answers, by the writer of a log."""
        try:
            async with self.use(name) as writer:
                return await work(writer)
        except LogDeletedError as error:
            if error.outcome == "unknown":
                raise
        async with self.use(name) as writer:  # a log may have been made anew under the name
            return await work(writer)

    async def write_once(self, name: str, work: Callable[[IdempotentWriter], T]) -> T:
        """What the work answers, in a thread, by an idempotent writer. Other appends to the log wait for it."""

        async def in_turn(writer: Writer) -> T:
            idempotent = self._idempotent(name, writer)
            return await _in_turn(writer, lambda: work(idempotent))

        return await self.write(name, in_turn)

    def take(self, name: str) -> None:
        """The next append takes the log over from whoever has it."""
        self._taken.discard(name)

    async def let_go(self, name: str) -> None:
        """Closes the writer of a log that is to be deleted."""
        slot = self._slots.get(name)
        if slot is not None:
            async with slot.lock:
                await self._close_writer(slot)
            self._forget_if_unused(name, slot)

    async def close_idle(self) -> None:
        """Those that nobody used for a while."""
        latest = time.monotonic() - IDLE_SECONDS
        for name, slot in list(self._slots.items()):
            if slot.used <= latest:
                await self._close_if_unused(name, slot)

    async def close(self) -> None:
        """What was accepted is durable, or its outcome is unknown."""
        self._closed = True
        for slot in list(self._slots.values()):
            async with slot.lock:
                await self._close_writer(slot)

    # ---- one of them ----

    async def _opened(self, name: str, slot: _Slot) -> Writer:
        try:
            if self._closed:
                raise ClosedError("the gateway is being closed")
            if name in self._taken:
                raise FencedError(f"another writer has taken log {name!r} over from this gateway")
            if slot.writer is None:
                await self._make_room()
                self._open_count += 1
                try:
                    slot.writer = await (await self._namespace.log(name, create=False)).writer()
                except BaseException:
                    self._open_count -= 1
                    raise
                log.info("the writer of log %r is open", name)
            return slot.writer
        except Error as error:
            error.outcome = "not_written"
            raise

    async def _make_room(self) -> None:
        while self._open_count >= WRITERS_MAX:
            unused = [(slot.used, name) for name, slot in self._slots.items() if slot.writer and not slot.users]
            if not unused:
                text = f"{WRITERS_MAX} logs are appended to at once: this gateway opens no more writers now"
                raise Refused(Status.UNAVAILABLE, text)
            name = min(unused)[1]
            await self._close_if_unused(name, self._slots[name])

    async def _lose(self, name: str, slot: _Slot, writer: Writer, error: Error) -> None:
        """It is of no use any more. Others that used it come here, too: the first one closes it."""
        async with slot.lock:
            if slot.writer is not writer:
                return
            if isinstance(error, FencedError):
                self._taken.add(name)
            log.warning("the writer of log %r is closed: %s", name, error)
            await self._close_writer(slot)

    async def _close_if_unused(self, name: str, slot: _Slot) -> None:
        if slot.users:
            return
        async with slot.lock:  # free: nobody uses it
            await self._close_writer(slot)
        self._forget_if_unused(name, slot)

    async def _close_writer(self, slot: _Slot) -> None:
        writer, slot.writer = slot.writer, None
        idempotent, slot.idempotent = slot.idempotent, None
        if writer is None:
            return
        self._open_count -= 1
        try:
            if idempotent is not None:
                await asyncio.to_thread(idempotent.close)
            await writer.close(CLOSE_SECONDS)
        except Error as error:  # of what was appended its client was told
            log.info("closing the writer of log %r: %s", writer.log.name, error)

    def _forget_if_unused(self, name: str, slot: _Slot) -> None:
        if slot.writer is None and not slot.users and self._slots.get(name) is slot:
            del self._slots[name]

    def _idempotent(self, name: str, writer: Writer) -> IdempotentWriter:
        slot = self._slots[name]
        if slot.idempotent is None:
            slot.idempotent = IdempotentWriter(self._namespace._sync, writer.log._sync, writer=writer._sync)
        return slot.idempotent


async def _in_turn(writer: Writer, call: Callable[[], T]) -> T:
    """What the call answers in a thread, between other appends of the writer."""
    writer._queued += 1
    try:
        async with writer._turn:
            return await asyncio.to_thread(call)
    finally:
        writer._queued -= 1
