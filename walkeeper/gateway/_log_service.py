"""LogService: answers the requests about logs of one connection (docs/formats/gateway_protocol.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, ClassVar

from walkeeper.errors import CursorNotFoundError, Error
from walkeeper.gateway._columns import joined_of, numbers_in, payloads_of
from walkeeper.gateway._log_errors import refusal
from walkeeper.gateway._log_fields import (
    End,
    Way,
    new_log_options_of,
    packed_info,
    packed_place,
    packed_position,
    place_of,
    position_of,
)
from walkeeper.gateway._protocol import FRAME_MAX, Body, Refused, Request, Status, packed_text, packed_u32, packed_u64
from walkeeper.idempotent import Staged

if TYPE_CHECKING:
    from walkeeper import AppendRange
    from walkeeper.gateway._logs import Found, Logs

__all__ = ["LogService"]

RECORDS_MAX = 16_384
BYTES_MAX = 2 * 1024 * 1024
BYTES_BY_DEFAULT = 1024 * 1024
WAIT_MS_MAX = 30_000
PAGE_BYTES = FRAME_MAX - 16
"""Of names, and what they are, in one answer."""

# A read ends with the record that reaches its limit, which may have 1 MiB, and each has 48 bytes of numbers.
assert RECORDS_MAX * 48 + BYTES_MAX + 1024 * 1024 + 64 <= FRAME_MAX


class LogService:
    """Requests are begun in the order in which they came; appends to one log keep it."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the client is gone, or the gateway is being closed."""

    @classmethod
    def knows(cls, code: int) -> bool:
        return code in cls._services

    def end(self) -> None:
        """Of the connection: its waits for records end."""
        if not self._gone.done():
            self._gone.set_result(None)

    async def answer(self, code: int, body: Body) -> tuple[Status, bytes]:
        """The status and the body of the answer. Never raises."""
        try:
            return Status.OK, await self._services[code](self, body)
        except Exception as error:
            return refusal(error)

    # ---- what is asked for ----

    async def _list(self, body: Body) -> bytes:
        prefix, after = body.text(), body.text()
        body.end()
        names = await self._logs.namespace.logs(prefix)
        return _page(after, ((name, b"") for name in names))

    async def _open(self, body: Body) -> bytes:
        name, creates, options = body.text(), body.flag(), new_log_options_of(body)
        body.end()
        if creates:
            self._logs.check_changeable(name)
        log = await self._logs.namespace.log(name, create=creates, **options)
        return packed_info(await log.info())

    async def _info(self, body: Body) -> bytes:
        name = body.text()
        body.end()
        return packed_info(await (await self._logs.open(name)).info())

    async def _append_many(self, body: Body) -> bytes:
        name, atomic, expected, numbered, count = body.text(), body.flag(), body.i64(), body.flag(), body.u32()
        body.align()
        txids = numbers_in(body.raw(8 * count)).tolist() if numbered else None
        payloads = joined_of(body, count)
        self._logs.check_changeable(name)
        wanted = None if expected == -1 else expected
        appended = await self._logs.writers.write(
            name, lambda writer: writer.append_many(payloads, txids=txids, expected=wanted, atomic=atomic)
        )
        return packed_range(appended)

    async def _read(self, body: Body) -> bytes:
        name, place, records_max, bytes_max, wait_ms = body.text(), place_of(body), body.u32(), body.u32(), body.u32()
        body.end()
        reading = self._logs.read(
            name,
            place,
            min(records_max or RECORDS_MAX, RECORDS_MAX),
            min(bytes_max or BYTES_BY_DEFAULT, BYTES_MAX),
            min(wait_ms, WAIT_MS_MAX) / 1000,
        )
        return packed_found(await (self._while_wanted(reading) if wait_ms else reading))

    async def _while_wanted(self, reading: Awaitable[Found]) -> Found:
        task = asyncio.ensure_future(reading)
        await asyncio.wait((task, self._gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
        if task.cancelled():
            raise Refused(Status.UNAVAILABLE, "the gateway is being closed, or its client is gone")
        return task.result()

    async def _find(self, body: Body) -> bytes:
        name, place = body.text(), place_of(body)
        body.end()
        if place.way in (Way.START, Way.END):
            raise Refused(Status.INVALID, "what is to be found has a number: the ends of a log are in its info")
        return packed_position(await (await self._logs.open(name)).find(**place.arguments()))

    async def _truncate(self, body: Body) -> bytes:
        name, position, force = body.text(), position_of(body), body.flag()
        body.end()
        self._logs.check_changeable(name)
        await (await self._logs.open(name)).truncate(position, force=force)
        return b""

    async def _cursors(self, body: Body) -> bytes:
        name, after = body.text(), body.text()
        body.end()
        log = await self._logs.open(name)
        found: list[tuple[str, bytes]] = []
        for cursor in await log.cursors():
            try:
                position = await (await log.cursor(cursor, create=False)).position()
            except CursorNotFoundError:  # it was deleted meanwhile
                continue
            found.append((cursor, packed_position(position)))
        return _page(after, found)

    async def _cursor(self, body: Body) -> bytes:
        name, cursor, creates = body.text(), body.text(), body.flag()
        body.end()
        if creates:
            self._logs.check_changeable(name)
        found = await (await self._logs.open(name)).cursor(cursor, create=creates)
        return packed_position(await found.position())

    async def _advance_cursor(self, body: Body) -> bytes:
        name, cursor, position = body.text(), body.text(), position_of(body)
        body.end()
        self._logs.check_changeable(name)
        found = await (await self._logs.open(name)).cursor(cursor, create=False)
        await found.advance(position)
        return packed_position(await found.position())

    async def _delete_cursor(self, body: Body) -> bytes:
        name, cursor = body.text(), body.text()
        body.end()
        self._logs.check_changeable(name)
        await (await (await self._logs.open(name)).cursor(cursor, create=False)).delete()
        return b""

    async def _delete(self, body: Body) -> bytes:
        name = body.text()
        body.end()
        self._logs.check_changeable(name)
        await self._logs.writers.let_go(name)
        await self._logs.namespace.delete_log(name)
        return b""

    async def _mark_end_of_stream(self, body: Body) -> bytes:
        name = body.text()
        body.end()
        self._logs.check_changeable(name)
        await self._logs.writers.write(name, lambda writer: writer.mark_end_of_stream())
        return b""

    async def _take(self, body: Body) -> bytes:
        name = body.text()
        body.end()
        self._logs.writers.take(name)
        return b""

    async def _append_once(self, body: Body) -> bytes:
        name, app_id, version, count, parts = body.text(), body.text(), body.u64(), body.u32(), body.u32()
        staged = [Staged(body.text(), body.i64(), body.i64()) for _ in range(parts)]
        body.align()
        payloads = payloads_of(body, count)
        self._logs.check_changeable(name)
        try:
            appended = await self._logs.writers.write_once(
                name, lambda writer: writer.append_once(app_id, version, payloads, staged)
            )
        except Error as error:
            error.outcome = error.outcome or "unknown"
            raise
        return bytes([appended])

    async def _last_version(self, body: Body) -> bytes:
        name, app_id = body.text(), body.text()
        body.end()
        self._logs.check_changeable(name)
        version = await self._logs.writers.write_once(name, lambda writer: writer.last_version(app_id))
        return bytes([version is not None]) + packed_u64(version or 0)

    _services: ClassVar[dict[int, Callable[[LogService, Body], Awaitable[bytes]]]] = {
        Request.LOGS: _list,
        Request.OPEN_LOG: _open,
        Request.LOG_INFO: _info,
        Request.APPEND_MANY: _append_many,
        Request.READ: _read,
        Request.FIND: _find,
        Request.TRUNCATE: _truncate,
        Request.CURSORS: _cursors,
        Request.CURSOR: _cursor,
        Request.ADVANCE_CURSOR: _advance_cursor,
        Request.DELETE_CURSOR: _delete_cursor,
        Request.DELETE_LOG: _delete,
        Request.MARK_END_OF_STREAM: _mark_end_of_stream,
        Request.TAKE_LOG: _take,
        Request.APPEND_ONCE: _append_once,
        Request.LAST_VERSION: _last_version,
    }


def packed_range(appended: AppendRange) -> bytes:
    return packed_position(appended.first) + packed_position(appended.last) + packed_u32(appended.count)


def packed_found(found: Found) -> bytes:
    """The head has 40 bytes, so that the columns are aligned."""
    end = End.MORE if found.count else End.OF_STREAM if found.ended else End.NOW
    head = bytes([end]) + packed_u32(found.count) + packed_place(found.next)
    return head + bytes(-len(head) % 8) + found.columns


def _page(after: str, entries: Iterable[tuple[str, bytes]]) -> bytes:
    """Those whose names are behind `after`, in the order of their bytes, as many as fit an answer."""
    page: list[bytes] = []
    left, more = PAGE_BYTES, False
    for name, value in entries:
        if name.encode() <= after.encode():
            continue
        entry = packed_text(name) + value
        left -= len(entry)
        if left < 0:
            more = True
            break
        page.append(entry)
    return bytes([more]) + packed_u32(len(page)) + b"".join(page)
