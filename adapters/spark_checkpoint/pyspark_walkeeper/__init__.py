"""Logs as a source and a sink of Spark: format("walkeeper").

    events = spark.readStream.format("walkeeper").option("walkeeper.root", URI).load("orders")
    query = events.writeStream.format("walkeeper").option("walkeeper.root", URI).start("copies")

Spark finds it by the name of this package; nothing is registered. The guide is docs/guide/spark.md.
"""

from __future__ import annotations

from pyspark_walkeeper._backlog import backlog
from pyspark_walkeeper._data_source import WalkeeperDataSource

__all__ = ["DefaultSource", "WalkeeperDataSource", "backlog"]

DefaultSource = WalkeeperDataSource
"""What Spark looks for."""
