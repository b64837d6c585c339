"""Copies of a checkpoint: from a cut or a local directory, to a local directory or through a gateway."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path as LocalPath
from typing import NamedTuple, Protocol

from walkeeper.cli._checkpoint_findings import LEFT
from walkeeper.cli._checkpoint_layout import (
    Layout,
    Store,
    UniqueIds,
    names_schema_files,
    of_file,
    shared_files_of,
    unique_ids_of,
    with_schema_paths_of,
)
from walkeeper.cli._main import Refusal
from walkeeper.cli._scratch import scratch
from walkeeper.errors import Error
from walkeeper.gateway._cut import Cut
from walkeeper.gateway._file_client import FileClient
from walkeeper.gateway._file_tree import Directory, File
from walkeeper.gateway._path import NAME_MAX, Path, parse, shown
from walkeeper.gateway._protocol import Refused

__all__ = ["CutSource", "LocalSource", "batches_to_go_back_to", "copy_to_gateway", "copy_to_local", "unique_ids_in"]

PIECE = 512 * 1024
PUTS_MAX = 16
"""Files on their way to a gateway at once: they become durable together."""
SYNCS_MAX = 16
HADOOP_CHECKSUMS = b"crc\0"
"""What a checksum file of Hadoop's LocalFileSystem begins with."""

Pieces = Callable[[], Iterable[bytes]]
Advance = Callable[[int], None]


class Item(NamedTuple):
    """A file on its way."""

    path: Path
    """Below the checkpoint."""
    size: int
    modified_ms: int
    pieces: Pieces


class Source(Protocol):
    """What is copied."""

    def empty_directories(self) -> list[Path]: ...
    def items(self) -> Iterator[Item]: ...


@dataclass(frozen=True)
class Copied:
    files_count: int
    bytes: int


# ---- sources ----


class CutSource:
    """A checkpoint of a cut; with `batch` only what a query needs to go on with the batch behind that one."""

    def __init__(self, cut: Cut, place: Path, batch: int | None) -> None:
        self._cut, self._place = cut, place
        directory = cut.at(place)
        if not isinstance(directory, Directory):
            raise Refusal(f"{shown(place)} is a file, and no checkpoint")
        files = {path[len(place) :]: file for path, file in cut.tree.files() if path[: len(place)] == place}
        self.layout = Layout({path: file.size for path, file in files.items()})
        if not self.layout.is_checkpoint:
            raise Refusal(f"{shown(place)} is no checkpoint: it has no metadata, offsets or commits")
        self._files: Mapping[Path, File] = files
        if batch is not None:
            self._files = {path: files[path] for path in self._kept_behind(batch)}

    def empty_directories(self) -> list[Path]:
        depth = len(self._place)
        below = (path[depth:] for path, _ in self._cut.tree.directories() if path[:depth] == self._place)
        return _without_files(below, self._files)

    def items(self) -> Iterator[Item]:
        for opened in self._cut.contents((*self._place, *path) for path in self._files):
            below = opened.path[len(self._place) :]
            yield Item(below, opened.file.size, opened.file.modified_ms, opened.pieces)

    @property
    def size(self) -> int:
        return sum(file.size for file in self._files.values())

    def _kept_behind(self, batch: int) -> Iterator[Path]:
        why_not = self.layout.why_not_behind(batch, unique_ids_in(self._cut, self._place, self.layout))
        if why_not is not None:
            possible = batches_to_go_back_to(self._cut, self._place, self.layout)
            known = f"--batch can be {spans(possible)}" if possible else "there is no batch that --batch could name"
            raise Refusal(f"{shown(self._place)}: {why_not}", known)
        kept = self.layout.behind(batch)
        needed = self._shared_files_needed(kept)
        shared = {path for store in self.layout.stores for path in store.shared}
        return (path for path in kept if path not in shared or path in needed)

    def _shared_files_needed(self, kept: Mapping[Path, int]) -> set[Path]:
        """The SST and log files that the kept zips name. Refuses where one of them is missing."""
        stores = {file.path: store for store in self.layout.stores for file in store.files if file.kind == "zip"}
        needed: set[Path] = set()
        for opened in self._cut.contents((*self._place, *path) for path in kept if path in stores):
            store = stores[opened.path[len(self._place) :]]
            with of_file(opened.path):
                shared = shared_files_of(b"".join(opened.pieces()))
            for name, size in shared.items():
                path = (*store.path, *name)
                if store.shared.get(path) != size:
                    raise Refusal(
                        f"{shown(self._place)}: {'/'.join(path)} was deleted, or never was: {opened.path[-1]} needs it"
                    )
                needed.add(path)
        return needed


def unique_ids_in(cut: Cut, place: Path, layout: Layout) -> Callable[[Store], UniqueIds]:
    """The unique ids that commits give to versions of state. All commits are read where there is state."""
    batches = layout.commits if layout.stores else []
    paths = [(*place, "commits", str(batch)) for batch in batches]
    told: dict[int, Callable[[Store], frozenset[str] | None]] = {}
    for one in cut.contents(paths):
        with of_file(one.path):
            told[int(one.path[-1])] = unique_ids_of(b"".join(one.pieces()))

    def of_store(store: Store) -> UniqueIds:
        return lambda version: told[version - 1](store) if version - 1 in told else None

    return of_store


def batches_to_go_back_to(cut: Cut, place: Path, layout: Layout) -> list[int]:
    """Those behind which a query can go on."""
    ids = unique_ids_in(cut, place, layout)
    return [batch for batch in layout.commits if layout.why_not_behind(batch, ids) is None]


def spans(numbers: list[int]) -> str:
    """Sorted numbers for people: 3, 5 to 9."""
    told: list[list[int]] = []
    for number in numbers:
        if told and number == told[-1][-1] + 1:
            told[-1][1:] = [number]
        else:
            told.append([number])
    return ", ".join(" to ".join(map(str, span)) for span in told)


class LocalSource:
    """A local directory. What Hadoop's LocalFileSystem keeps beside its files (.NAME.crc) is left out."""

    def __init__(self, directory: LocalPath) -> None:
        if not any((directory / name).exists() for name in ("metadata", "offsets", "commits")):
            raise Refusal(f"{directory} is no checkpoint: it has no metadata, offsets or commits")
        self._directory = directory
        self._found = self._look()
        files = {path: found.st_size for path, found in self._found.items() if stat.S_ISREG(found.st_mode)}
        self._files = {path: size for path, size in files.items() if not self._is_hadoop_checksum(path)}

    def empty_directories(self) -> list[Path]:
        directories = (path for path, found in self._found.items() if stat.S_ISDIR(found.st_mode))
        return _without_files(directories, self._files)

    def items(self) -> Iterator[Item]:
        for path, size in self._files.items():
            yield Item(path, size, self._found[path].st_mtime_ns // 1_000_000, partial(self._pieces, path))

    @property
    def size(self) -> int:
        return sum(self._files.values())

    def check_unchanged(self) -> None:
        """Refuses where somebody wrote meanwhile."""
        now = self._look()
        for path in sorted({*now, *self._found}):
            before, after = self._found.get(path), now.get(path)
            if before is None or after is None or _state(before) != _state(after):
                said = f"{self._at(path)} changed while it was read"
                raise Refusal(said, "stop the query that writes this checkpoint")

    def _look(self) -> dict[Path, os.stat_result]:
        found: dict[Path, os.stat_result] = {}
        left: list[Path] = [()]
        while left:
            above = left.pop()
            with os.scandir(self._at(above)) as entries:
                here = {(*above, _name(entry)): entry.stat(follow_symlinks=False) for entry in entries}
            for path, at in here.items():
                if stat.S_ISDIR(at.st_mode):
                    left.append(path)
                elif not stat.S_ISREG(at.st_mode):
                    raise Refusal(f"{self._at(path)} is neither a file nor a directory")
            found |= here
        return found

    def _at(self, path: Path) -> LocalPath:
        return self._directory.joinpath(*path)

    def _is_hadoop_checksum(self, path: Path) -> bool:
        if not (path[-1].startswith(".") and path[-1].endswith(".crc")):
            return False
        with self._at(path).open("rb") as file:
            return file.read(len(HADOOP_CHECKSUMS)) == HADOOP_CHECKSUMS

    def _pieces(self, path: Path) -> Iterator[bytes]:
        with self._at(path).open("rb") as file:
            while piece := file.read(PIECE):
                yield piece


def _without_files(directories: Iterable[Path], files: Iterable[Path]) -> list[Path]:
    """Those that are not made by a file below them."""
    made = {path[:depth] for path in files for depth in range(len(path))}
    return [path for path in directories if path not in made]


def _name(entry: os.DirEntry[str]) -> str:
    try:
        size = len(entry.name.encode())
    except UnicodeEncodeError:
        raise Refusal(f"the name of {entry.path!r} is not UTF-8: a checkpoint in walkeeper has no such name") from None
    assert size <= NAME_MAX, entry.path
    return entry.name


def _state(of: os.stat_result) -> tuple[int, ...]:
    """What changes when somebody writes to a file. The files of a directory are looked at one by one."""
    is_file = stat.S_ISREG(of.st_mode)
    return (of.st_mode, of.st_ino, *((of.st_size, of.st_mtime_ns) if is_file else ()))


# ---- what changes on the way ----


@dataclass(frozen=True)
class Changed:
    """A source, with the files changed that depend on the place of a checkpoint, or on its query."""

    source: Source
    location: str
    """Of the copy, as Spark writes it: it begins the paths of schema files."""
    metadata: bytes | None = None
    """What the file `metadata` becomes; None: it stays."""

    def empty_directories(self) -> list[Path]:
        return self.source.empty_directories()

    def items(self) -> Iterator[Item]:
        for item in self.source.items():
            content: bytes | None = None
            if item.path == ("metadata",):
                content = self.metadata
            elif names_schema_files(item.path):
                with of_file(item.path):
                    content = with_schema_paths_of(b"".join(item.pieces()), self.location)
            if content is None:
                yield item
            else:
                yield Item(item.path, len(content), item.modified_ms, partial(iter, [content]))


# ---- destinations ----


def copy_to_local(source: Source, destination: LocalPath, advance: Advance) -> Copied:
    """To a directory that does not exist, or is empty. It appears when all of it is durable."""
    made = LocalPath(os.path.realpath(destination))
    with scratch(made.parent, f".{made.name[:200]}.", "name a directory that can be made") as place:
        whole = place / "whole"
        whole.mkdir()
        for path in source.empty_directories():
            whole.joinpath(*path).mkdir(parents=True, exist_ok=True)
        files_count = size = 0
        for item in source.items():
            _write(whole.joinpath(*item.path), item, advance)
            files_count += 1
            size += item.size
        _sync_all(whole)
        os.rename(whole, made)
        _sync(made.parent)
    return Copied(files_count, size)


def _write(path: LocalPath, item: Item, advance: Advance) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        for piece in item.pieces():
            file.write(piece)
            advance(len(piece))
        file.flush()
        os.utime(file.fileno(), ns=(item.modified_ms * 1_000_000, item.modified_ms * 1_000_000))


def _sync_all(directory: LocalPath) -> None:
    """Makes everything in it durable. Many calls run at once, as a file system serves them together."""
    places = (os.path.join(above, name) for above, _, files in os.walk(directory) for name in (*files, ""))
    with ThreadPoolExecutor(SYNCS_MAX) as pool:
        for _ in pool.map(_sync, places):
            pass


def _sync(path: str | LocalPath) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _temporary(client: FileClient, target: Path) -> Iterator[Path]:
    """A new directory beside the target. It is deleted where an exception is raised."""
    place = (*target[:-1], f"{LEFT}{uuid.uuid4().hex}")
    parse(shown(place))
    client.mkdir(place)
    try:
        yield place
    except BaseException:
        with suppress(Error):
            client.delete(place)
        raise


def copy_to_gateway(
    source: Source,
    client: FileClient,
    target: Path,
    advance: Advance,
    *,
    begun: Callable[[Path], None],
    ended: Callable[[], None],
) -> Copied:
    """To a path that does not exist. It appears when all of it is durable. `begun` may refuse the temporary directory
    that was made, `ended` what was copied."""
    if client.exists(target):
        raise Refusal(f"{shown(target)} is there already")
    with _temporary(client, target) as place:
        begun(place)
        for path in source.empty_directories():
            client.mkdir((*place, *path))
        copied = _put_all(source.items(), client, place, advance)
        ended()
        try:
            client.rename(place, target)
        except Refused as refused:
            raise Refusal(f"{shown(target)} cannot be made: {refused}") from refused
    return copied


def _put_all(items: Iterator[Item], client: FileClient, place: Path, advance: Advance) -> Copied:
    files_count = size = 0
    with ThreadPoolExecutor(PUTS_MAX) as pool:
        waiting: dict[Future[None], int] = {}
        try:
            for item in items:
                waiting[pool.submit(client.put, (*place, *item.path), item.size, item.pieces)] = item.size
                files_count += 1
                size += item.size
                _settle(waiting, PUTS_MAX, advance)
            _settle(waiting, 0, advance)
        finally:
            for future in waiting:
                future.cancel()
    return Copied(files_count, size)


def _settle(waiting: dict[Future[None], int], left_max: int, advance: Advance) -> None:
    """Waits until at most so many are on their way. Raises what one of them raised."""
    while len(waiting) > left_max:
        done, _ = wait(waiting, return_when=FIRST_COMPLETED)
        for future in done:
            future.result()
            advance(waiting.pop(future))
