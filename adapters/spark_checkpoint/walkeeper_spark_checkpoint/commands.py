"""`walkeeper archive` and `walkeeper audit`: jobs on a Spark of this machine, which the command starts and ends.

`walkeeper` finds them by the entry points walkeeper.commands. Spark is imported when a command is called.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["archive", "audit"]

EXIT_FOUND = 1
EXIT_CANNOT = 2
SHOWN_MAX = 20
"""Findings that are listed."""


class Refusal(click.ClickException):
    """It could not be done. `hint` is what can be done about it."""

    exit_code = EXIT_CANNOT

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def show(self, file: Any = None) -> None:
        click.echo(f"walkeeper: {self.message}", file=file, err=file is None)
        if self.hint:
            click.echo(f"  {self.hint}", file=file, err=file is None)


def moment(value: str) -> datetime:
    """A time in ISO 8601; without a zone it is local. Raises click.BadParameter."""
    try:
        found = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        raise click.BadParameter(f"{value!r} is no time; it is like 2024-05-01T12:00") from None
    return found if found.tzinfo else found.astimezone()


master_option = click.option("--master", default="local[*]", show_default=True, help="Where Spark runs.")


@click.command()
@click.argument("root", metavar="ROOT")
@click.argument("log", metavar="LOG")
@click.argument("destination", metavar="DESTINATION")
@click.option("--truncate", is_flag=True, help="Let the log go of what is in the archive, and no cursor needs.")
@click.option("--partition-by", type=click.Choice(["day", "hour"]), default="day", show_default=True)
@click.option("--until", type=moment, metavar="TIME", help="Only records stamped before it.")
@click.option("--include-open", is_flag=True, help="Also records of the log segment that is still written.")
@click.option("--namespace", help="Of a cluster: which namespace.")
@click.option("--gateway", metavar="ADDRESS", help="To truncate: the gateway that has ROOT open.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file whose first line is the token of that gateway.",
)
@master_option
def archive(
    root: str,
    log: str,
    destination: str,
    truncate: bool,
    partition_by: Any,
    until: datetime | None,
    include_open: bool,
    namespace: str | None,
    gateway: str | None,
    token_file: Path | None,
    master: str,
) -> None:
    """Write records of LOG that are not archived yet to DESTINATION, as Parquet.

    ROOT is a directory, or the URI of a cluster. DESTINATION is a folder on a file system that Hadoop knows, such as
    /mnt/archive/orders, hdfs://… or s3a://…. Records of log segments that are complete are archived, each once, however
    often the command is called or killed.
    """
    if (gateway is None) != (token_file is None):
        raise click.UsageError("--gateway and --token-file go together")
    token = None if token_file is None else token_file.read_text().partition("\n")[0].strip()
    with local_spark("walkeeper archive", master) as spark:
        from walkeeper_spark_checkpoint import jobs

        report = jobs.archive(
            spark,
            log,
            destination,
            root=root,
            namespace=namespace,
            gateways=gateway or (),
            token=token,
            truncate=truncate,
            partition_by=partition_by,
            until=until,
            include_open=include_open,
        )
    click.echo(str(report))


@click.command()
@click.argument("uri", metavar="URI")
@click.option("--copies", type=click.IntRange(1), default=1, show_default=True, help="Bookies of each entry, at least.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=5.0, show_default=True)
@master_option
def audit(uri: str, copies: int, timeout: float, master: str) -> None:
    """Read every copy of every entry of the closed ledgers of the cluster at URI.

    Each bookie is asked for what the metadata say it has, and the digests are checked. Nothing is changed.

    Exit status 1: copies are missing, damaged or on a bookie that does not answer, or there are too few. 2: that could
    not be found out.
    """
    with local_spark("walkeeper audit", master) as spark:
        from walkeeper_spark_checkpoint import jobs

        report = jobs.audit(spark, uri, copies=copies, timeout=timeout)
        listed = report.findings.limit(SHOWN_MAX).collect()
        more = report.findings.count() - len(listed)
    click.echo(str(report))
    for row in listed:
        click.echo("  " + described(row))
    if more > 0:
        click.echo(f"  and {more:,} more")
    if not report.good:
        sys.exit(EXIT_FOUND)


def described(row: Any) -> str:
    """A finding on one line."""
    if row.bookie_id is None:
        return f"ledger {row.ledger_id}: {row.kind}: {row.detail}"
    entries = f"entry {row.first_entry_id}"
    if row.entries_count > 1:
        entries = f"{row.entries_count:,} entries from {row.first_entry_id} to {row.last_entry_id}"
    return f"ledger {row.ledger_id}, {entries} on {row.bookie_id}: {row.kind}, {row.copies_left} good copies left"


@contextmanager
def local_spark(name: str, master: str) -> Iterator[SparkSession]:
    """A session that says nothing by itself. Refusal where there is no Spark."""
    if not all(importlib.util.find_spec(package) for package in ("pyspark", "pyarrow")):
        raise Refusal("this command wants Spark, which is not installed: pip install 'walkeeper[spark]'")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.log.level", "ERROR")
    try:
        spark = builder.getOrCreate()
    except Exception as wrong:
        raise Refusal(f"Spark does not start: {first_line(wrong)}", "it wants Java 17 or newer (JAVA_HOME)") from wrong
    try:
        yield spark
    except Exception as wrong:
        if not isinstance(wrong, PySparkException) and not hasattr(wrong, "java_exception"):
            raise
        raise Refusal(f"Spark could not do it: {first_line(wrong)}") from wrong
    finally:
        spark.stop()


def first_line(wrong: Exception) -> str:
    """Of what it says: the lines below are of programs."""
    java = getattr(wrong, "java_exception", None)
    return (str(java.toString()) if java is not None else str(wrong)).strip().partition("\n")[0]
