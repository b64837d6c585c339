"""Session: one connection of a client of the gateway."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, ClassVar

from walkeeper.errors import (
    ClosedError,
    Error,
    FencedError,
    LimitError,
    LogDeletedError,
    NoSpaceError,
    SequenceMismatchError,
    TimeoutError,
    UnavailableError,
    WouldBlockError,
)
from walkeeper.gateway._change import Change, Kind
from walkeeper.gateway._file_tree import Directory, File
from walkeeper.gateway._log_service import LogService
from walkeeper.gateway._path import Path, parse, shown
from walkeeper.gateway._protocol import (
    CONTENT_MAX,
    FRAME_MAX,
    HEAD,
    MAGIC,
    OPERATION_SIZE,
    VERSION,
    Body,
    Refused,
    Request,
    Status,
    answer,
    packed_bytes,
    packed_status,
    packed_text,
    packed_u32,
    packed_u64,
)

if TYPE_CHECKING:
    from walkeeper.gateway._logs import Logs
    from walkeeper.gateway._root import Root
    from walkeeper.gateway._roots import Roots
    from walkeeper.gateway._upload import Upload

__all__ = ["Session"]

log = logging.getLogger("walkeeper.gateway")

HELLO_SECONDS = 10.0
REQUESTS_MAX = 256
"""Of one connection at once; the next one is read when one of them is answered."""
UPLOADS_MAX = 16
LIST_MAX = FRAME_MAX - 16
"""Bytes of names and what they are, in one page of a directory."""

_TRY_AGAIN = (
    ClosedError,
    LimitError,
    LogDeletedError,
    NoSpaceError,
    SequenceMismatchError,
    TimeoutError,
    UnavailableError,
    WouldBlockError,
)


class Session:
    """Reads requests, and answers each when it is done. Requests are decided in their order."""

    def __init__(
        self,
        roots: Roots,
        logs: Logs,
        name: str,
        token: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._roots = roots
        self._logs = LogService(logs)
        self._name = name
        self._token = token
        self._reader = reader
        self._writer = writer
        self._uploads: dict[int, tuple[Root, Upload]] = {}
        self._uploads_beginning = self._upload_number = 0
        self._room = asyncio.Semaphore(REQUESTS_MAX)
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until the client goes. What it asked for by then is done. The caller closes the connection."""
        try:
            if await asyncio.wait_for(self._hello(), HELLO_SECONDS):
                while True:
                    request, code, body = await self._frame()
                    await self._room.acquire()
                    self._begin(request, code, body)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.TimeoutError):
            pass
        finally:
            self._logs.end()
            for task in list(self._tasks):
                await asyncio.wait([task])
            with contextlib.suppress(Error):  # what is left of them goes when the root is opened again
                for root, upload in self._uploads.values():
                    await root.discard(upload)

    async def _frame(self) -> tuple[int, int, Body]:
        length, request, code = HEAD.unpack(await self._reader.readexactly(HEAD.size))
        if not 5 <= length <= FRAME_MAX:
            raise ConnectionError(f"a frame of {length} bytes")
        return request, code, Body(await self._reader.readexactly(length - 5))

    async def _hello(self) -> bool:
        request, code, body = await self._frame()
        try:
            if code != Request.HELLO or body.u32() != MAGIC:
                return False
            version, token = body.u32(), body.text()
            if version != VERSION:
                raise Refused(Status.INVALID, f"this gateway speaks version {VERSION}, not {version}")
            if not hmac.compare_digest(token.encode(), self._token.encode()):
                raise Refused(Status.UNAUTHORIZED, "the token is not this gateway's")
        except Refused as refused:
            self._writer.write(answer(request, refused.status, packed_text(str(refused))))
            await self._writer.drain()
            return False
        self._writer.write(answer(request, Status.OK, packed_u32(VERSION) + packed_text(self._name)))
        return True

    def _begin(self, request: int, code: int, body: Body) -> None:
        task = asyncio.ensure_future(self._serve(request, code, body))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.release()

    async def _serve(self, request: int, code: int, body: Body) -> None:
        """Never raises. Nobody cancels it: a change that is on its way ends by itself."""
        if LogService.knows(code):
            found = answer(request, *await self._logs.answer(code, body))
        else:
            found = await self._answer(request, code, body)
        if not self._writer.is_closing():
            self._writer.write(found)
            try:
                await self._writer.drain()
            except ConnectionError:
                pass

    async def _answer(self, request: int, code: int, body: Body) -> bytes:
        try:
            serve = self._services.get(code)
            if serve is None:
                raise Refused(Status.INVALID, f"there is no request {code}")
            return answer(request, Status.OK, await serve(self, body))
        except Exception as error:
            status, text = _refusal(error)
            return answer(request, status, packed_text(text))

    # ---- what is asked for ----

    async def _acquire(self, body: Body) -> bytes:
        operation, path, owner = body.raw(OPERATION_SIZE), parse(body.text()), body.text()
        body.end()
        return packed_u64(await self._make(Change(Kind.ACQUIRE, path, operation, owner=owner)))

    async def _put(self, body: Body) -> bytes:
        operation, path, epoch, replaces = body.raw(OPERATION_SIZE), parse(body.text()), body.u64(), body.flag()
        content = body.packed()
        body.end()
        if len(content) > CONTENT_MAX:
            raise Refused(Status.INVALID, f"{len(content)} bytes are more than one put has ({CONTENT_MAX}): upload it")
        await self._make(Change(Kind.PUT, path, operation, epoch, content=content, replaces=replaces))
        return b""

    async def _get(self, body: Body) -> bytes:
        path, offset, size = parse(body.text()), body.u64(), body.u32()
        body.end()
        root = await self._root(path)
        if root is None:
            raise Refused(Status.NOT_FOUND, f"{shown(path)} is not there")
        file, content = await root.read(path, offset, size)
        return _status(file) + packed_bytes(content)

    async def _stat(self, body: Body) -> bytes:
        path, epoch = parse(body.text()), body.u64()
        body.end()
        return _status(await self._at(path, epoch))

    async def _list(self, body: Body) -> bytes:
        path, after = parse(body.text()), body.text()
        body.end()
        found = await self._at(path)
        if isinstance(found, File):
            raise Refused(Status.NOT_A_DIRECTORY, f"{shown(path)} is a file")
        names = sorted(name for name in found.children if name > after)
        entries: list[bytes] = []
        left = LIST_MAX
        for name in names:
            entry = packed_text(name) + _status(found.children[name])
            left -= len(entry)
            if left < 0:
                break
            entries.append(entry)
        return bytes([len(entries) < len(names)]) + packed_u32(len(entries)) + b"".join(entries)

    async def _mkdir(self, body: Body) -> bytes:
        operation, path, epoch = body.raw(OPERATION_SIZE), parse(body.text()), body.u64()
        body.end()
        if path:
            await self._make(Change(Kind.MKDIR, path, operation, epoch))
        return b""

    async def _delete(self, body: Body) -> bytes:
        operation, path, epoch, recursive = body.raw(OPERATION_SIZE), parse(body.text()), body.u64(), body.flag()
        body.end()
        result = 0
        if await self._root(path) is not None:
            result = await self._make(Change(Kind.DELETE, path, operation, epoch, recursive=recursive))
        return bytes([result])

    async def _rename(self, body: Body) -> bytes:
        operation, path, target = body.raw(OPERATION_SIZE), parse(body.text()), parse(body.text())
        epoch, replaces = body.u64(), body.flag()
        body.end()
        if await self._root(path) is None:
            raise Refused(Status.NOT_FOUND, f"{shown(path)} is not there")
        await self._make(Change(Kind.RENAME, path, operation, epoch, target=target, replaces=replaces))
        return b""

    async def _upload(self, body: Body) -> bytes:
        path = parse(body.text())
        body.end()
        if len(self._uploads) + self._uploads_beginning >= UPLOADS_MAX:
            raise Refused(Status.UNAVAILABLE, f"{UPLOADS_MAX} uploads of one connection at once are the most")
        self._uploads_beginning += 1
        try:
            root = await self._root(path, create=True)
            assert root is not None
            self._upload_number += 1
            number = self._upload_number
            self._uploads[number] = root, await root.upload(path)
        finally:
            self._uploads_beginning -= 1
        return packed_u64(number)

    async def _chunk(self, body: Body) -> bytes:
        _, upload = self._known(body.u64())
        offset, content = body.u64(), body.packed()
        body.end()
        await upload.add(offset, content)
        return b""

    async def _publish(self, body: Body) -> bytes:
        operation, number, path = body.raw(OPERATION_SIZE), body.u64(), parse(body.text())
        epoch, replaces = body.u64(), body.flag()
        body.end()
        root, upload = self._known(number)
        del self._uploads[number]
        try:
            if path[:1] != upload.path[:1]:
                raise Refused(Status.INVALID, f"{shown(path)} and {shown(upload.path)} have different roots")
            await upload.finish()
            made = Change(Kind.PUT_DATA, path, operation, epoch, size=upload.size, log=upload.log, replaces=replaces)
            await root.make(made)
        except Refused:
            await root.discard(upload)
            raise
        await root.let_go_if_unused(upload, path)
        return b""

    async def _discard(self, body: Body) -> bytes:
        number = body.u64()
        body.end()
        root, upload = self._known(number)
        del self._uploads[number]
        await root.discard(upload)
        return b""

    async def _take(self, body: Body) -> bytes:
        path = parse(body.text())
        body.end()
        if path:
            await self._roots.take(path[0])
        return b""

    _services: ClassVar[dict[int, Callable[[Session, Body], Awaitable[bytes]]]] = {
        Request.ACQUIRE: _acquire,
        Request.PUT: _put,
        Request.GET: _get,
        Request.STAT: _stat,
        Request.LIST: _list,
        Request.MKDIR: _mkdir,
        Request.DELETE: _delete,
        Request.RENAME: _rename,
        Request.UPLOAD: _upload,
        Request.CHUNK: _chunk,
        Request.PUBLISH: _publish,
        Request.DISCARD: _discard,
        Request.TAKE: _take,
    }

    # ---- helpers ----

    async def _root(self, path: Path, *, create: bool = False) -> Root | None:
        if not path:
            raise Refused(Status.INVALID, "/ has no files, only roots: /ROOT/NAME")
        return await self._roots.get(path[0], create=create)

    async def _make(self, change: Change) -> int:
        root = await self._root(change.path, create=True)
        assert root is not None
        return await root.make(change)

    async def _at(self, path: Path, epoch: int = 0) -> Directory | File:
        if not path:
            return Directory(0, await self._roots.list())
        root = await self._root(path)
        found = None if root is None else await root.at(path, epoch)
        if found is None:
            raise Refused(Status.NOT_FOUND, f"{shown(path)} is not there")
        return found

    def _known(self, number: int) -> tuple[Root, Upload]:
        if number not in self._uploads:
            raise Refused(Status.GONE, f"upload {number} is not known: begin again")
        return self._uploads[number]


def _status(found: Directory | File) -> bytes:
    if isinstance(found, File):
        return packed_status(False, found.size, found.modified_ms, found.version)
    return packed_status(True, 0, found.modified_ms, 0)


def _refusal(error: Exception) -> tuple[Status, str]:
    if isinstance(error, Refused):
        return error.status, str(error)
    if isinstance(error, FencedError):
        return Status.NOT_OWNER, f"another gateway has taken the root over: {error}"
    if isinstance(error, _TRY_AGAIN):
        return Status.UNAVAILABLE, str(error)
    if not isinstance(error, Error):
        log.error("a request failed", exc_info=error)
    return Status.FAILED, str(error) or type(error).__name__
