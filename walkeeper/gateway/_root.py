"""Root: the files below the first name of a path, which are one log. It decides changes in the order of the log."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections import OrderedDict
from typing import TYPE_CHECKING

from walkeeper.errors import Error, FencedError, LogDeletedError, LogNotFoundError, TruncatedError
from walkeeper.gateway._change import Change, Kind, decode, encode
from walkeeper.gateway._file_tree import Directory, File, FileTree
from walkeeper.gateway._path import Path, data_prefix, log_of, shown
from walkeeper.gateway._protocol import Refused, Status
from walkeeper.gateway._rewriting import Rewriting
from walkeeper.gateway._upload import CHUNK, Upload

if TYPE_CHECKING:
    from walkeeper import DLSN, Position
    from walkeeper.aio import Log, Namespace, Writer

__all__ = ["Contents", "Root"]

log = logging.getLogger("walkeeper.gateway")

CONTENTS_MAX = 64 * 1024 * 1024
READ_MAX = 1024 * 1024
"""Bytes of a file in one answer."""


class Contents:
    """Bytes of small files that were written or read lately, by root and version; of all roots of a gateway."""

    def __init__(self, size_max: int = CONTENTS_MAX) -> None:
        self._kept: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._size = 0
        self._size_max = size_max

    def keep(self, root: Root, version: int, content: bytes) -> None:
        key = (id(root), version)
        self._size += len(content) - len(self._kept.pop(key, b""))
        self._kept[key] = content
        while self._size > self._size_max:
            self._size -= len(self._kept.popitem(last=False)[1])

    def get(self, root: Root, version: int) -> bytes | None:
        key = (id(root), version)
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def forget(self, root: Root) -> None:
        for key in [key for key in self._kept if key[0] == id(root)]:
            self._size -= len(self._kept.pop(key))


class Root:
    """One log with the changes of its files, and what follows from them. Made by Root.open(), which takes it over."""

    def __init__(self, name: str, namespace: Namespace, own: Log, writer: Writer, contents: Contents) -> None:
        self.name = name
        self.lost: Error | None = None
        """Why this root takes nothing more: its log must be opened again, or is another gateway's."""
        self._namespace = namespace
        self._log = own
        self._writer = writer
        self._contents = contents
        self._next = writer.next_sequence_id
        self.tree = FileTree()
        self._data: set[str] = set()
        """Logs of uploads that were begun here."""
        self._undurable: dict[int, bytes] = {}
        """Contents whose place is not known yet, by version."""
        self._last: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the last change that was decided is durable; it fails where that is not known."""
        self._last.set_result(None)
        self._rewriting = Rewriting()
        self._closing = False
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, name: str, namespace: Namespace, contents: Contents, *, create: bool) -> Root:
        """Another gateway that has it is fenced. LogNotFoundError: it is not there, and not to be made."""
        own = await namespace.log(log_of(name), create=create)
        root = cls(name, namespace, own, await own.writer(), contents)
        try:
            await root._replay()
        except BaseException:
            await root.close()
            raise
        root._do(root._remove_left_data())
        return root

    async def _replay(self) -> None:
        async with self._log.reader() as reader:
            while records := await reader.read():
                for record in records:
                    change = decode(bytes(record.payload))
                    self.tree.replay(change, record.dlsn)
                    self._rewriting.replayed(len(record.payload))
                    if change.kind == Kind.PUT:
                        self._contents.keep(self, change.version, change.content)

    async def close(self) -> None:
        """Every change that was accepted is durable, or its outcome is unknown."""
        self._closing = True
        self._lose(Refused(Status.UNAVAILABLE, f"/{self.name} is being closed by this gateway"))
        for task in list(self._tasks):
            await asyncio.wait([task])
        try:
            await self._writer.close()
        except Error as error:
            log.warning("closing /%s: %s", self.name, error)
        self._contents.forget(self)

    # ---- changes ----

    async def make(self, change: Change) -> int:
        """Makes it, and returns when it is durable: what the operation is answered. Refused: nothing was changed.

        Other errors are those of walkeeper.Writer.append; what is asked for again, with the same operation, is
        answered by what became of it. A task that waits in here must not be cancelled.
        """
        self._check()
        known = self.tree.results.get(change.operation)
        if known is not None:
            await self._settled()
            return known
        try:
            change, result = self.tree.decide(change, time.time_ns() // 1_000_000)
        except Refused:
            await self._settled()  # what it was refused for is durable
            raise
        gone = self.tree.apply(change, result)
        made = self.tree.at(change.path) if change.kind in (Kind.PUT, Kind.PUT_DATA) else None
        if change.kind == Kind.PUT:
            self._undurable[change.version] = change.content
        position = await self.append(change)
        if isinstance(made, File):
            made.place = position.dlsn
        if change.kind == Kind.PUT:
            self._contents.keep(self, change.version, self._undurable.pop(change.version))
        if any(file.log for file in gone):
            self._do(self._remove_logs([file.log for file in gone if file.log]))
        return result

    async def append(self, change: Change) -> Position:
        """Returns when its record is durable. Where that is not known the root is lost, and whoever waits is told."""
        last = self._last = asyncio.get_running_loop().create_future()
        last.add_done_callback(_seen)
        # Where a record before it was refused, this one is, too: it was decided by what that one makes.
        expected, self._next = self._next, self._next + 1
        record = encode(change)
        try:
            position = await (await self._writer.submit(record, expected=expected))
        except BaseException as error:
            self._lose(error if isinstance(error, Error) else Error(f"a record of /{self.name}: {error}"))
            last.set_exception(self.lost or error)
            raise
        last.set_result(None)
        if self._rewriting.appended(len(record), position) and not self._closing:
            self._do(self._rewriting.run(self))
        return position

    async def upload(self, path: Path) -> Upload:
        """A file that comes in pieces; it becomes visible by a change of the kind PUT_DATA."""
        self._check()
        name = f"{data_prefix(self.name)}{uuid.uuid4().hex}"
        self._data.add(name)
        data = await self._namespace.log(name)
        return Upload(path, name, await data.writer())

    async def discard(self, upload: Upload) -> None:
        """It is not needed, or not any more."""
        await upload.discard()
        await self._remove_logs([upload.log])

    async def let_go_if_unused(self, upload: Upload, path: Path) -> None:
        """The operation had been made before, by another upload: this one is for nothing."""
        found = self.tree.at(path)
        if not (isinstance(found, File) and found.log == upload.log):
            await self._remove_unreferenced(upload.log)

    async def _remove_unreferenced(self, name: str) -> None:
        if all(file.log != name for _, file in self.tree.files()):
            await self._remove_logs([name])

    async def truncate(self, place: DLSN) -> None:
        """Lets go of the log before `place`: nothing of the tree is there."""
        await self._log.truncate(place)

    # ---- looking ----

    async def at(self, path: Path, epoch: int = 0) -> Directory | File | None:
        """What is there; it is durable. Refused: whoever asks as the owner is not the owner any more."""
        self._check()
        self.tree.check_epoch(path, epoch)
        found = self.tree.at(path)
        await self._settled()
        return found

    async def read(self, path: Path, offset: int, size: int) -> tuple[File, bytes]:
        found = await self.at(path)
        if found is None:
            raise Refused(Status.NOT_FOUND, f"{shown(path)} is not there")
        if isinstance(found, Directory):
            raise Refused(Status.IS_A_DIRECTORY, f"{shown(path)} is a directory")
        size = max(0, min(size, READ_MAX, found.size - offset))  # a shorter file may have replaced what is read
        try:
            if found.log:
                return found, await self._read_data(found.log, offset, size)
            return found, (await self.content(found))[offset : offset + size]
        except (LogNotFoundError, LogDeletedError, TruncatedError):
            if self.tree.at(path) is found:
                raise
            raise Refused(Status.NOT_FOUND, f"{shown(path)} was deleted or replaced meanwhile") from None

    async def content(self, file: File) -> bytes:
        kept = self._undurable.get(file.version)
        kept = self._contents.get(self, file.version) if kept is None else kept
        if kept is not None:
            return kept
        async with self._log.reader(file.place) as reader:
            [record] = await reader.read(max_records=1)
            content = decode(bytes(record.payload)).content
        self._contents.keep(self, file.version, content)
        return content

    async def _read_data(self, name: str, offset: int, size: int) -> bytes:
        """Each record of the log has CHUNK bytes, but the last."""
        if size == 0:
            return b""
        data = await self._namespace.log(name, create=False)
        first, skipped = divmod(offset, CHUNK)
        wanted = -(-(skipped + size) // CHUNK)
        pieces: list[bytes] = []
        async with data.reader(sequence_id=first) as reader:
            while len(pieces) < wanted:
                records = await reader.read(max_records=wanted - len(pieces))
                if not records:
                    raise Error(f"log {name!r} ends before byte {offset + size}: bytes of a file are lost")
                pieces += [bytes(record.payload) for record in records]
        return b"".join(pieces)[skipped : skipped + size]

    # ---- what holds it together ----

    def _check(self) -> None:
        if self.lost is not None:
            raise self.lost

    def _lose(self, error: Error) -> None:
        if self.lost is None:
            self.lost = error

    async def _settled(self) -> None:
        """All that was decided by now is durable."""
        await asyncio.shield(self._last)

    def _do(self, work: object) -> None:
        """In the background; it is no harm if it fails."""
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.warning("/%s: %s", self.name, task.exception())

    async def _remove_logs(self, names: list[str]) -> None:
        for name in names:
            with contextlib.suppress(LogNotFoundError):
                await self._namespace.delete_log(name)

    async def _remove_left_data(self) -> None:
        """Of uploads that a gateway began and nobody published."""
        wanted = {file.log for _, file in self.tree.files()}
        found = await self._namespace.logs(data_prefix(self.name))
        await self._remove_logs([name for name in found if name not in wanted and name not in self._data])

    @property
    def fenced(self) -> bool:
        return isinstance(self.lost, FencedError)


def _seen(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()
