"""Kinds of queries that the campaign runs: their settings, their input, and what must come of it. No Spark here.

Row number `i` of an input is known by its number, so the truth is computed from the number of files.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["KINDS", "ROWS", "Kind", "Row", "left_rows", "right_rows"]

Row = dict[str, Any]

ROWS = 20
"""Of a file."""
KEYS = 7
FIRST_S = 1_700_000_000
"""When rows begin. The first watermark is 0, and rows at it count as late."""
FLUSH_S = FIRST_S + 7 * 24 * 3600
"""A row so much later than all others moves the watermark past them."""

STATE_STORE = "spark.sql.streaming.stateStore"
HDFS_BACKED: dict[str, str] = {}
ROCKSDB_V1 = {
    f"{STATE_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{STATE_STORE}.checkpointFormatVersion": "1",
}
ROCKSDB_V2 = ROCKSDB_V1 | {f"{STATE_STORE}.checkpointFormatVersion": "2"}


def left_rows(file: int) -> list[Row]:
    """Rows of file number `file` of the first input."""
    return [_row(number) for number in range(file * ROWS, (file + 1) * ROWS)]


def right_rows(file: int) -> list[Row]:
    """Rows of file number `file` of the second input: two thirds of the first one's."""
    return [row for row in left_rows(file) if row["number"] % 3]


def flush_row(file: int) -> Row:
    """It comes last, in each input: rows that found no partner are given out behind it."""
    return _row(file * ROWS) | {"seconds": FLUSH_S}


def _row(number: int) -> Row:
    return {"number": number, "key": f"key{number % KEYS}", "seconds": FIRST_S + number // ROWS}


# ---- what must come of so many files ----


def doubled(files: int) -> list[list[Any]]:
    return [[row["number"], 2 * row["number"]] for file in range(files) for row in left_rows(file)]


def totals(files: int) -> list[list[Any]]:
    """[key, count, sum] of each key."""
    found: dict[str, list[Any]] = {}
    for file in range(files):
        for row in left_rows(file):
            total = found.setdefault(row["key"], [row["key"], 0, 0])
            total[1] += 1
            total[2] += row["number"]
    return sorted(found.values())


def joined(files: int) -> list[list[Any]]:
    """[number, number of its partner or None]; the flush rows are partners of each other."""
    rows = [[row["number"], row["number"] if row["number"] % 3 else None] for n in range(files) for row in left_rows(n)]
    return [*rows, [files * ROWS, files * ROWS]]


def flush_rows_alone(files: int) -> list[list[Any]]:
    """The state of a join: rows that the watermark has passed are gone."""
    return [["left", files * ROWS], ["right", files * ROWS]]


def nothing(files: int) -> list[list[Any]]:
    del files
    return []


@dataclass(frozen=True)
class Kind:
    """A query. `rows` and `state` are what its sink and its state must hold behind so many files."""

    name: str
    stores: tuple[dict[str, str], ...]
    """Settings of state stores; each round takes one of them."""
    rows: Callable[[int], list[list[Any]]]
    state: Callable[[int], list[list[Any]]]
    updates: bool = False
    """A row of a later batch replaces the one with the same key."""
    two_inputs: bool = False

    def settings(self, source: random.Random) -> dict[str, str]:
        return source.choice(self.stores)


KINDS = (
    Kind("stateless", (HDFS_BACKED,), doubled, nothing),
    Kind("aggregation_hdfs_backed", (HDFS_BACKED,), totals, totals, updates=True),
    Kind("aggregation_rocksdb_v1", (ROCKSDB_V1,), totals, totals, updates=True),
    Kind("aggregation_rocksdb_v2", (ROCKSDB_V2,), totals, totals, updates=True),
    Kind("join", (HDFS_BACKED, ROCKSDB_V1, ROCKSDB_V2), joined, flush_rows_alone, two_inputs=True),
    Kind("transform_with_state", (ROCKSDB_V1, ROCKSDB_V2), totals, totals, updates=True),
)
