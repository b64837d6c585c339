"""The driver that is killed: a streaming query which sums up the flights of each airline.

    query.py URI

It reads the log "flights" and appends what changed in each batch to the log "carriers"; its checkpoint is in walkeeper,
at walkeeper:///demo/carriers. All of that is on the bookies: this process and its JVM keep nothing.
"""

from __future__ import annotations

import sys

from flights import LATE_MINUTES, SCHEMA
from pyspark.sql import DataFrame, SparkSession, functions

import walkeeper_spark_checkpoint as wks

BATCH_RECORDS = 40_000


def append(batch: DataFrame, number: int) -> None:
    """Once for each number: Spark calls it again where it does not know whether a batch was appended."""
    once = {"txnAppId": "carriers", "txnVersion": str(number)}
    batch.write.format("walkeeper").options(**once).mode("append").save("carriers")


def main(uri: str) -> None:
    builder = SparkSession.builder.master("local[2]").appName("carriers").config("spark.sql.shuffle.partitions", "2")
    quiet = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    spark = wks.configure(quiet, root=uri).getOrCreate()
    lines = (
        spark.readStream.format("walkeeper")
        .option("maxOffsetsPerTrigger", BATCH_RECORDS)
        .option("cursorName", "carriers")
        .load("flights")
    )
    flights = lines.select(functions.from_json(lines.value.cast("string"), SCHEMA).alias("flight")).select("flight.*")
    late = functions.count_if(flights.arr_delay > LATE_MINUTES)
    numbers = flights.groupBy("carrier").agg(
        functions.count("*").alias("flights"),
        functions.count("arr_delay").alias("arrived"),
        functions.sum("arr_delay").alias("delay_minutes"),
        late.alias("late"),
        functions.sum("distance").alias("miles"),
    )
    query = (
        numbers.select(functions.to_json(functions.struct("*")).alias("value"))
        .writeStream.outputMode("update")
        .foreachBatch(append)
        .option("checkpointLocation", "walkeeper:///demo/carriers")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
