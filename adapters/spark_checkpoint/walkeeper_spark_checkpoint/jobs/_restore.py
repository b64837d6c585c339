"""restore: the records of an archive to a new log, in order, each once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import pyarrow
from pyspark.sql import functions

from walkeeper import Record
from walkeeper.errors import CorruptError, InvalidError, LogNotFoundError, NotFoundError
from walkeeper_spark_checkpoint.jobs._archive import read_archive
from walkeeper_spark_checkpoint.jobs._archive_store import ArchiveStore, Commit
from walkeeper_spark_checkpoint.jobs._place import Place, place_of
from walkeeper_spark_checkpoint.jobs._restored_log import RestoredLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["RestoreReport", "restore"]


@dataclass(frozen=True)
class RestoreReport:
    """What one call of restore() did."""

    source: str
    log: str
    records_count: int
    """Appended by this call."""
    found_count: int
    """Were in the log already, by a call before."""
    first_sequence_id: int
    """In the archive, of the record that is the first of the log: there it has the sequence id 0."""
    end_sequence_id: int
    """In the archive, behind the last record that was restored."""

    def __str__(self) -> str:
        before = f", {self.found_count:,} were there" if self.found_count else ""
        return f"restored {self.records_count:,} records of {self.source} to {self.log!r}{before}"


def restore(
    spark: SparkSession,
    source: str,
    log: str,
    *,
    root: str | os.PathLike[str] | None = None,
    namespace: str | None = None,
    gateways: str | Sequence[str] | None = None,
    token: str | None = None,
    to_sequence_id: int | None = None,
    to_time: datetime | float | None = None,
) -> RestoreReport:
    """Appends the records of the archive at `source` to a new log, in order: the same payloads with the same txids.

    Up to, and with, the record that has `to_sequence_id` in the archive; or those that were stamped at `to_time` or
    before (an aware datetime, or seconds since 1970).

    The record that is the n-th of the archive gets the sequence id n - 1, and is appended under that condition. So it
    is restored once: where a call was killed, the next one goes on behind what is in the log. Nobody else may append to
    the log meanwhile: of two restorations at once one is fenced.

    As its records keep their txids, the application numbers the log: it cannot be searched by time, and whoever appends
    to it later gives txids.

    The log is written by one task of Spark: through the gateways where there are some, else the task opens the root.
    What is left out of `root`, `namespace`, `gateways` and `token` the environment has.

    InvalidError: the log has other records than the archive, or more than are to be restored. NotFoundError,
    CorruptError: there is no archive, or it is not whole.
    """
    place = place_of(root, namespace, gateways, token)
    store = ArchiveStore(spark, source)
    commits = store.commits()
    first = commits[0].first_sequence_id
    end = _end(spark, source, commits, to_sequence_id, to_time)
    found = behind_last = _found(spark, place, source, log, first, end)
    for commit in commits:
        begin, behind = max(commit.first_sequence_id, first + found), min(commit.end_sequence_id, end)
        if begin < behind:
            number = functions.col("sequence_id")
            records = store.frame(commit.files, commit.partition_by).where((number >= begin) & (number < behind))
            one_task = records.select("sequence_id", "txid", "payload").repartition(1).sortWithinPartitions(number)
            (behind_last,) = one_task.mapInArrow(partial(_append, place, log, first), "next long").collect()[0]
    if behind_last != end - first:
        raise CorruptError(f"{log!r} has {behind_last} records behind the restoration, not {end - first}", log=log)
    return RestoreReport(store.destination, log, end - first - found, found, first, end)


def _end(
    spark: SparkSession,
    source: str,
    commits: Sequence[Commit],
    to_sequence_id: int | None,
    to_time: datetime | float | None,
) -> int:
    """Behind the last record that is to be restored."""
    first, end = commits[0].first_sequence_id, commits[-1].end_sequence_id
    if to_sequence_id is not None and to_time is not None:
        raise InvalidError("a restoration ends at to_sequence_id or at to_time, not at both")
    if to_sequence_id is not None:
        if not first <= to_sequence_id < end:
            raise InvalidError(f"the archive has the records {first} to {end - 1}, and no {to_sequence_id}")
        return to_sequence_id + 1
    if to_time is None:
        return end
    if commits[0].txid_source == "application":
        raise InvalidError("the application numbers the records of this archive: no record has a time")
    if isinstance(to_time, datetime) and to_time.tzinfo is None:
        raise InvalidError("to_time is an aware datetime, or seconds since 1970")
    seconds = to_time.timestamp() if isinstance(to_time, datetime) else to_time
    stamped = read_archive(spark, source).where(functions.col("txid") <= int(seconds * 1000))
    (found,) = stamped.agg(functions.max("sequence_id")).collect()
    if found[0] is None:
        raise InvalidError("every record of the archive is younger than to_time")
    return int(found[0]) + 1


def _found(spark: SparkSession, place: Place, source: str, log: str, first: int, end: int) -> int:
    """How many of the records are in the log. InvalidError where something else is."""
    try:
        with place.open(read_only=True) as opened:
            there = opened.log(log, create=False)
            info = there.info()
            count = int(info.next.sequence_id)
            if not count:
                return 0
            if info.first.sequence_id:
                raise InvalidError(f"{log!r} was truncated: an archive is restored to a new log", log=log)
            if count > end - first:
                raise InvalidError(
                    f"{log!r} has {count} records, and {end - first} are to be restored: name a new log", log=log
                )
            ends = [next(iter(there.reader(sequence_id=number))) for number in (0, count - 1)]
    except (LogNotFoundError, NotFoundError):
        return 0
    for record in ends:
        _check_same(spark, source, log, first, record)
    return count


def _check_same(spark: SparkSession, source: str, log: str, first: int, record: Record) -> None:
    number = first + record.sequence_id
    rows = read_archive(spark, source).where(functions.col("sequence_id") == number).select("txid", "payload").collect()
    if [(row.txid, bytes(row.payload)) for row in rows] != [(record.txid, bytes(record.payload))]:
        raise InvalidError(
            f"record {record.sequence_id} of {log!r} is not record {number} of the archive: name a new log", log=log
        )


def _append(
    place: Place, log: str, first: int, batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    """In a task, which has the records from `next_sequence_id` on at the latest, in order."""
    with RestoredLog(place, log) as restored:
        for batch in batches:
            numbers = batch["sequence_id"].to_pylist()
            begin = max(0, first + restored.next_sequence_id - numbers[0]) if numbers else 0
            if begin >= len(numbers):
                continue  # an attempt of this task before had appended them
            expected = first + restored.next_sequence_id
            if numbers[begin:] != list(range(expected, expected + len(numbers) - begin)):
                raise CorruptError(f"the archive has not each record from {expected} on, once")
            restored.append(batch["payload"].slice(begin), batch["txid"].slice(begin))
        behind = restored.next_sequence_id
    yield pyarrow.RecordBatch.from_pydict({"next": pyarrow.array([behind], pyarrow.int64())})
