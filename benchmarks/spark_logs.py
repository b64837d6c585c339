"""
What the source and the sink of Spark carry, beside Parquet and beside the log itself.

    make bench-spark-logs                     # writes spark_logs.md beside this file
    python benchmarks/spark_logs.py [--quick] [--page FILE] [--dir SCRATCH]

One Spark session, local[2], and records of 100 bytes. The sides take turns, A B B A: a figure is the ratio of one pair,
and the answer the median of the pairs. The directory is on this disk, its gateway a thread of the driver, as
`configure(root=…)` makes it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ADAPTER = ROOT / "adapters/spark_checkpoint"
sys.path[:0] = [str(ROOT / "bookie"), str(ADAPTER)]

import pyarrow  # noqa: E402
from harness.machine import Watch, describe  # noqa: E402
from harness.ratio import Goal, bootstrap  # noqa: E402
from harness.report import number  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage  # noqa: E402
from pyspark.sql.streaming.query import StreamingQuery  # noqa: E402
from pyspark.sql.types import StructType  # noqa: E402

import walkeeper  # noqa: E402
import walkeeper_spark_checkpoint as wks  # noqa: E402

HERE = Path(__file__).resolve().parent
SIZE = 100
BATCH = 10_000
"""Records that Spark hands to a sink at once, and that are appended to the log at once beside it."""


@dataclass
class Row:
    name: str
    ours: float
    reference: float
    ratios: list[float]
    must: float
    aim: float

    def cells(self) -> str:
        figure, least, most = statistics.median(self.ratios), min(self.ratios), max(self.ratios)
        verdict = Goal(self.must, self.aim, lower=False).verdict(bootstrap(self.ratios))
        shown = [
            self.name,
            number(self.ours),
            number(self.reference),
            number(figure),
            f"{number(least)} - {number(most)}",
        ]
        return f"| {' | '.join([*shown, f'>= {self.must:g}', f'>= {self.aim:g}', verdict])} |"


class Ground:
    """A session, a directory of logs, and rows."""

    def __init__(self, spark: SparkSession, place: Path, quick: bool) -> None:
        self.spark, self.place = spark, place
        self.rows = 200_000 if quick else 4_000_000
        self.pairs = 2 if quick else 11
        self._made = 0

    def name(self, kind: str) -> str:
        self._made += 1
        return f"{kind}{self._made}"

    def compare(
        self, name: str, ours: Callable[[], float], reference: Callable[[], float], must: float, aim: float
    ) -> Row:
        """Seconds of both, in turns, as records a second."""
        ours(), reference()  # the workers are there behind them
        pairs = []
        for turn in range(self.pairs):
            order = (ours, reference) if turn % 2 == 0 else (reference, ours)
            took = {side: side() for side in order}
            pairs.append((took[ours], took[reference]))
        rates = [self.rows / statistics.median(side) for side in zip(*pairs, strict=True)]
        row = Row(name, *rates, [other / mine for mine, other in pairs], must, aim)
        print(row.cells(), flush=True)
        return row


class Nothing(DataSource):
    """format("nothing"): a sink in Python that takes all batches and keeps none."""

    @classmethod
    def name(cls) -> str:
        return "nothing"

    def writer(self, schema: StructType, overwrite: bool) -> NothingWriter:
        return NothingWriter()


class NothingWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


@contextmanager
def timed() -> Iterator[list[float]]:
    took: list[float] = []
    begun = time.perf_counter()
    yield took
    took.append(time.perf_counter() - begun)


# ---- questions ----


def source(ground: Ground) -> list[Row]:
    """Reading offset and value of each row, and adding up what they are long."""
    spark = ground.spark
    rows = spark.range(0, ground.rows, 1, 4).selectExpr(
        f"cast(lpad(cast(id AS string), {SIZE}, 'x') AS binary) AS value"
    )
    rows.write.format("walkeeper").mode("append").save("read")
    columns = spark.read.format("walkeeper").schema("offset long, value binary").load("read")
    parquet = str(ground.place / "parquet")
    columns.write.parquet(parquet)

    def batch_of(**options: str) -> float:
        frame = spark.read.format("walkeeper").options(minPartitions="2", **options).schema("offset long, value binary")
        with timed() as took:
            checked(frame.load("read").selectExpr("sum(length(value) + offset * 0)").first()[0])
        return took[0]

    def from_parquet() -> float:
        with timed() as took:
            checked(spark.read.parquet(parquet).selectExpr("sum(length(value) + offset * 0)").first()[0])
        return took[0]

    def checked(found: int) -> None:
        assert found == SIZE * ground.rows, found

    return [ground.compare("source, a batch ÷ the same rows of Parquet", batch_of, from_parquet, 0.4, 0.7)]


def sink(ground: Ground) -> tuple[list[Row], float]:
    """Writing rows that are there; beside it the same bytes, appended by one thread, 10,000 records a call.

    Also the rows a second that a sink in Python takes where it keeps nothing.
    """
    spark = ground.spark
    rows = spark.range(0, ground.rows, 1, 2).selectExpr(
        f"cast(lpad(cast(id AS string), {SIZE}, 'x') AS binary) AS value"
    )
    rows.persist().count()
    array = pyarrow.array([b"x" * SIZE] * BATCH, pyarrow.binary())

    def by_spark(**options: str) -> float:
        with timed() as took:
            rows.write.format("walkeeper").options(**options).mode("append").save(ground.name("sink"))
        return took[0]

    def by_c() -> float:
        with walkeeper.open(ground.place / "bare") as namespace, namespace.log(ground.name("log")).writer() as writer:
            begun = time.perf_counter()
            for _ in range(ground.rows // BATCH):
                writer.append_many(array, durability="deferred")
            writer.flush()
            return time.perf_counter() - begun

    found = [
        ground.compare("sink, exactly once ÷ appending the bytes", by_spark, by_c, 0.2, 0.4),
        ground.compare(
            "sink, at least once ÷ appending the bytes", lambda: by_spark(delivery="at-least-once"), by_c, 0.2, 0.4
        ),
    ]
    spark.dataSource.register(Nothing)

    def by_nothing() -> float:
        with timed() as took:
            rows.write.format("nothing").mode("append").save()
        return took[0]

    by_nothing()
    most = ground.rows / statistics.median(by_nothing() for _ in range(ground.pairs))
    print(f"a sink that keeps nothing: {number(most)}", flush=True)
    rows.unpersist()
    return found, most


def triggers(ground: Ground) -> dict[str, float]:
    """Milliseconds of a batch of 1,000 records that is read from a log and appended to another."""
    spark = ground.spark
    count = 40 if ground.pairs > 2 else 8
    spark.range(0, 1000 * count).selectExpr("cast(id AS string) AS value").write.format("walkeeper").mode(
        "append"
    ).save("steps")
    read = (
        spark.readStream.format("walkeeper").schema("value binary").option("maxOffsetsPerTrigger", 1000).load("steps")
    )
    location = f"walkeeper:///bench/{ground.name('steps')}"
    writer = read.writeStream.format("walkeeper").option("checkpointLocation", location)
    query: StreamingQuery = writer.trigger(availableNow=True).start(ground.name("stepped"))
    query.awaitTermination()
    progress = [step.durationMs for step in query.recentProgress if step.numInputRows][2:]
    names = ("triggerExecution", "latestOffset", "walCommit", "addBatch", "commitOffsets")
    return {name: statistics.median(step.get(name, 0) for step in progress) for name in names}


# ---- the page ----

TEXT = """# The source and the sink of Spark, measured

<!-- Made by `make bench-spark-logs`. Do not edit: run it again. -->

{quick}Measured {date}: {rows:,} records of 100 bytes. Other processes took {others:.2f} processors meanwhile; they fall
on both sides, which take turns. Figures are records a second; a ratio is the median of {pairs} pairs.

| what | walkeeper | reference | ratio | min - max | must | aim | verdict |
|---|---|---|---|---|---|---|---|
{table}

* The source reads `offset` and `value`: each further column costs, as Spark makes rows of Arrow batches. Parquet is on
  the same disk, in the page cache as the log is, and Spark reads it in the JVM.
* The sink's reference is one thread that hands the bytes to the log, 10,000 records a call, durable at the end. Exactly
  once means that Spark's tasks stage the rows through the gateway, and the gateway appends them again.
* A sink in Python that keeps nothing takes {most} of these rows a second: Spark hands them over no faster.
* A batch of 1,000 records that is copied from a log to a log, with its checkpoint in the same directory, takes
  {steps} (milliseconds, medians).

## The machine

| | |
|---|---|
{machine}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="to see that it works; nothing to quote")
    parser.add_argument("--page", type=Path, help="the file that the results are written to")
    parser.add_argument("--dir", help="where logs are kept")
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp(dir=given.dir))
    os.environ["PYTHONPATH"] = str(ADAPTER)
    watch, begun = Watch(place), time.monotonic()
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder.config("spark.driver.memory", "3g").config("spark.sql.shuffle.partitions", "2")
    spark = wks.configure(builder, root=place / "wal").getOrCreate()
    try:
        spark.sparkContext.setLogLevel("ERROR")
        ground = Ground(spark, place, given.quick)
        read = source(ground)
        written, most = sink(ground)
        rows = [*read, *written]
        steps = triggers(ground)
        print(steps, flush=True)
        others = watch.stop().others_cpu_seconds / (time.monotonic() - begun)
        if given.page:
            text = TEXT.format(
                quick="QUICK RUN: nothing to quote.\n\n" if given.quick else "",
                date=time.strftime("%Y-%m-%d"),
                rows=ground.rows,
                pairs=ground.pairs,
                others=others,
                most=number(most),
                table="\n".join(row.cells() for row in rows),
                steps=", ".join(f"{name} {number(value)}" for name, value in steps.items()),
                machine="\n".join(f"| {name} | {value} |" for name, value in describe(place).items()),
            )
            given.page.write_text(text)
    finally:
        spark.stop()
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
