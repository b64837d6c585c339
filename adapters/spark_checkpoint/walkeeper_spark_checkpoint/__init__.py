"""Checkpoints of Spark's Structured Streaming in walkeeper: durable, and fenced.

    import walkeeper_spark_checkpoint as wks

    spark = wks.configure(SparkSession.builder, root="/var/lib/app/wal").getOrCreate()
    query = rows.writeStream.option("checkpointLocation", "walkeeper:///app/query")...

Each change of a checkpoint is durable before Spark goes on. A second driver on the same location fences the first.

Jobs on logs are in walkeeper_spark_checkpoint.jobs, which imports Spark: archives, restorations, audits.
"""

from walkeeper_spark_checkpoint._configuration import configure, jar, settings

__all__ = ["configure", "jar", "settings"]
