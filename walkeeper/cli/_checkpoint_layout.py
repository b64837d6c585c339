"""Layout: what the names of a checkpoint's files say, as Spark's Structured Streaming gives them. Pure.

metadata                                the query's id
offsets/N, commits/N                    batch N was planned; it is done
sources/SOURCE/...                      what a source keeps
state/OPERATOR/PARTITION[/STORE]/...    a state store: batch N makes its version N + 1
    V.delta, V.snapshot                 HDFS-backed: what version V changes; all of it
    V.changelog, V.zip, SSTs/*.sst      RocksDB, likewise; a zip names the SST files that it needs
    V_UNIQUE.changelog, V_UNIQUE.zip    format 2: commits/N has the unique ids
    <file>.crc                          the checksum of a state file
state/OPERATOR/_metadata/metadata, v2/N the operator; v2 names its schema files by their absolute paths
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from walkeeper.errors import Error
from walkeeper.gateway._path import Path, shown

__all__ = [
    "CheckpointError",
    "Layout",
    "Store",
    "StateFile",
    "UniqueIds",
    "lines_of",
    "object_of",
    "of_file",
    "query_id_of",
    "schema_paths_of",
    "shared_files_of",
    "unique_ids_of",
    "with_schema_paths_of",
]

NUMBER = re.compile(r"[0-9]{1,19}")
STATE_FILE = re.compile(r"([0-9]{1,19})(?:_([^.]+))?\.(zip|changelog|delta|snapshot)(\.crc)?")
SNAPSHOTS = {"zip": "RocksDB", "snapshot": "HDFS-backed"}
CHANGES = {"changelog": "RocksDB", "delta": "HDFS-backed"}
SHARED = ("SSTs", "logs")
"""Directories of a RocksDB store whose files several zips need."""

UniqueIds = Callable[[int], "frozenset[str] | None"]
"""Of a version of a store, by commits/(version - 1): None: it is not there any more; empty: format 1 has none."""


class CheckpointError(Error):
    """A file of a checkpoint is not what Spark writes."""


@dataclass(frozen=True)
class StateFile:
    path: Path
    version: int
    unique_id: str
    """"" in format 1."""
    kind: str
    size: int


@dataclass
class Store:
    """One state store of a partition."""

    operator: int
    partition: int
    name: str
    path: Path
    files: list[StateFile] = field(default_factory=list)
    checksums: list[StateFile] = field(default_factory=list)
    shared: dict[Path, int] = field(default_factory=dict)
    """SST and log files of RocksDB, and their sizes."""

    @property
    def provider(self) -> str:
        return next((SNAPSHOTS.get(file.kind) or CHANGES[file.kind] for file in self.files), "unknown")

    @property
    def last_version(self) -> int:
        return max((file.version for file in self.files), default=0)

    def of(self, kinds: Mapping[str, str]) -> list[StateFile]:
        return [file for file in self.files if file.kind in kinds]

    def chain(self, version: int, unique_ids: UniqueIds) -> tuple[list[StateFile], Path | None]:
        """What rebuilds a version, oldest first: a snapshot and the changes behind it; and the file that is missing."""
        by_version: dict[int, list[StateFile]] = {}
        for file in self.files:
            by_version.setdefault(file.version, []).append(file)
        needed: list[StateFile] = []
        for at in range(version, 0, -1):
            ids = unique_ids(at)
            found = [file for file in by_version.get(at, []) if _is_of(file, ids)]
            if not found:
                return needed[::-1], self._missing(at, ids)
            needed.append(min(found, key=lambda file: file.kind not in SNAPSHOTS))
            if needed[-1].kind in SNAPSHOTS:
                break
        return needed[::-1], None

    def _missing(self, version: int, ids: frozenset[str] | None) -> Path:
        kind = "delta" if self.provider == "HDFS-backed" else "changelog"
        return (*self.path, f"{version}_*.{kind}" if ids else f"{version}.{kind}")


class Layout:
    """Made of the files of a checkpoint: their paths below it, and their sizes."""

    def __init__(self, sizes: Mapping[Path, int]) -> None:
        self.sizes = sizes
        self.offsets = sorted(_numbers(sizes, "offsets"))
        self.commits = sorted(_numbers(sizes, "commits"))
        self.stores = _stores(sizes)

    @property
    def is_checkpoint(self) -> bool:
        return ("metadata",) in self.sizes or bool(self.offsets) or bool(self.commits)

    @property
    def in_flight(self) -> int | None:
        """The batch that was planned and is not done."""
        planned, done = self.offsets[-1:], self.commits[-1:]
        return planned[0] if planned and planned > done else None

    def metadata_of(self, operator: int) -> Path | None:
        """The newest file that tells of a stateful operator."""
        above = ("state", str(operator), "_metadata")
        if (*above, "metadata") in self.sizes:
            return (*above, "metadata")
        newest = max(_numbers(self.sizes, *above, "v2"), default=None)
        return None if newest is None else (*above, "v2", str(newest))

    def why_not_behind(self, batch: int, unique_ids: Callable[[Store], UniqueIds]) -> str | None:
        """Why no query can go on behind this batch, with the next one; None: it can."""
        if batch not in self.commits:
            newest = f"; the newest that is: {self.commits[-1]}" if self.commits else ""
            return f"batch {batch} is not committed{newest}"
        for number in {batch, max(0, batch - 1)}:  # Spark reads the one before, too
            if number not in self.offsets:
                return f"offsets/{number} was deleted"
        for store in self.stores:
            _, missing = store.chain(batch + 1, unique_ids(store))
            if missing is not None:
                return f"{'/'.join(missing)} was deleted, or never was: version {batch + 1} of the state needs it"
        return None

    def behind(self, batch: int) -> dict[Path, int]:
        """The files that were there when this batch was done and the next one was not planned, and their sizes.

        But for `sources`, which stay as they are: a file source then takes all that it had seen since into one batch.
        Shared files are left in: see shared_files_of().
        """
        left_out = {
            file.path for store in self.stores for file in (*store.files, *store.checksums) if file.version > batch + 1
        }
        for path in self.sizes:
            of_a_batch = (len(path) == 2 and path[0] in ("offsets", "commits")) or names_schema_files(path)
            if of_a_batch and is_number(path[-1]) and int(path[-1]) > batch:
                left_out.add(path)
        return {path: size for path, size in self.sizes.items() if path not in left_out}


def is_number(name: str) -> bool:
    return NUMBER.fullmatch(name) is not None


def names_schema_files(path: Path) -> bool:
    """Whether it is a file state/OPERATOR/_metadata/v2/N."""
    return len(path) == 5 and path[0] == "state" and path[2:4] == ("_metadata", "v2") and is_number(path[4])


def _numbers(sizes: Mapping[Path, int], *above: str) -> Iterator[int]:
    for path in sizes:
        if path[:-1] == above and is_number(path[-1]):
            yield int(path[-1])


def _stores(sizes: Mapping[Path, int]) -> list[Store]:
    found: dict[Path, Store] = {}
    for path, size in sizes.items():
        if path[0] != "state" or len(path) < 4 or not (is_number(path[1]) and is_number(path[2])):
            continue
        of_shared = path[-2] in SHARED
        name = path[3 : -2 if of_shared else -1]
        matched = STATE_FILE.fullmatch(path[-1])
        if len(name) > 1 or not (of_shared or matched):
            continue
        place = path[: 3 + len(name)]
        store = found.setdefault(place, Store(int(path[1]), int(path[2]), name[0] if name else "default", place))
        if of_shared or matched is None:
            store.shared[path] = size
            continue
        file = StateFile(path, int(matched[1]), matched[2] or "", matched[3], size)
        (store.checksums if matched[4] else store.files).append(file)
    return sorted(found.values(), key=lambda store: (store.operator, store.partition, store.name))


def _is_of(file: StateFile, ids: frozenset[str] | None) -> bool:
    if ids is None:
        return True
    return file.unique_id in ids if ids else not file.unique_id


# ---- what is in the files ----


@contextmanager
def of_file(path: Path) -> Iterator[None]:
    """A CheckpointError says which file it is about."""
    try:
        yield
    except CheckpointError as wrong:
        raise CheckpointError(f"{shown(path)}: {wrong}") from wrong


def lines_of(content: bytes) -> tuple[str, list[str]]:
    """The version of a file of offsets or commits, and the lines behind it. CheckpointError."""
    try:
        version, *lines = content.decode().splitlines()
    except ValueError:
        raise CheckpointError("it is empty, or no text") from None
    if not re.fullmatch(r"v\d+", version):
        raise CheckpointError(f"it begins with {version[:20]!r}, and not with a version")
    return version, lines


def object_of(text: str) -> dict[str, Any]:
    """A JSON object. CheckpointError."""
    try:
        found = json.loads(text)
    except ValueError as wrong:
        raise CheckpointError(f"{text[:40]!r} is no JSON: {wrong}") from None
    if not isinstance(found, dict):
        raise CheckpointError(f"{text[:40]!r} is no JSON object")
    return found


def query_id_of(content: bytes) -> str:
    """Of the file `metadata`. CheckpointError."""
    found = object_of(content.decode(errors="backslashreplace")).get("id")
    if not isinstance(found, str):
        raise CheckpointError("the file `metadata` has no id of a query")
    return found


def unique_ids_of(content: bytes) -> Callable[[Store], frozenset[str] | None]:
    """Of a file of commits: what it says of the version of a store that its batch made, as UniqueIds do.
    CheckpointError."""
    version, lines = lines_of(content)
    stored = object_of(lines[0]).get("stateUniqueIds") if lines else None
    try:
        ids = {
            (int(operator), partition): frozenset(stores)
            for operator, partitions in (stored or {}).items()
            for partition, stores in enumerate(partitions)
        }
    except (AttributeError, TypeError, ValueError):
        raise CheckpointError("its stateUniqueIds are not those of operators and partitions") from None
    unnamed = frozenset[str]() if version == "v1" else None
    return lambda store: ids.get((store.operator, store.partition), unnamed)


def shared_files_of(content: bytes) -> dict[Path, int]:
    """Of a zip: what it needs of SSTs/ and logs/, below its store, and their sizes. CheckpointError."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            if (damaged := archive.testzip()) is not None:
                raise CheckpointError(f"{damaged} in it is damaged")
            _, lines = lines_of(archive.read("metadata"))
        told = object_of("".join(lines))
        return {
            **{("SSTs", one["dfsSstFileName"]): int(one["sizeBytes"]) for one in told.get("sstFiles") or []},
            **{("logs", one["dfsLogFileName"]): int(one["sizeBytes"]) for one in told.get("logFiles") or []},
        }
    except (KeyError, TypeError, zipfile.BadZipFile) as wrong:
        raise CheckpointError(f"it is no snapshot of RocksDB: {wrong}") from None


def schema_paths_of(content: bytes) -> list[str]:
    """Of a file state/OPERATOR/_metadata/v2/N: the absolute paths of the schema files. CheckpointError."""
    _, lines = lines_of(content)
    try:
        stores = object_of("".join(lines))["stateStoreInfo"]
        return [path for store in stores for path in store["stateSchemaFilePaths"]]
    except (KeyError, TypeError) as wrong:
        raise CheckpointError(f"it does not tell of state stores: {wrong!r}") from None


def with_schema_paths_of(content: bytes, location: str) -> bytes:
    """The same file for a checkpoint at `location`: Spark would read the schema where the checkpoint was before."""
    schema_paths_of(content)
    version, lines = lines_of(content)
    told = object_of("".join(lines))
    for store in told["stateStoreInfo"]:
        store["stateSchemaFilePaths"] = [moved(path, location) for path in store["stateSchemaFilePaths"]]
    return f"{version}\n{json.dumps(told, separators=(',', ':'), ensure_ascii=False)}".encode()


def moved(path: str, location: str) -> str:
    """The absolute path of a schema file, in a checkpoint at `location`."""
    return re.sub(r"^.*(?=/state/\d+/_stateSchema/)", lambda _: location, path)
