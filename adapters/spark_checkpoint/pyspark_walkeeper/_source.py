"""Source: readers of logs, for batches and for streams."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from pyspark_walkeeper import _namespaces
from pyspark_walkeeper._columns import check_schema, columns_of
from pyspark_walkeeper._cursors import Cursors
from pyspark_walkeeper._offsets import (
    LogRange,
    Offsets,
    at_most_bytes,
    at_most_records,
    from_json,
    split,
    to_json,
)
from pyspark_walkeeper._options import EARLIEST, LATEST, OWN_LOGS, ReadOptions
from walkeeper.errors import Error, GapError, InvalidError, LogDeletedError, LogNotFoundError, TruncatedError

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

    import walkeeper

__all__ = ["BatchReader", "StreamReader"]

log = logging.getLogger("walkeeper.spark")

BATCH_RECORDS = 65536
BATCH_BYTES = 8 * 1024 * 1024


class _Logs:
    """What is known of the logs that are read."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def names(self) -> list[str]:
        if self._options.logs is not None:
            return list(self._options.logs)
        assert self._options.pattern is not None
        pattern = self._options.pattern
        names = self._namespace().logs()
        return sorted(name for name in names if pattern.fullmatch(name) and not name.startswith(OWN_LOGS))

    def open(self, name: str) -> walkeeper.Log:
        return self._namespace().log(name, create=False)

    def first(self, name: str) -> int:
        """The sequence id of the first record that is there."""
        return int(self.open(name).info().first.sequence_id)

    def ends(self) -> Offsets:
        """Behind the last record of each log. A log that is not there yet is left out where it may come."""
        found = {name: self._end(name) for name in self.names()}
        return {name: end for name, end in found.items() if end is not None}

    def _end(self, name: str) -> int | None:
        try:
            return int(self.open(name).info().next.sequence_id)
        except LogNotFoundError:
            if self._options.fail_on_data_loss:
                raise
            return None

    def log_id(self, name: str) -> int:
        return self.open(name).info().log_id

    def sizes(self, name: str) -> list[tuple[int, int, int]]:
        return [
            (part.first_sequence_id, part.records_count, part.payload_bytes)
            for part in self.open(name).segments()
            if part.records_count
        ]

    def resolve(self, boundary: int | dict[str, int], at_time: float | None, default: int) -> Offsets:
        """Sequence ids, of what the user gave for each log."""
        found: Offsets = {}
        named = boundary if isinstance(boundary, dict) else {}
        names = self.names()
        for name in named:
            if name not in names:
                raise InvalidError(f"offsets name {name!r}, which is not read")
        if at_time is not None and at_time > time.time():
            raise InvalidError("startingTimestamp and endingTimestamp are not in the future")
        for name in names:
            try:
                opened = self.open(name)
            except LogNotFoundError:
                if self._options.fail_on_data_loss or isinstance(boundary, dict):
                    raise
                continue
            info = opened.info()
            at = named.get(name, default if isinstance(boundary, dict) else boundary)
            if at_time is not None:
                found[name] = self._at_time(opened, at_time)
            elif at == EARLIEST:
                found[name] = int(info.first.sequence_id)
            elif at == LATEST:
                found[name] = int(info.next.sequence_id)
            elif at > info.next.sequence_id:
                raise InvalidError(f"offset {at} is behind the end of {name!r}, which is {info.next.sequence_id}")
            else:
                found[name] = at
        return found

    def _at_time(self, opened: walkeeper.Log, at_time: float) -> int:
        try:
            return int(opened.find(time=at_time).sequence_id)
        except TruncatedError:
            return int(opened.info().first.sequence_id)

    def ranges(self, start: Offsets, end: Offsets) -> list[LogRange]:
        """What is between; InvalidError where records of it are gone, unless they may be."""
        found: list[LogRange] = []
        for name in sorted(end):
            begin = start.get(name, 0)
            if begin == end[name]:
                continue
            try:
                first = self.first(name)
            except LogNotFoundError:
                self.lost(f"the log {name!r} is gone, with its records from {begin} to {end[name] - 1}")
                continue
            if begin > end[name]:  # another log has the name now
                begin = 0
            elif name in start and begin < min(first, end[name]):
                self.lost(
                    f"records {begin} to {min(first, end[name]) - 1} of {name!r} were truncated before they were read"
                )
            begin = max(begin, first)
            if begin < end[name]:
                found.append(LogRange(name, begin, end[name]))
        return split(found, self._options.partitions_min, self._options.partition_records_max)

    def lost(self, text: str) -> None:
        """DataLossError, unless it may be."""
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{text}. With failOnDataLoss=false they are passed over")
        log.warning("%s", text)

    def _namespace(self) -> walkeeper.Namespace:
        return _namespaces.to_read(self._options.place)


class DataLossError(Error):
    """Records that a query was to read are gone."""


def read_range(options: ReadOptions, wanted: Sequence[str], part: LogRange) -> Iterator[pyarrow.RecordBatch]:
    """The records of a range. Where some are gone meanwhile: DataLossError, or they are passed over."""
    opened = _Logs(options).open(part.log)
    stamped = opened.info().txid_source != "application"
    at = part.start
    while at < part.end:
        try:
            with opened.reader(sequence_id=at) as reader:
                while at < part.end:
                    try:
                        batch = reader.read_arrow(min(part.end - at, BATCH_RECORDS), BATCH_BYTES)
                    except GapError as gap:
                        _pass_over(options, part.log, at, gap.gap.next.sequence_id)
                        at = gap.gap.next.sequence_id
                        continue
                    if batch is None:  # another log has the name now
                        _pass_over(options, part.log, at, part.end)
                        return
                    at += batch.num_rows
                    yield columns_of(batch, wanted, part.log, stamped=stamped)
        except (TruncatedError, LogDeletedError, LogNotFoundError) as gone:
            first = part.end if not isinstance(gone, TruncatedError) else min(part.end, _Logs(options).first(part.log))
            _pass_over(options, part.log, at, first)
            at = first


def _pass_over(options: ReadOptions, name: str, start: int, end: int) -> None:
    text = f"records {start} to {end - 1} of {name!r} are gone"
    if options.fail_on_data_loss:
        raise DataLossError(f"{text}. With failOnDataLoss=false they are passed over")
    log.warning("%s", text)


class BatchReader(DataSourceReader):
    """spark.read: what is there when the query is planned."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._columns = check_schema(schema)

    def partitions(self) -> Sequence[LogRange]:
        logs = _Logs(self._options)
        start = logs.resolve(self._options.start, self._options.start_time, EARLIEST)
        end = logs.resolve(self._options.end, self._options.end_time, LATEST)
        return logs.ranges(start, end)

    def read(self, partition: Any) -> Iterator[pyarrow.RecordBatch]:
        return read_range(self._options, self._columns, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """spark.readStream. One object answers offsets for as long as the query runs; others read, in tasks."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._columns = check_schema(schema)
        self._target: Offsets | None = None
        """Of Trigger.AvailableNow: where the query ends."""
        self._last_batch = time.monotonic()
        self._log_ids: dict[str, int] = {}

    def initialOffset(self) -> dict[str, Any]:
        """Spark asks for it again where the first batch failed: then it must be the same."""
        resolved = _Logs(self._options).resolve(self._options.start, self._options.start_time, EARLIEST)
        if self._options.cursor is not None:
            resolved = Cursors(self._options).began_at(resolved)
        return to_json(resolved)

    def getDefaultReadLimit(self) -> ReadLimit:
        """One of the limits; latestOffset() looks at all of them. Where there is one, Spark asks with it or, to read
        all, with ReadAllAvailable."""
        if self._options.records_max is not None:
            return ReadMaxRows(self._options.records_max)
        if self._options.bytes_max is not None:
            return ReadMaxBytes(self._options.bytes_max)
        if self._options.records_min is not None:
            return ReadMinRows(self._options.records_min)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        logs = _Logs(self._options)
        begin = from_json(start)
        end = self._ends(logs, begin)
        begin |= {name: min(logs.first(name), end[name]) for name in end if name not in begin}
        if gone_back := {name for name in end if end[name] < begin[name]}:
            return to_json(end | {name: at for name, at in begin.items() if name not in gone_back})
        waiting = sum(end[name] - begin[name] for name in end)
        least = self._options.records_min
        if not waiting:
            return start
        if not isinstance(limit, ReadAllAvailable):
            late = time.monotonic() - self._last_batch >= self._options.delay_max
            if least is not None and waiting < least and self._target is None and not late:
                return start
            if self._options.bytes_max is not None:
                sizes = {name: logs.sizes(name) for name in end if end[name] > begin[name]}
                end = at_most_bytes(begin, end, sizes, self._options.bytes_max)
            if self._options.records_max is not None:
                end = at_most_records(begin, end, self._options.records_max)
        self._last_batch = time.monotonic()
        return to_json(end)

    def _ends(self, logs: _Logs, begin: Offsets) -> Offsets:
        """Behind what may be read of each log; none of which something was read is left out."""
        ends = logs.ends()
        for name, end in ends.items():
            known = self._log_ids.setdefault(name, log_id := logs.log_id(name))
            if known != log_id or end < begin.get(name, 0):
                logs.lost(f"the log {name!r} is another one than that which was read up to {begin.get(name, 0)}")
                self._log_ids[name] = log_id
        if self._target is not None:
            ends = {name: min(end, self._target[name]) for name, end in ends.items() if name in self._target}
            ends = {name: max(end, begin.get(name, 0)) for name, end in ends.items()}
        return begin | ends

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return to_json(_Logs(self._options).ends())

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = _Logs(self._options).ends()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[LogRange]:
        return _Logs(self._options).ranges(from_json(start), from_json(end))

    def read(self, partition: Any) -> Iterator[pyarrow.RecordBatch]:
        return read_range(self._options, self._columns, partition)

    def commit(self, end: dict[str, Any]) -> None:
        if self._options.cursor is not None:
            Cursors(self._options).advance(from_json(end))
