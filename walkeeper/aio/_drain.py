"""Drain: completes the futures of one event loop from a namespace's eventfd. Imported by walkeeper.aio only."""

from __future__ import annotations

import asyncio
import os
import weakref

from walkeeper._completions import failure_of
from walkeeper._native import ffi, lib
from walkeeper._position import Position
from walkeeper.directory._namespace import DirectoryNamespace
from walkeeper.errors import ClosedError, JournalFailedError, StorageError, TimeoutError, new_error

__all__ = ["Drain"]

_drain = lib.wk_namespace_drain


class Drain:
    """Listens to a namespace's eventfd in one loop, and completes what is durable, all at one go."""

    __slots__ = (
        "__weakref__",
        "_close_fd",
        "_durable",
        "_ended",
        "_fd",
        "_handle",
        "_pending",
        "_sync",
        "_waiting",
        "_wanted",
        "failed",
        "loop",
    )

    def __init__(self, sync: DirectoryNamespace, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.failed = False
        """Whether the journal failed: nothing will become durable any more."""
        self._sync = sync
        self._handle = sync._handle
        self._durable = ffi.new("uint64_t *")
        self._pending: dict[int, list[tuple[asyncio.Future[Position], Position, str]]] = {}
        self._wanted = 0
        """Up to this ticket they become durable by themselves; what is behind may wait for the close."""
        self._waiting: dict[asyncio.Future[None], int] = {}
        """Who waits for the durable point to pass a ticket."""
        self._ended = False
        """Whether abandon() was called: nothing completes a future any more."""
        with self._sync._handle as native:
            fd: int = lib.wk_namespace_eventfd(native)
        self._sync._handle.check()
        try:
            if fd < 0:
                raise OSError
            # A descriptor of its own: another loop may close the namespace, and its descriptor, while this one listens.
            self._fd = os.dup(fd)
        except OSError:
            raise StorageError("no eventfd can be made: the process has too many open files") from None
        self._close_fd = weakref.finalize(self, os.close, self._fd)
        self._close_fd.atexit = False
        loop.add_reader(self._fd, self._on_event)

    def durable_point(self) -> int:
        """The last durable ticket."""
        with self._sync._handle as native:
            durable = int(lib.wk_namespace_durable(native))
        self._sync._handle.check()
        return durable

    def watch(
        self, ticket: int, at: Position, log: str, armed: bool = False, deferred: bool = False
    ) -> asyncio.Future[Position]:
        """A future that is done, with `at`, when `ticket` is durable.

        `armed`: the eventfd was armed for it by the call that gave the ticket, in this turn of the loop.
        """
        future: asyncio.Future[Position] = self.loop.create_future()
        if self._ended:  # the namespace was closed since the record was accepted
            self._settle(future, at, log)
            return future
        if not deferred and ticket > self._wanted:
            self._wanted = ticket
        waiting = self._pending.get(ticket)
        if waiting is not None:
            waiting.append((future, at, log))
        else:
            self._pending[ticket] = [(future, at, log)]
            if not armed:
                self._arm()
        return future

    async def durable(self, ticket: int, at: Position, log: str, deadline: float | None, armed: bool = False) -> None:
        """Waits until `ticket` is durable; TimeoutError at the deadline."""
        future = self.watch(ticket, at, log, armed)
        if deadline is None:
            await future
            return
        done, _ = await asyncio.wait((future,), timeout=max(0, deadline - self.loop.time()))
        if not done:
            text = f"the record with sequence id {at.sequence_id} was not durable in time: it may or may not be written"
            raise TimeoutError(text, log=log, sequence_id=at.sequence_id, outcome="unknown")
        future.result()

    async def moves(self, beyond: int, deadline: float | None, *others: asyncio.Future[None]) -> bool:
        """Waits until the durable point has passed `beyond`, the journal failed, or one of the others is done; False
        where nothing was by the deadline. Raises JournalFailedError where it failed before, ClosedError where the
        namespace was closed."""
        self._handle.check()
        if self.failed:
            raise JournalFailedError("the journal failed: no record can follow")
        future: asyncio.Future[None] = self.loop.create_future()
        self._waiting[future] = beyond + 1
        try:
            self._arm()
            timeout = None if deadline is None else max(0, deadline - self.loop.time())
            done, _ = await asyncio.wait((future, *others), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            return bool(done)
        finally:
            self._waiting.pop(future, None)

    async def stop(self, timeout: float | None) -> None:
        """Waits for what is pending, then listens no more. Deferred records that nothing hurries wait for the close."""
        hurried = [items for ticket, items in self._pending.items() if ticket <= self._wanted]
        futures = [future for items in hurried for future, _, _ in items]
        try:
            if futures:
                await asyncio.wait(futures, timeout=timeout)
        finally:
            self._stop_listening()

    def end(self) -> None:
        """After the namespace was closed, in any loop: tells those who wait in the drain's own loop.

        A loop that is closed runs no task any more: nobody waits, and its futures are dropped.
        """
        if asyncio.get_running_loop() is self.loop:
            self.abandon()
            return
        try:
            self.loop.call_soon_threadsafe(self.abandon)
        except RuntimeError:  # the loop is closed, or was closed just now
            self._ended = True
            self._pending.clear()
            self._waiting.clear()
            self._close_fd()

    def abandon(self) -> None:
        """What still waits now that the namespace is closed. In the drain's own loop."""
        self._ended = True
        self._stop_listening()
        for items in self._pending.values():
            for future, at, log in items:
                self._settle(future, at, log)
        self._pending.clear()
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    def _settle(self, future: asyncio.Future[Position], at: Position, log: str) -> None:
        """Completes the future of a record that was accepted before the namespace was closed."""
        if future.done():
            return
        if self._handle.all_durable:
            future.set_result(at)
        else:
            text = "the namespace was closed before the record was known to be durable: it may or may not be"
            future.set_exception(ClosedError(text, log=log, sequence_id=at.sequence_id, outcome="unknown"))

    def _stop_listening(self) -> None:
        if self._fd >= 0:
            self.loop.remove_reader(self._fd)
            self._fd = -1
            self._close_fd()

    def _arm(self) -> None:
        tickets = [*self._pending, *self._waiting.values()]
        try:
            with self._sync._handle as native:
                lib.wk_namespace_arm(native, min(tickets, default=0))
        except ClosedError:
            pass  # another loop closes it: end() follows, and tells those who wait

    def _on_event(self) -> None:
        try:
            with self._handle as native:
                status = _drain(native, self._durable)
        except ClosedError:
            status = lib.WK_CLOSED
        if status == lib.WK_CLOSED:  # another loop closes the namespace: end() follows
            self._stop_listening()
            return
        self._complete(self._durable[0])
        if self._pending or self._waiting:
            if status == lib.WK_FAILED:
                self.failed = True
                self._complete_failed()
            else:
                self._arm()

    def _complete(self, durable: int) -> None:
        pending = self._pending
        done = [ticket for ticket in pending if ticket <= durable]
        if len(done) > 1:
            done.sort()
        for ticket in done:
            for future, at, _ in pending.pop(ticket):
                if not future.done():  # its task may have been cancelled
                    future.set_result(at)
        for waiting, ticket in self._waiting.items():
            if ticket <= durable and not waiting.done():
                waiting.set_result(None)

    def _complete_failed(self) -> None:
        """After the journal failed: each ticket has its own answer, and those who wait look again and learn."""
        for ticket in sorted(self._pending):
            error = new_error()
            with self._sync._handle as native:
                status = lib.wk_namespace_wait(native, ticket, 0, error)
            for future, at, log in self._pending.pop(ticket):
                if future.done():
                    continue
                if status == lib.WK_OK:
                    future.set_result(at)
                else:
                    future.set_exception(failure_of(status, error, at, log))
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
