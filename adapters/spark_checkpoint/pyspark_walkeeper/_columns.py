"""Columns: those of Kafka's source, as Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow
import pyarrow.compute
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from walkeeper.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SCHEMA", "check_schema", "columns_of", "payloads_of", "written_column"]

SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField("txid", LongType()),
    ]
)
_ARROW = {
    "key": pyarrow.binary(),
    "value": pyarrow.binary(),
    "topic": pyarrow.string(),
    "partition": pyarrow.int32(),
    "offset": pyarrow.int64(),
    "timestamp": pyarrow.timestamp("us", "UTC"),
    "timestampType": pyarrow.int32(),
    "txid": pyarrow.int64(),
}
LOG_APPEND_TIME = 1
"""Kafka's timestampType of records that the log stamps."""


def check_schema(schema: StructType) -> list[str]:
    """The columns that the user wants: all, or those of a schema that he gave. InvalidError for others."""
    known: dict[str, DataType] = {column.name: column.dataType for column in SCHEMA}
    for column in schema:
        if column.name not in known:
            raise InvalidError(f"there is no column {column.name!r}: they are {', '.join(known)}")
        if column.dataType != known[column.name]:
            raise InvalidError(
                f"{column.name} is {known[column.name].simpleString()}, not {column.dataType.simpleString()}"
            )
    return [column.name for column in schema]


def columns_of(batch: pyarrow.RecordBatch, wanted: Sequence[str], log: str, *, stamped: bool) -> pyarrow.RecordBatch:
    """What Reader.read_arrow gave, as Spark wants it. `stamped`: the log numbers its records by the clock."""
    count = batch.num_rows
    arrays: list[pyarrow.Array] = []
    for name in wanted:
        if name == "value":
            arrays.append(batch["payload"].cast(pyarrow.binary()))
        elif name == "topic":
            arrays.append(pyarrow.repeat(pyarrow.scalar(log), count))
        elif name == "partition":
            arrays.append(pyarrow.repeat(pyarrow.scalar(0, pyarrow.int32()), count))
        elif name == "offset":
            arrays.append(batch["sequence_id"])
        elif name == "txid":
            arrays.append(batch["txid"])
        elif name == "timestamp" and stamped:
            arrays.append(batch["txid"].cast(pyarrow.timestamp("ms", "UTC")).cast(_ARROW[name]))
        elif name == "timestampType" and stamped:
            arrays.append(pyarrow.repeat(pyarrow.scalar(LOG_APPEND_TIME, pyarrow.int32()), count))
        else:
            arrays.append(pyarrow.nulls(count, _ARROW[name]))
    return pyarrow.RecordBatch.from_arrays(arrays, schema=pyarrow.schema([(name, _ARROW[name]) for name in wanted]))


def written_column(schema: StructType) -> str:
    """The column whose values are the records: `value`, binary or text. InvalidError where there is none, or more."""
    others = [column.name for column in schema if column.name != "value"]
    if others:
        raise InvalidError(
            f"a record is the column value; it has no {', '.join(others)}: select what a record is, such as "
            'to_json(struct("*")) AS value'
        )
    if not len(schema):
        raise InvalidError("there is no column value")
    kind = schema["value"].dataType
    if not isinstance(kind, (BinaryType, StringType)):
        raise InvalidError(f"value is binary or string, not {kind.simpleString()}")
    return "value"


def payloads_of(batch: pyarrow.RecordBatch) -> pyarrow.Array:
    """The records of a batch that is written. InvalidError for a null."""
    values = batch["value"]
    if values.null_count:
        raise InvalidError(f"{values.null_count} values are null: a record has a payload")
    return values
