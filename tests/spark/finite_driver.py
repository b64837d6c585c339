"""A Spark session whose queries count the rows of each key, and end when they have read all that is there.

    finite_driver.py SETTINGS INPUT

SETTINGS is JSON: those of the session. Each line of the standard input, [LOCATION, SETTINGS], runs a query with its
checkpoint there; a line of the output is what its last batch counted, or null where there was none. Each file of INPUT
is a batch.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession

settings, source = json.loads(sys.argv[1]), sys.argv[2]
builder = SparkSession.builder.master("local[2]").appName("finite")
for name, value in settings.items():
    builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")


def run(location: str, settings: dict[str, str]) -> dict[str, int] | None:
    counted: list[dict[str, int]] = []

    def write(batch: DataFrame, number: int) -> None:
        rows: list[Any] = batch.collect()
        counted.append({row["key"]: row["count"] for row in rows})

    for name, value in settings.items():
        spark.conf.set(name, value)
    rows = spark.readStream.schema("key string, value long").option("maxFilesPerTrigger", 1).json(source)
    query = (
        rows.groupBy("key")
        .count()
        .writeStream.outputMode("complete")
        .foreachBatch(write)
        .option("checkpointLocation", location)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    for name in settings:
        spark.conf.unset(name)
    return counted[-1] if counted else None


print("started", flush=True)
for line in sys.stdin:
    print(json.dumps(run(*json.loads(line))), flush=True)
