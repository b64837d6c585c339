"""Source: readers of logs, for batches and for streams."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
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
    LogIds,
    LogRange,
    Offsets,
    at_most_bytes,
    at_most_records,
    from_json,
    split,
    to_json,
)
from pyspark_walkeeper._options import EARLIEST, LATEST, OWN_LOGS, ReadOptions
from walkeeper.errors import (
    Error,
    GapError,
    InvalidError,
    LogDeletedError,
    LogNotFoundError,
    TruncatedError,
    UnavailableError,
)

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

    import walkeeper

__all__ = ["BatchReader", "StreamReader"]

log = logging.getLogger("walkeeper.spark")

BATCH_RECORDS = 65536
BATCH_BYTES = 8 * 1024 * 1024
PATIENCE_S = 30.0
"""For records that the driver has seen."""
END_PATIENCE_S = 2.0
"""For an end that the user names."""


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

    def infos(self) -> dict[str, walkeeper.LogInfo]:
        """What is known of each log now. One that is not there is left out where it may come, or be gone."""
        found: dict[str, walkeeper.LogInfo] = {}
        for name in self.names():
            with self._unless_it_is_lost():
                found[name] = self.open(name).info()
        return found

    def _unless_it_is_lost(self) -> AbstractContextManager[None]:
        return nullcontext() if self._options.fail_on_data_loss else suppress(LogNotFoundError, LogDeletedError)

    def sizes(self, name: str) -> list[tuple[int, int, int]]:
        return [
            (part.first_sequence_id, part.records_count, part.payload_bytes)
            for part in self.open(name).segments()
            if part.records_count
        ]

    def resolve(self, boundary: int | dict[str, int], at_time: float | None, default: int) -> tuple[Offsets, LogIds]:
        """Sequence ids, of what the user gave for each log."""
        named = boundary if isinstance(boundary, dict) else {}
        if at_time is not None and at_time > time.time():
            raise InvalidError("startingTimestamp and endingTimestamp are not in the future")
        infos = self.infos()
        for name in named:
            if name not in infos:
                raise InvalidError(f"offsets name {name!r}, which is not read")
        found: Offsets = {}
        for name, info in infos.items():
            at = named.get(name, default if isinstance(boundary, dict) else boundary)
            if at_time is not None:
                found[name] = self._at_time(self.open(name), at_time)
            elif at == EARLIEST:
                found[name] = int(info.first.sequence_id)
            elif at == LATEST:
                found[name] = int(info.next.sequence_id)
            else:
                self._wait_for(name, at)
                found[name] = at
        return found, {name: info.log_id for name, info in infos.items()}

    def _wait_for(self, name: str, at: int) -> None:
        """Until the log has grown up to there: bookies may know a moment later what its writer was told."""
        deadline = time.monotonic() + END_PATIENCE_S
        while (end := int(self.open(name).info().next.sequence_id)) < at:
            if time.monotonic() >= deadline:
                raise InvalidError(f"offset {at} is behind the end of {name!r}, which is {end}")
            time.sleep(0.01)

    def _at_time(self, opened: walkeeper.Log, at_time: float) -> int:
        try:
            return int(opened.find(time=at_time).sequence_id)
        except TruncatedError:
            return int(opened.info().first.sequence_id)

    def ranges(self, start: Offsets, start_ids: LogIds, end: Offsets, end_ids: LogIds) -> list[LogRange]:
        """What is between; DataLossError where records of it are gone, unless they may be."""
        found: list[LogRange] = []
        for name in sorted(end):
            goes_on = name in start and start_ids[name] == end_ids[name]
            begin = start[name] if goes_on else 0
            if begin >= end[name]:
                continue
            try:
                info = self.open(name).info()
            except LogNotFoundError:
                info = None
            if info is None or info.log_id != end_ids[name]:
                self.lost(f"the log {name!r} is gone, with its records from {begin} to {end[name] - 1}")
                continue
            first = int(info.first.sequence_id)
            if goes_on and begin < first:
                self.lost(f"records {begin} to {min(first, end[name]) - 1} of {name!r} were truncated unread")
            if max(begin, first) < end[name]:
                found.append(LogRange(name, info.log_id, max(begin, first), end[name]))
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
    """The records of a range. Where some are gone meanwhile: DataLossError, or they are passed over.

    The driver knows that they are durable. Bookies that are asked here may know it later, so a reader waits for them;
    UnavailableError where they do not come.
    """
    at = part.start
    while at < part.end:
        try:
            opened = _Logs(options).open(part.log)
            info = opened.info()
            if info.log_id != part.log_id:
                raise LogNotFoundError(f"another log is called {part.log!r} now")
            with opened.reader(sequence_id=at, follow=True) as reader:
                while at < part.end:
                    try:
                        batch = reader.read_arrow(min(part.end - at, BATCH_RECORDS), BATCH_BYTES, PATIENCE_S)
                    except GapError as gap:
                        _pass_over(options, part.log, at, gap.gap.next.sequence_id)
                        at = gap.gap.next.sequence_id
                        continue
                    if batch is None:
                        raise UnavailableError(f"record {at} of {part.log!r} was not readable for {PATIENCE_S:g} s")
                    at += batch.num_rows
                    yield columns_of(batch, wanted, part.log, stamped=info.txid_source != "application")
        except TruncatedError:
            first = min(part.end, int(_Logs(options).open(part.log).info().first.sequence_id))
            _pass_over(options, part.log, at, first)
            at = first
        except (LogDeletedError, LogNotFoundError):
            _pass_over(options, part.log, at, part.end)
            return


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
        return logs.ranges(*start, *end)

    def read(self, partition: Any) -> Iterator[pyarrow.RecordBatch]:
        return read_range(self._options, self._columns, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """spark.readStream. One object answers offsets for as long as the query runs; others read, in tasks."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._columns = check_schema(schema)
        self._target: dict[str, walkeeper.LogInfo] | None = None
        """Of Trigger.AvailableNow: where the query ends."""
        self._last_batch = time.monotonic()

    def initialOffset(self) -> dict[str, Any]:
        """Spark asks for it again where the first batch failed: then it must be the same."""
        resolved, ids = _Logs(self._options).resolve(self._options.start, self._options.start_time, EARLIEST)
        if self._options.cursor is not None:
            resolved = Cursors(self._options).began_at(resolved)
        return to_json(resolved, ids)

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
        begin, end, ids = self._waiting(logs, start)
        waiting = sum(end[name] - begin[name] for name in end)
        if not waiting:
            return start
        if not isinstance(limit, ReadAllAvailable):
            late = time.monotonic() - self._last_batch >= self._options.delay_max
            least = self._options.records_min
            if least is not None and waiting < least and self._target is None and not late:
                return start
            if self._options.bytes_max is not None:
                sizes = {name: logs.sizes(name) for name in end if end[name] > begin[name]}
                end = at_most_bytes(begin, end, sizes, self._options.bytes_max)
            if self._options.records_max is not None:
                end = at_most_records(begin, end, self._options.records_max)
        self._last_batch = time.monotonic()
        return to_json(end, ids)

    def _waiting(self, logs: _Logs, start: dict[str, Any]) -> tuple[Offsets, Offsets, LogIds]:
        """From where to where each log may be read now, and its id. No log of which something was read is left out."""
        begin, ids = from_json(start)
        end = dict(begin)
        for name, info in logs.infos().items():
            behind = int(info.next.sequence_id)
            if self._target is not None:
                target = self._target.get(name)
                if target is None or target.log_id != info.log_id:
                    continue
                behind = min(behind, int(target.next.sequence_id))
            if name in ids and ids[name] != info.log_id:
                logs.lost(f"the log {name!r} is another one than that which was read up to {begin[name]}")
                del begin[name]
            begin.setdefault(name, min(int(info.first.sequence_id), behind))
            ids[name] = info.log_id
            end[name] = max(begin[name], behind)  # bookies that are asked later may know less
        return begin, end, ids

    def reportLatestOffset(self) -> dict[str, Any] | None:
        infos = _Logs(self._options).infos()
        ends = {name: int(info.next.sequence_id) for name, info in infos.items()}
        return to_json(ends, {name: info.log_id for name, info in infos.items()})

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = _Logs(self._options).infos()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[LogRange]:
        return _Logs(self._options).ranges(*from_json(start), *from_json(end))

    def read(self, partition: Any) -> Iterator[pyarrow.RecordBatch]:
        return read_range(self._options, self._columns, partition)

    def commit(self, end: dict[str, Any]) -> None:
        if self._options.cursor is not None:
            Cursors(self._options).advance(from_json(end)[0])
