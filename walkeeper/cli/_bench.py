"""bench: how fast appends and reads are here, with the bare durable write beside them."""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click

import walkeeper
from walkeeper.cli._directory import directory, json_flag
from walkeeper.cli._floor import durable_writes
from walkeeper.cli._main import Refusal
from walkeeper.cli._show import counted, duration, show, size, table

Row = dict[str, object]

BATCH_BYTES_MAX = 256 * 1024 * 1024
"""Of one append_many: it is held in memory, twice."""


def row(what: str, elapsed: list[int], records: int, payload_bytes: int) -> Row:
    """What was measured, of calls that took `elapsed` nanoseconds each and wrote so many records in all."""
    seconds = sum(elapsed) / 1e9
    return {
        "what": what,
        "calls": len(elapsed),
        "p50_ns": round(statistics.median(elapsed)),
        "p99_ns": sorted(elapsed)[len(elapsed) * 99 // 100],
        "records_per_second": round(records / seconds) if records else None,
        "bytes_per_second": round(payload_bytes / seconds) if payload_bytes else None,
    }


def timed(call: Callable[[], object], seconds: float) -> list[int]:
    """Nanoseconds of each call, for about so many seconds, at least one."""
    elapsed: list[int] = []
    until = time.monotonic() + seconds
    while not elapsed or time.monotonic() < until:
        began = time.perf_counter_ns()
        call()
        elapsed.append(time.perf_counter_ns() - began)
    return elapsed


def measure(place: Path, payload_size: int, batch: int, seconds: float) -> list[Row]:
    """The floor, lone appends, batches, and a replay of all of it."""
    payload = bytes(range(256)) * (payload_size // 256 + 1)
    payload = payload[:payload_size]
    many = [payload] * batch
    rows = [row("bare pwritev2(RWF_DSYNC), 4 KiB", durable_writes(place, seconds), 0, 0)]
    with walkeeper.open(place / "wal") as namespace:
        log = namespace.log("bench")
        with log.writer() as writer:
            lone = timed(lambda: writer.append(payload), seconds)
            rows.append(row("append, one at a time", lone, len(lone), len(lone) * payload_size))
            together = timed(lambda: writer.append_many(many), seconds)
            count = len(together) * batch
            rows.append(row(f"append_many of {batch}", together, count, count * payload_size))
        reader = log.reader()
        reads: list[int] = []
        records = 0
        while True:
            began = time.perf_counter_ns()
            got = len(reader.read())
            reads.append(time.perf_counter_ns() - began)
            if not got:
                break
            records += got
        rows.append(row("read, from the start", reads, records, records * payload_size))
        if records != len(lone) + count:
            raise Refusal(f"{counted(len(lone) + count, 'record')} appended, and {records:,} read")
    return rows


@click.command()
@directory
@click.option(
    "--seconds", type=click.FloatRange(0.05, 600), default=2.0, show_default=True, help="For each measurement."
)
@click.option(
    "--size", "payload_size", type=click.IntRange(1, 1_000_000), default=1024, show_default=True, help="Bytes a record."
)
@click.option("--batch", type=click.IntRange(2, 65536), default=64, show_default=True, help="Records an append_many.")
@json_flag
def bench(directory: Path, seconds: float, payload_size: int, batch: int, as_json: bool) -> None:
    """Append and read for a few seconds on the disk of DIR.

    In a directory of its own, which is removed again. The first line is the floor: what one bare durable write takes.
    """
    if payload_size * batch > BATCH_BYTES_MAX:
        raise click.UsageError(f"--size times --batch is more than {size(BATCH_BYTES_MAX)}")
    try:
        place = Path(tempfile.mkdtemp(prefix="walkeeper-bench-", dir=directory))
    except OSError as error:
        raise Refusal(f"{directory}: {error.strerror}", "bench makes a directory of its own there") from error
    try:
        rows = measure(place, payload_size, batch, seconds)
    finally:
        shutil.rmtree(place)
    if as_json:
        for measured in rows:
            click.echo(json.dumps(measured))
        return
    floor = rows[0]["p50_ns"]
    shown = table("", ">calls", ">median", ">99 %", ">x floor", ">records/s", ">MB/s")
    for measured in rows:
        shown.add_row(*cells(measured, floor))
    show(f"records of {payload_size:,} bytes, in {directory}", shown)


def cells(measured: Row, floor: object) -> list[str]:
    p50, p99 = measured["p50_ns"], measured["p99_ns"]
    assert isinstance(p50, int)
    assert isinstance(p99, int)
    assert isinstance(floor, int)
    records, byte_rate = measured["records_per_second"], measured["bytes_per_second"]
    is_read = str(measured["what"]).startswith("read")
    return [
        str(measured["what"]),
        f"{measured['calls']:,}",
        duration(p50),
        duration(p99),
        "" if is_read else f"{p50 / floor:.2f}",
        f"{records:,}" if isinstance(records, int) else "",
        f"{byte_rate / 1e6:,.1f}" if isinstance(byte_rate, int) else "",
    ]
