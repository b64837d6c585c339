"""What `walkeeper checkpoint verify` finds: every file is read, and what Spark needs to go on is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from walkeeper._native import lib
from walkeeper.cli._checkpoint_layout import (
    CheckpointError,
    Layout,
    Store,
    UniqueIds,
    lines_of,
    names_schema_files,
    object_of,
    query_id_of,
    schema_paths_of,
    shared_files_of,
    unique_ids_of,
)
from walkeeper.errors import CorruptError, DamagedError
from walkeeper.gateway._cut import Cut, Opened
from walkeeper.gateway._file_tree import Directory
from walkeeper.gateway._path import Path, shown

__all__ = ["Verified", "checkpoints_below", "verified"]

LEFT = ".import-"
"""What the name of a directory begins with that an import or a fork has not finished."""

Advance = Callable[[int], None]


@dataclass
class Verified:
    """What was read of a root, and what is wrong in it."""

    sequence_id: int
    records_count: int
    files_count: int = 0
    bytes: int = 0
    checkpoints: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)


def checkpoints_below(cut: Cut, base: Path) -> tuple[list[Path], list[Path]]:
    """The checkpoints at and below `base`; and what imports and forks left that were ended."""
    found: list[Path] = []
    unfinished: list[Path] = []
    for path, directory in sorted(cut.tree.directories()):
        if path[: len(base)] != base or any(path[: len(above)] == above for above in unfinished):
            continue
        if path[-1].startswith(LEFT):
            unfinished.append(path)
        elif any(isinstance(directory.children.get(name), Directory) for name in ("offsets", "commits")):
            found.append(path)
    return found, unfinished


def verified(cut: Cut, base: Path, advance: Advance) -> Verified:
    """Reads all files at and below `base`. `advance` is called with the bytes that were read since."""
    found = Verified(cut.sequence_id, cut.records_count)
    found.findings += cut.problems
    places, unfinished = checkpoints_below(cut, base)
    found.unfinished = [shown(path) for path in unfinished]
    found.checkpoints = [shown(path) for path in places]
    checked = [_Checked(cut, place) for place in places]
    files = [path for path, _ in cut.tree.files() if path[: len(base)] == base]
    for opened in _readable(cut.contents(files), found):
        found.files_count += 1
        taker = next((one for one in checked if one.has(opened.path)), None)
        try:
            for piece in opened.pieces():
                found.bytes += len(piece)
                advance(len(piece))
                if taker is not None:
                    taker.take(opened.path, piece)
        except (CorruptError, DamagedError) as damage:
            found.findings.append(f"{shown(opened.path)}: {damage}")
    for one in checked:
        found.findings += one.findings()
    return found


def _readable(opened: Iterator[Opened], found: Verified) -> Iterator[Opened]:
    try:
        yield from opened
    except DamagedError as damage:
        found.findings.append(f"{damage}; the small files behind it were not read")


class _Checked:
    """One checkpoint, whose files come in any order."""

    def __init__(self, cut: Cut, place: Path) -> None:
        self._place = place
        directory = cut.at(place)
        assert isinstance(directory, Directory)
        below = ((path[len(place) :], file) for path, file in cut.tree.files() if path[: len(place)] == place)
        self.layout = Layout({path: file.size for path, file in below})
        self._kept: dict[Path, bytes] = {}
        self._checksums: dict[Path, int] = {}
        self._problems: list[str] = []

    def has(self, path: Path) -> bool:
        return path[: len(self._place)] == self._place

    def take(self, path: Path, piece: bytes) -> None:
        path = path[len(self._place) :]
        if (*path[:-1], f"{path[-1]}.crc") in self.layout.sizes:
            self._checksums[path] = int(lib.wk_crc32c_extend(self._checksums.get(path, 0), piece, len(piece)))
        if path[0] in ("metadata", "offsets", "commits") or path[-1].endswith((".zip", ".crc")) or _is_metadata(path):
            self._kept[path] = self._kept.get(path, b"") + piece

    def findings(self) -> list[str]:
        self._check_files()
        self._check_batches()
        self._check_state()
        return sorted(self._problems)

    def _found(self, path: Path, text: str) -> None:
        self._problems.append(f"{shown((*self._place, *path))}: {text}")

    @contextmanager
    def _of(self, path: Path) -> Iterator[bytes]:
        """The content of a file; what is wrong with it is a finding."""
        try:
            yield self._kept.get(path, b"")
        except CheckpointError as wrong:
            self._found(path, str(wrong))

    # ---- files by themselves ----

    def _check_files(self) -> None:
        if ("metadata",) not in self.layout.sizes:
            self._found(("metadata",), "it is missing: Spark does not start a query whose id is lost")
        else:
            with self._of(("metadata",)) as content:
                query_id_of(content)
        for name, numbers in (("offsets", self.layout.offsets), ("commits", self.layout.commits)):
            for number in numbers:
                with self._of((name, str(number))) as content:
                    _, lines = lines_of(content)
                    object_of(lines[0] if lines else "{}")
        for path in self.layout.sizes:
            if path[-1].endswith(".crc") and (*path[:-1], path[-1].removesuffix(".crc")) in self.layout.sizes:
                self._check_checksum(path)
            if names_schema_files(path):
                self._check_schema_files(path)

    def _check_checksum(self, path: Path) -> None:
        of = (*path[:-1], path[-1].removesuffix(".crc"))
        with self._of(path) as content:
            told = object_of(content.decode(errors="backslashreplace"))
            value, size = told.get("value"), told.get("mainFileSize")
            if told.get("algorithm") != "CRC32C" or not isinstance(value, int) or not isinstance(size, int):
                raise CheckpointError("it is no checksum that Spark writes")
            if size != self.layout.sizes[of]:
                self._found(of, f"it has {self.layout.sizes[of]} bytes, and {size} by its checksum file")
            elif value & 0xFFFFFFFF != self._checksums.get(of, 0):
                self._found(of, "its bytes are not those of its checksum file")

    def _check_schema_files(self, path: Path) -> None:
        with self._of(path) as content:
            for schema in schema_paths_of(content):
                _, found, below = schema.rpartition(f"{shown(self._place)}/state/")
                if not found or ("state", *below.split("/")) not in self.layout.sizes:
                    self._found(path, f"it names {schema}, which is no file of this checkpoint")

    # ---- batches ----

    def _check_batches(self) -> None:
        offsets, commits = self.layout.offsets, self.layout.commits
        for last, number in pairwise(offsets):
            if number > last + 1:
                several = f" (and {number - last - 2:,} behind it)" if number > last + 2 else ""
                self._found(("offsets", str(last + 1)), f"it is missing{several}: later batches were planned")
        planned = set(offsets)
        for number in commits:
            if number not in planned and (not offsets or number > offsets[0]):
                self._found(("commits", str(number)), f"its batch has no offsets/{number}")
        done = set(commits)
        for number in offsets[:-1]:
            if number not in done and (not commits or number > commits[0]):
                self._found(("offsets", str(number)), "its batch was not committed, and later ones were planned")

    # ---- state ----

    def _check_state(self) -> None:
        if not self.layout.commits:
            return
        batch = self.layout.commits[-1]
        for store in self.layout.stores:
            chain, missing = store.chain(batch + 1, self._unique_ids(store))
            if missing is not None:
                self._found(missing, f"it is missing: version {batch + 1} of the state, of batch {batch}, needs it")
            for file in chain:
                if file.kind == "zip":
                    self._check_snapshot(store, file.path)

    def _unique_ids(self, store: Store) -> UniqueIds:
        def ids(version: int) -> frozenset[str] | None:
            content = self._kept.get(("commits", str(version - 1)))
            try:
                return None if content is None else unique_ids_of(content)(store)
            except CheckpointError:  # told with the file
                return None

        return ids

    def _check_snapshot(self, store: Store, path: Path) -> None:
        with self._of(path) as content:
            for name, size in shared_files_of(content).items():
                there = store.shared.get((*store.path, *name))
                if there is None:
                    self._found((*store.path, *name), f"it is missing: {path[-1]} needs it")
                elif there != size:
                    self._found((*store.path, *name), f"it has {there} bytes, and {size} by {path[-1]}")


def _is_metadata(path: Path) -> bool:
    return len(path) > 2 and path[2] == "_metadata"
