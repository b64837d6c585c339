"""A Spark driver whose query counts the rows of each key, with its checkpoint in walkeeper. Ended by who started it.

    counting_driver.py SETTINGS INPUT OUTPUT LOCATION

SETTINGS is JSON: Spark's settings. Each file of INPUT is a batch. OUTPUT/BATCH.json has the counts behind that batch;
it is written before the batch is committed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

settings, source, sink, location = json.loads(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4]
builder = SparkSession.builder.master("local[2]").appName("counting")
for name, value in settings.items():
    builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")


def write(batch: DataFrame, number: int) -> None:
    rows: list[Any] = batch.collect()
    part = sink / f".{number}.part"
    part.write_text(json.dumps({row["key"]: row["count"] for row in rows}))
    os.replace(part, sink / f"{number}.json")


rows = spark.readStream.schema("key string, value long").option("maxFilesPerTrigger", 1).json(source)
query = (
    rows.groupBy("key")
    .count()
    .writeStream.outputMode("complete")
    .foreachBatch(write)
    .option("checkpointLocation", location)
    .start()
)
print("started", flush=True)
query.awaitTermination()
