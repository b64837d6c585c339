"""archive: records of a log to Parquet on any file system, each once, and truncation of what is there."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pyspark.sql import functions

from walkeeper import Log, Position, Segment
from walkeeper.errors import CorruptError, CursorHoldsError, Error, InvalidError, TruncatedError
from walkeeper.gateway import GatewayClient
from walkeeper_spark_checkpoint.jobs._archive_store import COLUMNS, PARTITIONS, ArchiveStore, Commit
from walkeeper_spark_checkpoint.jobs._place import Place, place_of

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["ArchiveReport", "archive", "read_archive"]

COMMIT_BYTES = 4 * 1024**3
COMMIT_SEGMENTS = 64
"""A commit has the records of at most so many log segments, or about so many bytes of them; one segment at least."""
TASK_BYTES = 128 * 1024**2
"""A task writes about so many bytes of payload: the size of a file."""
SEQUENCE_RANGE = 1_000_000
"""Of logs that the application numbers: so many sequence ids share a folder."""
TRIES = 5
"""Of a truncation that a new cursor refuses."""


@dataclass(frozen=True)
class ArchiveReport:
    """What one call of archive() did."""

    log: str
    destination: str
    commits_count: int
    """Made by this call."""
    records_count: int
    """In these."""
    bytes_count: int
    """Of their files."""
    end_sequence_id: int | None
    """All records before it are in the archive now; None: there is no archive yet."""
    truncated_to: int | None
    """The first sequence id that the log has kept; None: it was not truncated."""
    held_by: str | None
    """The cursor that kept the log from being truncated up to the end of the archive."""
    left_overs_count: int
    """Folders and files of archivers that were killed or came second, which are deleted."""

    def __str__(self) -> str:
        lines = [f"archived {self.records_count:,} records of {self.log!r}: {self.bytes_count:,} bytes of Parquet"]
        if self.end_sequence_id is not None:
            lines.append(f"{self.destination} has all records before sequence id {self.end_sequence_id:,}")
        if self.truncated_to is not None:
            held = f": the cursor {self.held_by!r} stands there" if self.held_by else ""
            lines.append(f"the log begins at sequence id {self.truncated_to:,} now{held}")
        if self.left_overs_count:
            lines.append(f"deleted {self.left_overs_count:,} left-overs of earlier runs")
        return "\n".join(lines)


def archive(
    spark: SparkSession,
    log: str,
    destination: str,
    *,
    root: str | os.PathLike[str] | None = None,
    namespace: str | None = None,
    gateways: str | Sequence[str] | None = None,
    token: str | None = None,
    truncate: bool = False,
    partition_by: Literal["day", "hour"] = "day",
    until: datetime | float | None = None,
    include_open: bool = False,
) -> ArchiveReport:
    """Writes the records of a log that are not in the archive yet to `destination`, a folder that Hadoop can write.

    Records of completed log segments are archived; with `include_open` also those of the open one, as far as they are
    durable. `until`: only records stamped before it (an aware datetime, or seconds since 1970).

    Each commit adds a range of records in one step, behind those of the commit before. So a record is in the archive
    once: a call that was killed leaves nothing that read_archive() reads, and the next call goes on behind the last
    commit. Of two archivers at once each commit is one's alone; the other one goes on behind it.

    Files have the columns sequence_id, txid, timestamp, segment and payload, sorted by sequence_id. They lie in folders
    by the day or the hour (UTC) of the record. Of a log that the application numbers, the folders are by ranges of
    sequence ids, and the timestamp is null.

    With `truncate` the log lets go of all that is in the archive, of earlier calls too, but of nothing that a cursor
    needs. Before that the files are looked for. `gateways` and `token` are of the gateway that has the root open, where
    it is a directory; without one this process opens it for writing.

    What is left out of `root`, `namespace`, `gateways` and `token` the environment has, as for format("walkeeper").

    InvalidError: `destination` has the archive of another log, or is partitioned in another way. TruncatedError: the
    log let go of records that were not archived. DamagedError: files of the archive are gone, or records of the log are
    lost. UnsupportedError: the file system cannot make a commit in one step.
    """
    if partition_by not in ("day", "hour"):
        raise InvalidError(f"partition_by is day or hour, not {partition_by!r}")
    place = place_of(root, namespace, gateways, token)
    store = ArchiveStore(spark, destination)
    with place.open(read_only=True) as opened:
        source = _Source(opened.log(log, create=False), partition_by, until, include_open)
        added: list[Commit] = []
        last = store.last()
        while (chosen := source.next_range(store, last)) is not None:
            commit = _written(spark, place, store, source, last, *chosen)
            if commit is not None:
                added.append(commit)
            last = store.last()
        left_overs = store.remove_left_overs()
        truncated_to, held_by = None, None
        if truncate and last is not None:
            truncated_to, held_by = _truncated(place, store, source.log, last)
    return ArchiveReport(
        log,
        store.destination,
        len(added),
        sum(commit.records_count for commit in added),
        sum(commit.bytes_count for commit in added),
        None if last is None else last.end_sequence_id,
        truncated_to,
        held_by,
        left_overs,
    )


def read_archive(spark: SparkSession, destination: str) -> DataFrame:
    """The records that are in the archive: sequence_id, txid, timestamp, segment, payload, and the columns of its
    folders (date, or date and hour, or sequence_range), by which Spark leaves folders out. In no order.

    NotFoundError, CorruptError.
    """
    store = ArchiveStore(spark, destination)
    commits = store.commits()
    partition_by = commits[0].partition_by
    files = [file for commit in commits for file in commit.files]
    return store.frame(files, partition_by).select(*_names(COLUMNS), *_names(PARTITIONS[partition_by]))


def _names(columns: str) -> list[str]:
    return [column.split()[0] for column in columns.split(", ")]


class _Source:
    """The log, and what of it is to be archived."""

    def __init__(self, log: Log, partition_by: str, until: datetime | float | None, include_open: bool) -> None:
        self.log = log
        info = log.info()
        self.log_id, self.txid_source = info.log_id, info.txid_source
        self.partition_by = "sequence" if self.txid_source == "application" else partition_by
        self.segments: list[Segment] = []
        """As next_range() saw them last."""
        self._until = until
        self._include_open = include_open

    def next_range(self, store: ArchiveStore, last: Commit | None) -> tuple[int, int] | None:
        """The sequence ids of the next commit, without the last one; None: there is nothing to archive now."""
        if last is not None:
            self._check_same(store, last)
        info = self.log.info()  # before the segments: what a new one has meanwhile is not taken
        self.segments = self.log.segments()
        end = self._end(int(info.next.sequence_id))
        first = int(info.first.sequence_id)
        begin = first if last is None else last.end_sequence_id
        if begin >= end:
            return None
        if begin < first:
            raise TruncatedError(
                f"records {begin} to {first - 1} of {self.log.name!r} were truncated before they were archived",
                log=self.log.name,
                hint="archive to another destination from here on",
            )
        return begin, min(end, self._behind_some(begin))

    def _end(self, end: int) -> int:
        """Behind the last record that may be archived."""
        for segment in self.segments:
            if not segment.completed and not self._include_open:
                end = min(end, segment.first_sequence_id)
        if self._until is not None:
            try:
                end = min(end, int(self.log.find(time=self._until).sequence_id))
            except TruncatedError:  # all that is left is younger
                return 0
        return end

    def _behind_some(self, begin: int) -> int:
        """The end of a range of some segments that are not too large together."""
        size = count = 0
        for segment, behind in zip(self.segments, self.segments[1:], strict=False):
            if behind.first_sequence_id > begin:
                size += segment.payload_bytes
                count += 1
                if size >= COMMIT_BYTES or count >= COMMIT_SEGMENTS:
                    return behind.first_sequence_id
        return 2**63 - 1

    def task_records(self) -> int:
        """So many records have about TASK_BYTES."""
        size = sum(segment.payload_bytes for segment in self.segments)
        count = sum(segment.records_count for segment in self.segments)
        return max(1, TASK_BYTES * count // max(size, 1))

    def _check_same(self, store: ArchiveStore, last: Commit) -> None:
        if (last.log, last.log_id) != (self.log.name, self.log_id):
            raise InvalidError(
                f"{store.destination} is the archive of the log {last.log!r} (id {last.log_id}), "
                f"not of {self.log.name!r} (id {self.log_id})"
            )
        if last.partition_by != self.partition_by:
            raise InvalidError(
                f"{store.destination} is partitioned by {last.partition_by}, and not by {self.partition_by}"
            )


def _written(
    spark: SparkSession, place: Place, store: ArchiveStore, source: _Source, last: Commit | None, first: int, end: int
) -> Commit | None:
    """The commit with these records; None: another archiver made one meanwhile."""
    number = 0 if last is None else last.number + 1
    folder = store.new_folder(number)
    try:
        records = place.records(
            spark, source.log.name, first, end, {"maxRecordsPerPartition": str(source.task_records())}
        )
        _write(records, source, first, end, store.uri(folder))
        files = store.written(folder)
        _check_written(store.frame(files, source.partition_by), first, end)
        archive_id = uuid.uuid4().hex if last is None else last.archive_id
        commit = Commit(
            number,
            archive_id,
            source.log.name,
            source.log_id,
            source.txid_source,
            source.partition_by,
            first,
            end,
            files,
            time.time_ns() // 1_000_000,
        )
        if store.add(commit):
            return commit
    except Exception:
        newest = store.last()
        if newest is None or newest.number < number:
            store.delete(folder)
            raise  # it is not that another one's left-overs were removed
    store.delete(folder)
    return None


def _write(records: DataFrame, source: _Source, first: int, end: int, uri: str) -> None:
    begins = [
        (segment.first_sequence_id, segment.segment)
        for segment, behind in zip(source.segments, [*source.segments[1:], None], strict=True)
        if segment.first_sequence_id < end and (behind is None or behind.first_sequence_id > first)
    ]
    partitions = _partitions(source.partition_by)
    rows = records.select(
        functions.col("offset").alias("sequence_id"),
        "txid",
        "timestamp",
        _segment_of(begins).alias("segment"),
        functions.col("value").alias("payload"),
        *[column.alias(name) for name, column in partitions.items()],
    )
    rows.sortWithinPartitions(*partitions, "sequence_id").write.partitionBy(*partitions).parquet(uri)


def _segment_of(begins: Sequence[tuple[int, int]]) -> Column:
    """The segment of a record, by halves: the sequence id at which each begins, and its number."""
    if len(begins) == 1:
        return functions.lit(begins[0][1]).cast("long")
    middle = len(begins) // 2
    return functions.when(functions.col("offset") < begins[middle][0], _segment_of(begins[:middle])).otherwise(
        _segment_of(begins[middle:])
    )


def _partitions(partition_by: str) -> dict[str, Column]:
    """The columns that are folders. Days and hours are UTC's, whatever the session's time zone is."""
    if partition_by == "sequence":
        begin = f"offset div {SEQUENCE_RANGE} * {SEQUENCE_RANGE}"
        return {"sequence_range": functions.expr(f"lpad(cast({begin} as string), 19, '0')")}
    date = functions.expr("cast(date_from_unix_date(cast(txid div 86400000 as int)) as string)")
    if partition_by == "day":
        return {"date": date}
    return {"date": date, "hour": functions.expr("cast(txid div 3600000 % 24 as int)")}


def _check_written(frame: DataFrame, first: int, end: int) -> None:
    """CorruptError where the files have not each record of the range, once."""
    number = functions.col("sequence_id")
    (found,) = frame.agg(functions.count(number), functions.min(number), functions.max(number)).collect()
    if tuple(found) != (end - first, first, end - 1):
        written = f"{found[0]} records from {found[1]} to {found[2]}"
        raise CorruptError(f"{written} were written, not {end - first} from {first} to {end - 1}")


def _truncated(place: Place, store: ArchiveStore, log: Log, last: Commit) -> tuple[int, str | None]:
    """Truncates the log up to the end of the archive, or to a cursor before it: where it begins now, and the cursor."""
    first = int(log.info().first.sequence_id)
    for commit in store.commits():
        if commit.end_sequence_id > first:
            store.check_files(commit)
    for attempt in range(TRIES):
        cursors = {name: log.cursor(name, create=False).position for name in log.cursors()}
        holding = min(cursors, key=lambda name: cursors[name].sequence_id, default=None)
        end = last.end_sequence_id
        if holding is not None and cursors[holding].sequence_id < end:
            end = int(cursors[holding].sequence_id)
        else:
            holding = None
        try:
            if end > first:
                _truncate(place, log.name, log.find(sequence_id=end))
            return max(end, first), holding
        except CursorHoldsError:  # one was made since
            if attempt == TRIES - 1:
                raise
    raise AssertionError


def _truncate(place: Place, log: str, position: Position) -> None:
    if place.gateways:
        with GatewayClient(place.gateways, token=place.token) as client:
            client.truncate(log, position)
        return
    try:
        with place.open(read_only=False) as opened:
            opened.log(log, create=False).truncate(position)
    except Error as error:
        error.hint = error.hint or "give the gateway that has the root open by gateways= and token="
        raise
