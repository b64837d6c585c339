"""Cut: the files of a root as its log has them at one position. It only reads: nobody is fenced, no gateway needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from walkeeper import Gap, Record
from walkeeper.errors import (
    CorruptError,
    DamagedError,
    Error,
    LogDeletedError,
    LogNotFoundError,
    NotFoundError,
    TruncatedError,
    UnsupportedError,
)
from walkeeper.gateway._change import decode
from walkeeper.gateway._file_tree import Directory, File, FileTree
from walkeeper.gateway._path import Path, log_of, shown
from walkeeper.gateway._upload import CHUNK

if TYPE_CHECKING:
    from walkeeper import DLSN, Log, Namespace

__all__ = ["Cut", "CutLostError", "Opened", "at_a_cut"]

Told = TypeVar("Told")

TRIES_MAX = 8
ONE_BY_ONE_MAX = 32
"""So many small files are read each by its place; for more, the log is read through once."""


class CutLostError(Error):
    """A gateway has let go of what was to be read: it rewrote the log, or a file was deleted."""


class Place(NamedTuple):
    dlsn: DLSN
    size: int
    """Bytes of the record."""


class Opened(NamedTuple):
    """A file of a cut."""

    path: Path
    file: File
    pieces: Callable[[], Iterator[bytes]]
    """Its bytes; may be called again."""


def at_a_cut(namespace: Namespace, root: str, work: Callable[[Cut], Told], *, tolerant: bool = False) -> Told:
    """What `work` makes of the newest cut of a root. It is called again, with a newer cut, where a gateway lets go of
    what it reads. With `tolerant`, damage is told in Cut.problems, and the cut has what could be read.

    NotFoundError: there is no such root. CutLostError: the gateway was faster, again and again.
    """
    missing: set[str] = set()
    for tries in range(TRIES_MAX):
        try:
            return work(Cut(namespace, root, missing, tolerant=tolerant))
        except CutLostError as lost:  # noqa: PERF203 - it rarely is
            if lost.log is not None:
                missing.add(lost.log)
            if tries == TRIES_MAX - 1:
                raise
    raise AssertionError


class Cut:
    """Made by at_a_cut()."""

    def __init__(self, namespace: Namespace, root: str, missing: set[str], *, tolerant: bool) -> None:
        self.root = root
        self.tree = FileTree()
        self.sequence_id = -1
        """Of the last record in it; -1: there is none."""
        self.records_count = 0
        self.bytes = 0
        """Of these records."""
        self.problems: list[str] = []
        self._namespace = namespace
        self._missing = missing
        """Logs of large files that were not there in an earlier cut: a file that still has one is damaged."""
        self._tolerant = tolerant
        self._gaps: Literal["yield", "raise"] = "yield" if tolerant else "raise"
        try:
            self._log = namespace.log(log_of(root), create=False)
        except LogNotFoundError:
            raise NotFoundError(f"there is no /{root} in {namespace.path}") from None
        try:
            self._replay(self._log)
        except (TruncatedError, LogDeletedError) as gone:
            raise CutLostError(str(gone)) from gone

    @property
    def live_bytes(self) -> int:
        """Of the records that the files still need."""
        return sum(file.place.size for _, file in self.tree.files() if file.place is not None)

    def at(self, path: Path) -> Directory | File:
        """What is there. NotFoundError."""
        found = self.tree.at(path)
        if found is None:
            raise NotFoundError(f"{shown(path)} is not there")
        return found

    def content(self, path: Path) -> bytes:
        """All of a file."""
        [opened] = self.contents([path])
        return b"".join(opened.pieces())

    def contents(self, paths: Iterable[Path]) -> Iterator[Opened]:
        """These files, each once. Large ones come first, as they go at once when they are deleted, then the small ones
        in the order of the log."""
        small: dict[DLSN, tuple[Path, File]] = {}
        for path in paths:
            file = self.at(path)
            assert isinstance(file, File), path
            if file.log:
                yield Opened(path, file, partial(self._large, path, file))
            else:
                small[file.place.dlsn] = path, file
        records = self._one_by_one(sorted(small)) if len(small) <= ONE_BY_ONE_MAX else self._all_from(min(small))
        left = len(small)
        for record in records:
            if record.dlsn not in small:
                continue
            path, file = small[record.dlsn]
            content = decode(bytes(record.payload)).content
            yield Opened(path, file, partial(iter, [content]))
            left -= 1
            if left == 0:
                return

    # ---- the log ----

    def _replay(self, log: Log) -> None:
        info = log.info()
        first, behind = info.first.sequence_id, info.next.sequence_id
        if first == behind:
            return
        try:
            with log.reader(sequence_id=first, gaps=self._gaps) as reader:
                while items := reader.read():
                    for item in items:
                        if item.sequence_id >= behind:
                            return
                        self._take(item)
        except DamagedError as damage:
            if not self._tolerant:
                raise
            self.problems.append(f"{self._record(self.sequence_id + 1)}: {damage}; what is behind it was not read")

    def _take(self, item: Record | Gap) -> None:
        if isinstance(item, Gap):
            self.sequence_id = item.sequence_id + item.count - 1
            self.problems.append(f"{self._record(item.sequence_id)}: {item.count} lost from there on")
            return
        self.sequence_id = item.sequence_id
        self.records_count += 1
        self.bytes += len(item.payload)
        try:
            change = decode(bytes(item.payload))
        except (CorruptError, UnsupportedError) as wrong:
            if not self._tolerant:
                raise type(wrong)(f"{self._record(item.sequence_id)}: {wrong}") from wrong
            self.problems.append(f"{self._record(item.sequence_id)}: {wrong}")
            return
        self.tree.replay(change, Place(item.dlsn, len(item.payload)))

    def _record(self, sequence_id: int) -> str:
        return f"record {sequence_id} of log {self._log.name}"

    def _one_by_one(self, places: list[DLSN]) -> Iterator[Record]:
        for place in places:
            yield self._read(partial(self._records, place, 1))[0]

    def _all_from(self, place: DLSN) -> Iterator[Record]:
        with self._read(partial(self._log.reader, place, gaps=self._gaps)) as reader:
            while items := self._read(reader.read):
                yield from (item for item in items if isinstance(item, Record))

    def _records(self, place: DLSN, count: int) -> list[Record]:
        with self._log.reader(place) as reader:
            return reader.read(max_records=count)

    def _read(self, read: Callable[[], Told]) -> Told:
        try:
            return read()
        except (TruncatedError, LogDeletedError) as gone:
            raise CutLostError(str(gone)) from gone

    # ---- large files ----

    def _large(self, path: Path, file: File) -> Iterator[bytes]:
        size = 0
        for payload in self._payloads(path, file):
            if size % CHUNK:  # a gateway finds a byte by the number of its record
                raise DamagedError(f"{shown(path)}: a record of its log {file.log} ends at {size}", log=file.log)
            size += len(payload)
            yield payload
        if size != file.size:
            raise DamagedError(f"{shown(path)} has {file.size} bytes, and its log {file.log} has {size}", log=file.log)

    def _payloads(self, path: Path, file: File) -> Iterator[bytes]:
        try:
            with self._namespace.log(file.log, create=False).reader() as reader:
                while records := reader.read():
                    for record in records:
                        yield bytes(record.payload)
        except (LogNotFoundError, LogDeletedError, TruncatedError) as gone:
            if file.log in self._missing:
                raise DamagedError(f"the bytes of {shown(path)} are gone: {gone}", log=file.log) from gone
            raise CutLostError(f"{shown(path)} was deleted meanwhile", log=file.log) from gone
