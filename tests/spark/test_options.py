"""Options and offsets of format("walkeeper"): no Spark, no logs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_walkeeper import backlog
from pyspark_walkeeper._offsets import LogRange, at_most_bytes, at_most_records, from_json, split, to_json
from pyspark_walkeeper._options import EARLIEST, LATEST, Place, read_options, write_options
from walkeeper.errors import InvalidError

ROOT = {"walkeeper.root": "/var/wal"}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROOT", "NAMESPACE", "GATEWAYS", "TOKEN", "TOKEN_FILE"):
        monkeypatch.delenv(f"WALKEEPER_{name}", raising=False)


def test_what_is_read_is_said_as_to_kafkas_source() -> None:
    assert read_options({**ROOT, "path": "orders"}, streaming=False).logs == ("orders",)
    assert read_options({**ROOT, "subscribe": "b, a,b"}, streaming=True).logs == ("a", "b")
    assert read_options({**ROOT, "assign": '{"b": [0], "a": [0]}'}, streaming=True).logs == ("a", "b")
    pattern = read_options({**ROOT, "subscribePattern": "a.*"}, streaming=True).pattern
    assert pattern is not None
    assert pattern.fullmatch("abc")
    read = read_options(
        {
            **ROOT, "path": "a", "startingOffsets": '{"a": {"0": 7}}', "maxOffsetsPerTrigger": "10",
            "minOffsetsPerTrigger": "5", "maxTriggerDelay": "90s", "maxBytesPerTrigger": "99", "minPartitions": "3",
            "maxRecordsPerPartition": "4", "failOnDataLoss": "FALSE", "cursorName": "c",
        },
        streaming=True,
    )  # fmt: skip
    assert (read.start, read.records_max, read.records_min, read.delay_max) == ({"a": 7}, 10, 5, 90)
    assert (read.bytes_max, read.partitions_min, read.partition_records_max) == (99, 3, 4)
    assert (read.fail_on_data_loss, read.cursor) == (False, "c")
    assert read_options({**ROOT, "path": "a", "startingOffsets": "EARLIEST"}, streaming=True).start == EARLIEST
    assert read_options({**ROOT, "path": "a", "startingTimestamp": "1500"}, streaming=True).start_time == 1.5


def test_the_environment_says_what_options_do_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("WALKEEPER_ROOT", "/from/environment")
    monkeypatch.setenv("WALKEEPER_GATEWAYS", "a:1, b:2")
    (tmp_path / "token").write_text("secret\n")
    monkeypatch.setenv("WALKEEPER_TOKEN_FILE", str(tmp_path / "token"))
    place = read_options({"path": "a"}, streaming=False).place
    assert (place.root, place.gateways, place.token) == ("/from/environment", ("a:1", "b:2"), "secret")
    assert "secret" not in repr(place)
    assert read_options({"path": "a", **ROOT}, streaming=False).place.root == "/var/wal"


def test_an_option_that_names_other_logs_takes_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ROOT": "zk://a/l", "NAMESPACE": "of a", "GATEWAYS": "a:1", "TOKEN": "secret of a"}.items():
        monkeypatch.setenv(f"WALKEEPER_{name}", value)
    assert read_options({"path": "x", "walkeeper.root": "zk://b/l"}, streaming=True).place == Place(
        "zk://b/l", None, ()
    )
    other = write_options({"path": "x", "walkeeper.gateways": "b:1"}, streaming=True).place
    assert (other.root, other.namespace, other.gateways, other.token) == (None, None, ("b:1",), "")
    same = read_options({"path": "x", "walkeeper.root": "zk://a/l"}, streaming=True).place
    assert same == Place("zk://a/l", "of a", ("a:1",), "secret of a")


REFUSED_TO_READ = [
    ({}, "what is to be read"),
    ({"path": "a", "subscribe": "b"}, "what is to be read"),
    ({"subscribe": " , "}, "subscribe is"),
    ({"assign": '{"a": [1]}'}, "assign is"),
    ({"assign": "[]"}, "assign is"),
    ({"subscribePattern": "("}, "no regular expression"),
    ({"path": "a", "startingOffset": "earliest"}, "no option 'startingoffset'"),
    ({"path": "a", "walkeeper.rot": "x"}, "no option 'walkeeper.rot'"),
    ({"path": "a", "kafka.bootstrap.servers": "x"}, "is for Kafka"),
    ({"path": "a", "includeHeaders": "true"}, "no headers"),
    ({"path": "a", "startingOffsets": "first"}, "startingOffsets is"),
    ({"path": "a", "startingOffsets": '{"a": {"1": 7}}'}, "startingOffsets is"),
    ({"path": "a", "startingOffsets": '{"a": {"0": true}}'}, "startingOffsets is"),
    ({"path": "a", "startingOffsets": '{"a": {"0": -3}}'}, "startingOffsets is"),
    ({"path": "a", "startingOffsets": '{"a": {"0": 1.5}}'}, "startingOffsets is"),
    ({"path": "a", "startingTimestamp": "yesterday"}, "startingTimestamp is a whole number"),
    ({"path": "a", "maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is a whole number from 1"),
    ({"path": "a", "maxOffsetsPerTrigger": "²"}, "maxOffsetsPerTrigger"),
    ({"path": "a", "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "greater than"),
    ({"path": "a", "maxTriggerDelay": "soon"}, "maxTriggerDelay is a number"),
    ({"path": "a", "failOnDataLoss": "yes"}, "true or false"),
    ({"path": "a", "startingOffsets": "latest"}, "cursorName"),
    ({"path": "a", "startingOffsets": '{"a": {"0": -1}}'}, "cursorName"),
    ({"path": "a", "endingOffsets": "latest"}, "a stream has no end"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED_TO_READ, ids=str)
def test_a_wrong_option_to_read_is_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidError, match=said):
        read_options({**ROOT, **options}, streaming=True)


def test_a_place_is_wanted_and_latest_is_no_start_of_a_batch() -> None:
    with pytest.raises(InvalidError, match="WALKEEPER_ROOT"):
        read_options({"path": "a"}, streaming=True)
    with pytest.raises(InvalidError, match="nothing to read"):
        read_options({**ROOT, "path": "a", "startingOffsets": "latest"}, streaming=False)
    with pytest.raises(InvalidError, match="nothing to read"):
        read_options({**ROOT, "path": "a", "endingOffsets": "earliest"}, streaming=False)
    with pytest.raises(InvalidError, match=r"for spark\.readStream"):
        read_options({**ROOT, "path": "a", "cursorName": "q"}, streaming=False)
    batch = read_options({**ROOT, "path": "a", "endingOffsets": '{"a": {"0": -1}}'}, streaming=False)
    assert batch.end == {"a": LATEST}


REFUSED_TO_WRITE = [
    ({}, "given once"),
    ({"path": "a", "topic": "b"}, "given once"),
    ({"path": "a", "delivery": "twice"}, "exactly-once or at-least-once"),
    ({"path": "a", "txnAppId": "x"}, "given together"),
    ({"path": "a", "txnAppId": "x", "txnVersion": "1"}, "for df.write"),
    ({"path": "a", "subscribe": "b"}, "no option 'subscribe'"),
    ({"path": "transactions/1"}, "of walkeeper's own"),
    ({"path": "a", "txnAppId": "", "txnVersion": "1"}, "not empty"),
    ({"path": "a", "txnAppId": "x", "txnVersion": "1", "delivery": "at-least-once"}, "for delivery=exactly-once"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED_TO_WRITE, ids=str)
def test_a_wrong_option_to_write_is_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidError, match=said):
        write_options({**ROOT, **options}, streaming=True)


def test_equal_offsets_are_equal_text() -> None:
    """Spark compares the text, and goes on for ever where it differs."""
    one, other, ids = {"b": 2, "a": 1}, {"a": 1, "b": 2}, {"a": 2**63 - 1, "b": 7}
    text = '{"a": {"0": 1, "id": "9223372036854775807"}, "b": {"0": 2, "id": "7"}}'
    assert json.dumps(to_json(one, ids)) == json.dumps(to_json(other, ids)) == text
    assert from_json(json.loads(text)) == (one, ids)


LOGS = st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.integers(0, 50), st.integers(0, 1000)), min_size=1)


@given(LOGS, st.integers(1, 2000))
def test_a_limit_of_records_is_kept_and_reached(logs: dict[str, tuple[int, int]], most: int) -> None:
    start = {log: at for log, (at, _) in logs.items()}
    end = {log: at + count for log, (at, count) in logs.items()}
    found = at_most_records(start, end, most)
    assert all(start[log] <= found[log] <= end[log] for log in logs)
    assert sum(found[log] - start[log] for log in logs) == min(most, sum(count for _, count in logs.values()))


@given(LOGS, st.integers(1, 100_000), st.integers(1, 300))
def test_a_limit_of_bytes_is_kept_but_for_one_record(
    logs: dict[str, tuple[int, int]], most: int, record_bytes: int
) -> None:
    start = {log: at for log, (at, _) in logs.items()}
    end = {log: at + count for log, (at, count) in logs.items()}
    sizes = {log: [(0, end[log] // 2, end[log] // 2 * record_bytes)] * bool(end[log] // 2) for log in logs}
    sizes = {
        log: [*spans, (end[log] // 2, end[log] - end[log] // 2, (end[log] - end[log] // 2) * record_bytes)]
        for log, spans in sizes.items()
        if end[log]
    }
    found = at_most_bytes(start, end, sizes, most)
    assert all(start[log] <= found[log] <= end[log] for log in logs)
    read = sum(found[log] - start[log] for log in logs)
    total = sum(count for _, count in logs.values())
    assert read * record_bytes <= most or read <= 1
    assert read or not total
    if read < total:
        assert (read + len(logs)) * record_bytes >= most


@given(LOGS, st.one_of(st.none(), st.integers(1, 40)), st.one_of(st.none(), st.integers(1, 300)))
def test_ranges_are_split_without_loss(
    logs: dict[str, tuple[int, int]], partitions_min: int | None, records_max: int | None
) -> None:
    ranges = [LogRange(log, 1, at, at + count) for log, (at, count) in sorted(logs.items()) if count]
    made = split(ranges, partitions_min, records_max)
    covered = [(part.log, number) for part in made for number in range(part.start, part.end)]
    assert covered == [(part.log, number) for part in ranges for number in range(part.start, part.end)]
    assert all(part.end > part.start for part in made)
    if records_max is not None:
        assert all(part.end - part.start <= records_max for part in made)
    if partitions_min is not None:
        assert len(made) >= min(partitions_min, len(covered))


def test_the_backlog_is_what_is_not_read() -> None:
    latest = '{"a": {"0": 10, "id": "1"}, "b": {"0": 3, "id": "2"}}'
    source = {"latestOffset": latest, "endOffset": {"a": {"0": 4, "id": "1"}}}
    other = {"latestOffset": {"a": {"0": 10, "id": "1"}}, "endOffset": {"a": {"0": 1, "id": "1"}}}
    foreign = {"latestOffset": "7", "endOffset": None}
    assert backlog({"sources": [source, other, foreign]}) == {"a": 9, "b": 3}
