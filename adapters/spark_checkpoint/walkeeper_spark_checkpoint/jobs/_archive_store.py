"""ArchiveStore: what is in the destination of an archive: commits, and files of Parquet.

    DESTINATION/_walkeeper/00000000000000000007.json             commit 7: a range of sequence ids, and its files
    DESTINATION/commit=00000000000000000007-<id>/date=…/….parquet

A commit is one file, which is put where there is none of its number. A folder of files counts where a commit names it.
The number in a folder's name is that of the commit it was written for: once there is a commit of that number, every
other folder with it is left over, and may go at any time.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from walkeeper.errors import CorruptError, DamagedError, NotFoundError, UnsupportedError
from walkeeper_spark_checkpoint.jobs._hadoop_files import FoundFile, HadoopFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ArchiveStore", "Commit"]

FORMAT = 1
COMMITS = "_walkeeper"
_FOLDER, _SUFFIX = "commit=", ".json"
_DIGITS = 20
COLUMNS = "sequence_id long, txid long, timestamp timestamp, segment long, payload binary"
PARTITIONS = {
    "day": "date string",
    "hour": "date string, hour int",
    "sequence": "sequence_range string",
}
"""The folders of each kind of partition, as columns."""


@dataclass(frozen=True)
class Commit:
    """Records that became part of the archive together."""

    number: int
    """From 0."""
    archive_id: str
    """The same in all commits of an archive."""
    log: str
    log_id: int
    txid_source: str
    partition_by: str
    first_sequence_id: int
    end_sequence_id: int
    """Behind the last record; the next commit begins there."""
    files: tuple[FoundFile, ...]
    created_ms: int
    """Wall clock, milliseconds since 1970."""

    @property
    def records_count(self) -> int:
        return self.end_sequence_id - self.first_sequence_id

    @property
    def bytes_count(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def folder(self) -> str:
        return self.files[0].path.partition("/")[0]

    def serialise(self) -> bytes:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1).encode()

    @classmethod
    def parse(cls, data: bytes, what: str) -> Commit:
        """CorruptError, UnsupportedError."""
        try:
            found: dict[str, Any] = json.loads(data)
            version = found.pop("format")
            if version != FORMAT:
                raise UnsupportedError(f"{what} has format {version}, known is {FORMAT}")
            files = tuple(FoundFile(**file) for file in found.pop("files"))
            made = cls(**found, files=files)
            good = bool(files) and made.records_count > 0 and made.partition_by in PARTITIONS
        except (ValueError, TypeError, KeyError, AttributeError) as wrong:
            raise CorruptError(f"{what} is no commit of an archive: {wrong!r}") from None
        if not good:
            raise CorruptError(f"{what} is no commit of an archive: it has no files, or no records")
        return made


class ArchiveStore:
    """An archive that is there, or is to be made."""

    def __init__(self, spark: SparkSession, destination: str) -> None:
        self._spark = spark
        self._files = HadoopFiles(spark, destination)

    @property
    def destination(self) -> str:
        """Its URI."""
        return self._files.folder

    # ---- commits ----

    def last(self) -> Commit | None:
        """The newest commit; None: there is no archive yet. CorruptError."""
        numbers = self._numbers()
        return self._commit(numbers[-1]) if numbers else None

    def commits(self) -> list[Commit]:
        """All of them, each beginning where the one before ends. NotFoundError, CorruptError."""
        found = [self._commit(number) for number in self._numbers()]
        if not found:
            raise NotFoundError(f"there is no archive at {self.destination}")
        end = found[0].first_sequence_id
        for commit in found:
            if commit.archive_id != found[0].archive_id or commit.first_sequence_id != end:
                raise CorruptError(f"commit {commit.number} of {self.destination} does not follow the one before")
            end = commit.end_sequence_id
        return found

    def add(self, commit: Commit) -> bool:
        """Makes it part of the archive, durably. False: there is another commit of its number."""
        self._files.make_durable([file.path for file in commit.files])
        return self._files.put_if_absent(_name(commit.number), commit.serialise())

    # ---- files ----

    def new_folder(self, number: int) -> str:
        """A folder for the files of that commit, which nobody has."""
        return f"{_FOLDER}{number:0{_DIGITS}}-{uuid.uuid4().hex}"

    def uri(self, folder: str) -> str:
        """Where Spark writes the files of a folder."""
        return self._files.uri(folder)

    def written(self, folder: str) -> tuple[FoundFile, ...]:
        """The files of a folder."""
        return tuple(sorted(self._files.files(folder), key=lambda file: file.path))

    def frame(self, files: Sequence[FoundFile], partition_by: str) -> DataFrame:
        """The records in these files."""
        read = self._spark.read.schema(f"{COLUMNS}, {PARTITIONS[partition_by]}").option("basePath", self.destination)
        return read.parquet(*[self._files.uri(file.path) for file in files])

    def check_files(self, commit: Commit) -> None:
        """DamagedError where a file of a commit is gone, or has another size."""
        there = {file.path: file.size for file in self.written(commit.folder)}
        for file in commit.files:
            if there.get(file.path) != file.size:
                size = there.get(file.path)
                now = "is gone" if size is None else f"has {size} bytes"
                raise DamagedError(f"{self._files.uri(file.path)} {now}; it was archived with {file.size}")

    def delete(self, folder: str) -> None:
        """A folder that no commit names."""
        self._files.delete(folder)

    def remove_left_overs(self) -> int:
        """Deletes what archivers left that were killed, or came second; says how many folders and files these were."""
        numbers = self._numbers()
        if not numbers:
            return 0
        left = [name for name in self._files.names() if _number(name, _FOLDER) in range(numbers[-1] + 1)]
        named = {self._commit(number).folder for number in {_number(name, _FOLDER) for name in left}}
        gone = [name for name in left if name not in named]
        temporary = [name for name in self._files.names(COMMITS) if _number(name, ".") in range(numbers[-1] + 1)]
        gone += [f"{COMMITS}/{name}" for name in temporary]
        for name in gone:
            self._files.delete(name)
        return len(gone)

    def _numbers(self) -> list[int]:
        """Of all commits, rising. CorruptError where one is missing."""
        names = [name for name in self._files.names(COMMITS) if name.endswith(_SUFFIX) and not name.startswith(".")]
        numbers = [_number(name, "") for name in names]
        if numbers != list(range(len(numbers))):
            missing = next(number for number in range(len(numbers)) if number not in numbers)
            raise CorruptError(f"the archive at {self.destination} has no commit {missing}, and later ones")
        return list(range(len(numbers)))

    def _commit(self, number: int) -> Commit:
        name = _name(number)
        commit = Commit.parse(self._files.read(name), self._files.uri(name))
        if commit.number != number:
            raise CorruptError(f"{self._files.uri(name)} says that it is commit {commit.number}")
        return commit


def _name(number: int) -> str:
    return f"{COMMITS}/{number:0{_DIGITS}}{_SUFFIX}"


def _number(name: str, prefix: str) -> int:
    """The number in a name, behind the prefix; -1: it has none."""
    digits = name[len(prefix) : len(prefix) + _DIGITS]
    return int(digits) if name.startswith(prefix) and len(digits) == _DIGITS and digits.isdigit() else -1
