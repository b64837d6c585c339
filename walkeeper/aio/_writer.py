"""Writer of walkeeper.aio: appends of many tasks that become durable together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

import walkeeper
from walkeeper._options import nanoseconds, seconds_of
from walkeeper._writer import _checked, is_arrow
from walkeeper.aio._opening import T
from walkeeper.errors import Error, Outcome, SequenceMismatchError, WouldBlockError

if TYPE_CHECKING:
    from walkeeper._options import ArrowArray, Payload
    from walkeeper.aio._log import Log

__all__ = ["Writer"]


class Writer:
    """The one writer of a log. See walkeeper.Writer; appends of several tasks become durable together.

    Records are accepted in the order of the calls, also where a call waits for room.
    """

    __slots__ = ("_drain", "_durability", "_log", "_loop", "_name", "_queued", "_submit", "_sync", "_turn", "_watch")

    def __init__(self, log: Log, sync: walkeeper.Writer, durability: walkeeper.Durability) -> None:
        self._log = log
        self._name = log.name
        self._sync = sync
        self._durability = durability
        self._loop = log.namespace._loop
        # What an append does, bound once.
        self._submit = sync._submit_notified
        self._listen()
        self._turn = asyncio.Lock()
        self._queued = 0
        """How many calls hold `_turn` or queue for it: one waits for room, later ones stay behind it."""

    def _listen(self) -> None:
        """For what becomes durable."""
        self._drain = self._log.namespace._drain()
        self._watch = self._drain.watch

    @property
    def log(self) -> Log:
        """The log it appends to."""
        return self._log

    @property
    def closed(self) -> bool:
        """Whether close() was called; one that was fenced is not closed."""
        return self._sync.closed

    @property
    def next_sequence_id(self) -> int:
        """See walkeeper.Writer.next_sequence_id."""
        return self._sync.next_sequence_id

    async def append(
        self,
        payload: Payload,
        *,
        txid: int | None = None,
        expected: int | None = None,
        durability: walkeeper.Durability | None = None,
        timeout: float | None = None,
    ) -> walkeeper.Position:
        """Appends one record; returns when it is durable (deferred: when it is accepted).

        Raises what walkeeper.Writer.append raises. Where the task is cancelled the outcome is unknown. As there,
        timeout=0 does not wait for room; a record for which there is some is waited for.
        """
        if asyncio.get_running_loop() is not self._loop:
            self._check_loop()
        plain = txid is None and expected is None and durability is None and timeout is None
        if plain and self._durability == "sync" and not self._queued:
            accepted = self._submit(payload)
            if accepted is not None:
                at, ticket = accepted
                return await self._watch(ticket, at, self._name, True)
        deadline = self._deadline(timeout)
        sync = (durability or self._durability) == "sync"
        armed = sync

        def call() -> tuple[walkeeper.Position, int]:
            return self._sync._one(payload, txid, expected, durability, 0, armed)

        try:
            if expected is not None and not self._queued and expected != self._sync.next_sequence_id:
                # The mismatch is answered when the record that sits there is durable: not in the loop's thread.
                armed = False
                at, ticket = await asyncio.to_thread(call)
            else:
                at, ticket = await self._accepted(call, deadline)
        except SequenceMismatchError:
            await self.flush()  # its caller is told: conditional appends are welcome again
            raise
        if sync:
            await self._drain.durable(ticket, at, self._name, None if timeout == 0 else deadline, armed)
        return at

    async def append_many(
        self,
        payloads: Iterable[Payload] | ArrowArray,
        *,
        txids: Sequence[int] | None = None,
        expected: int | None = None,
        atomic: bool = False,
        durability: walkeeper.Durability | None = None,
        timeout: float | None = None,
    ) -> walkeeper.AppendRange:
        """Appends many records with one call and one wait. See walkeeper.Writer.append_many.

        Where they are more than there is room for at once, they are handed over in a thread of the executor.
        """
        self._check_loop()
        many = payloads if isinstance(payloads, (list, tuple)) or is_arrow(payloads) else list(payloads)
        deadline = self._deadline(timeout)
        self._queued += 1
        try:
            async with self._turn:
                # C may wait for room in the middle of a batch: not in the loop's thread.
                batch, ticket = await asyncio.to_thread(
                    self._sync._many, many, txids, expected, atomic, durability, timeout, False
                )
        except SequenceMismatchError:
            await self.flush()  # as for one record
            raise
        finally:
            self._queued -= 1
        if (durability or self._durability) == "sync":
            await self._drain.durable(ticket, batch.last, self._log.name, None if timeout == 0 else deadline)
        return batch

    async def submit(
        self,
        payload: Payload,
        *,
        txid: int | None = None,
        expected: int | None = None,
        durability: walkeeper.Durability | None = None,
        timeout: float | None = None,
    ) -> asyncio.Future[walkeeper.Position]:
        """Hands one record over, waiting for room only; the future is done when the record is durable."""
        self._check_loop()
        at, ticket = await self._accepted(
            lambda: self._sync._one(payload, txid, expected, durability, 0, True), self._deadline(timeout)
        )
        return self._watch(ticket, at, self._name, True, (durability or self._durability) != "sync")

    async def flush(self, timeout: float | None = None) -> walkeeper.Position:
        """Waits until everything this writer appended is durable; returns the position just behind it."""
        self._check_loop(None)
        return await asyncio.to_thread(self._sync.flush, timeout)

    async def mark_end_of_stream(self) -> None:
        """Ends the log for ever. See walkeeper.Writer.mark_end_of_stream."""
        self._check_loop()
        await asyncio.to_thread(self._sync.mark_end_of_stream)

    async def close(self, timeout: float | None = None) -> None:
        """Waits as flush does, and closes the writer whatever comes of it. Any event loop may call it."""
        await asyncio.to_thread(self._sync.close, timeout)

    async def __aenter__(self) -> Writer:
        self._check_loop(None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<walkeeper.aio.Writer of log {self._log.name!r}, {'closed' if self.closed else 'open'}>"

    def _check_loop(self, outcome: Outcome | None = "not_written") -> None:
        self._log.namespace._check_loop(outcome)

    def _deadline(self, timeout: float | None) -> float | None:
        seconds = seconds_of(_checked(nanoseconds, timeout))
        return None if seconds is None else self._loop.time() + seconds

    async def _accepted(self, call: Callable[[], T], deadline: float | None) -> T:
        """The answer of a call that does not wait for room, called again when there may be some."""
        if not self._queued:
            try:
                return call()
            except WouldBlockError:
                pass
        self._queued += 1
        try:
            async with self._turn:
                while True:
                    seen = self._drain.durable_point()
                    try:
                        return call()
                    except WouldBlockError:
                        if not await self._drain.moves(seen, deadline):
                            raise
        except Error as refused:  # while it waited for room: no call accepted the record
            refused.outcome = refused.outcome or "not_written"
            raise
        finally:
            self._queued -= 1
