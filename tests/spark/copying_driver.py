"""A Spark driver that copies a log to another, exactly once. Ended by who started it.

    copying_driver.py SETTINGS ROOT SOURCE TARGET LOCATION

SETTINGS is JSON: Spark's settings.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

settings, root, source, target, location = json.loads(sys.argv[1]), *sys.argv[2:6]
builder = SparkSession.builder.master("local[2]").appName("copying")
for name, value in settings.items():
    builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")

records = (
    spark.readStream.format("walkeeper")
    .option("walkeeper.root", root)
    .option("maxOffsetsPerTrigger", 700)
    .option("minPartitions", 2)
    .load(source)
)
query = (
    records.select("value")
    .writeStream.format("walkeeper")
    .option("walkeeper.root", root)
    .option("checkpointLocation", location)
    .start(target)
)
print("started", flush=True)
query.awaitTermination()
