"""compact_view: the latest record of each key of a log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions

from walkeeper.errors import InvalidError
from walkeeper_spark_checkpoint.jobs._place import Place, place_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["compact_to", "compact_view"]


def compact_view(
    spark: SparkSession,
    log: str,
    key: Column | str,
    *,
    root: str | os.PathLike[str] | None = None,
    namespace: str | None = None,
) -> DataFrame:
    """The latest record of each key: key, value, offset (the sequence id), timestamp and txid.

    `key` is a Column over `value`, or an expression of SQL: "get_json_object(cast(value as string), '$.id')". Records
    whose key is null are left out. Where a record means that its key is deleted, filter the view: it shows that record.

    The view is of the records that the log has when this is called, however often it is computed.
    """
    place = place_of(root, namespace, None, None)
    return _latest(spark, place, log, key, *_range(place, log)[:2])


def compact_to(
    spark: SparkSession,
    log: str,
    key: Column | str,
    target: str,
    *,
    root: str | os.PathLike[str] | None = None,
    namespace: str | None = None,
    gateways: str | Sequence[str] | None = None,
    token: str | None = None,
) -> int:
    """Appends the latest record of each key to the log `target`, in their order; says up to which sequence id of `log`.

    That is done once for each end of the log: where the log has not grown since, nothing is appended. A later call
    appends all keys anew, behind the earlier ones, so that the view of the target is that of the log.
    """
    if target == log:
        raise InvalidError(f"{log!r} cannot be compacted to itself: name another log", log=log)
    place = place_of(root, namespace, gateways, token)
    first, end, log_id = _range(place, log)
    rows = _latest(spark, place, log, key, first, end).orderBy("offset").select("value")
    options = place.options() | {"txnAppId": f"compact {log_id}", "txnVersion": str(end)}
    rows.write.format("walkeeper").options(**options).mode("append").save(target)
    return end


def _range(place: Place, log: str) -> tuple[int, int, int]:
    """Where its records begin and end, and its id, which no other log has."""
    with place.open(read_only=True) as opened:
        info = opened.log(log, create=False).info()
        return int(info.first.sequence_id), int(info.next.sequence_id), info.log_id


def _latest(spark: SparkSession, place: Place, log: str, key: Column | str, first: int, end: int) -> DataFrame:
    column = functions.expr(key) if isinstance(key, str) else key
    keyed = place.records(spark, log, first, end).select(
        column.alias("key"), functions.struct("offset", "value", "timestamp", "txid").alias("record")
    )
    latest = (
        keyed.where("key is not null").groupBy("key").agg(functions.max_by("record", "record.offset").alias("record"))
    )
    return latest.select("key", "record.value", "record.offset", "record.timestamp", "record.txid")
