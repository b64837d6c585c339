"""A question a person may ask of the logs: which airline is late? Answered from a replay alone, as Arrow batches."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

import walkeeper

LATE_MINUTES = 15
MISSING = "NA"


@dataclass(frozen=True)
class Carrier:
    """One airline's year. Delays are minutes at arrival, over the flights that arrived."""

    code: str
    name: str
    flights: int
    mean_delay: float
    late_share: float
    never_arrived: int


def read_columns(namespace: walkeeper.Namespace, table: str, names: list[str]) -> pa.Table:
    """The named columns of one log, as strings; the log "columns" says where they stand in a line."""
    headers = dict(
        bytes(record.payload).decode().split(":", 1) for record in namespace.log("columns", create=False).reader()
    )
    places = [headers[table].split(",").index(name) for name in names]
    reader = namespace.log(table, create=False).reader()
    batches: list[pa.RecordBatch] = []
    while (batch := reader.read_arrow(max_records=65_536, max_bytes=16 << 20)) is not None:
        fields = pc.split_pattern(batch.column("payload").cast(pa.large_string()), ",")
        batches.append(pa.record_batch([pc.list_element(fields, place) for place in places], names=names))
    return pa.Table.from_batches(batches)


def delays_by_carrier(namespace: walkeeper.Namespace) -> list[Carrier]:
    """Every airline, the latest first."""
    flights = read_columns(namespace, "flights", ["carrier", "arr_delay"])
    delay = pc.if_else(pc.equal(flights["arr_delay"], MISSING), None, flights["arr_delay"]).cast(pa.int32())
    table = pa.table(
        {
            "carrier": flights["carrier"],
            "delay": delay,
            "late": pc.greater(delay, LATE_MINUTES).cast(pa.int32()),
            "missing": pc.is_null(delay).cast(pa.int32()),
        }
    )
    sums = [("carrier", "count"), ("delay", "mean"), ("late", "mean"), ("missing", "sum")]
    airlines = read_columns(namespace, "airlines", ["carrier", "name"])
    names = dict(zip(airlines["carrier"].to_pylist(), airlines["name"].to_pylist(), strict=True))
    rows = table.group_by("carrier").aggregate(sums).sort_by([("delay_mean", "descending")]).to_pylist()
    return [
        Carrier(
            code=row["carrier"],
            name=names[row["carrier"]],
            flights=row["carrier_count"],
            mean_delay=row["delay_mean"],
            late_share=row["late_mean"],
            never_arrived=row["missing_sum"],
        )
        for row in rows
    ]
