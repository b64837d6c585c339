"""FileTree: the files and directories of a root, who owns them, and what may be done to them. Pure: no log, no clock.

What is decided is applied at once, before its record is durable: the next change is decided by it. Whoever is answered
waits for the record (_root.py). A log that was truncated begins with changes whose objects are gone: apply() takes them
for nothing, as what is still needed was written anew behind them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from walkeeper.gateway._change import NO_OPERATION, Change, Kind
from walkeeper.gateway._path import Path, shown
from walkeeper.gateway._protocol import Operation, Refused, Status

__all__ = ["Directory", "File", "FileTree", "Owner"]

OPERATIONS_MAX = 65_536


@dataclass(frozen=True)
class Owner:
    epoch: int
    text: str
    since_ms: int


@dataclass(eq=False)
class File:
    version: int
    size: int
    modified_ms: int
    operation: Operation
    epoch: int
    log: str = ""
    """The log that has its bytes; "": they are in its record."""
    place: Any = None
    """The DLSN of its record; None: it is not durable yet."""


@dataclass(eq=False)
class Directory:
    modified_ms: int
    children: dict[str, Directory | File] = field(default_factory=dict)
    owner: Owner | None = None
    rewritten: int = 0
    """The rewriting that last wrote it anew."""


class FileTree:
    """The files of one root, by path."""

    def __init__(self) -> None:
        self.top = Directory(0)
        """"/", in which the root itself is the one child."""
        self.results: OrderedDict[Operation, int] = OrderedDict()
        """What the last operations were answered."""
        self._version = 0
        self._epoch = 0

    # ---- looking ----

    def at(self, path: Path) -> Directory | File | None:
        found: Directory | File | None = self.top
        for name in path:
            if not isinstance(found, Directory):
                return None
            found = found.children.get(name)
        return found

    def owner_of(self, path: Path) -> tuple[Path, Owner] | None:
        """The nearest directory at or above `path` that somebody owns."""
        found: Directory | File | None = self.top
        owned = None
        for depth, name in enumerate(path, 1):
            found = found.children.get(name) if isinstance(found, Directory) else None
            if isinstance(found, Directory) and found.owner is not None:
                owned = path[:depth], found.owner
        return owned

    def files(self) -> Iterator[tuple[Path, File]]:
        """All of them. The tree must not change meanwhile."""
        return ((path, found) for path, found in _below((), self.top) if isinstance(found, File))

    def directories(self) -> Iterator[tuple[Path, Directory]]:
        """All but "/". The tree must not change meanwhile."""
        return ((path, found) for path, found in _below((), self.top) if path and isinstance(found, Directory))

    # ---- deciding ----

    def decide(self, change: Change, now_ms: int) -> tuple[Change, int]:
        """The change as it is to be recorded, and what its operation is answered. Refused: nothing changes."""
        if change.kind != Kind.ACQUIRE:
            for path in (change.path, change.target):
                self.check_epoch(path, change.epoch)
        if not change.path:
            _refuse(Status.INVALID, "/ is no file, and is always there")
        result = 1
        if change.kind in (Kind.PUT, Kind.PUT_DATA):
            self._check_free(change.path, change.replaces)
        elif change.kind == Kind.DELETE:
            result = self._deletable(change)
        elif change.kind == Kind.RENAME:
            self._check_rename(change)
        else:
            self._check_way(change.path)
            found = self.at(change.path)
            if isinstance(found, File):
                _refuse(Status.EXISTS, f"{shown(change.path)} is a file")
            result = 1 if found is None else 0
        epoch = change.epoch
        if change.kind == Kind.ACQUIRE:
            result = epoch = max(self._epoch + 1, now_ms)  # also behind a root that was deleted, and made again
        return change.numbered(version=self._version + 1, modified_ms=now_ms, epoch=epoch), result

    def check_epoch(self, path: Path, epoch: int) -> None:
        """Refused: the nearest directory at or above `path` has another owner. Epoch 0 is nobody's, and passes."""
        if epoch == 0 or not path:
            return
        owned = self.owner_of(path)
        if owned is None:
            _refuse(Status.FENCED, f"{shown(path)} is not owned any more: its directory was deleted")
        place, owner = owned
        if owner.epoch != epoch:
            text = f"{shown(place)} was taken over by {owner.text} (epoch {owner.epoch}, yours is {epoch})"
            _refuse(Status.FENCED, text)

    def _check_way(self, path: Path) -> None:
        """No file stands where a directory above `path` is wanted."""
        for depth in range(1, len(path)):
            if isinstance(self.at(path[:depth]), File):
                _refuse(Status.NOT_A_DIRECTORY, f"{shown(path[:depth])} is a file")

    def _check_free(self, path: Path, replaces: bool) -> None:
        self._check_way(path)
        found = self.at(path)
        if isinstance(found, Directory):
            _refuse(Status.IS_A_DIRECTORY if replaces else Status.EXISTS, f"{shown(path)} is a directory")
        if found is not None and not replaces:
            _refuse(Status.EXISTS, f"{shown(path)} is there already")

    def _deletable(self, change: Change) -> int:
        found = self.at(change.path)
        if isinstance(found, Directory) and found.children and not change.recursive:
            _refuse(Status.NOT_EMPTY, f"{shown(change.path)} is not empty")
        return 0 if found is None else 1

    def _check_rename(self, change: Change) -> None:
        found = self.at(change.path)
        if found is None:
            _refuse(Status.NOT_FOUND, f"{shown(change.path)} is not there")
        if change.target[:1] != change.path[:1]:
            _refuse(Status.INVALID, f"{shown(change.path)} and {shown(change.target)} have different roots: copy it")
        if change.target[: len(change.path)] == change.path:
            _refuse(Status.INVALID, f"{shown(change.target)} is {shown(change.path)}, or below it")
        if len(change.path) == 1:
            _refuse(Status.INVALID, f"{shown(change.path)} is a root: its name stays")
        there = self.at(change.target)
        if change.replaces and isinstance(found, Directory) and isinstance(there, Directory):
            if there.children:
                _refuse(Status.NOT_EMPTY, f"{shown(change.target)} is not empty")
            return
        self._check_free(change.target, change.replaces and isinstance(found, File))

    # ---- changing ----

    def apply(self, change: Change, result: int = 1) -> list[File]:
        """Makes what was decided, or is read from the log; the files that are gone by it."""
        self._version = max(self._version, change.version)
        if change.operation != NO_OPERATION:
            self.results[change.operation] = result
            if len(self.results) > OPERATIONS_MAX:
                self.results.popitem(last=False)
        if change.kind in (Kind.PUT, Kind.PUT_DATA):
            return self._put(change)
        if change.kind == Kind.DELETE:
            gone = self._removed(change.path)
            return [] if gone is None else [file for _, file in _below((), gone) if isinstance(file, File)]
        if change.kind == Kind.RENAME:
            return self._rename(change)
        directory = self._directory(change.path, change.modified_ms)
        if change.kind == Kind.ACQUIRE and directory is not None:
            self._epoch = max(self._epoch, change.epoch)
            directory.owner = Owner(change.epoch, change.owner, change.modified_ms)
        return []

    def replay(self, change: Change, place: Any) -> None:
        """What stands in the log at `place`: the result is known by the state before it."""
        result = change.epoch if change.kind == Kind.ACQUIRE else 1
        if change.kind in (Kind.DELETE, Kind.MKDIR):
            result = 1 if (self.at(change.path) is not None) == (change.kind == Kind.DELETE) else 0
        self.apply(change, result)
        made = self.at(change.path) if change.kind in (Kind.PUT, Kind.PUT_DATA) else None
        if isinstance(made, File) and made.version == change.version:
            made.place = place

    def _put(self, change: Change) -> list[File]:
        above = self._directory(change.path[:-1], change.modified_ms)
        if above is None:
            return []
        before = above.children.get(change.path[-1])
        size = change.size if change.kind == Kind.PUT_DATA else len(change.content)
        file = File(change.version, size, change.modified_ms, change.operation, change.epoch, change.log)
        above.children[change.path[-1]] = file
        above.modified_ms = max(above.modified_ms, change.modified_ms)
        return [before] if isinstance(before, File) else []

    def _rename(self, change: Change) -> list[File]:
        moved = self.at(change.path)
        above = self._directory(change.target[:-1], change.modified_ms)
        if moved is None or above is None:
            return []
        self._removed(change.path)
        before = above.children.get(change.target[-1])
        above.children[change.target[-1]] = moved
        above.modified_ms = max(above.modified_ms, change.modified_ms)
        return [before] if isinstance(before, File) else []

    def _directory(self, path: Path, modified_ms: int) -> Directory | None:
        """The directory at `path`, made where it is missing; None: a file is in the way."""
        found = self.top
        for name in path:
            child = found.children.get(name)
            if child is None:
                child = found.children[name] = Directory(modified_ms)
            if isinstance(child, File):
                return None
            found = child
        return found

    def _removed(self, path: Path) -> Directory | File | None:
        above = self.at(path[:-1])
        return above.children.pop(path[-1], None) if isinstance(above, Directory) else None


def _below(path: Path, found: Directory | File) -> Iterator[tuple[Path, Directory | File]]:
    left = [(path, found)]  # not recursive: a path may have two thousand names
    while left:
        at, found = left.pop()
        yield at, found
        if isinstance(found, Directory):
            left += [((*at, name), child) for name, child in found.children.items()]


def _refuse(status: Status, text: str) -> NoReturn:
    raise Refused(status, text)
