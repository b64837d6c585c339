"""WalkeeperDataSource: what Spark asks for readers and writers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from walkeeper.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyspark_walkeeper._sink import BatchWriter, StreamWriter
    from pyspark_walkeeper._source import BatchReader, StreamReader

__all__ = ["WalkeeperDataSource"]


class WalkeeperDataSource(DataSource):
    """format("walkeeper"): logs of a namespace, read and appended to.

    Columns and options have the names of Kafka's source (docs/guide/spark.md lists them). Options are checked when a
    reader or a writer is made: walkeeper.InvalidError names the one that is wrong.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "walkeeper"

    def schema(self) -> StructType:
        """Of what is read: key, value, topic, partition, offset, timestamp, timestampType, txid."""
        from pyspark_walkeeper._columns import SCHEMA

        return SCHEMA

    def reader(self, schema: StructType) -> BatchReader:
        """spark.read."""
        from pyspark_walkeeper._options import read_options
        from pyspark_walkeeper._source import BatchReader

        return BatchReader(read_options(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> StreamReader:
        """spark.readStream."""
        from pyspark_walkeeper._options import read_options
        from pyspark_walkeeper._source import StreamReader

        return StreamReader(read_options(self.options, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """df.write, with mode("append")."""
        from pyspark_walkeeper._options import write_options
        from pyspark_walkeeper._sink import BatchWriter

        if overwrite:
            raise UnsupportedError('a log is appended to: write with mode("append")')
        return BatchWriter(write_options(self.options, streaming=False), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """df.writeStream, with outputMode("append"); Spark has "update" not for sinks in Python."""
        from pyspark_walkeeper._options import write_options
        from pyspark_walkeeper._sink import StreamWriter

        if overwrite:
            raise UnsupportedError('a log is appended to: outputMode is "append", not "complete"')
        return StreamWriter(write_options(self.options, streaming=True), schema)
