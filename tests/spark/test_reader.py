"""The source of format("walkeeper"), asked as Spark asks it: offsets, ranges and columns. No JVM."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows
from pyspark.sql.types import LongType, StringType, StructField, StructType

import walkeeper
from pyspark_walkeeper import _gateway_changes, _namespaces, _source
from pyspark_walkeeper._columns import SCHEMA
from pyspark_walkeeper._options import read_options
from pyspark_walkeeper._source import BatchReader, DataLossError, StreamReader
from walkeeper.gateway import Gateway, GatewayClient

ADAPTER = Path(__file__).resolve().parents[2] / "adapters" / "spark_checkpoint"
LOOKS_AT_A_CURSOR = """
import sys
from pyspark_walkeeper._gateway_changes import GatewayChanges
from pyspark_walkeeper._options import Place

print(GatewayChanges(Place(None, None, (sys.argv[1],), sys.argv[2])).cursor("a", "q"))
"""


class Logs:
    """A directory that a gateway of this process writes."""

    def __init__(self, place: Path) -> None:
        self.gateway = Gateway(place)
        self.client = GatewayClient(self.gateway.addresses, token=self.gateway.token)
        self._options = {
            "walkeeper.root": str(place),
            "walkeeper.gateways": ",".join(self.gateway.addresses),
            "walkeeper.token": self.gateway.token,
        }

    def add(self, name: str, count: int, size: int = 0) -> None:
        self.client.open_log(name, segment_bytes=1024 * 1024)
        begin = self.client.log_info(name).next.sequence_id
        self.client.append_many(name, [b"%d" % number + b"." * size for number in range(begin, begin + count)])

    def truncate(self, name: str, sequence_id: int) -> None:
        self.client.truncate(name, self.client.find(name, sequence_id=sequence_id))

    def stream(self, **options: str) -> StreamReader:
        return StreamReader(read_options({**self._options, **options}, streaming=True), SCHEMA)

    def batch(self, schema: StructType = SCHEMA, **options: str) -> BatchReader:
        return BatchReader(read_options({**self._options, **options}, streaming=False), schema)


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    made = Logs(tmp_path / "wal")
    yield made
    _gateway_changes._close_all()
    _namespaces._close_all()
    made.client.close()
    made.gateway.close()


def plain(offset: dict[str, Any] | None) -> dict[str, int]:
    """Without the ids of logs."""
    assert offset is not None
    return {log: of["0"] for log, of in offset.items()}


def offsets(reader: StreamReader, start: dict[str, Any]) -> list[int]:
    """Of the records of the next batch."""
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    return rows(reader, reader.partitions(start, end))


def rows(reader: BatchReader | StreamReader, partitions: Any) -> list[int]:
    return [offset.as_py() for part in partitions for batch in reader.read(part) for offset in batch.column("offset")]


def test_columns_are_kafkas(logs: Logs) -> None:
    before = time.time()
    logs.add("orders", 3)
    reader = logs.batch(path="orders")
    (part,) = reader.partitions()
    (batch,) = reader.read(part)
    table = batch.to_pydict()
    assert table["key"] == [None] * 3
    assert table["value"] == [b"0", b"1", b"2"]
    assert (table["topic"], table["partition"], table["offset"]) == (["orders"] * 3, [0] * 3, [0, 1, 2])
    assert all(before - 1 <= stamp.timestamp() <= time.time() + 1 for stamp in table["timestamp"])
    assert table["timestampType"] == [1] * 3
    assert [stamp.timestamp() for stamp in table["timestamp"]] == [txid / 1000 for txid in table["txid"]]


def test_txids_of_the_application_are_no_times(logs: Logs) -> None:
    logs.client.open_log("numbered")
    logs.client.append_many("numbered", [b"x", b"y"], txids=[5, 9])
    reader = logs.batch(path="numbered")
    (batch,) = reader.read(reader.partitions()[0])
    assert batch.to_pydict() | {"txid": None} == {
        "key": [None] * 2, "value": [b"x", b"y"], "topic": ["numbered"] * 2, "partition": [0, 0], "offset": [0, 1],
        "timestamp": [None] * 2, "timestampType": [None] * 2, "txid": None,
    }  # fmt: skip
    assert batch.column("txid").to_pylist() == [5, 9]


def test_a_schema_of_the_user_chooses_columns(logs: Logs) -> None:
    logs.add("orders", 2)
    reader = logs.batch(StructType([StructField("offset", LongType())]), path="orders")
    (batch,) = reader.read(reader.partitions()[0])
    assert batch.schema == pyarrow.schema([("offset", pyarrow.int64())])
    with pytest.raises(walkeeper.InvalidError, match="no column 'id'"):
        logs.batch(StructType([StructField("id", LongType())]), path="orders")
    with pytest.raises(walkeeper.InvalidError, match="value is binary, not string"):
        logs.batch(StructType([StructField("value", StringType())]), path="orders")


def test_a_batch_reads_from_where_to_where_it_is_told(logs: Logs) -> None:
    logs.add("a", 10)
    stamp = time.time()
    while time.time() < stamp + 0.01:
        time.sleep(0.001)
    logs.add("b", 5)
    logs.add("a", 10)
    reader = logs.batch(subscribe="a,b")
    assert rows(reader, reader.partitions()) == [*range(20), *range(5)]
    reader = logs.batch(path="a", startingOffsets='{"a": {"0": 3}}', endingOffsets='{"a": {"0": 7}}')
    assert rows(reader, reader.partitions()) == [3, 4, 5, 6]
    reader = logs.batch(subscribePattern="[ab]", startingTimestamp=str(int(stamp * 1000) + 1), minPartitions="4")
    parts = reader.partitions()
    assert len(parts) >= 4
    assert rows(reader, parts) == [*range(10, 20), *range(5)]
    reader = logs.batch(path="a", endingTimestamp=str(int(stamp * 1000) + 1))
    assert rows(reader, reader.partitions()) == list(range(10))
    for wrong in ('{"a": {"0": 21}}', '{"c": {"0": 0}}'):
        with pytest.raises(walkeeper.InvalidError):
            logs.batch(path="a", startingOffsets=wrong).partitions()
    with pytest.raises(walkeeper.LogNotFoundError):
        logs.batch(path="none").partitions()


def test_a_stream_goes_on_where_it_was(logs: Logs) -> None:
    logs.add("a", 5)
    reader = logs.stream(path="a")
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert plain(end) == {"a": 5}
    assert reader.reportLatestOffset() == end
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    logs.add("a", 2)
    assert offsets(reader, end) == [5, 6]


def test_limits_hold_but_where_spark_wants_all(logs: Logs) -> None:
    logs.add("a", 900)
    logs.add("b", 100)
    reader = logs.stream(subscribe="a,b", maxOffsetsPerTrigger="100")
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(100)
    assert plain(reader.latestOffset(start, limit)) == {"a": 90, "b": 10}
    assert plain(reader.latestOffset(start, ReadAllAvailable())) == {"a": 900, "b": 100}


def test_a_limit_of_bytes_counts_payloads(logs: Logs) -> None:
    logs.add("a", 2000, size=1000)
    reader = logs.stream(path="a", maxBytesPerTrigger=str(100_000))
    assert reader.getDefaultReadLimit() == ReadMaxBytes(100_000)
    assert 95 <= len(offsets(reader, reader.initialOffset())) <= 100


def test_few_records_wait_for_more_but_not_for_ever(logs: Logs) -> None:
    logs.add("a", 5)
    reader = logs.stream(path="a", minOffsetsPerTrigger="10")
    start = reader.initialOffset()
    assert reader.getDefaultReadLimit() == ReadMinRows(10)
    assert offsets(reader, start) == []
    logs.add("a", 5)
    assert offsets(reader, start) == list(range(10))
    hasty = logs.stream(path="a", minOffsetsPerTrigger="100", maxTriggerDelay="0ms")
    assert offsets(hasty, start) == list(range(10))
    rest = logs.stream(path="a", minOffsetsPerTrigger="100")
    rest.prepareForTriggerAvailableNow()
    assert offsets(rest, start) == list(range(10))


def test_available_now_ends_where_the_logs_ended(logs: Logs) -> None:
    logs.add("a", 10)
    reader = logs.stream(subscribePattern=".*", maxOffsetsPerTrigger="4")
    reader.prepareForTriggerAvailableNow()
    logs.add("a", 10)
    logs.add("b", 10)
    at, seen = reader.initialOffset() | {}, []
    at.pop("b", None)
    while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
        seen += rows(reader, reader.partitions(at, end))
        at = end
    assert seen == list(range(10))


def test_a_log_that_comes_is_read_from_its_beginning(logs: Logs) -> None:
    logs.add("a.1", 2)
    reader = logs.stream(subscribePattern=r"a\..*")
    start = reader.initialOffset()
    assert plain(start) == {"a.1": 0}
    logs.add("a.2", 3)
    logs.add("b", 1)
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert plain(end) == {"a.1": 2, "a.2": 3}
    assert rows(reader, reader.partitions(start, end)) == [0, 1, 0, 1, 2]


def test_latest_is_kept_before_it_is_told(logs: Logs) -> None:
    """Spark does not keep where a query began: behind a failed first batch it asks once more."""
    logs.add("a", 5)
    assert plain(logs.stream(path="a", startingOffsets="latest", cursorName="q").initialOffset()) == {"a": 5}
    logs.add("a", 3)
    again = logs.stream(path="a", startingOffsets="latest", cursorName="q")
    assert offsets(again, again.initialOffset()) == [5, 6, 7]
    assert plain(logs.stream(path="a", startingOffsets="latest", cursorName="other").initialOffset()) == {"a": 8}


def test_a_cursor_moves_with_commits_and_holds_truncation(logs: Logs) -> None:
    logs.add("a", 10)
    reader = logs.stream(path="a", cursorName="q")
    start = reader.initialOffset()
    assert plain(start) == {"a": 0}
    with pytest.raises(walkeeper.CursorHoldsError):
        logs.truncate("a", 5)
    for offset in (6, 4):
        reader.commit({"a": start["a"] | {"0": offset}})
    assert logs.client.cursor("a", "q", create=False).sequence_id == 6
    logs.truncate("a", 5)
    assert plain(logs.stream(path="a", cursorName="q").initialOffset()) == {"a": 6}


def test_what_was_truncated_unread_is_told(logs: Logs) -> None:
    logs.add("a", 10)
    reader = logs.stream(path="a")
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    parts = reader.partitions(start, end)
    logs.truncate("a", 4)
    with pytest.raises(DataLossError, match="records 0 to 3 of 'a' were truncated"):
        reader.partitions(start, end)
    with pytest.raises(DataLossError, match="records 0 to 3 of 'a' are gone"):
        rows(reader, parts)
    loose = logs.stream(path="a", failOnDataLoss="false")
    assert rows(loose, loose.partitions(start, end)) == rows(loose, parts) == [4, 5, 6, 7, 8, 9]
    logs.client.delete_log("a")
    with pytest.raises(DataLossError, match="the log 'a' is gone, with its records from 0 to 9"):
        reader.partitions(start, end)
    assert loose.partitions(start, end) == []
    assert loose.latestOffset(end, ReadAllAvailable()) == end


def test_a_directory_is_changed_through_its_gateway(logs: Logs, tmp_path: Path) -> None:
    logs.add("a", 1)
    alone = StreamReader(
        read_options({"walkeeper.root": str(tmp_path / "wal"), "path": "a", "cursorName": "q"}, streaming=True), SCHEMA
    )
    with pytest.raises(walkeeper.InvalidError, match=r"walkeeper\.gateways"):
        alone.initialOffset()


def test_a_process_that_ends_closes_its_connections(logs: Logs) -> None:
    logs.add("a", 1)
    logs.client.cursor("a", "q")
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", LOOKS_AT_A_CURSOR]
    done = subprocess.run(
        [*command, logs.gateway.addresses[0], logs.gateway.token],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ADAPTER)}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    assert "ResourceWarning" not in done.stderr


def test_a_log_that_was_read_wholly_may_go(logs: Logs) -> None:
    """As daily logs do."""
    logs.add("a.1", 3)
    logs.add("a.2", 2)
    reader = logs.stream(subscribePattern=r"a\..*")
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    logs.client.delete_log("a.1")
    logs.add("a.2", 1)
    assert offsets(reader, end) == [2]


def test_a_log_that_was_made_again_is_another_log(logs: Logs) -> None:
    logs.add("a", 10)
    reader, loose = logs.stream(path="a"), logs.stream(path="a", failOnDataLoss="false")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert loose.latestOffset(start, ReadAllAvailable()) == end
    logs.client.delete_log("a")
    logs.add("a", 4)
    with pytest.raises(DataLossError, match="another one than that which was read up to 10"):
        reader.latestOffset(end, ReadAllAvailable())
    with pytest.raises(DataLossError, match="another one"):  # a query that was started again
        logs.stream(path="a").latestOffset(end, ReadAllAvailable())
    assert offsets(loose, end) == [0, 1, 2, 3]
    logs.add("a", 20)
    with pytest.raises(DataLossError, match="another one"):
        reader.latestOffset(end, ReadAllAvailable())


def test_a_pattern_passes_over_walkeepers_own_logs(logs: Logs) -> None:
    logs.add("a", 1)
    logs.add("b", 1)
    logs.client.append_once("b", "app", 1, [b"y"])
    assert any(name.startswith("transactions/") for name in logs.client.logs())
    assert plain(logs.stream(subscribePattern=".*").initialOffset()) == {"a": 0, "b": 0}


def test_loss_that_may_be_ends_no_query(logs: Logs) -> None:
    logs.add("a", 5)
    options = {"failOnDataLoss": "false", "cursorName": "q", "maxBytesPerTrigger": "100"}
    reader = logs.stream(subscribe="a,none", **options)
    start = reader.initialOffset()
    assert plain(start) == {"a": 0}
    end = reader.latestOffset(start, ReadAllAvailable())
    parts = reader.partitions(start, end)
    logs.client.delete_log("a")
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == start
    logs.add("a", 2)
    assert rows(reader, parts) == []
    reader.commit(end)


@pytest.mark.parametrize("fails", ["true", "false"])
def test_what_the_driver_has_seen_is_waited_for(logs: Logs, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    """Bookies that an executor asks may know later what is durable. That is no loss, and nothing is passed over."""
    logs.add("a", 3)
    reader = logs.stream(path="a", failOnDataLoss=fails)
    start = reader.initialOffset()
    (part,) = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    part.end = 5
    later = threading.Timer(0.5, logs.add, ("a", 2))
    later.start()
    assert rows(reader, [part]) == [0, 1, 2, 3, 4]
    later.join()
    monkeypatch.setattr(_source, "PATIENCE_S", 0.05)
    part.end = 6
    with pytest.raises(walkeeper.UnavailableError, match="record 5 of 'a' was not readable"):
        rows(reader, [part])


def test_an_end_that_is_known_later_is_no_other_log(logs: Logs) -> None:
    logs.add("a", 3)
    reader = logs.stream(path="a")
    seen = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    ahead = {"a": seen["a"] | {"0": 5}}
    assert reader.latestOffset(ahead, ReadAllAvailable()) == ahead
    logs.add("a", 3)
    assert offsets(reader, ahead) == [5]


def test_a_time_that_is_not_yet_is_no_start(logs: Logs) -> None:
    logs.add("a", 1)
    with pytest.raises(walkeeper.InvalidError, match="not in the future"):
        logs.stream(path="a", startingTimestamp=str(int(time.time() * 1000) + 60_000)).initialOffset()


def test_an_end_that_the_user_knows_already_is_waited_for(logs: Logs) -> None:
    logs.add("a", 3)
    later = threading.Timer(0.3, logs.add, ("a", 2))
    later.start()
    reader = logs.batch(path="a", endingOffsets='{"a": {"0": 5}}')
    assert rows(reader, reader.partitions()) == [0, 1, 2, 3, 4]
    later.join()
