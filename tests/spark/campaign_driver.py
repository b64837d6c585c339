"""A Spark driver of the campaign: a query of one kind, with its checkpoint in walkeeper. Whoever started it kills it.

    campaign_driver.py KIND MASTER SETTINGS PLACE LOCATION PROGRESS

SETTINGS is JSON: Spark's settings. PLACE has the inputs (`left`, `right`), each file of which is a batch, and `out`,
which the sink writes: `stateless` by Spark's file sink, the other kinds a file BATCH.NUMBER.json for each time that a
batch is written. The file PROGRESS has the last batch that this driver committed. Once PLACE/end is there, the driver
processes all input, writes PLACE/result.json, and ends.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession, functions
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StructField, StructType

kind, master, settings, home, location = (
    sys.argv[1],
    sys.argv[2],
    json.loads(sys.argv[3]),
    Path(sys.argv[4]),
    sys.argv[5],
)
builder = SparkSession.builder.master(master).appName("campaign")
for name, value in settings.items():
    builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")


def rows(side: str) -> DataFrame:
    schema = "number long, key string, seconds long"
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(home / side))


class Totals(StatefulProcessor):
    """The count and the sum of each key's rows."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        schema = StructType([StructField("count", LongType()), StructField("sum", LongType())])
        self._total = handle.getValueState("total", schema)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        count, total = self._total.get() or (0, 0)
        for row in rows:
            count, total = count + 1, total + row.number
        self._total.update((count, total))
        yield Row(key=key[0], count=count, sum=total)


def joined() -> DataFrame:
    left, right = (
        rows(side)
        .withColumn("time", functions.timestamp_seconds("seconds"))
        .withWatermark("time", "1 day")
        .select("number", "time")
        .alias(side)
        for side in ("left", "right")
    )
    partner = functions.expr(
        "left.number = right.number AND right.time BETWEEN left.time AND left.time + INTERVAL 1 HOUR"
    )
    return left.join(right, partner, "leftOuter").select("left.number", functions.col("right.number").alias("partner"))


def result() -> tuple[DataFrame, str]:
    """Of the query, and its output mode."""
    if kind == "stateless":
        return rows("left").select("number", (2 * functions.col("number")).alias("doubled")), "append"
    if kind == "join":
        return joined(), "append"
    if kind == "transform_with_state":
        schema = "key string, count long, sum long"
        return rows("left").groupBy("key").transformWithState(Totals(), schema, "update", "none"), "update"
    totals = rows("left").groupBy("key").agg(functions.count("*").alias("count"), functions.sum("number").alias("sum"))
    return totals, "update"


def replace(path: Path, text: str) -> None:
    part = path.with_suffix(".part")
    part.write_text(text)
    os.replace(part, path)


def write(batch: DataFrame, number: int) -> None:
    replace(home / "out" / f"{number}.{uuid.uuid4().hex}.json", json.dumps(sorted(map(list, batch.collect()), key=str)))


def start() -> StreamingQuery:
    found, mode = result()
    writer = found.writeStream.outputMode(mode).option("checkpointLocation", location)
    if kind == "stateless":
        return writer.format("json").option("path", str(home / "out")).start()
    return writer.foreachBatch(write).start()


def written() -> list[list[Any]]:
    """What Spark's file sink has; other sinks are read by who checks."""
    if kind != "stateless":
        return []
    return [[row.number, row.doubled] for row in spark.read.json(str(home / "out")).collect()]


def state() -> list[list[Any]]:
    reader = spark.read.format("statestore")
    if kind == "stateless":
        return []
    if kind == "join":
        return [
            [side, row.value.number]
            for side in ("left", "right")
            for row in reader.option("joinSide", side).load(location).collect()
        ]
    if kind == "transform_with_state":
        reader = reader.option("stateVarName", "total")
    return [[row.key.key, row.value["count"], row.value["sum"]] for row in reader.load(location).collect()]


print(f"JVM {spark._jvm.java.lang.ProcessHandle.current().pid()}", flush=True)  # type: ignore[union-attr]
query = start()
print("started", flush=True)
while not (home / "end").exists():
    query.awaitTermination(0.1)  # type: ignore[arg-type]
    progress = query.lastProgress
    if progress is not None:
        replace(Path(sys.argv[6]), str(progress["batchId"]))
query.processAllAvailable()
batches = query.lastProgress["batchId"] + 1  # type: ignore[index]
query.stop()
replace(home / "result.json", json.dumps({"batches": batches, "rows": written(), "state": state()}))
