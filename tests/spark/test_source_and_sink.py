"""format("walkeeper") in Spark: batches and streams, repeats of both, and a driver that is killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from spark_session import LIGHT

import walkeeper
import walkeeper_spark_checkpoint as wks
from walkeeper.gateway import Gateway
from walkeeper_bookie.cluster import LocalCluster

ADAPTER = Path(__file__).resolve().parents[2] / "adapters" / "spark_checkpoint"
DRIVER = Path(__file__).with_name("copying_driver.py")
PATIENCE_S = 300
RECORDS = 20_000


def values(spark: SparkSession, log: str) -> list[str]:
    """The records of a log, in its order."""
    read = spark.read.format("walkeeper").load(log).selectExpr("offset", "cast(value as string) AS text")
    rows = sorted(tuple(row) for row in read.collect())
    assert [offset for offset, _ in rows] == list(range(len(rows)))
    return [text for _, text in rows]


def numbers(spark: SparkSession, count: int, parts: int = 2) -> DataFrame:
    return spark.range(0, count, 1, parts).selectExpr("cast(id AS string) AS value")


def test_what_is_written_is_read_in_order(spark: SparkSession) -> None:
    """Many records are staged by tasks, few travel with their commit messages."""
    numbers(spark, 60_000).write.format("walkeeper").mode("append").save("many")
    assert values(spark, "many") == [str(number) for number in range(60_000)]
    numbers(spark, 7).write.format("walkeeper").option("topic", "few").mode("append").save()
    numbers(spark, 5).write.format("walkeeper").mode("append").save("few")
    assert values(spark, "few") == [str(number) for number in [*range(7), *range(5)]]


def test_a_write_of_a_version_is_made_once(spark: SparkSession) -> None:
    for version in (1, 1, 2, 1):
        write = numbers(spark, 4).write.format("walkeeper").mode("append")
        write.option("txnAppId", "load").option("txnVersion", version).save("loaded")
    assert values(spark, "loaded") == ["0", "1", "2", "3"] * 2


def test_tasks_append_at_least_once_through_the_gateway(spark: SparkSession) -> None:
    numbers(spark, 30_000).write.format("walkeeper").mode("append").option("delivery", "at-least-once").save("cheap")
    assert sorted(map(int, values(spark, "cheap"))) == list(range(30_000))


def test_a_batch_that_spark_makes_again_is_in_the_log_once(spark: SparkSession, tmp_path: Path) -> None:
    """As behind a crash between the sink and commits/N: that file is gone, so Spark makes the batch again."""
    numbers(spark, 1000, parts=1).write.format("walkeeper").mode("append").save("source")
    checkpoint = tmp_path / "again"

    def run() -> None:
        read = spark.readStream.format("walkeeper").option("maxOffsetsPerTrigger", 300).option("minPartitions", 3)
        stream = read.load("source").select("value").writeStream.format("walkeeper")
        query = stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start("copy")
        assert query.awaitTermination(PATIENCE_S)
        assert query.exception() is None

    run()
    assert values(spark, "copy") == [str(number) for number in range(1000)]
    for commit in [*(checkpoint / "commits").glob("3"), *(checkpoint / "commits").glob(".3.crc")]:
        commit.unlink()
    run()
    assert values(spark, "copy") == [str(number) for number in range(1000)]
    numbers(spark, 10, parts=1).write.format("walkeeper").mode("append").save("source")
    run()
    assert values(spark, "copy") == [str(number) for number in [*range(1000), *range(10)]]


def test_what_cannot_be_done_is_said(spark: SparkSession, wal: Path, tmp_path: Path) -> None:
    few = numbers(spark, 3)
    few.write.format("walkeeper").mode("append").save("grouped")
    with pytest.raises(AnalysisException, match="a log is appended to: write with mode"):
        few.write.format("walkeeper").mode("overwrite").save("refused")
    with pytest.raises(AnalysisException, match="it has no id"):
        spark.range(3).write.format("walkeeper").mode("append").save("refused")
    with pytest.raises(AnalysisException, match="no option 'startingoffset'"):
        spark.read.format("walkeeper").option("startingOffset", "latest").load("grouped").count()
    with pytest.raises(PythonException, match="are null"):
        few.selectExpr("nullif(value, '1') AS value").write.format("walkeeper").mode("append").save("refused")
    with pytest.raises(Exception, match="has no log none"):
        spark.read.format("walkeeper").load("none").count()
    counts = spark.readStream.format("walkeeper").load("grouped").groupBy("value").count()
    query = (
        counts.selectExpr("to_json(struct(*)) AS value")
        .writeStream.outputMode("complete")
        .format("walkeeper")
        .option("checkpointLocation", str(tmp_path / "complete"))
        .start("refused")
    )
    with pytest.raises(Exception, match='not "complete"'):
        query.awaitTermination(PATIENCE_S)
    namespace = walkeeper.open(wal, read_only=True)
    assert "refused" not in namespace.logs() or namespace.log("refused").count() == 0
    assert namespace.logs("staging/") == []
    namespace.close()


def test_a_killed_driver_copies_each_record_once(tmp_path: Path) -> None:
    """The logs are on three bookies, and so is the checkpoint; SIGKILL at any moment."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    environment = {**os.environ, "PYTHONPATH": str(ADAPTER), "PYSPARK_PYTHON": sys.executable}
    with LocalCluster(tmp_path / "bookies", 3) as bookies:
        bookies.start()
        with Gateway(bookies.metadata) as gateway, walkeeper.open(bookies.metadata) as namespace:
            settings = LIGHT | {"spark.jars": wks.jar(), **wks.settings(gateway.addresses, gateway.token)}
            command = [sys.executable, str(DRIVER), json.dumps(settings), bookies.metadata, "source", "target"]
            with namespace.log("source").writer() as writer:
                writer.append_many([b"%d" % number for number in range(RECORDS)])
            copied = namespace.log("target").info
            for _ in range(2):
                begin = copied().count
                with (tmp_path / "driver.log").open("ab") as said:
                    driver = subprocess.Popen(
                        [*command, "walkeeper:///app/copying"],
                        stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment, start_new_session=True,
                    )  # fmt: skip
                try:
                    deadline = time.monotonic() + PATIENCE_S
                    goal = min(RECORDS, begin + chance.randrange(1, 1500))
                    while copied().count < goal:
                        assert driver.poll() is None, (tmp_path / "driver.log").read_text()[-5000:]
                        assert time.monotonic() < deadline, (tmp_path / "driver.log").read_text()[-5000:]
                        time.sleep(0.05)
                    time.sleep(chance.random() * 0.3)
                finally:
                    os.killpg(driver.pid, signal.SIGKILL)
                    driver.wait()
            with namespace.log("target").reader() as reader:
                found = [int(bytes(record.payload)) for record in reader]
            assert len(found) >= 2
            assert found == list(range(len(found)))
