"""Sink: writers of logs, for batches and for streams.

Tasks stage what is more than a few records; the driver appends a batch by one idempotent append. So a batch is in the
log once, however often Spark makes it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pyspark_walkeeper._changes import Changes, changes_of
from pyspark_walkeeper._columns import payloads_of, written_column
from walkeeper.errors import InvalidError, UnsupportedError
from walkeeper.idempotent import Staged

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyspark_walkeeper._options import WriteOptions

__all__ = ["BatchWriter", "StreamWriter"]

INLINE_BYTES = 64 * 1024
"""So many bytes of a task travel with its commit message, and are not staged."""
INLINE_ALL_BYTES = 512 * 1024
"""Of all tasks together; more are staged by the driver."""


@dataclass
class Written(WriterCommitMessage):
    """What a task wrote."""

    partition: int
    app_id: str
    version: int
    payloads: list[bytes] = field(default_factory=list)
    staged: Staged | None = None


class _Writing:
    """What batches and streams have in common."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        written_column(schema)
        changes_of(options.place)  # what is wrong with it is told before tasks are made
        if not options.exactly_once and not options.place.gateways:
            raise UnsupportedError("tasks append at-least-once through a gateway: set walkeeper.gateways")
        self._options = options
        self._changes: Changes | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_changes": None}

    def _of(self) -> Changes:
        if self._changes is None:
            self._changes = changes_of(self._options.place)
        return self._changes

    def write_as(self, app_id: str, version: int, partition: int, batches: Iterator[pyarrow.RecordBatch]) -> Written:
        """In a task."""
        written = Written(partition, app_id, version)
        arrays = (payloads_of(batch) for batch in batches)
        if not self._options.exactly_once:
            self._of().append_all(self._options.log, arrays)
            return written
        begin: list[pyarrow.Array] = []
        size = 0
        for array in arrays:
            begin.append(array)
            size += array.nbytes
            if size > INLINE_BYTES:
                staged = _then(begin, arrays)
                written.staged = self._of().stage(self._options.log, app_id, version, staged)
                return written
        written.payloads = [value for array in begin for value in array.cast(pyarrow.binary()).to_pylist()]
        return written

    def append(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver, when all tasks have written: in the order of their partitions."""
        written = sorted((part for part in messages if isinstance(part, Written)), key=lambda part: part.partition)
        if not written or not self._options.exactly_once:
            return
        app_id, version = written[0].app_id, written[0].version
        if any((part.app_id, part.version) != (app_id, version) for part in written):
            raise InvalidError("tasks of different batches are committed together")
        staged = [part.staged for part in written if part.staged is not None]
        payloads = [payload for part in written for payload in part.payloads]
        if staged or sum(map(len, payloads)) + 4 * len(payloads) > INLINE_ALL_BYTES:
            payloads, staged = [], self._stage_all(written)
        self._of().append_once(self._options.log, app_id, version, payloads, staged)

    def discard(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver, when a task has failed. Where all have written, the append was tried: it may be made yet, by
        whoever appends next, and needs what is staged."""
        if None not in messages:
            return
        for part in messages:
            if isinstance(part, Written) and part.staged is not None:
                self._of().discard(part.staged)

    def _stage_all(self, written: Sequence[Written]) -> list[Staged]:
        """The order of partitions counts: small ones between large ones are staged, too, neighbours together."""
        parts: list[Staged] = []
        waiting: list[bytes] = []

        def stage_waiting() -> None:
            if waiting:
                array = pyarrow.array(waiting, pyarrow.large_binary())
                parts.append(self._of().stage(self._options.log, written[0].app_id, written[0].version, [array]))
                waiting.clear()

        for part in written:
            waiting.extend(part.payloads)
            if part.staged is not None:
                stage_waiting()
                parts.append(part.staged)
        stage_waiting()
        return parts


class BatchWriter(_Writing, DataSourceArrowWriter):
    """df.write: an append of its own, or the one of txnAppId and txnVersion."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._app_id = options.app_id or f"write {uuid.uuid4()}"

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Written:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        return self.write_as(self._app_id, self._options.version or 0, context.partitionId(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.append(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.discard(messages)


class StreamWriter(_Writing, DataSourceStreamArrowWriter):
    """df.writeStream: batches of the query, which its checkpoint names and numbers."""

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Written:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        query, batch = (
            context.getLocalProperty("sql.streaming.queryId"),
            context.getLocalProperty("streaming.sql.batchId"),
        )
        assert query is not None
        assert batch is not None
        return self.write_as(f"query {query}", int(batch), context.partitionId(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.append(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.discard(messages)


def _then(begin: Iterable[pyarrow.Array], rest: Iterable[pyarrow.Array]) -> Iterator[pyarrow.Array]:
    yield from begin
    yield from rest
