"""The jobs: a compacted view of the sink log, an archive, a restoration, an audit. Numbers must be those of pandas.

    jobs.py URI DIRECTORY RESULTS

The archive goes to DIRECTORY; RESULTS is a file for the numbers of each airline, and what is wrong, as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flights import LATE_MINUTES, SCHEMA, Numbers, by_pandas
from pyspark.sql import SparkSession, functions
from story import say

from walkeeper_spark_checkpoint.jobs import archive, audit, compact_view, read_archive, restore

COPIES = 3
"""Of each entry, on as many bookies."""


def run(spark: SparkSession, uri: str, place: Path) -> tuple[dict[str, Numbers], list[str]]:
    """The numbers in the sink log, and what is wrong."""
    findings: list[str] = []
    expected = by_pandas()
    view = compact_view(spark, "carriers", "get_json_object(cast(value as string), '$.carrier')", root=uri)
    numbers = {row.key: numbers_of(json.loads(row.value)) for row in view.collect()}
    findings += differences("the sink log", numbers, expected)

    for log in ("flights", "carriers"):
        report = archive(spark, log, str(place / log), root=uri, truncate=True, include_open=True)
        say("archive", str(report))
    flights = read_archive(spark, str(place / "flights"))
    findings += differences("the archive", summed_up(flights, "payload"), expected)

    report = restore(spark, str(place / "flights"), "flights-again", root=uri)
    say("restore", str(report))
    again = spark.read.format("walkeeper").option("walkeeper.root", uri).load("flights-again")
    findings += differences("the restored log", summed_up(again, "value"), expected)

    checked = audit(spark, uri, copies=COPIES)
    say("audit", str(checked))
    if not checked.good:
        findings.append("the audit found copies that are not as they must be")
    return numbers, findings


def numbers_of(row: dict[str, Any]) -> Numbers:
    return Numbers(**{name: row.get(name, 0) for name in ("flights", "arrived", "delay_minutes", "late", "miles")})


def summed_up(frame: Any, column: str) -> dict[str, Numbers]:
    flights = frame.select(functions.from_json(frame[column].cast("string"), SCHEMA).alias("flight")).select("flight.*")
    rows = flights.groupBy("carrier").agg(
        functions.count("*").alias("flights"),
        functions.count("arr_delay").alias("arrived"),
        functions.sum("arr_delay").alias("delay_minutes"),
        functions.count_if(flights.arr_delay > LATE_MINUTES).alias("late"),
        functions.sum("distance").alias("miles"),
    )
    return {row.carrier: numbers_of(row.asDict()) for row in rows.collect()}


def differences(what: str, found: dict[str, Numbers], expected: dict[str, Numbers]) -> Iterable[str]:
    wrong = [carrier for carrier in {*found, *expected} if found.get(carrier) != expected.get(carrier)]
    if not wrong:
        say("equal", f"to pandas: every number of {len(expected)} airlines in {what}")
    return [f"{what}: {carrier} has {found.get(carrier)}, not {expected.get(carrier)}" for carrier in sorted(wrong)]


def main(uri: str, directory: Path, results: Path) -> None:
    builder = SparkSession.builder.master("local[2]").appName("jobs").config("spark.sql.shuffle.partitions", "2")
    quiet = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    spark = quiet.getOrCreate()
    numbers, findings = run(spark, uri, directory)
    airlines = {carrier: asdict(of) for carrier, of in sorted(numbers.items())}
    results.write_text(json.dumps({"airlines": airlines, "findings": findings}, indent=1) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
